"""``gm.solve``: MAP inference by the name of a solver, always with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.decompositions.builtin import named
from gmlearn.model.crf import CRF
from gmlearn.registry import registry
from gmlearn.slaves.choose import NoSolverError
from gmlearn.solvers.problem import MapSolver, Options, Problem, Settings, SolverRefusal
from gmlearn.solvers.result import Result


def solve(
    crf: CRF,
    weights: Any = None,
    solver: str | MapSolver = "auto",
    time_limit: float | None = None,
    max_iter: int | None = None,
    seed: int = 0,
    *,
    gap: float = 0.0,
    tol: float = 1e-6,
    decomposition: Any = "auto",
    initial: Any = None,
    warm: Result | None = None,
    on_progress: Callable[[Result], Any] | None = None,
    **settings: Unpack[Settings],
) -> Result:
    r"""Find a labelling of low energy, :math:`\arg\min_x E(x; w)`, and a lower bound that says how
    good it is.

    Parameters
    ----------
    crf : the model.
    weights : mapping name -> array for its weight segments; None if it has none.
    solver : a registered name (see ``gmlearn plugins``) or a `MapSolver`.
    time_limit : seconds; honoured within one round of the solver. The compilation of kernels on
        their first use, or their loading, does not count.
    max_iter : rounds; None for the solver's own default or, with a time limit, as many as fit into
        that.
    gap : stop when (energy - bound) <= gap * max(\|energy\|, \|bound\|, scale of the costs),
        with the status "within gap". 0 asks for a proof of optimality.
    tol : gap below which the answer counts as optimal, in units of the costs' scale, the typical
        size of one cost.
    decomposition : name or object, for the solvers that use dual decomposition.
    initial : labels (V,) to start from.
    warm : an earlier result for a model with the same variables: the search starts from its labels
        and from its multipliers, wherever their cliques are still there.
    on_progress : called now and then (at most every .1 s) with the `Result` so far, from the first
        labelling on; a true answer stops the search.
    settings : what the named solver accepts besides, for example ``step="level"`` for
        ``dual-subgradient``.

    Returns
    -------
    Result : labels, energy, bound, gap, status, solver, history.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(2, 2).add_unary([[0, 1], [1, 0]])
    >>> r = gm.solve(crf)
    >>> r.labels.tolist(), r.energy, r.gap
    ([0, 1], 0.0, 0.0)
    """
    if not isinstance(crf, CRF):
        raise TypeError(f"crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    chosen = named_solver("solver", solver)
    named(decomposition)
    check_number("seed", seed, low=0, integer=True)
    if time_limit is not None:
        check_number("time_limit", time_limit, low=0)
    if max_iter is not None:
        check_number("max_iter", max_iter, low=0, integer=True)
    check_number("tol", tol, low=0)
    check_number("gap", gap, low=0)
    if not (on_progress is None or callable(on_progress)):
        raise TypeError(f"on_progress: expected a function of a Result, got {on_progress!r}")
    unknown = [name for name in settings if name not in chosen.settings]
    if unknown:
        raise TypeError(
            f"solver {chosen.name!r} has no setting {unknown[0]!r}; it has "
            f"{sorted(chosen.settings) or 'none'}"
        )
    w = crf.check_weights(weights)
    reason = chosen.refuses(crf)
    if reason is not None:
        raise SolverRefusal(f"solver {chosen.name!r} refuses {crf}: {reason}")
    if initial is not None:
        initial = _check_labels("initial", initial, crf)
    options = Options(
        time_limit, max_iter, tol, seed, decomposition, initial, settings, gap, warm, on_progress
    )
    problem = Problem(crf, w, options)
    if initial is not None:
        problem.offer(initial, "initial")
    if warm is not None:
        if not isinstance(warm, Result):
            raise TypeError(f"warm: expected a gmlearn.Result, got {type(warm).__name__}")
        if not np.array_equal(problem.kept.n_states, crf.n_states):
            raise ValueError(f"warm: expected a result for the variables of {crf}")
        problem.offer(_check_labels("warm", warm.labels, crf), "warm start")
    if crf.n_vars == 0:
        problem.offer(np.zeros(0, np.int64), "empty model")
        problem.raise_bound(problem.energy)
    else:
        try:
            with problem.without_compilation():
                chosen.run(problem)
        except NoSolverError as reason:
            raise SolverRefusal(f"solver {chosen.name!r} refuses {crf}: {reason}") from None
        if not chosen.bounds and problem.bound == -np.inf:
            from gmlearn.solvers.dual import one_round_bound

            one_round_bound(problem)
    return problem.result(chosen.name)


def named_solver(argument: str, solver: Any) -> MapSolver:
    """The solver that a name or object stands for; errors call it `argument`."""
    found = registry.get("solver", solver) if isinstance(solver, str) else solver
    if not isinstance(found, MapSolver):
        raise TypeError(
            f"{argument}: expected the name of a solver or a gmlearn.MapSolver, got {solver!r}"
        )
    return found


def _check_labels(name: str, labels: Any, crf: CRF) -> np.ndarray:
    """`labels` as a labelling (V,) of the model; errors call them `name`."""
    try:
        return crf.check_labels(labels)
    except ValueError as error:
        raise ValueError(f"{name}: {str(error).removeprefix('labels: ')}") from None

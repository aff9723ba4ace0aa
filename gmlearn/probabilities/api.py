"""``gm.marginals``: probabilities by the name of a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.model.crf import CRF
from gmlearn.probabilities.many import joined_marginals
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem, MethodRefusal
from gmlearn.probabilities.result import Marginals
from gmlearn.registry import registry


@overload
def marginals(
    crf: CRF,
    weights: Any = None,
    method: str | MarginalMethod = "auto",
    temperature: float = 1.0,
    time_limit: float | None = None,
    seed: int = 0,
    **settings: Any,
) -> Marginals: ...


@overload
def marginals(
    crf: Sequence[CRF],
    weights: Any = None,
    method: str | MarginalMethod = "auto",
    temperature: float = 1.0,
    time_limit: float | None = None,
    seed: int = 0,
    **settings: Any,
) -> list[Marginals]: ...


def marginals(
    crf: CRF | Sequence[CRF],
    weights: Any = None,
    method: str | MarginalMethod = "auto",
    temperature: float = 1.0,
    time_limit: float | None = None,
    seed: int = 0,
    **settings: Any,
) -> Marginals | list[Marginals]:
    r"""Probabilities of labels under :math:`p(x) = e^{-E(x; w)/T} / Z`, and :math:`\log Z` between
    two bounds.

    Parameters
    ----------
    crf : the model; variables that are observed are fixed by ``crf.clamp``. Or a list of models,
        whose marginals come back as a list: forests and models of small tables
        are worked on side by side, as one.
    weights : mapping name -> array for its weight segments; None if it has none. For a list, those
        of all models.
    method : a registered name or a `MarginalMethod`. ``auto`` is exact where it can be, else it
        gives both bounds and the marginals of the convex one.

        * ``tree``: exact on pairwise forests.
        * ``elimination``: exact where the induced width allows.
        * ``brute-force``: exact, every labelling.
        * ``trw``: a convex upper bound over slaves at tree-reweighted temperatures.
        * ``mean-field``: a lower bound.
        * ``loopy-bp``: loopy belief propagation, no bound.
    temperature : T > 0. Towards 0 the probabilities settle on the labelling of least energy and
        T log Z on minus its energy.
    time_limit : seconds, for what is iterated; exact methods are tried where they fit into it.
    seed : of whatever is random.
    settings : what the named method accepts besides, for example ``max_memory=8`` (GB) for
        ``elimination``.

    Returns
    -------
    Marginals : node, clique(block), log_partition, lower, upper, status, entropy.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(2, 2).add_unary([[0, 1], [0, 0]])
    >>> _ = crf.add(gm.Potts([[0, 1]], 1.0))
    >>> m = gm.marginals(crf)
    >>> m.node.round(3).tolist(), m.status.value
    ([[0.731, 0.269], [0.607, 0.393]], 'exact')
    """
    chosen = chosen_method(method, settings)
    check_number("temperature", temperature, low=0, high=np.inf, strict=True)
    if time_limit is not None:
        check_number("time_limit", time_limit, low=0)
    check_number("seed", seed, low=0, integer=True)
    if isinstance(crf, CRF):
        return _of_one(crf, weights, chosen, temperature, time_limit, seed, settings)
    if isinstance(crf, str) or not isinstance(crf, Sequence):
        raise TypeError(f"crf: expected a gmlearn.CRF or a list of them, got {type(crf).__name__}")
    for k, one in enumerate(crf):
        if not isinstance(one, CRF):
            raise TypeError(f"crf[{k}]: expected a gmlearn.CRF, got {type(one).__name__}")
        check_costs(one)
    given = {} if weights is None else weights
    joined = joined_marginals(crf, given, chosen, float(temperature), alone=bool(settings))
    return [
        known
        or _of_one(
            one,
            {name: given[name] for name in one.layout.shapes if name in given},
            *(chosen, temperature, time_limit, seed, settings),
        )
        for one, known in zip(crf, joined)
    ]


def _of_one(
    crf: CRF,
    weights: Any,
    method: MarginalMethod,
    temperature: float,
    time_limit: float | None,
    seed: int,
    settings: dict[str, Any],
) -> Marginals:
    w = crf.check_weights(weights)
    check_costs(crf)
    reason = method.refuses(crf)
    if reason is not None:
        raise MethodRefusal(f"method {method.name!r} refuses {crf}: {reason}")
    problem = MarginalProblem(crf.copy(), w, float(temperature), time_limit, seed, settings)
    if crf.n_vars == 0:
        return problem.exact(method.name, problem.constant, np.zeros(0))
    return method.run(problem)


def chosen_method(method: str | MarginalMethod, settings: dict[str, Any]) -> MarginalMethod:
    """The method that a name stands for; it must know all settings."""
    chosen = registry.get("marginal method", method) if isinstance(method, str) else method
    if not isinstance(chosen, MarginalMethod):
        raise TypeError(
            f"method: expected the name of a method or a gmlearn.MarginalMethod, got {method!r}"
        )
    unknown = [name for name in settings if name not in chosen.settings]
    if unknown:
        raise TypeError(
            f"method {chosen.name!r} has no setting {unknown[0]!r}; it has "
            f"{sorted(chosen.settings) or 'none'}"
        )
    for name, limits in chosen.limits.items():
        if name in settings:
            check_number(name, settings[name], **limits)
    return chosen


def check_costs(crf: CRF) -> None:
    """No NaN and no -inf among the costs of single variables."""
    bad = np.flatnonzero(np.isnan(crf.unary) | (crf.unary == -np.inf))
    if len(bad):
        raise ValueError(
            f"crf.unary: expected finite costs, or inf to forbid a label; got "
            f"{crf.unary[bad[0]]} at {int(bad[0])}"
        )

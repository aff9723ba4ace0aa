r"""The k labellings of least energy, or the best ones that differ by some Hamming distance.

Where one slave holds each connected part of the model its min-marginals name the second best
labelling of any subset that is given by fixed and forbidden labels, so that one subset is split
into two for each labelling that is found (Nilsson 1998; Yanover and Weiss 2004): exact, in order.
Elsewhere the model is solved again with the constraints :math:`\mathrm{Ham}(x, x^j) \ge d` in the
Lagrangian, which leaves a valid bound for each.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.decompositions import decompose
from gmlearn.decompositions.builtin import small_parts
from gmlearn.decompositions.forests import is_forest
from gmlearn.master import Dual
from gmlearn.master.temperatures import is_disjoint
from gmlearn.model.conditionals import conditional_costs
from gmlearn.model.crf import CRF
from gmlearn.solvers import Result, Status, solve
from gmlearn.solvers.problem import cost_scale

#: labellings that are enumerated in order while they look for one that is far enough, and solves
#: for one labelling elsewhere
MOST_ENUMERATED, MOST_SOLVES = 500, 12


def k_best(
    crf: CRF,
    weights: Any = None,
    k: int = 5,
    min_distance: int = 1,
    time_limit: float | None = None,
    seed: int = 0,
) -> list[Result]:
    r"""The k best labellings, best first.

    Parameters
    ----------
    crf, weights : the model.
    k : how many; fewer come back if the model has no more feasible ones.
    min_distance : each differs from all before it in at least so many variables.
    time_limit : seconds for each labelling, where the model must be solved again.
    seed : of whatever is random.

    Returns
    -------
    list of Result : labels, energy, and a `bound` that no labelling as far from those before it
        can fall below. Status "optimal" says that the labelling is proved to be the next one: so
        it is on forests and models of small induced width.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(2, 2).add_unary([[0, 1], [0, 3]])
    >>> [(r.labels.tolist(), r.energy) for r in gm.k_best(crf, k=3)]
    [([0, 0], 0.0), ([1, 0], 1.0), ([0, 1], 3.0)]
    """
    if not isinstance(crf, CRF):
        raise TypeError(f"crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    check_number("k", k, low=1, integer=True)
    check_number("min_distance", min_distance, low=1, integer=True)
    if min_distance > crf.n_vars:
        raise ValueError(
            f"min_distance: expected at most the {crf.n_vars} variables, got {min_distance}"
        )
    if time_limit is not None:
        check_number("time_limit", time_limit, low=0)
    check_number("seed", seed, low=0, integer=True)
    w = crf.check_weights(weights)
    dual = disjoint_slaves(crf, w)
    if dual is None:
        return _by_solving(crf, w, k, min_distance, time_limit, seed)
    chosen: list[Result] = []
    lower = -np.inf
    for seen, (labels, energy) in enumerate(in_order(crf, dual)):
        lower = energy
        if all(distance(labels, r.labels) >= min_distance for r in chosen):
            chosen.append(_result(crf, w, labels, energy, "k-best"))
        if len(chosen) == k or seen >= MOST_ENUMERATED:
            break
    else:
        return chosen
    while len(chosen) < k:
        found = _constrained(crf, w, chosen, min_distance, time_limit, seed, lower)
        if found is None:
            break
        chosen.append(found)
    return chosen


def distance(x: np.ndarray, y: np.ndarray) -> int:
    """The Hamming distance of two labellings."""
    return int((x != y).sum())


def disjoint_slaves(crf: CRF, w: Mapping[str, np.ndarray]) -> Dual | None:
    """Slaves that share no variable, and have min-marginals; None if there are none."""
    if not is_forest(crf) and not small_parts(crf):
        return None
    slaves = decompose(crf, "trees" if is_forest(crf) else "components", "min_marginals")
    return Dual(slaves, w) if is_disjoint(slaves) else None


def in_order(crf: CRF, dual: Dual) -> Iterator[tuple[np.ndarray, float]]:
    """All feasible labellings with their energies, in order of energy."""
    slaves, number = dual.slaves, count()
    start = slaves.crf.offsets[:-1]

    def best(costs: np.ndarray) -> tuple[np.ndarray, float]:
        current = dual.round(theta=costs[slaves.coords])
        return slaves.proposals(current.results, current.mean)[0], current.bound

    def second(costs: np.ndarray, labels: np.ndarray, value: float) -> tuple[float, int]:
        """(energy, changed coordinate) of the second best labelling under `costs`."""
        theta = costs[slaves.coords]
        rise = np.empty(slaves.n_coords)
        for group, where, prepared in zip(slaves.groups, slaves.slices, dual.prepared):
            mine = group.min_marginals(theta[where], prepared)  # type: ignore[attr-defined]
            least = group.solve(theta[where], prepared).value
            rise[group.coords] = mine - least[group.owner]
        rise[start + labels] = np.inf
        at = int(rise.argmin())
        return value + float(rise[at]), at

    costs = dual.unary_share
    labels, value = best(costs)
    if not np.isfinite(value):
        return
    yield labels, value
    after, at = second(costs, labels, value)
    heap = [(after, next(number), costs, labels, value, at)]
    while heap and heap[0][0] < np.inf:
        after, _, costs, labels, value, at = heapq.heappop(heap)
        v = int(np.searchsorted(slaves.crf.offsets, at, side="right")) - 1
        fixed = costs.copy()
        fixed[slaves.crf.offsets[v] : slaves.crf.offsets[v + 1]] = np.inf
        fixed[at] = costs[at]
        found, energy = best(fixed)
        yield found, energy
        forbidden = costs.copy()
        forbidden[at] = np.inf
        for some, x, e in ((forbidden, labels, value), (fixed, found, energy)):
            after, at = second(some, x, e)
            heapq.heappush(heap, (after, next(number), some, x, e, at))


def _result(
    crf: CRF, w: Mapping[str, np.ndarray], labels: np.ndarray, bound: float, solver: str
) -> Result:
    energy = crf.energy(labels, w)
    near = bound >= energy - 1e-9 * max(1.0, abs(energy))
    status = Status.OPTIMAL if near else Status.BOUND
    bound = energy if near else bound
    return Result(labels, energy, bound, status, solver, message=status.meaning, _model=(crf, w))


def _by_solving(
    crf: CRF,
    w: Mapping[str, np.ndarray],
    k: int,
    min_distance: int,
    time_limit: float | None,
    seed: int,
) -> list[Result]:
    """By constrained solves, one after the other."""
    first = solve(crf, w, time_limit=time_limit, seed=seed)
    if not np.isfinite(first.energy):
        return []
    chosen = [first]
    while len(chosen) < k:
        found = _constrained(crf, w, chosen, min_distance, time_limit, seed, first.bound)
        if found is None:
            break
        chosen.append(found)
    return chosen


def _constrained(
    crf: CRF,
    w: Mapping[str, np.ndarray],
    before: Sequence[Result],
    min_distance: int,
    time_limit: float | None,
    seed: int,
    lower: float,
) -> Result | None:
    """The best labelling that is far enough from all `before`, with a bound; None if none is
    found.

    Each solve adds a price for every variable that keeps a label of an earlier labelling; prices
    of constraints that are broken rise, the others fall.
    """
    known = np.stack([r.labels for r in before])
    coords = crf.offsets[:-1] + known
    best, energy = None, np.inf
    for labels in _changed_once(crf, w, before) if min_distance == 1 else ():
        value = crf.energy(labels, w)
        if value < energy and (known != labels).any(axis=1).all():
            best, energy = labels, value
    if len(before) == 1 and min_distance == 1 and before[0]._model is not None:
        costs = before[0].reduced_costs.copy()
        costs[np.arange(crf.n_vars), known[0]] = np.inf
        lower = max(lower, before[0].bound + float(costs.min()))
    price = np.full(len(before), 0.25 * (cost_scale(crf, w) or 1.0))
    limit = None if time_limit is None else time_limit / MOST_SOLVES
    step = 2.0
    for _ in range(MOST_SOLVES):
        priced = crf.copy()
        np.add.at(priced.unary, coords, price[:, None])
        found = solve(priced, w, time_limit=limit, seed=seed)
        lower = max(lower, found.bound - float(price.sum()) * (crf.n_vars - min_distance))
        short = min_distance - (known != found.labels).sum(axis=1)
        own = crf.energy(found.labels, w)
        if (short <= 0).all() and own < energy:
            best, energy = found.labels, own
        if energy <= lower + 1e-9 * max(1.0, abs(energy)):
            break
        feasible = best is not None
        step = max(1.05, step**0.75) if feasible else 4.0
        price = np.where(short > 0, price * step, price / step)
    if best is None or not np.isfinite(energy):
        return None
    return _result(crf, w, best, min(lower, energy), "k-best by constrained solves")


def _changed_once(
    crf: CRF, w: Mapping[str, np.ndarray], before: Sequence[Result]
) -> Iterator[np.ndarray]:
    """The cheapest changes of one variable of the labellings `before`, a few of each."""
    for r in before:
        costs = conditional_costs(crf, w, r.labels)
        at = crf.offsets[:-1] + r.labels
        rise = costs - np.repeat(costs[at], crf.n_states)
        rise[at] = np.inf
        for coord in np.argsort(rise, kind="stable")[: len(before) + 1].tolist():
            if np.isfinite(rise[coord]):
                v = int(np.searchsorted(crf.offsets, coord, side="right")) - 1
                labels = r.labels.copy()
                labels[v] = coord - crf.offsets[v]
                yield labels

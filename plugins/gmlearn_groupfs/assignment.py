r"""The assignment step: the cheapest partition under size bounds, must-links and cannot-links,
solved exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack
from scipy.sparse.csgraph import connected_components

import gmlearn as gm
from gmlearn_groupfs._conflicts import (
    explain_bounds,
    explain_clique,
    explain_forbidden,
    explain_inner_conflict,
    explain_large_group,
)

#: HiGHS stops at an absolute gap of 1e-6, so costs are scaled to a range where that is far below a
#: real difference.
_COST_RANGE = 1e4


def assignment_costs(scores: np.ndarray, loss: str = "log") -> tuple[np.ndarray, float]:
    r"""Costs d (n, C) of giving point i to cluster c, less a constant per point, and the sum of
    those constants.

    Log loss: :math:`\ln(1+e^{-f_c}) + \sum_{c' \ne c} \ln(1+e^{f_{c'}}) = \sum_{c'}
    \ln(1+e^{f_{c'}}) - f_c`. Exponential loss: :math:`\sum_{c'} e^{f_{c'}} + e^{-f_c} - e^{f_c}`.
    """
    if loss == "log":
        return -scores, float(np.logaddexp(0.0, scores).sum())
    clipped = np.clip(scores, -30.0, 30.0)
    return -2.0 * np.sinh(clipped), float(np.exp(clipped).sum())


def check_sizes(sizes: Any, n: int, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as two int64 arrays (C,), or an error if no partition of n points can meet
    them.
    """
    if sizes is None:
        return np.zeros(n_clusters, np.int64), np.full(n_clusters, n, np.int64)
    if not isinstance(sizes, Sequence | np.ndarray) or len(sizes) != 2:
        raise ValueError(f"sizes: expected a pair (lower, upper) or None, got {sizes!r}")
    lower, upper = (
        np.broadcast_to(
            gm.check_array(f"sizes[{k}]", sizes[k], ndim=(0, 1), dtype=np.int64), n_clusters
        )
        if np.size(sizes[k]) in (1, n_clusters)
        else _wrong_length(k, sizes[k], n_clusters)
        for k in (0, 1)
    )
    explain_bounds(lower, upper, n)
    return np.ascontiguousarray(lower), np.ascontiguousarray(upper)


def _wrong_length(k: int, given: Any, n_clusters: int) -> Any:
    raise ValueError(
        f"sizes[{k}]: expected one number or {n_clusters} (one per cluster), got {np.size(given)}"
    )


def check_links(name: str, links: Any, n: int) -> np.ndarray:
    """Pairs as an int64 array (k, 2); a pair of one point with itself is an error."""
    if links is None or np.size(links) == 0:
        return np.empty((0, 2), np.int64)
    pairs = gm.check_index(name, links, n, shape=(None, 2))
    if np.any(pairs[:, 0] == pairs[:, 1]):
        bad = int(pairs[pairs[:, 0] == pairs[:, 1]][0, 0])
        raise ValueError(f"{name}: expected pairs of different points, got ({bad}, {bad})")
    return pairs


def sized_assignment(costs: np.ndarray, sizes: Any) -> np.ndarray:
    """`constrained_assignment` of finite costs without links, not as a model: the many short steps
    of k-means, to which a model of each would add half of its time.
    """
    bounds = check_sizes(sizes, *costs.shape)
    nothing = np.empty((0, 2), np.int64)
    labels = cheapest_partition(costs, *bounds, nothing, nothing)
    assert labels is not None  # finite costs, and sizes that fit
    return labels


def greedy_assignment(costs: np.ndarray, upper: Any) -> np.ndarray:
    """Cheapest entries first, as long as the cluster has room (the paper's start for the integer
    program).

    Not optimal, and blind to lower bounds and links: a reference, and an upper bound on the cost
    without them.
    """
    costs = gm.check_array("costs", costs, ndim=2)
    n, n_clusters = costs.shape
    room = check_sizes((0, upper), n, n_clusters)[1].copy()
    labels = np.full(n, -1)
    for entry in np.argsort(costs, axis=None, kind="stable"):
        i, c = divmod(int(entry), n_clusters)
        if labels[i] < 0 and room[c] > 0:
            labels[i] = c
            room[c] -= 1
    return labels


def explain_links(
    costs: np.ndarray, upper: np.ndarray, must: np.ndarray, cannot: np.ndarray
) -> None:
    """Raise for what can be seen without a search: contradictory links, too large groups, too
    many points kept apart.
    """
    group, grouped, linked = _grouped(costs, must, cannot)
    explain_inner_conflict(group, must, cannot)
    explain_forbidden(grouped, group)
    explain_large_group(group, upper)
    explain_clique(linked, group, costs.shape[1])


def cheapest_partition(
    costs: np.ndarray, lower: np.ndarray, upper: np.ndarray, must: np.ndarray, cannot: np.ndarray
) -> np.ndarray | None:
    """Labels (n,) of least total cost, or None if no labelling meets all constraints.

    Must-linked points are contracted first. Without links (or if they hold by themselves) the
    problem is a transportation problem, solved by successive shortest paths in O(n C (C + n / C));
    otherwise HiGHS solves the integer program with y_ic + y_jc <= 1 for cannot-links, to a relative
    gap of zero.
    """
    group, grouped, linked = _grouped(costs, must, cannot)
    if np.any(group[cannot[:, 0]] == group[cannot[:, 1]]) or np.isinf(grouped).all(axis=1).any():
        return None
    # the answer if it happens to keep the links; if not, it prices the size bounds
    labels = _transport(costs, lower, upper)
    if labels is None or _keeps(labels, must, cannot):
        return labels
    price = _prices(costs, labels, lower, upper)
    labels = _linked_program(grouped, np.bincount(group), lower, upper, linked, price)
    return None if labels is None else labels[group]


def _keeps(labels: np.ndarray, must: np.ndarray, cannot: np.ndarray) -> bool:
    same, apart = labels[must], labels[cannot]
    return bool(np.all(same[:, 0] == same[:, 1]) and np.all(apart[:, 0] != apart[:, 1]))


def _grouped(
    costs: np.ndarray, must: np.ndarray, cannot: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The must-linked group of every point (n,), the groups' costs (G, C), and the cannot-linked
    pairs of groups (K, 2).
    """
    group = _contract(must, len(costs))
    grouped = np.zeros((group.max() + 1, costs.shape[1]))
    np.add.at(grouped, group, costs)
    return group, grouped, np.unique(np.sort(group[cannot], axis=1), axis=0)


def is_feasible(
    costs: np.ndarray, lower: np.ndarray, upper: np.ndarray, must: np.ndarray, cannot: np.ndarray
) -> bool:
    """Whether any labelling meets all constraints (only the pattern of +inf in `costs` matters)."""
    group, blocked, linked = _grouped(np.where(np.isinf(costs), np.inf, 0.0), must, cannot)
    if np.any(group[cannot[:, 0]] == group[cannot[:, 1]]):
        return False
    return _integer_program(blocked, np.bincount(group), lower, upper, linked) is not None


def _contract(must: np.ndarray, n: int) -> np.ndarray:
    """The component of every point under the must-links, numbered in order of first appearance,
    (n,).
    """
    graph = coo_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(n, n))
    component = connected_components(graph, directed=False)[1]
    _, first, inverse = np.unique(component, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _transport(costs: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray | None:
    from gmlearn_groupfs._assignment_numba import transport, whole_costs

    labels = np.empty(len(costs), np.int64)
    transport(whole_costs(costs), lower, upper, labels)
    missing = labels.min(initial=0) < 0 or np.any(np.bincount(labels, minlength=lower.size) < lower)
    return None if missing else labels


def _prices(
    costs: np.ndarray, labels: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """Dual prices (C,) of the size bounds at a transportation optimum: Bellman-Ford on the
    difference constraints.
    """
    n_clusters = lower.size
    size = np.bincount(labels, minlength=n_clusters)
    # price[a] <= price[b] + gap[a, b]; the last node has price 0
    gap = np.zeros((n_clusters + 1, n_clusters + 1))
    extra = costs - costs[np.arange(len(costs)), labels][:, None]
    for c in range(n_clusters):
        gap[c, :-1] = extra[labels == c].min(axis=0, initial=np.inf)
    gap[:-1, -1] = np.where(size < upper, 0.0, np.inf)
    gap[-1, :-1] = np.where(size > lower, 0.0, np.inf)
    price = np.zeros(n_clusters + 1)
    for _ in range(n_clusters + 1):
        price = np.minimum(price, (price[None, :] + gap).min(axis=1))
    return price[:-1] - price[-1]


def _linked_program(
    costs: np.ndarray,
    weight: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    cannot: np.ndarray,
    price: np.ndarray,
) -> np.ndarray | None:
    r"""The integer program on the few entries that can matter; exact, and None only if the whole is
    infeasible.

    For any prices, :math:`\sum_g \min_c (d_{gc} + w_g \pi_c) - \sum_c \max(\pi_c l_c, \pi_c u_c)`
    bounds the minimum from below, and an entry whose reduced cost exceeds (a known cost - bound) is
    in no better labelling.
    """
    priced = costs + weight[:, None] * price
    reduced = priced - priced.min(axis=1, keepdims=True)
    bound = priced.min(axis=1).sum() - np.maximum(price * lower, price * upper).sum()
    rank = min(4, costs.shape[1]) - 1
    threshold = float(
        np.quantile(np.partition(reduced, rank, axis=1)[:, rank], 0.9, method="lower")
    )
    while np.isfinite(threshold):
        kept = np.where(reduced <= threshold, costs, np.inf)
        labels = _integer_program(kept, weight, lower, upper, cannot)
        if labels is None:
            threshold = np.inf
        else:
            slack = costs[np.arange(len(costs)), labels].sum() - bound
            if slack <= threshold * (1 + 1e-9):
                return labels
            threshold = slack
    return _integer_program(costs, weight, lower, upper, cannot)


def _integer_program(
    costs: np.ndarray, weight: np.ndarray, lower: np.ndarray, upper: np.ndarray, cannot: np.ndarray
) -> np.ndarray | None:
    """HiGHS on z[g, c] in {0, 1} for the entries of finite cost, g a contracted group; None if
    infeasible.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n_groups, n_clusters = costs.shape
    group, cluster = np.nonzero(np.isfinite(costs))
    entry = np.arange(group.size)
    shifted = costs[group, cluster] - costs.min(axis=1)[group]
    span = shifted.max(initial=0.0)
    objective = shifted * (_COST_RANGE / span) if span > 0 else shifted
    rows = [
        csr_array((np.ones(entry.size), (group, entry)), shape=(n_groups, entry.size)),
        csr_array((weight[group].astype(float), (cluster, entry)), shape=(n_clusters, entry.size)),
    ]
    low, high = [np.ones(n_groups), lower], [np.ones(n_groups), upper]
    if len(cannot):
        touching = csr_array(
            (np.ones(cannot.size), (np.repeat(np.arange(len(cannot)), 2), cannot.ravel())),
            shape=(len(cannot), n_groups),
        )[:, group].tocoo()
        pair = np.unique(touching.row * n_clusters + cluster[touching.col], return_inverse=True)[1]
        n_pairs = int(pair.max(initial=-1)) + 1
        rows.append(csr_array((touching.data, (pair, touching.col)), shape=(n_pairs, entry.size)))
        low.append(np.full(n_pairs, -np.inf))
        high.append(np.ones(n_pairs))
    answer = milp(
        objective,
        constraints=LinearConstraint(vstack(rows), np.concatenate(low), np.concatenate(high)),
        integrality=np.ones(entry.size),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 0.0},
    )
    if answer.status == 2:  # proved infeasible
        return None
    if answer.status != 0:
        raise RuntimeError(f"HiGHS stopped before proving an optimum: {answer.message}")
    labels = np.empty(n_groups, np.int64)
    chosen = answer.x > 0.5
    labels[group[chosen]] = cluster[chosen]
    return labels

"""Why an assignment problem has no answer: the bounds, or a smallest set of links, that cannot
be met together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path


def explain_bounds(lower: np.ndarray, upper: np.ndarray, n: int) -> None:
    """Raise if the size bounds alone leave no partition of n points."""
    if np.any(lower < 0) or np.any(lower > upper):
        c = int(np.flatnonzero((lower < 0) | (lower > upper))[0])
        raise ValueError(
            f"sizes: expected 0 <= lower <= upper, got [{lower[c]}, {upper[c]}] for cluster {c}"
        )
    if lower.sum() > n:
        raise ValueError(
            f"sizes: the lower bounds ask for {lower.sum()} points in {lower.size} clusters, got "
            f"only {n}"
        )
    if upper.sum() < n:
        raise ValueError(
            f"sizes: the upper bounds leave room for {upper.sum()} points in {upper.size} "
            f"clusters, "
            f"got {n}"
        )


def explain_inner_conflict(group: np.ndarray, must: np.ndarray, cannot: np.ndarray) -> None:
    """Raise if a cannot-link joins two points that must-links tie together; names the chain of
    must-links.
    """
    inside = np.flatnonzero(group[cannot[:, 0]] == group[cannot[:, 1]])
    if not inside.size:
        return
    i, j = map(int, cannot[inside[0]])
    graph = coo_array(
        (np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(group.size, group.size)
    ).tocsr()
    before = shortest_path(
        graph, directed=False, unweighted=True, indices=i, return_predecessors=True
    )[1]
    chain = [j]
    while chain[-1] != i:
        chain.append(int(before[chain[-1]]))
    raise ValueError(
        f"cannot_link: ({i}, {j}) contradicts the must-links along "
        f"{' - '.join(map(str, chain[::-1]))}"
    )


def explain_forbidden(grouped: np.ndarray, group: np.ndarray) -> None:
    """Raise if some contracted group of points is left without a cluster of finite cost."""
    stuck = np.flatnonzero(np.isinf(grouped).all(axis=1))
    if stuck.size:
        points = np.flatnonzero(group == stuck[0]).tolist()
        raise ValueError(
            f"costs: no cluster has a finite cost for point(s) {points}"
            f"{' tied by must-links' if len(points) > 1 else ''}"
        )


def explain_large_group(group: np.ndarray, upper: np.ndarray) -> None:
    """Raise if must-links tie more points together than any cluster may hold."""
    largest = int(np.bincount(group).argmax())
    points = np.flatnonzero(group == largest)
    if points.size > upper.max():
        raise ValueError(
            f"must_link: {points.size} points are tied together ({_some(points.tolist())}), but "
            f"the size bounds "
            f"allow at most {upper.max()} in a cluster; drop a link or widen sizes"
        )


def explain_clique(linked: np.ndarray, group: np.ndarray, n_clusters: int) -> None:
    """Raise if a greedy search finds more groups, pairwise cannot-linked, than there are
    clusters.
    """
    neighbours: dict[int, set[int]] = {}
    for a, b in linked.tolist():
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    for seed, around in neighbours.items():
        if len(around) < n_clusters:
            continue
        clique, candidates = [seed], set(around)
        while candidates:
            best = max(candidates, key=lambda v: (len(neighbours[v] & candidates), -v))
            clique.append(best)
            candidates &= neighbours[best]
        if len(clique) > n_clusters:
            points = sorted(int(np.flatnonzero(group == g)[0]) for g in clique)
            raise ValueError(
                f"cannot_link: {len(clique)} points are pairwise kept apart ({_some(points)}), "
                f"but there are only "
                f"{n_clusters} clusters; drop one of their links or raise the number of clusters"
            )


def _some(items: list, limit: int = 12) -> str:
    """The first few items of a list, and how many there are."""
    return ", ".join(map(str, items[:limit])) + (
        f", ... {len(items)} in all" if len(items) > limit else ""
    )


def minimal_conflict(
    costs: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    must: np.ndarray,
    cannot: np.ndarray,
    is_feasible: Callable[..., bool],
) -> str:
    """The sentence for an infeasible problem: a set of links of which none can be spared, and
    whether bounds matter.
    """
    n, n_clusters = costs.shape
    free = np.zeros(n_clusters, np.int64), np.full(n_clusters, n, np.int64)
    bounded = is_feasible(costs, *free, must, cannot)
    bounds = (lower, upper) if bounded else free
    links = [("must", *map(int, p)) for p in must] + [("cannot", *map(int, p)) for p in cannot]

    def holds(chosen: list) -> bool:
        pairs = (
            np.array([p[1:] for p in chosen if p[0] == kind], np.int64)
            for kind in ("must", "cannot")
        )
        return is_feasible(costs, *bounds, *(p.reshape(-1, 2) for p in pairs))

    sizes = (
        f"the size bounds [{lower.min()}, {upper.max()}] of " * bounded + f"{n_clusters} clusters"
    )
    if not holds([]):
        return (
            f"constraints: no labelling of finite cost meets {sizes}; "
            "forbid fewer entries of costs or widen sizes"
        )
    core = _quick_explain([], links, False, holds)
    named = {kind: [p[1:] for p in core if p[0] == kind] for kind in ("must", "cannot")}
    words = " and ".join(f"{kind}_link {_some(pairs)}" for kind, pairs in named.items() if pairs)
    return f"constraints: {words} cannot be met together with {sizes}; drop one of these links" + (
        " or widen sizes" if bounded else " or raise the number of clusters"
    )


def _quick_explain(
    background: list, links: list, background_grew: bool, holds: Callable[[list], bool]
) -> list:
    """A minimal subset of `links` that, with `background`, does not hold (Junker's QuickXplain,
    AAAI 2004).
    """
    if background_grew and not holds(background):
        return []
    if len(links) == 1:
        return links
    half = len(links) // 2
    left, right = links[:half], links[half:]
    from_right = _quick_explain(background + left, right, bool(left), holds)
    from_left = _quick_explain(background + from_right, left, bool(from_right), holds)
    return from_left + from_right

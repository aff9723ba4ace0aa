"""The assignment step as a model: the clusters' total loss as a potential, with an exact slave and
MAP solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_groupfs._conflicts import minimal_conflict
from gmlearn_groupfs.assignment import (
    assignment_costs,
    cheapest_partition,
    check_links,
    check_sizes,
    explain_links,
    is_feasible,
)


class ClusterLoss(gm.Block):
    r"""Cliques of points whose labels form a partition: total loss of the cluster classifiers, and
    the constraints.

    .. math:: h(x) = \sum_i \Bigl(\ln(1 + e^{-f_{x_i}(i)})
        + \sum_{c \ne x_i} \ln(1 + e^{f_c(i)})\Bigr)

    if the cluster sizes lie in [l, u] and all links are kept, else +inf. The potential carries no
    weight.

    Parameters
    ----------
    variables : int (M, k), the points of each clique (usually one clique of all points).
    scores : (M, k, C) or, for one clique, (k, C): the classifiers' scores :math:`f_c(i)`; None for
        constraints alone.
    sizes : (l, u) as in `constrained_assignment`, for every clique.
    must_link, cannot_link : pairs of positions 0..k-1 within the clique.
    """

    name: ClassVar[str] = "cluster_loss"
    per_clique: ClassVar[tuple[str, ...]] = ("costs", "constants")

    def __init__(
        self,
        variables: Any,
        scores: Any = None,
        sizes: Any = None,
        must_link: Any = None,
        cannot_link: Any = None,
    ):
        super().__init__(variables)
        m, k = self.variables.shape
        self.sizes = sizes
        self.must_link = check_links("must_link", must_link, k)
        self.cannot_link = check_links("cannot_link", cannot_link, k)
        self.costs, self.constants = None, np.zeros(m)
        if scores is not None:
            array = np.asarray(scores)
            array = gm.check_array(
                "scores", array[None] if array.ndim == 2 else array, shape=(m, k, None)
            )
            parts = [assignment_costs(clique) for clique in array]
            self.costs = np.stack([costs for costs, _ in parts]) if parts else array
            self.constants = np.array([constant for _, constant in parts])

    def state(self) -> dict[str, Any]:
        own = {"variables": self.variables, "scores": None if self.costs is None else -self.costs}
        if self.sizes is not None:
            own["sizes"] = np.stack(self.bounds)
        return {**own, "must_link": self.must_link, "cannot_link": self.cannot_link}

    def check(self) -> None:
        """All points of a clique have the same clusters, as many as there are scores; no constraint
        plainly contradicts another.

        Whether all links can be kept together is as hard as to colour a graph; that is left to the
        slave, whose value is inf if they cannot.
        """
        if np.any(self.states != self.n_labels):
            raise ValueError(
                f"{self}: expected the same number of states everywhere, got "
                f"{np.unique(self.states).tolist()}"
            )
        if self.costs is not None and self.costs.shape[2] != self.n_labels:
            raise ValueError(
                f"scores: expected {self.n_labels} clusters like the variables' states, got "
                f"{self.costs.shape[2]}"
            )
        if len(self):
            _, upper = self.bounds
            explain_links(
                np.zeros((self.arity, self.n_labels)), upper, self.must_link, self.cannot_link
            )

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest size of every cluster, int (C,) each."""
        return check_sizes(self.sizes, self.arity, self.n_labels)

    def energy(self, x: np.ndarray, w: Any) -> np.ndarray:
        lower, upper = self.bounds
        size = (x[:, :, None] == np.arange(lower.size)).sum(axis=1)
        kept = np.all((size >= lower) & (size <= upper), axis=1)
        kept &= np.all(x[:, self.must_link[:, 0]] == x[:, self.must_link[:, 1]], axis=1)
        kept &= np.all(x[:, self.cannot_link[:, 0]] != x[:, self.cannot_link[:, 1]], axis=1)
        loss = self.constants.copy()
        if self.costs is not None:
            loss += np.take_along_axis(self.costs, x[:, :, None], axis=2).sum(axis=(1, 2))
        return np.where(kept, loss, np.inf)


class AssignmentSolver(gm.SlaveSolver):
    """`cheapest_partition` for `ClusterLoss` blocks: exact, clique by clique."""

    name: ClassVar[str] = "constrained_assignment"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, ClusterLoss) else "not a cluster_loss block"

    def cost(self, block: ClusterLoss, power: str = "minimise") -> float:
        linked = len(block.must_link) + len(block.cannot_link) > 0
        return (
            len(block)
            * block.arity
            * block.max_states
            * (block.max_states + block.arity / block.max_states)
            * (100.0 if linked else 1.0)
        )

    def minimise(
        self, block: ClusterLoss, theta: np.ndarray, w: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        costs = theta if block.costs is None else theta + block.costs
        labels, value = np.zeros((len(block), block.arity), np.int64), np.full(len(block), np.inf)
        for m in range(len(block)):
            links = (block.must_link, block.cannot_link)
            found = cheapest_partition(costs[m], *block.bounds, *links)
            if found is not None:
                labels[m] = found
                value[m] = costs[m, np.arange(block.arity), found].sum() + block.constants[m]
        return labels, value

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Bounds alone, a cannot-link alone, and all constraints together; small, for links go
        to an integer program.
        """
        scores = rng.normal(size=(2, 4, 2))
        variables = np.stack([rng.permutation(5)[:4] for _ in range(2)])
        states = np.full(5, 2)
        return [
            (ClusterLoss(variables, scores, (1, 3)).bind(states), {}),
            (ClusterLoss(variables[:1], None, None, cannot_link=[(0, 3)]).bind(states), {}),
            (ClusterLoss(variables[:1], scores[:1], (1, 3), [(1, 2)], [(0, 1)]).bind(states), {}),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Sixty points with cluster sizes, and the same with links."""
        points = np.arange(60)[None]
        scores = rng.normal(size=(60, 3))
        states = np.full(60, 3)
        return [
            (ClusterLoss(points, scores, (15, 25)).bind(states), {}),
            (ClusterLoss(points, scores, (15, 25), [(0, 1)], [(0, 2)]).bind(states), {}),
        ]


class PartitionSolver(gm.MapSolver):
    """The same for models of one `ClusterLoss` over all variables, with any unary costs: exact at
    once.
    """

    name: ClassVar[str] = "constrained_assignment"

    def refuses(self, crf: gm.CRF) -> str | None:
        blocks = crf.clique_blocks
        alone = len(blocks) == 1 and isinstance(blocks[0], ClusterLoss) and len(blocks[0]) == 1
        if alone and blocks[0].arity == crf.n_vars:
            return None
        return "expected one cluster_loss over all variables, and no other cliques"

    def claims(self, crf: gm.CRF, w: Mapping[str, np.ndarray]) -> bool:
        return self.refuses(crf) is None

    def run(self, problem: gm.Problem) -> None:
        block: Any = problem.crf.clique_blocks[0]
        unary = problem.crf.unary_costs(problem.w).reshape(block.arity, -1)
        found, value = AssignmentSolver().minimise(block, unary[block.variables], problem.w)
        problem.iterations += 1
        if np.isfinite(value[0]):
            labels = np.empty(block.arity, np.int64)
            labels[block.variables[0]] = found[0]
            problem.offer(labels, "constrained assignment")
        # exact, so its energy is the minimum; the model's own sum avoids rounding
        problem.raise_bound(problem.energy if np.isfinite(value[0]) else np.inf)

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
        """Bounds with unary costs, and all constraints."""
        made: list[tuple[gm.CRF, dict[str, np.ndarray]]] = []
        for sizes, must, cannot in (((1, 3), None, None), ((1, 3), [(1, 2)], [(0, 1)])):
            crf = gm.CRF(5, 2).add_unary(rng.normal(size=(5, 2)))
            crf.add(ClusterLoss([rng.permutation(5)], rng.normal(size=(5, 2)), sizes, must, cannot))
            made.append((crf, {}))
        return made


def constrained_assignment(
    costs: Any, sizes: Any = None, must_link: Any = None, cannot_link: Any = None
) -> np.ndarray:
    r"""Labels of least total cost under size bounds and pairwise links: ``gm.solve`` on one
    `ClusterLoss`.

    .. math:: \min_y \sum_i d_{i y_i}, \quad l_c \le |\{i : y_i = c\}| \le u_c, \quad
              y_i = y_j \text{ (must)}, \quad y_i \ne y_j \text{ (cannot)}

    Parameters
    ----------
    costs : (n, C) costs :math:`d_{ic}`; +inf forbids a cluster to a point.
    sizes : (l, u), each a whole number or one per cluster (C,); None leaves the sizes free.
    must_link, cannot_link : (k, 2) pairs of point indices, or None.

    Returns
    -------
    labels : int64 (n,). Among equally cheap labellings the answer may depend on the order of the
        rows. Constraints that cannot be met are a `ValueError` naming the bounds, or links of which
        none can be spared, that conflict.

    Examples
    --------
    >>> constrained_assignment([[0, 1], [0, 2], [0, 3]], sizes=(1, 2)).tolist()
    [1, 0, 0]
    >>> constrained_assignment([[0, 1], [0, 2], [0, 3]], cannot_link=[(0, 1), (0, 2)]).tolist()
    [1, 0, 0]
    """
    costs = gm.check_array("costs", costs, ndim=2, allow_inf=True)
    n, n_clusters = costs.shape
    if n == 0 or n_clusters == 0:
        raise ValueError(
            f"costs: expected at least one point and one cluster, got shape {costs.shape}"
        )
    crf = gm.CRF(n, n_clusters).add_unary(costs)
    block: Any = crf.add(ClusterLoss(np.arange(n)[None], None, sizes, must_link, cannot_link))
    result = gm.solve(crf, solver=PartitionSolver.name)
    if result.status == gm.Status.INFEASIBLE:
        (lower, upper), links = block.bounds, (block.must_link, block.cannot_link)
        explain_links(costs, upper, *links)
        raise ValueError(minimal_conflict(costs, lower, upper, *links, is_feasible))
    return result.labels

"""The energy view: the clusters' total loss as a potential, with the assignment solver as its slave."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_groupfs.alternation import assignment_costs
from gmlearn_groupfs.assignment import check_links, check_sizes, constrained_assignment


class ClusterLoss(gm.Block):
    r"""Cliques of points whose labels form a partition: total loss of the cluster classifiers, and the constraints.

    .. math:: h(x) = \sum_i \Bigl(\ln(1 + e^{-f_{x_i}(i)}) + \sum_{c \ne x_i} \ln(1 + e^{f_c(i)})\Bigr)

    if the cluster sizes lie in [l, u] and all links are kept, else +inf. The potential carries no weight.

    Parameters
    ----------
    variables : int (M, k), the points of each clique (usually one clique of all points).
    scores : (M, k, C) or, for one clique, (k, C): the classifiers' scores :math:`f_c(i)`; None for constraints alone.
    sizes : (l, u) as in `constrained_assignment`, for every clique.
    must_link, cannot_link : pairs of positions 0..k-1 within the clique.
    """

    name: ClassVar[str] = "cluster_loss"
    per_clique: ClassVar[tuple[str, ...]] = ("costs", "constants")

    def __init__(self, variables: Any, scores: Any = None, sizes: Any = None, must_link: Any = None,
                 cannot_link: Any = None):
        super().__init__(variables)
        m, k = self.variables.shape
        self.sizes = sizes
        self.must_link = check_links("must_link", must_link, k)
        self.cannot_link = check_links("cannot_link", cannot_link, k)
        self.costs, self.constants = None, np.zeros(m)
        if scores is not None:
            array = np.asarray(scores)
            array = gm.check_array("scores", array[None] if array.ndim == 2 else array, shape=(m, k, None))
            parts = [assignment_costs(clique) for clique in array]
            self.costs = np.stack([costs for costs, _ in parts]) if parts else array
            self.constants = np.array([constant for _, constant in parts])

    def check(self) -> None:
        """All points of a clique have the same clusters, as many as there are scores; the constraints can be met."""
        n_clusters = self.max_states
        if np.any(self.states != n_clusters):
            raise ValueError(f"{self}: expected the same number of states everywhere, got {np.unique(self.states).tolist()}")
        if self.costs is not None and self.costs.shape[2] != n_clusters:
            raise ValueError(f"scores: expected {n_clusters} clusters like the variables' states, got {self.costs.shape[2]}")
        if len(self):
            constrained_assignment(np.zeros((self.arity, n_clusters)), self.sizes, self.must_link, self.cannot_link)

    def energy(self, x: np.ndarray, w: Any) -> np.ndarray:
        lower, upper = check_sizes(self.sizes, self.arity, self.max_states)
        size = (x[:, :, None] == np.arange(lower.size)).sum(axis=1)
        kept = np.all((size >= lower) & (size <= upper), axis=1)
        kept &= np.all(x[:, self.must_link[:, 0]] == x[:, self.must_link[:, 1]], axis=1)
        kept &= np.all(x[:, self.cannot_link[:, 0]] != x[:, self.cannot_link[:, 1]], axis=1)
        loss = self.constants.copy()
        if self.costs is not None:
            loss += np.take_along_axis(self.costs, x[:, :, None], axis=2).sum(axis=(1, 2))
        return np.where(kept, loss, np.inf)

    def table_size(self) -> float:
        """C^k, or inf where that has no floating-point number."""
        return float(np.exp(min(self.arity * np.log(self.max_states), 700.0)))


class AssignmentSolver(gm.SlaveSolver):
    """`constrained_assignment` for `ClusterLoss` blocks: exact, clique by clique."""

    name: ClassVar[str] = "constrained_assignment"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, ClusterLoss) else "not a cluster_loss block"

    def cost(self, block: gm.Block) -> float:
        linked = len(block.must_link) + len(block.cannot_link) > 0
        return len(block) * block.arity * block.max_states * (block.max_states + block.arity / block.max_states) * (
            100.0 if linked else 1.0)

    def minimise(self, block: gm.Block, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        costs = theta if block.costs is None else theta + block.costs
        labels = np.empty((len(block), block.arity), np.int64)
        for m in range(len(block)):
            labels[m] = constrained_assignment(costs[m], block.sizes, block.must_link, block.cannot_link)
        chosen = np.take_along_axis(costs, labels[:, :, None], axis=2).sum(axis=(1, 2))
        return labels, chosen + block.constants

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        scores = rng.normal(size=(2, 5, 3))
        variables = np.stack([rng.permutation(7)[:5] for _ in range(2)])
        states = np.full(7, 3)
        return [(ClusterLoss(variables, scores, (1, 3)).bind(states), {}),
                (ClusterLoss(variables, None, (0, 4), must_link=[(0, 1)]).bind(states), {}),
                (ClusterLoss(variables, scores, None, cannot_link=[(0, 1), (2, 4)]).bind(states), {}),
                (ClusterLoss(variables, scores, (1, 3), [(1, 2)], [(0, 1)]).bind(states), {})]

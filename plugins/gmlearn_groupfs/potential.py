"""The energy view: the clusters' total loss as a potential, with the assignment solver as its slave."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_groupfs.alternation import assignment_costs
from gmlearn_groupfs.assignment import cheapest_partition, check_links, check_sizes, explain_links


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

    def check(self) -> None:
        """All points of a clique have the same clusters, as many as there are scores; no constraint plainly contradicts another.

        Whether all links can be kept together is as hard as to colour a graph; that is left to the slave, whose value is inf
        if they cannot.
        """
        if np.any(self.states != self.n_labels):
            raise ValueError(
                f"{self}: expected the same number of states everywhere, got {np.unique(self.states).tolist()}"
            )
        if self.costs is not None and self.costs.shape[2] != self.n_labels:
            raise ValueError(
                f"scores: expected {self.n_labels} clusters like the variables' states, got {self.costs.shape[2]}"
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
        return (
            len(block)
            * block.arity
            * block.max_states
            * (block.max_states + block.arity / block.max_states)
            * (100.0 if linked else 1.0)
        )

    def minimise(self, block: gm.Block, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        costs = theta if block.costs is None else theta + block.costs
        labels, value = np.zeros((len(block), block.arity), np.int64), np.full(len(block), np.inf)
        for m in range(len(block)):
            found = cheapest_partition(costs[m], *block.bounds, block.must_link, block.cannot_link)
            if found is not None:
                labels[m] = found
                value[m] = costs[m, np.arange(block.arity), found].sum() + block.constants[m]
        return labels, value

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Bounds alone, a cannot-link alone, and all constraints together; small, for links go to an integer program."""
        scores = rng.normal(size=(2, 4, 2))
        variables = np.stack([rng.permutation(5)[:4] for _ in range(2)])
        states = np.full(5, 2)
        return [
            (ClusterLoss(variables, scores, (1, 3)).bind(states), {}),
            (ClusterLoss(variables[:1], None, None, cannot_link=[(0, 3)]).bind(states), {}),
            (ClusterLoss(variables[:1], scores[:1], (1, 3), [(1, 2)], [(0, 1)]).bind(states), {}),
        ]

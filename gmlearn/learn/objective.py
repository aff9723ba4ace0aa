r"""The training objective, defined once for all optimisers.

.. math:: F(w, \lambda) = R(w) + \sum_k c_k \Big[ E(x^k; w) - \sum_i \min_x E_i(x; \theta^{i,k}(w, \lambda^k)) \Big]

over the slaves of the loss-augmented energy of each sample: convex in (w, lambda), and an upper bound of the structured
hinge. With a temperature the minima become soft minima.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn.decompositions import decompose
from gmlearn.learn.prior import Prior
from gmlearn.learn.sample import Sample
from gmlearn.losses.base import Loss
from gmlearn.master import Dual
from gmlearn.model.weights import WeightLayout
from gmlearn.parallel import Executor, Serial


@dataclass(frozen=True)
class Vertex:
    """The slaves' minimisers of one sample at given (w, lambda), as the optimisers see them.

    value : sum of the minima.   ind, mean : indicators (D,) and their average (n_coords,).
    features : float (P,), clique features plus shared unary features: value = fixed + w . features + <lambda, ind>.
    """

    value: float
    ind: np.ndarray
    mean: np.ndarray
    features: np.ndarray


class SampleState:
    """One sample under training: its augmented slaves with their multipliers, and its completed truth."""

    def __init__(self, index: int, sample: Sample, loss: Loss, decomposition: Any, layout: WeightLayout, temperature: float):
        self.index, self.sample, self.loss, self.layout, self.temperature = index, sample, loss, layout, temperature
        self.weight = sample.weight
        self.augmented = loss.augment(sample.crf, sample.labels, sample.observed)
        slaves = decompose(self.augmented, decomposition, "log_partition" if temperature > 0 else None)
        self.dual = Dual(slaves, layout.split(np.zeros(layout.size)))
        self.set_truth(sample.labels)

    def set_truth(self, labels: np.ndarray) -> None:
        """Use `labels` (V,) as the completed truth."""
        self.truth = np.array(labels, np.int64)
        self.truth_features = self.layout.join(self.sample.crf.features(self.truth))
        zero = {name: np.zeros(shape) for name, shape in self.sample.crf.layout.shapes.items()}
        self.truth_fixed = self.sample.crf.energy(self.truth, zero)

    def truth_energy(self, w: np.ndarray) -> float:
        """E(x^k; w)."""
        return self.truth_fixed + float(w @ self.truth_features)

    def set_weights(self, w: np.ndarray) -> None:
        """Bring the slaves to the weights `w` (P,)."""
        self.dual.set_weights(self.layout.split(w))

    def vertex(self, lam: np.ndarray | None = None) -> Vertex:
        """Minimise the slaves at the weights last set, with multipliers `lam` (D,)."""
        current = self.dual.round(lam)
        slaves = self.dual.slaves
        features = np.zeros(self.layout.size)
        for group, result in zip(slaves.groups, current.results):
            self.layout.join(group.features(result), features)
        self.layout.join(slaves.unary_features(current.mean), features)
        return Vertex(current.bound, current.ind, current.mean, features)

    def soft(self, lam: np.ndarray | None = None) -> Vertex:
        """The same at a temperature: soft minima, marginals, expected features."""
        slaves, dual = self.dual.slaves, self.dual
        theta = dual.share + (dual.lam if lam is None else lam)
        features, value = np.zeros(self.layout.size), dual.constant
        marginals = np.empty(len(theta))
        for group, where, prepared in zip(slaves.groups, slaves.slices, dual.prepared):
            found = group.log_partition(theta[where], prepared, self.temperature)  # type: ignore[attr-defined]
            value += float(found.value.sum())
            marginals[where] = found.marginals
            self.layout.join(found.features, features)
        mean = dual.mean(marginals)
        self.layout.join(slaves.unary_features(mean), features)
        return Vertex(value, marginals, mean, features)


class Objective:
    """All samples, the regulariser and the set of weights: F, its parts and its subgradients."""

    def __init__(self, states: Sequence[SampleState], prior: Prior, executor: Executor | None = None):
        self.states, self.prior, self.layout = list(states), prior, prior.layout
        self.executor = executor or Serial()
        self.temperature = self.states[0].temperature if self.states else 0.0

    def vertices(self, w: np.ndarray, lams: Sequence[np.ndarray] | None = None) -> list[Vertex]:
        """The slaves of every sample at (w, lambda); lambda of each sample's dual by default."""

        def one(k: int) -> Vertex:
            state = self.states[k]
            state.set_weights(w)
            lam = None if lams is None else lams[k]
            return state.soft(lam) if self.temperature > 0 else state.vertex(lam)

        return self.executor.map(one, range(len(self.states)))

    def value(self, w: np.ndarray, vertices: Sequence[Vertex]) -> float:
        """F(w, lambda) from the slaves' minima at (w, lambda)."""
        hinges = [s.weight * (s.truth_energy(w) - v.value) for s, v in zip(self.states, vertices)]
        return self.prior.value(w) + float(np.sum(hinges))

    def slope(self, vertices: Sequence[Vertex]) -> np.ndarray:
        """Subgradient in w of the sum of the hinges, (P,): sum_k c_k (g(x^k) - features of the minimisers)."""
        total = np.zeros(self.layout.size)
        for s, v in zip(self.states, vertices):
            total += s.weight * (s.truth_features - v.features)
        return total


def weights_dict(layout: WeightLayout, w: np.ndarray) -> Mapping[str, np.ndarray]:
    """Copies of the named parts of `w` (P,)."""
    return {name: part.copy() for name, part in layout.split(w).items()}

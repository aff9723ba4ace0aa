r"""The training objective, defined once for all optimisers.

.. math:: F(w, \lambda) = R(w) + \sum_k c_k \Big[ E(x^k; w) - \sum_i \min_x E_i(x; \theta^{i,k}(w, \lambda^k)) \Big]

over the slaves of the loss-augmented energy of each sample: convex in (w, lambda), and an upper bound of the structured
hinge. With a temperature the minima become soft minima.

Samples live in shards, in this process or with the workers of an executor. The objective reaches them by functions
``function(state, *arguments)``, one call per sample, whose answers come back in the order of the samples: only weights go out,
only sums and small arrays come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.archive import check_like
from gmlearn.decompositions import decompose
from gmlearn.learn.prior import Prior
from gmlearn.learn.sample import Sample
from gmlearn.losses.base import Loss
from gmlearn.master import Dual
from gmlearn.master.dual import Round
from gmlearn.model.weights import WeightLayout
from gmlearn.parallel import Executor


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
    """One sample under training: its augmented slaves with their multipliers, and its completed truth.

    memory : what the optimiser remembers of this sample, arrays by name. It stays with the sample's worker, goes into checkpoints,
        and is made on first use, so that a sample rebuilt after a fault only starts its multipliers again.
    scratch : what can be computed again from the rest; in no checkpoint.
    """

    def __init__(
        self,
        index: int,
        sample: Sample,
        loss: Loss,
        decomposition: Any,
        layout: WeightLayout,
        temperature: float,
    ):
        self.index, self.sample, self.loss, self.layout, self.temperature = (
            index,
            sample,
            loss,
            layout,
            temperature,
        )
        self.weight = sample.weight
        self.augmented = loss.augment(sample.crf, sample.labels, sample.observed)
        slaves = decompose(
            self.augmented, decomposition, "log_partition" if temperature > 0 else None
        )
        self.dual = Dual(slaves, layout.split(np.zeros(layout.size)))
        self.memory: dict[str, np.ndarray] = {}
        self.scratch: dict[str, Any] = {}
        self.completed = not sample.latent
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
        return Vertex(current.bound, current.ind, current.mean, self.features_of(current))

    def features_of(self, current: Round) -> np.ndarray:
        """Features (P,) of the slaves' minimisers: those of their cliques, and their share of the unary ones."""
        slaves, features = self.dual.slaves, np.zeros(self.layout.size)
        for group, result in zip(slaves.groups, current.results):
            self.layout.join(group.features(result), features)
        self.layout.join(slaves.unary_features(current.mean), features)
        return features

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

    def __init__(
        self, executor: Executor, sizes: Sequence[int], prior: Prior, temperature: float = 0.0
    ):
        self.executor, self.prior, self.layout, self.temperature = (
            executor,
            prior,
            prior.layout,
            temperature,
        )
        self.n_samples = int(sum(sizes))
        self._shard = np.repeat(np.arange(len(sizes)), sizes)
        self._place = np.concatenate([np.arange(n) for n in sizes])

    @property
    def states(self) -> list[SampleState]:
        """The samples themselves, where they live in this process."""
        return [state for shard in self.executor.shards for state in shard.states]

    def each(
        self,
        function: Callable[..., Any],
        *args: Any,
        index: Sequence[int] | np.ndarray | None = None,
        own: Sequence[tuple] | None = None,
    ) -> list[Any]:
        """``function(state, *args, *own[j])`` of the samples at `index` (ascending; all by default), in their order."""
        if index is None:
            if own is None:
                return [a for part in self.executor.call("run", function, args) for a in part]
            index = range(self.n_samples)
        shard, place = self._shard[np.asarray(index)], self._place[np.asarray(index)]
        only, first = np.unique(shard, return_index=True)
        last = np.append(first[1:], len(shard))
        each = [
            (place[a:b].tolist(), None if own is None else list(own[a:b]))
            for a, b in zip(first, last)
        ]
        found = self.executor.call("run", function, args, only=only.tolist(), each=each)
        return [a for part in found for a in part]

    def one(self, k: int, function: Callable[..., Any], *args: Any) -> Any:
        """``function(state, *args)`` of sample k."""
        each = [([int(self._place[k])], None)]
        return self.executor.call("run", function, args, only=[int(self._shard[k])], each=each)[0][
            0
        ]

    def total(self, function: Callable[..., np.ndarray], *args: Any) -> np.ndarray:
        """The sum over samples of ``function(state, *args)``: within each shard first, always in the same order."""
        parts = self.executor.call("total", function, args)
        result = np.array(parts[0])
        for part in parts[1:]:
            result += part
        return result

    def vertices(self, w: np.ndarray, lams: Sequence[np.ndarray] | None = None) -> list[Vertex]:
        """The slaves of every sample at (w, lambda); lambda of each sample's dual by default."""
        return self.each(vertex_at, w, own=None if lams is None else [(lam,) for lam in lams])

    def value(self, w: np.ndarray, vertices: Sequence[Vertex]) -> float:
        """F(w, lambda) from the slaves' minima at (w, lambda)."""
        hinges = self.each(hinge_of, w, own=[(v.value,) for v in vertices])
        return self.prior.value(w) + float(np.sum(hinges))

    def slope(self, vertices: Sequence[Vertex]) -> np.ndarray:
        """Subgradient in w of the sum of the hinges, (P,): sum_k c_k (g(x^k) - features of the minimisers)."""
        return np.sum(self.each(slope_of, own=[(v.features,) for v in vertices]), axis=0)

    def memory(self) -> list[dict[str, np.ndarray]]:
        """What the samples remember, sample by sample; `restore` takes it back."""
        return self.each(snapshot)

    def restore(self, memory: Sequence[dict[str, np.ndarray]]) -> None:
        """Take back what `memory` gave, also from a file: arrays that do not fit the samples are refused."""
        self.each(check_and_restore, own=[(m,) for m in memory])

    def remember(self, memory: Sequence[dict[str, np.ndarray]]) -> None:
        """What a sample is given back if its worker is lost."""
        if not self.executor.local:
            ends = np.flatnonzero(np.diff(self._shard)) + 1
            self.executor.remember(
                [list(part) for part in np.split(np.array(memory, object), ends)]
            )


# ---------------------------------------------------------------------- what runs with the samples


def vertex_at(state: SampleState, w: np.ndarray, lam: np.ndarray | None = None) -> Vertex:
    """The slaves' minimisers (soft ones at a temperature) of one sample."""
    state.set_weights(w)
    return state.soft(lam) if state.temperature > 0 else state.vertex(lam)


def hinge_of(state: SampleState, w: np.ndarray, minimum: float) -> float:
    """c_k (E(x^k) - minimum); not a number where a potential is not."""
    hinge = state.weight * (state.truth_energy(w) - minimum)
    if np.isnan(hinge):
        raise ValueError(
            f"samples[{state.index}]: the loss-augmented energy became NaN; {broken_block(state, w)}"
        )
    return hinge


def slope_of(state: SampleState, features: np.ndarray) -> np.ndarray:
    """c_k (g(x^k) - features)."""
    return state.weight * (state.truth_features - features)


def truth_energy_of(state: SampleState, w: np.ndarray) -> np.ndarray:
    """c_k E(x^k; w), as an array."""
    return np.array(state.weight * state.truth_energy(w))


def forget(state: SampleState) -> None:
    """Drop all that an optimiser remembers of the sample."""
    state.memory.clear()
    state.scratch.clear()


def snapshot(state: SampleState) -> dict[str, np.ndarray]:
    """A copy of all that cannot be computed again; the completed truth is part of it."""
    kept = {name: np.array(value) for name, value in state.memory.items()}
    return kept | {"truth": state.truth.copy(), "completed": np.array(state.completed)}


def restore(state: SampleState, kept: Mapping[str, np.ndarray]) -> None:
    """The inverse of `snapshot`."""
    state.memory = {
        name: np.array(value) for name, value in kept.items() if name not in ("truth", "completed")
    }
    state.scratch.clear()
    state.completed = bool(kept["completed"])
    state.set_truth(kept["truth"])


def check_and_restore(state: SampleState, kept: Mapping[str, np.ndarray]) -> None:
    """`restore` for arrays of strangers: those that the sample has already, and multipliers, must be alike."""
    own, duals, groups = (
        snapshot(state),
        np.zeros(len(state.dual.coords)),
        len(state.dual.slaves.groups),
    )
    first_order = {
        "lam": duals,
        "drift": duals,
        "ind": duals,
        "cliques": np.zeros((groups, state.layout.size)),
    }
    known = {**first_order, **own}
    check_like(
        {name: a for name, a in kept.items() if name in known},
        known,
        optional=first_order.keys() - own.keys(),
    )
    restore(state, kept)


def broken_block(state: SampleState, w: np.ndarray) -> str:
    """Which block of the sample is NaN at some constant labelling, in words."""
    named = state.layout.split(w)
    for i, block in enumerate(state.sample.crf.blocks):
        for label in range(int(block.max_states)):
            x = np.minimum(label, block.member_states - 1)
            if np.isnan(block.energy(block.shape_members(x), named)).any():
                return f"blocks[{i}] ({block!r}) is NaN where all its variables have label {label}"
    return f"the weights are {'finite' if np.isfinite(w).all() else 'not finite'}"


def weights_dict(layout: WeightLayout, w: np.ndarray) -> Mapping[str, np.ndarray]:
    """Copies of the named parts of `w` (P,)."""
    return {name: part.copy() for name, part in layout.split(w).items()}

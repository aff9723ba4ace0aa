r"""The training objective, defined once for all optimisers.

.. math:: F(w, \lambda) = R(w) + \sum_k c_k \Big[ E(x^k; w)
          - \sum_i \min_x E_i(x; \theta^{i,k}(w, \lambda^k)) \Big]

over the slaves of the loss-augmented energy of each sample: convex in (w, lambda), and an upper
bound of the structured hinge. With a temperature the minima become soft minima.

Samples live in joined batches, in this process or with the workers of an executor. The objective
reaches them by functions ``function(batch, *arguments)``, one call per batch, whose answers come
back in order: only weights go out, only sums and small arrays come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.archive import check_like
from gmlearn.learn.batch import (
    SampleBatch,
    Snapshot,
    Vertex,
    restore,
    snapshot,
)
from gmlearn.learn.regularization import Regularization
from gmlearn.model.weights import WeightLayout
from gmlearn.parallel import Executor


class Objective:
    """All samples, the regulariser and the set of weights: F, its parts and its subgradients.

    sizes : samples of each batch.   dealt : batches of each shard.
    """

    def __init__(
        self,
        executor: Executor,
        sizes: Sequence[int],
        dealt: Sequence[int],
        regularization: Regularization,
        temperature: float = 0.0,
    ):
        self.executor, self.regularization, self.temperature = executor, regularization, temperature
        self.layout: WeightLayout = regularization.layout
        self.n_samples, self.n_batches = int(sum(sizes)), len(sizes)
        self._shard = np.repeat(np.arange(len(dealt)), dealt)
        self._place = np.concatenate([np.arange(n) for n in dealt])

    @property
    def batches(self) -> list[SampleBatch]:
        """The batches themselves, where they live in this process."""
        return [batch for shard in self.executor.shards for batch in shard.batches]

    def each(
        self,
        function: Callable[..., Any],
        *args: Any,
        index: Sequence[int] | np.ndarray | None = None,
        own: Sequence[tuple] | None = None,
    ) -> list[Any]:
        """``function(batch, *args, *own[j])`` of the batches at `index` (ascending; all by
        default), in their order.
        """
        chosen = np.arange(self.n_batches) if index is None else np.asarray(index)
        only, first = np.unique(self._shard[chosen], return_index=True)
        places = np.split(self._place[chosen], first[1:])
        ends = np.append(first[1:], len(chosen))
        mine = [None if own is None else list(own[a:b]) for a, b in zip(first, ends)]
        each = [(p.tolist(), o) for p, o in zip(places, mine)]
        found = self.executor.call("run", function, args, only=only.tolist(), each=each)
        return [answer for part in found for answer in part]

    def total(self, function: Callable[..., Any], *args: Any) -> np.ndarray:
        """The sum over batches of ``function(batch, *args)``, always in the same order."""
        return np.sum(self.each(function, *args), axis=0)

    def vertices(self, w: np.ndarray, lams: Sequence[np.ndarray] | None = None) -> list[Vertex]:
        """The slaves of every batch at (w, lambda); lambda of each batch's dual by default."""
        return self.each(vertex_at, w, own=None if lams is None else [(lam,) for lam in lams])

    def value(self, w: np.ndarray, vertices: Sequence[Vertex]) -> float:
        """F(w, lambda) from the slaves' minima at (w, lambda)."""
        hinges = self.each(hinge_of, w, own=[(v.value,) for v in vertices])
        return self.regularization.value(w) + float(np.sum(hinges))

    def slope(self, vertices: Sequence[Vertex]) -> np.ndarray:
        """Subgradient in w of the sum of the hinges, (P,): sum_k c_k (g(x^k) - features)."""
        return np.sum(self.each(slope_of, own=[(v.features,) for v in vertices]), axis=0)

    def snapshots(self) -> list[Snapshot]:
        """What the batches remember; `restore` takes it back."""
        return self.each(snapshot)

    def restore(
        self,
        kept: Sequence[Mapping[str, np.ndarray]],
        fresh: Callable | None,
        growing: Sequence[str] = (),
    ) -> None:
        """Take back arrays of snapshots, also from a file: what does not fit is refused.

        fresh : function(batch) that makes the optimiser's memory as it is at the start; None if the
            optimiser remembers nothing of batches.   growing : its fields that get longer.
        """
        self.each(check_and_restore, fresh, growing, own=[(dict(k),) for k in kept])

    def remember(self, kept: Sequence[Snapshot]) -> None:
        """What a batch is given back if its worker is lost."""
        if not self.executor.local:
            ends = np.flatnonzero(np.diff(self._shard)) + 1
            parts = np.split(np.arange(len(kept)), ends)
            self.executor.remember([[kept[i] for i in part] for part in parts])


# ---------------------------------------------------------------------- what runs with the batches


def vertex_at(batch: SampleBatch, w: np.ndarray, lam: np.ndarray | None = None) -> Vertex:
    """The slaves' minimisers (soft ones at a temperature) of one batch."""
    return batch.vertex(w, lam)


def hinge_of(batch: SampleBatch, w: np.ndarray, minimum: float) -> float:
    return batch.hinge(w, minimum)


def slope_of(batch: SampleBatch, features: np.ndarray) -> np.ndarray:
    return batch.slope(features)


def truth_energy_of(batch: SampleBatch, w: np.ndarray) -> float:
    """c_k E(x^k; w), summed over the samples."""
    return batch.weight * batch.truth_energy(w)


def check_and_restore(
    batch: SampleBatch,
    fresh: Callable | None,
    growing: Sequence[str],
    arrays: dict[str, np.ndarray],
) -> None:
    """`restore` for arrays of strangers: all must be like those that the batch makes itself."""
    own = snapshot(batch)
    own.memory = None if fresh is None else fresh(batch)
    check_like(arrays, own.arrays(), growing=growing)
    restore(batch, Snapshot.of(arrays, None if fresh is None else type(own.memory)))


def weights_dict(layout: WeightLayout, w: np.ndarray) -> dict[str, np.ndarray]:
    """Copies of the named parts of `w` (P,)."""
    return {name: part.copy() for name, part in layout.split(w).items()}

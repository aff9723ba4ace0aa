"""Samples under training, side by side as one model, and the shards that hold them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn._utils.archive import load_arrays, save_arrays
from gmlearn.decompositions import decompose, resolve_each
from gmlearn.learn.batch_checks import broken_block, check_batch
from gmlearn.learn.likelihoods import LIKELIHOODS, Likelihood
from gmlearn.learn.sample import LazySamples, Sample, check_sample
from gmlearn.losses.base import Loss
from gmlearn.master import Dual
from gmlearn.master.dual import Round
from gmlearn.master.temperatures import split_by_weight
from gmlearn.model.crf import CRF
from gmlearn.model.join import join
from gmlearn.model.weights import WeightLayout

#: samples are dealt into at most so many shards, whatever the executor
MAX_SHARDS = 1024


@dataclass(frozen=True)
class Vertex:
    """The slaves' minimisers of one batch at given (w, lambda), as the optimisers see them.

    value : weighted sum of the minima.   ind, mean : indicators (D,) and their average (n_coords,).
    features : float (P,), clique features plus shared unary features, weighted alike:
        value = fixed + w . features + <lambda, ind>.   minima : float (n_slaves,).
    """

    value: float
    ind: np.ndarray
    mean: np.ndarray
    features: np.ndarray
    minima: np.ndarray


@dataclass(frozen=True)
class Recipe:
    """What turns samples into slaves.

    loss : of the samples that bring none.   decomposition : name or object.   layout : of the
    weights of all samples.   temperature : 0 for the hinge.   likelihood : what stands for the
    log-partition at a temperature, see `gmlearn.learn.likelihoods`.
    """

    loss: Loss
    decomposition: Any
    layout: WeightLayout
    temperature: float = 0.0
    likelihood: str = "trw"


class SampleBatch:
    """Some samples as one joined model: its loss-augmented slaves, and the completed truths.

    Weighted sums over the samples of a batch are all that training needs of them, so they share
    every call.

    Attributes
    ----------
    first : number of the first sample.   samples, losses : one for each.   weight : the largest
        c_k.
    shares : float (n,), c_k over that; None if all are the same. `slave_shares`, (n_slaves,), and
        `coord_shares`, (n_coords,), are those of the slaves' and the coordinates' samples. What
        slaves, truths and minima sum to is weighted by them; who multiplies it by `weight` has the
        sum with all c_k.
    model, augmented : the joined models without (as given, where known) and with the loss.
    dual : the slaves.
    memory : what the optimiser remembers of the batch, a dataclass of arrays. It stays with the
        batch's worker and goes into checkpoints; None until it is made.
    scratch : whatever an optimiser makes from the rest.
    """

    def __init__(
        self, first: int, samples: Sequence[Sample], recipe: Recipe, model: CRF | None = None
    ):
        self.first = first
        # no calls where there is nothing to do: samples come in thousands
        self.samples = [
            s if getattr(s, "given", None) is not None else check_sample(k, s)
            for k, s in enumerate(samples, first)
        ]
        self.losses = [
            recipe.loss if s.loss is None and s.allowed is None else own_loss(k, s, recipe.loss)
            for k, s in enumerate(self.samples, first)
        ]
        self.recipe, self.layout, self.temperature = recipe, recipe.layout, recipe.temperature
        weights = np.array([s.weight for s in self.samples])
        self.weight = float(weights.max())
        self.shares = None if (weights == self.weight).all() else weights / self.weight
        #: float (n,): what no slave holds of each sample
        self.constants = np.array([s.crf.constant for s in self.samples])
        self.model = _union([s.crf for s in self.samples]) if model is None else model
        self.augmented = self._augmented()
        power = "log_partition" if self.temperature > 0 else None
        slaves = decompose(self.augmented, recipe.decomposition, power)
        #: at a temperature: the soft slaves
        self.likelihood: Likelihood | None = None
        if self.temperature > 0:
            self.likelihood = LIKELIHOODS[recipe.likelihood](self.augmented, slaves, self.shares)
            slaves = self.likelihood.slaves
        else:
            slaves = split_by_weight(slaves, self.shares, soft=False)
        self.slave_shares = self.coord_shares = None
        if self.shares is not None:
            self.slave_shares = self.shares[slaves.slave_home]
            self.coord_shares = self.shares[slaves.home]
        self.weights = np.zeros(self.layout.size)
        self.dual = Dual(slaves, self.layout.split(np.zeros(self.layout.size)))
        self.memory: Any = None
        self.scratch: Any = None
        self.completed = not self.latent
        self.set_truth(np.concatenate([s.labels for s in self.samples]))

    def _augmented(self) -> CRF:
        """The joined models of E(x) - Delta(x, truth)."""
        loss = self.losses[0]
        if all(own is loss for own in self.losses):
            if not loss.adds("unary", "blocks", "constant"):
                return self.model
            plain = not self.latent
            labels = np.concatenate([s.labels for s in self.samples])
            unary = loss.joined_unary(self.model, labels) if plain else None
            if unary is not None:
                augmented = self.model.copy()
                augmented.unary += unary
                return augmented
        separate = self.separate()
        self.constants = np.array([crf.constant for crf in separate])
        return _union(separate)

    def separate(self) -> list[CRF]:
        """The loss-augmented models one by one."""
        given = zip(self.samples, self.losses)
        return [loss.augment(s.crf, s.labels, s.observed) for s, loss in given]

    @cached_property
    def learns_unary(self) -> bool:
        """Do the unary costs depend on the weights?"""
        slaves = self.dual.slaves
        return bool(slaves.unary_features(np.zeros(slaves.n_coords)))

    @cached_property
    def latent(self) -> bool:
        return any(s.latent for s in self.samples)

    @property
    def truths(self) -> list[np.ndarray]:
        """The completed labels (V,) of each sample."""
        return np.split(self.truth, self.model.parts[1:-1])

    def weighted_models(self) -> list[tuple[CRF, float]]:
        """(loss-augmented model, c_k) of the samples: joined where all have the same."""
        if self.shares is None:
            return [(self.augmented, self.weight)]
        return [
            (loss.augment(s.crf, s.labels, s.observed), s.weight)
            for s, loss in zip(self.samples, self.losses)
        ]

    def weighed(self, per_coord: np.ndarray) -> np.ndarray:
        """Values of coordinates (n_coords,), each times its sample's share."""
        return per_coord if self.coord_shares is None else per_coord * self.coord_shares

    def total(self, minima: np.ndarray) -> float:
        """The weighted minimum of the slaves' energies with `minima` (n_slaves,)."""
        own = minima.sum() if self.shares is None else self.slave_shares @ minima
        return float(own) + self.constant(self.layout.split(self.weights))

    def constant(self, w: Mapping[str, np.ndarray]) -> float:
        """What no slave holds, weighted."""
        if self.shares is None:
            return self.dual.slaves.constant(w)
        return float(self.shares @ self.constants)

    def set_truth(self, labels: np.ndarray) -> None:
        """Use `labels`, of all samples one after the other, as the completed truth."""
        self.truth = np.array(labels, np.int64)
        each = None if self.shares is None else np.repeat(self.shares, np.diff(self.model.parts))
        self.truth_features = self.layout.join(self.model.features(self.truth, each))
        self.set_fixed()

    def set_fixed(self) -> None:
        """The energy of the completed truth at weights of zero."""
        model = self.model
        zero = {name: np.zeros(shape) for name, shape in model.layout.shapes.items()}
        each = model.energies(self.truth, zero, unary=model.unary) + self.own_constants
        self.truth_fixed = float(each.sum() if self.shares is None else self.shares @ each)

    @cached_property
    def own_constants(self) -> np.ndarray:
        """float (n,): the constants of the samples' models without the loss."""
        return np.array([s.crf.constant for s in self.samples])

    def truth_energy(self, w: np.ndarray) -> float:
        """E(x^k; w), summed over the samples."""
        return self.truth_fixed + float(w @ self.truth_features)

    def truth_energies(self, w: np.ndarray) -> np.ndarray:
        """E(x^k; w) of each sample, (n,)."""
        # without a loss the slaves' unary costs are the model's
        known = self.dual.unary if self.dual.slaves.crf is self.model else None
        return self.model.energies(self.truth, self.layout.split(w), known) + self.own_constants

    def hinge(self, w: np.ndarray, minimum: float) -> float:
        """c_k (E(x^k) - minimum), summed; refuses NaN with the name of the block that has it."""
        hinge = self.weight * (self.truth_energy(w) - minimum)
        if np.isnan(hinge):
            raise ValueError(broken_block(self, w))
        return hinge

    def slope(self, features: np.ndarray) -> np.ndarray:
        """c_k (g(x^k) - features), summed, (P,): the hinges' subgradient."""
        return self.weight * (self.truth_features - features)

    def set_weights(self, w: np.ndarray) -> None:
        """Bring the slaves to the weights `w` (P,)."""
        self.weights = w
        self.dual.set_weights(self.layout.split(w))

    def vertex(self, w: np.ndarray, lam: np.ndarray | None = None) -> Vertex:
        """Minimise the slaves at weights `w` and multipliers `lam` (D,), softly at a
        temperature.
        """
        self.set_weights(w)
        return self.vertex_here(lam)

    def vertex_here(self, lam: np.ndarray | None = None) -> Vertex:
        """The same at the weights last set."""
        if self.temperature > 0:
            return self.soft_vertex(lam)
        return self.vertex_of(self.dual.round(lam))

    def vertex_of(self, current: Round) -> Vertex:
        """The same of a round of hard minima at the weights last set."""
        features, minima = self.features_of(current), current.minima
        return Vertex(self.total(minima), current.ind, current.mean, features, minima)

    def minima_by_sample(self, vertex: Vertex) -> np.ndarray:
        """float (n,): the sum of the minima of each sample's slaves."""
        home = self.dual.slaves.slave_home
        return np.bincount(home, vertex.minima, len(self.samples)) + self.constants

    def features_of(self, current: Round) -> np.ndarray:
        """Features (P,) of the slaves' minimisers: those of their cliques, and their share of the
        unary ones.
        """
        slaves, features = self.dual.slaves, np.zeros(self.layout.size)
        factors = slaves.by_group(self.slave_shares)
        for group, result, factor in zip(slaves.groups, current.results, factors):
            self.layout.join(group.weighted_features(result, factor), features)
        return self.layout.join(slaves.unary_features(self.weighed(current.mean)), features)

    def soft_vertex(self, lam: np.ndarray | None = None) -> Vertex:
        """Soft minima, marginals and expected features at the weights last set."""
        dual = self.dual
        assert self.likelihood is not None
        theta = dual.share + (dual.lam if lam is None else lam)
        minima, marginals, features = self.likelihood.evaluate(self, dual, theta)
        mean = dual.mean(marginals)
        self.layout.join(dual.slaves.unary_features(self.weighed(mean)), features)
        return Vertex(self.total(minima), marginals, mean, features, minima)


def own_loss(k: int, sample: Sample, loss: Loss) -> Loss:
    """The loss of sample k: its own or that of the training, outside of what is allowed."""
    loss = sample.loss or loss
    if sample.allowed is None:
        return loss
    try:
        return loss.outside(sample.possible)
    except ValueError as error:
        raise ValueError(f"samples[{k}].allowed: {error}") from None


def _union(crfs: list[CRF]) -> CRF:
    return crfs[0] if len(crfs) == 1 else join(crfs)


def batch_sizes(
    samples: Sequence[Sample], decomposition: Any, most: int, most_labels: int
) -> list[int]:
    """How many consecutive samples go to each batch; a function of the samples alone.

    Small samples whose models may be joined share a batch of at most `most`, whose variables have
    at most `most_labels` labels in all.
    """
    if isinstance(samples, LazySamples):
        return [1] * len(samples)
    crfs = [check_sample(k, sample).crf for k, sample in enumerate(samples)]
    joint = [own.joint for own in resolve_each(crfs, decomposition)]
    return shared_batches([crf.n_coords for crf in crfs], joint, most, most_labels)


def shared_batches(
    labels: Sequence[int], joint: Sequence[bool], most: int, most_labels: int
) -> list[int]:
    """`batch_sizes` of samples whose variables have so many labels; `joint` says which may share a
    batch.
    """
    sizes: list[int] = []
    room = 0.0
    for own, may in zip(labels, joint):
        if sizes and may and own <= room and sizes[-1] < most:
            sizes[-1] += 1
        else:
            sizes.append(1)
            room = most_labels if may else 0.0
        room -= own
    return sizes


class Shard:
    """Consecutive batches, kept where they are worked on: in this process, or with a worker.

    Samples that are loaded when needed (`LazySamples`) are built one at a time and left again;
    what they must remember waits in files of a temporary folder meanwhile.
    """

    def __init__(self, first: int, parts: Sequence[Sequence[Sample]], recipe: Recipe):
        self.parts, self.recipe = parts, recipe
        self.firsts = np.cumsum([first, *(len(p) for p in parts)]).tolist()
        self.lazy = isinstance(parts[0], LazySamples)
        self._folder = tempfile.TemporaryDirectory(prefix="gmlearn-") if self.lazy else None
        self._kinds: dict[int, type | None] = {}
        built = (self._build(b) for b in range(len(parts)))
        self._batches = []
        for batch in built:
            check_batch(batch)  # errors now, not in the middle of training
            self._batches += [] if self.lazy else [batch]

    def _build(self, b: int) -> SampleBatch:
        return SampleBatch(self.firsts[b], self.parts[b], self.recipe)

    @property
    def batches(self) -> list[SampleBatch]:
        """The batches; of lazily loaded samples new ones, which nobody keeps."""
        return [self._wake(b) for b in range(len(self.parts))] if self.lazy else self._batches

    def run(
        self,
        function: Callable[..., Any],
        args: tuple,
        places: Sequence[int] | None = None,
        own: Sequence[tuple] | None = None,
    ) -> list[Any]:
        """``function(batch, *args, *own[j])`` of the batches at `places` (all by default)."""
        places = range(len(self.parts)) if places is None else places
        own = [()] * len(places) if own is None else own
        return [function(b, *args, *mine) for b, mine in zip(self._visit(places), own)]

    def restore(self, kept: Sequence[Snapshot]) -> None:
        """Take back what `snapshot` gave, batch by batch."""
        self.run(restore, (), own=[(k,) for k in kept])

    # ------------------------------------------------------------------ samples that come and go

    def _visit(self, places: Sequence[int]) -> Iterator[SampleBatch]:
        for b in places:
            if not self.lazy:
                yield self._batches[b]
                continue
            batch = self._wake(b)
            yield batch
            kept = snapshot(batch)
            self._kinds[b] = None if kept.memory is None else type(kept.memory)
            save_arrays(self._file(b), {"kind": "gmlearn sample memory"}, kept.arrays())

    def _wake(self, b: int) -> SampleBatch:
        batch = self._build(b)
        if os.path.exists(self._file(b)):
            arrays = load_arrays(self._file(b), "gmlearn sample memory")[1]
            restore(batch, Snapshot.of(arrays, self._kinds[b]))
        return batch

    def _file(self, b: int) -> str:
        assert self._folder is not None
        return os.path.join(self._folder.name, f"batch{b}.npz")


# ---------------------------------------------------------------------- what a batch remembers


@dataclass
class Snapshot:
    """All of a batch that cannot be computed again.

    truth : completed labels.   completed : bool ().   memory : of the optimiser.
    """

    truth: np.ndarray
    completed: np.ndarray
    memory: Any

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything by name, as it goes into a file."""
        kept = {} if self.memory is None else arrays_of(self.memory)
        return {"truth": self.truth, "completed": self.completed, **kept}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], kind: type | None) -> Snapshot:
        """The inverse of `arrays`; `kind` is the class of the memory."""
        names = [] if kind is None else [f.name for f in fields(kind)]
        memory = None if kind is None else kind(**{n: np.array(arrays[n]) for n in names})
        return cls(np.array(arrays["truth"]), np.array(arrays["completed"]), memory)


def arrays_of(state: Any) -> dict[str, np.ndarray]:
    """Copies of the fields of a dataclass of arrays."""
    return {f.name: np.array(getattr(state, f.name)) for f in fields(state)}


def snapshot(batch: SampleBatch) -> Snapshot:
    """A copy of what a batch remembers."""
    memory = None if batch.memory is None else type(batch.memory)(**arrays_of(batch.memory))
    return Snapshot(batch.truth.copy(), np.array(batch.completed), memory)


def restore(batch: SampleBatch, kept: Snapshot) -> None:
    """The inverse of `snapshot`."""
    batch.memory = None if kept.memory is None else type(kept.memory)(**arrays_of(kept.memory))
    batch.scratch = None
    batch.completed = bool(kept.completed)
    batch.set_truth(kept.truth)


def forget(batch: SampleBatch) -> None:
    """Drop all that an optimiser remembers of the batch."""
    batch.memory = batch.scratch = None

"""``gm.train``: learning by dual decomposition, latent or not, by any registered optimiser."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.threads import one_blas_thread
from gmlearn._utils.validation import HUGE, check_choice, check_number, check_sequence
from gmlearn.learn.batch import (
    MAX_SHARDS,
    Recipe,
    Shard,
    batch_sizes,
)
from gmlearn.learn.likelihoods import LIKELIHOODS
from gmlearn.learn.model import TrainedModel
from gmlearn.learn.objective import Objective
from gmlearn.learn.regularization import Regularization
from gmlearn.learn.regularizers import L2
from gmlearn.learn.sample import LazySamples, Sample, check_sample
from gmlearn.losses.base import Loss, make_loss
from gmlearn.model.weights import WeightLayout
from gmlearn.parallel import Executor, make_executor
from gmlearn.registry import registry


@dataclass
class TrainingOptions:
    """Everything that `train` was asked for; see there."""

    loss: str | Loss = "hamming"
    decomposition: Any = "auto"
    optimizer: str = "auto"
    regularizer: Any = None
    constraints: Any = None
    weights: Any = None
    temperature: float = 0.0
    likelihood: str = "trw"
    start: Any = "auto"
    n_init: int = 1
    max_iter: int = 1000
    tol: float = 1e-4
    completion_every: int = 5
    completion_solver: str = "auto"
    validation: Any = None
    patience: int = 10
    callbacks: Sequence[Callable[..., Any]] = ()
    checkpoint: str | os.PathLike | None = None
    checkpoint_every: int = 10
    n_jobs: int = 1
    seed: int = 0
    show_progress: bool | None = None
    executor: Any = "auto"
    scheduler: Any = None
    settings: dict[str, Any] = field(default_factory=dict)


class Trainer(ABC):
    """A whole training method; closed forms are trainers of the same interface."""

    registry_kind: ClassVar[str] = "trainer"
    name: ClassVar[str] = ""

    @abstractmethod
    def train(self, samples: Sequence[Sample], options: TrainingOptions) -> TrainedModel:
        """Weights for `samples`."""


def train(
    samples: Sequence[Sample],
    loss: str | Loss = "hamming",
    decomposition: Any = "auto",
    optimizer: str = "auto",
    regularizer: Any = None,
    constraints: Any = None,
    checkpoint: str | os.PathLike | None = None,
    n_jobs: int = 1,
    seed: int = 0,
    *,
    method: str | Trainer = "dual-decomposition",
    weights: Any = None,
    temperature: float = 0.0,
    likelihood: str = "trw",
    start: Any = "auto",
    n_init: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-4,
    completion_every: int = 5,
    completion_solver: str = "auto",
    validation: Any = None,
    patience: int = 10,
    callbacks: Sequence[Callable[..., Any]] = (),
    checkpoint_every: int = 10,
    show_progress: bool | None = None,
    executor: Any = "auto",
    scheduler: Any = None,
    **settings: Any,
) -> TrainedModel:
    r"""Learn the weights of a CRF: :math:`\min_w R(w) + \sum_k c_k L_k(w)`, with every hinge
    replaced by its dual bound.

    Parameters
    ----------
    samples : list of `Sample`, each with its own model; or `LazySamples`, which are loaded when
        they are worked on.
    loss : name or `Loss`, the margin Delta(x, truth).
    decomposition : name or `Decomposition` of the loss-augmented energy; larger slaves give a
        tighter objective. "auto" is "reweighted" where ``likelihood="trw"`` bounds the likelihood.
    optimizer : "bcfw" (default), "subgradient", "stochastic", "incremental", "cutting-plane",
        "lbfgs" (temperature > 0).
    regularizer : `L2` (default mu = 1), `L1`, `ElasticNet`, `GroupL2`, or a mapping from segments
        to them.
    constraints : `NonNegative`, `Box`, `Simplex`, `Fixed`, a projection function, or a mapping from
        segments to them.
    checkpoint : path; written every `checkpoint_every` passes, and resumed from if it is there.
    n_jobs : workers over samples (-1: all cores).
    executor : "serial", "threads", "processes", "dask", an `Executor`, or "auto": threads if there
        are several jobs. The samples stay with their worker, only weights and sums travel; batch
        optimisers give the same weights with every executor.
    scheduler : of "dask": an address such as "tcp://host:8786", or a ``distributed.Client``; None
        starts workers here.
    method : a registered trainer; "dual-decomposition" or a plugin's closed form.
    weights : initial weights, zero by default.
    temperature : 0 for the hinge; > 0 for the soft objective. With ``loss="none"`` that is the
        negative log-likelihood at this temperature, or a bound or a substitute of it;
        `TrainedModel.objective_kind` says which.
    likelihood : at a temperature, "trw": soft slaves at tree-reweighted temperatures, exact where
        one slave holds everything (chains, trees), else a convex upper bound; "piecewise" or
        "pseudo" for the piecewise and the pseudo-likelihood, which have no multipliers.
    start : the first completion of hidden labels: "labels", those given at hidden places; "zero",
        the cheapest one at the initial weights; "random", the cheapest one at random costs; or a
        function sample -> labels. "auto": "random", since at zero weights all completions cost the
        same; "zero" where initial `weights` are given.
    n_init : how often training starts (with other random completions); the lowest objective wins.
    max_iter, tol : training ends after so many passes over the samples, or where the objective is
        within `tol` (relative) of its lower bound, or where it has stalled: falls by less than
        that in several evaluations. `TrainedModel.status` says which.
    completion_every : passes between two completions of hidden labels, which `completion_solver`
        finds.
    validation : samples, or a function weights -> error; training ends after `patience` evaluations
        without a better one.
    callbacks : functions called with (passes, weights, history) after each pass; a true answer ends
        training.
    settings : of the optimiser, by name (``step=0.1``, ...).

    Returns
    -------
    TrainedModel : weights, objective, history; ``predict(crf)``, ``save(path)``, ``plot()``.

    Examples
    --------
    >>> import gmlearn as gm, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = []
    >>> for _ in range(4):
    ...     truth = np.repeat(rng.integers(0, 2, 5), 4)
    ...     crf = gm.CRF(20, 2)
    ...     _ = crf.add(gm.Unary(np.stack([truth + rng.normal(size=20), np.ones(20)], axis=1)))
    ...     _ = crf.add(gm.Potts([[i, i + 1] for i in range(19)], weight="smooth"))
    ...     samples.append(gm.Sample(crf, truth))
    >>> model = gm.train(samples, regularizer=gm.L2(0.1))
    >>> bool(model.weights["smooth"] > 0)
    True
    """
    asked = locals()
    trainer: Trainer = registry.get("trainer", method) if isinstance(method, str) else method
    if not isinstance(trainer, Trainer):
        raise TypeError(
            f"method: expected the name of a trainer or a gmlearn.Trainer, got "
            f"{type(method).__name__}"
        )
    given = {f.name: asked[f.name] for f in fields(TrainingOptions)}
    options = TrainingOptions(**given)
    return trainer.train(samples, options)


class DualDecomposition(Trainer):
    """The generic trainer: knows slave groups, completion and losses; not what a sample is
    about.
    """

    name = "dual-decomposition"

    def train(self, samples: Sequence[Sample], options: TrainingOptions) -> TrainedModel:
        from gmlearn.learn.run import TrainingRun

        check_number("n_init", options.n_init, low=1, integer=True)
        if options.n_init > 1 and options.checkpoint is not None:
            raise ValueError("n_init: a checkpoint holds one start; use n_init=1")
        executor = make_executor(options.executor, options.n_jobs, options.scheduler)
        found: list[TrainedModel] = []
        try:
            # small products on many BLAS threads are far slower than on one
            with one_blas_thread():
                for i in range(options.n_init):
                    own = replace(options, seed=options.seed + i) if i else options
                    found.append(TrainingRun(build_objective(samples, own, executor), own).run())
        finally:
            if executor is not options.executor:  # the caller's own stays open
                executor.close()
        best = min(found, key=lambda model: model.objective)
        if len(found) > 1:
            best.settings["starts"] = [model.objective for model in found]
        return best


def build_objective(
    samples: Sequence[Sample], options: TrainingOptions, executor: Executor | None = None
) -> Objective:
    """The checked objective of a training problem; every error names the sample."""
    if isinstance(samples, Sample):
        raise TypeError("samples: expected a list of gmlearn.Sample, got one; write [sample]")
    if not isinstance(samples, LazySamples):
        listed = check_sequence("samples", samples, "gmlearn.Sample")
        samples = [check_sample(k, sample) for k, sample in enumerate(listed)]
    if not len(samples):
        raise ValueError("samples: expected at least one, got none")
    check_number("temperature", options.temperature, low=0, high=HUGE)
    check_choice("likelihood", options.likelihood, list(LIKELIHOODS))
    if options.temperature == 0 and options.likelihood != TrainingOptions.likelihood:
        raise ValueError(
            f"likelihood: {options.likelihood!r} needs a temperature > 0, got temperature=0"
        )
    executor = executor or make_executor("serial")
    loss = make_loss(options.loss)
    kind = registry.get("optimizer", choose_optimizer(options)[0])
    most = max(min(kind.most_samples, len(samples) // kind.least_batches), 1)
    decomposition = chosen_decomposition(options)
    sizes = batch_sizes(samples, decomposition, most, kind.most_labels)
    starts = np.cumsum([0, *sizes]).tolist()
    parts = [samples[a:b] for a, b in pairwise(starts)]
    # samples in memory are looked at here, not sent twice
    mapped = executor.map if isinstance(samples, LazySamples) else map
    found = mapped(part_layout, list(zip(starts, parts)))
    layout = merged_layout([layout for part in found for layout in part])
    if layout.size == 0:
        raise ValueError(
            "samples: the models have no weights to learn; give potentials a `weight` name"
        )
    regularization = Regularization(
        layout, L2(1.0) if options.regularizer is None else options.regularizer, options.constraints
    )
    recipe = Recipe(loss, decomposition, layout, options.temperature, options.likelihood)
    dealt = [len(p) for p in np.array_split(np.arange(len(parts)), min(len(parts), MAX_SHARDS))]
    ends = np.cumsum([0, *dealt]).tolist()
    executor.host([partial(Shard, starts[a], parts[a:b], recipe) for a, b in pairwise(ends)])
    return Objective(executor, sizes, dealt, regularization, options.temperature)


def chosen_decomposition(options: TrainingOptions) -> Any:
    """The decomposition asked for; "auto" is "reweighted" where slaves bound a likelihood."""
    bounds = options.temperature > 0 and options.likelihood == "trw"
    asked = options.decomposition
    return "reweighted" if bounds and isinstance(asked, str) and asked == "auto" else asked


def part_layout(part: tuple[int, Sequence[Sample]]) -> list[tuple[int, dict[str, tuple[int, ...]]]]:
    """The weight segments of some samples, numbered from the given one; only of those that
    differ from the sample before.
    """
    first, samples = part
    found: list[tuple[int, dict[str, tuple[int, ...]]]] = []
    for k, sample in enumerate(samples):
        shapes = dict(check_sample(first + k, sample).crf.layout.shapes)
        if not found or found[-1][1] != shapes:
            found.append((first + k, shapes))
    return found


def merged_layout(found: Sequence[tuple[int, dict[str, tuple[int, ...]]]]) -> WeightLayout:
    """The weight segments of all samples; a clash names the sample."""
    layout = WeightLayout({})
    for k, shapes in found:
        try:
            layout = WeightLayout.merged([layout.shapes, shapes], "samples")
        except ValueError as error:
            raise ValueError(f"samples[{k}].crf: {error}") from None
    return layout


def choose_optimizer(options: TrainingOptions) -> tuple[str, str]:
    """(name, reason) of the optimiser: the one asked for, or what "auto" takes."""
    if not isinstance(options.optimizer, str):
        raise TypeError(f"optimizer: expected a name, got {type(options.optimizer).__name__}")
    if options.optimizer != "auto":
        return options.optimizer, "asked for"
    if options.temperature > 0:
        return "lbfgs", "at a temperature the objective is smooth"
    return "bcfw", "the hinge: no step size to choose"

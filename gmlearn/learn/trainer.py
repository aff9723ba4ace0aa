"""``gm.train``: learning by dual decomposition, latent or not, by any registered optimiser."""

from __future__ import annotations

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.archive import check_like, damage_named
from gmlearn._utils.progress import progress
from gmlearn._utils.validation import check_number
from gmlearn.learn.checkpoint import KIND, load_checkpoint, save_checkpoint
from gmlearn.learn.completion import take_completion
from gmlearn.learn.history import TrainingHistory
from gmlearn.learn.model import TrainedModel, plain_settings
from gmlearn.learn.objective import Objective, SampleState, truth_energy_of, weights_dict
from gmlearn.learn.optimizers import Optimizer
from gmlearn.learn.prior import L2, Prior
from gmlearn.learn.sample import LazySamples, Sample, check_sample
from gmlearn.learn.shard import Shard, shard_sizes
from gmlearn.losses.base import Loss
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
    max_iter: int = 100
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
    max_iter: int = 100,
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
    r"""Learn the weights of a CRF: :math:`\min_w R(w) + \sum_k c_k L_k(w)`, with every hinge replaced by its dual bound.

    Parameters
    ----------
    samples : list of `Sample`, each with its own model; or `LazySamples`, which are loaded when they are worked on.
    loss : name or `Loss`, the margin Delta(x, truth).
    decomposition : name or `Decomposition` of the loss-augmented energy; larger slaves give a tighter objective.
    optimizer : "bcfw" (default), "subgradient", "stochastic", "incremental", "cutting-plane", "lbfgs" (temperature > 0).
    regularizer : `L2` (default mu = 1), `L1`, `ElasticNet`, `GroupL2`, or a mapping from segments to them.
    constraints : `NonNegative`, `Box`, `Simplex`, `Fixed`, a projection function, or a mapping from segments to them.
    checkpoint : path; written every `checkpoint_every` passes, and resumed from if it is there.
    n_jobs : workers over samples (-1: all cores).
    executor : "serial", "threads", "processes", "dask", an `Executor`, or "auto": threads if there are several jobs. The samples
        stay with their worker, only weights and sums travel; batch optimisers give the same weights with every executor.
    scheduler : of "dask": an address such as "tcp://host:8786", or a ``distributed.Client``; None starts workers here.
    method : a registered trainer; "dual-decomposition" or a plugin's closed form.
    weights : initial weights, zero by default.
    temperature : 0 for the hinge; > 0 for the soft objective (1 with loss="none" is the likelihood).
    max_iter, tol : passes over the samples; relative fall of the objective below which training ends.
    completion_every : passes between two completions of hidden labels, which `completion_solver` finds.
    validation : samples, or a function weights -> error; training ends after `patience` evaluations without a better one.
    callbacks : functions called with (passes, weights, history) after each pass; a true answer ends training.
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
    trainer: Trainer = registry.get("trainer", method) if isinstance(method, str) else method
    options = TrainingOptions(
        loss,
        decomposition,
        optimizer,
        regularizer,
        constraints,
        weights,
        temperature,
        max_iter,
        tol,
        completion_every,
        completion_solver,
        validation,
        patience,
        callbacks,
        checkpoint,
        checkpoint_every,
        n_jobs,
        seed,
        show_progress,
        executor,
        scheduler,
        settings,
    )
    return trainer.train(samples, options)


class DualDecomposition(Trainer):
    """The generic trainer: knows slave groups, completion and losses; not what a sample is about."""

    name = "dual-decomposition"

    def train(self, samples: Sequence[Sample], options: TrainingOptions) -> TrainedModel:
        from threadpoolctl import threadpool_limits

        executor = make_executor(options.executor, options.n_jobs, options.scheduler)
        try:
            # small products on many BLAS threads are far slower than on one
            with threadpool_limits(limits=1, user_api="blas"):
                return TrainingRun(samples, options, executor).run()
        finally:
            if executor is not options.executor:  # the caller's own stays open
                executor.close()


def build_objective(
    samples: Sequence[Sample], options: TrainingOptions, executor: Executor | None = None
) -> Objective:
    """The checked objective of a training problem; every error names the sample."""
    samples = samples if isinstance(samples, LazySamples) else list(samples)
    if not len(samples):
        raise ValueError("samples: expected at least one, got none")
    check_number("temperature", options.temperature, low=0)
    executor = executor or make_executor("serial")
    loss = registry.get("loss", options.loss) if isinstance(options.loss, str) else options.loss
    loss = loss() if isinstance(loss, type) else loss
    if not isinstance(loss, Loss):
        raise TypeError(f"loss: expected a name or a gmlearn.Loss, got {type(loss).__name__}")
    sizes = shard_sizes(len(samples))
    firsts = np.cumsum([0, *sizes]).tolist()
    parts = [(a, samples[a:b]) for a, b in pairwise(firsts)]
    # those in memory are looked at here, not sent twice
    layouts = (
        executor.map(part_layout, parts)
        if isinstance(samples, LazySamples)
        else map(part_layout, parts)
    )
    layout = merged_layout([found for part in layouts for found in part])
    if layout.size == 0:
        raise ValueError(
            "samples: the models have no weights to learn; give potentials a `weight` name"
        )
    prior = Prior(
        layout, L2(1.0) if options.regularizer is None else options.regularizer, options.constraints
    )
    executor.host(
        [
            partial(Shard, first, part, loss, options.decomposition, layout, options.temperature)
            for first, part in parts
        ]
    )
    return Objective(executor, sizes, prior, options.temperature)


def part_layout(part: tuple[int, Sequence[Sample]]) -> list[tuple[int, dict[str, tuple[int, ...]]]]:
    """The weight segments of some samples, numbered from the given one; only of those that differ from the sample before."""
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
    if options.optimizer != "auto":
        return options.optimizer, "asked for"
    if options.temperature > 0:
        return "lbfgs", "at a temperature the objective is smooth"
    return "bcfw", "the hinge: no step size to choose"


def check_functions(options: TrainingOptions) -> None:
    """Refuse callbacks that cannot be called, and a validation that is neither a function nor samples."""
    for i, callback in enumerate(options.callbacks):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{i}]: expected a function of (passes, weights, history), got {callback!r}"
            )
    if options.validation is None or callable(options.validation):
        return
    if not len(options.validation):
        raise ValueError(
            "validation: expected samples, or a function weights -> error, got no samples"
        )
    for k, sample in enumerate(options.validation):
        try:
            check_sample(k, sample)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("samples", "validation", 1)) from None


class TrainingRun:
    """One run: objective, optimiser, completions, history, checkpoints, stopping."""

    def __init__(self, samples: Sequence[Sample], options: TrainingOptions, executor: Executor):
        self.options = options
        check_number("max_iter", options.max_iter, low=0, integer=True)
        check_number("completion_every", options.completion_every, low=1, integer=True)
        check_number("checkpoint_every", options.checkpoint_every, low=1, integer=True)
        check_number("patience", options.patience, low=1, integer=True)
        check_number("tol", options.tol)
        check_number("seed", options.seed, low=0, integer=True)
        check_functions(options)
        self.objective = build_objective(samples, options, executor)
        prior, layout = self.objective.prior, self.objective.layout
        given = (
            np.zeros(layout.size)
            if options.weights is None
            else layout.join(layout.check(options.weights))
        )
        self.about = self.objective.each(description)
        self.data_digest = hashlib.sha256(
            b"".join([given.tobytes(), *(a["digest"] for a in self.about)])
        ).hexdigest()
        self.optimizer = self._make_optimizer(prior.project(given))
        self.history = TrainingHistory()
        self.best_w, self.best_value, self.best_validation = self.optimizer.w.copy(), np.inf, np.inf
        self.idle = 0
        self.finished = ""
        self.latent = any(about["latent"] for about in self.about)
        self.generation = executor.generation

    def _make_optimizer(self, w: np.ndarray) -> Optimizer:
        options, prior = self.options, self.objective.prior
        name, self.optimizer_reason = choose_optimizer(options)
        kind = registry.get("optimizer", name)
        reason = kind.refuses(prior, options.temperature)
        if reason is not None:
            raise ValueError(f"optimizer {name!r} refuses this problem: {reason}")
        unknown = [s for s in options.settings if s not in kind.settings]
        if unknown:
            raise TypeError(
                f"optimizer {name!r} has no setting {unknown[0]!r}; it has {sorted(kind.settings)}"
            )
        self.optimizer_name = name
        return kind(self.objective, w, options.seed, **options.settings)

    # ------------------------------------------------------------------ the loop

    def run(self) -> TrainedModel:
        options = self.options
        start, begin = time.perf_counter(), self._resume()
        if self.finished:
            return self._model(self.finished)
        status = f"max_iter = {options.max_iter} passes"
        with progress(
            total=options.max_iter, initial=begin, desc="training", show=options.show_progress
        ) as bar:
            for t in range(begin, options.max_iter):
                drop = self._complete(t)
                report = self.optimizer.run()
                self._mend()
                validation = self._keep_best(report.objective)
                self.history.append(
                    passes=t + 1,
                    objective=report.objective,
                    bound=report.bound,
                    gap=report.gap,
                    seconds=time.perf_counter() - start,
                    step=report.step,
                    validation=validation,
                    completion=drop,
                )
                bar.update(1)
                if report.objective is not None:
                    bar.set_postfix_str(f"objective {self.best_value:.6g}")
                reason = self._stop()
                if options.checkpoint is not None and (
                    (t + 1) % options.checkpoint_every == 0 or reason
                ):
                    self._save(t + 1, reason)
                if reason:
                    status = reason
                    break
        return self._model(status)

    def _complete(self, t: int) -> float | None:
        """Every `completion_every` passes, fill in hidden labels."""
        if not self.latent or t % self.options.completion_every:
            return None
        before = self.objective.total(truth_energy_of, self.best_w)
        drop, changed = self._complete_now()
        if t == 0:
            self.optimizer.begin()
        if changed:
            self.optimizer.truth_changed()
        if np.isfinite(self.best_value):  # F of the kept weights, with the new truths
            self.best_value += float(self.objective.total(truth_energy_of, self.best_w) - before)
        return drop

    def _complete_now(self) -> tuple[float, bool]:
        """How much F fell by the completions of now, and whether any truth changed."""
        options = self.options
        found = self.objective.each(
            take_completion, self.optimizer.w, options.completion_solver, options.seed
        )
        return float(np.sum([drop for drop, _ in found])), any(changed for _, changed in found)

    def _mend(self) -> None:
        """After the loss of a worker: what its samples had learnt is that of the last checkpoint, or starts again."""
        if self.objective.executor.generation != self.generation:
            self.generation = self.objective.executor.generation
            if self.latent:
                self._complete_now()
            self.optimizer.truth_changed()

    def _keep_best(self, value: float | None) -> float | None:
        """Keep the weights of the lowest objective (or validation error) among those that were evaluated."""
        if value is None:
            return None
        w = self.optimizer.evaluated_w
        validation = self._validate(w)
        better = (
            validation < self.best_validation if validation is not None else value < self.best_value
        )
        if better:
            self.best_w = w.copy()
            self.best_validation = np.inf if validation is None else validation
        self.idle = 0 if better else self.idle + 1
        self.best_value = min(self.best_value, value)
        return validation

    def _validate(self, w: np.ndarray) -> float | None:
        validation = self.options.validation
        if validation is None:
            return None
        weights = weights_dict(self.objective.layout, w)
        if callable(validation):
            return float(validation(weights))
        model = TrainedModel(dict(weights), np.nan)
        return float(np.mean(self.objective.executor.map(partial(error_of, model), validation)))

    def _stop(self) -> str:
        """Why training should end after this pass; empty to go on."""
        options, history = self.options, self.history
        for callback in options.callbacks:
            if callback(
                len(history), weights_dict(self.objective.layout, self.optimizer.w), history
            ):
                return f"callback {getattr(callback, '__name__', type(callback).__name__)}"
        if options.validation is not None and self.idle >= options.patience:
            return f"no better validation error in {options.patience} evaluations"
        bound, scale = history.bound[-1], max(abs(self.best_value), 1e-12)
        if np.isfinite(bound) and self.best_value - bound <= options.tol * scale:
            return f"certified: objective within {options.tol:g} of its lower bound"
        values = np.minimum.accumulate(history.evaluated())
        measured = np.isfinite(history.objective[-1]) and not np.isfinite(bound)
        since = (
            self.optimizer.stalled(values, options.tol * scale)
            if measured and options.validation is None
            else ""
        )
        if since:
            return f"objective fell by less than {options.tol:g} {since}"
        return ""

    def _model(self, status: str) -> TrainedModel:
        options = self.options
        settings = plain_settings(
            {
                "optimizer": self.optimizer_name,
                "optimizer_reason": self.optimizer_reason,
                "loss": options.loss,
                "decomposition": options.decomposition,
                "regularizer": options.regularizer,
                "constraints": options.constraints,
                "temperature": options.temperature,
                "max_iter": options.max_iter,
                "tol": options.tol,
                **options.settings,
            }
        )
        completions = [c for c in self.objective.each(completed_labels) if c is not None]
        weights = dict(weights_dict(self.objective.layout, self.best_w))
        return TrainedModel(
            weights,
            float(self.best_value),
            self.history,
            completions,
            settings,
            options.seed,
            status=status,
        )

    # ------------------------------------------------------------------ checkpoints

    def _fingerprint(self) -> dict[str, Any]:
        objective, options = self.objective, self.options
        return {
            "optimizer": self.optimizer_name,
            "seed": options.seed,
            "settings": plain_settings(options.settings),
            "segments": {n: list(s) for n, s in objective.layout.shapes.items()},
            "samples": objective.n_samples,
            "duals": [a["duals"] for a in self.about],
            "temperature": options.temperature,
            "tol": options.tol,
            "regularizer": repr([(n, vars(r)) for n, r in objective.prior.regularizers.items()]),
            "constraints": [type(s).__name__ for s in objective.prior.sets.values()],
            "loss": sorted({a["loss"] for a in self.about}),
            "data": self.data_digest,
        }

    def _save(self, passes: int, reason: str) -> None:
        progress_made = {
            "passes": passes,
            "finished": reason,
            "best_value": self.best_value,
            "best_validation": self.best_validation,
            "idle": self.idle,
        }
        snapshot = self.optimizer.snapshot()
        self.objective.remember(snapshot["samples"])
        save_checkpoint(
            self.options.checkpoint,
            self._fingerprint(),
            snapshot,
            self.best_w,  # type: ignore[arg-type]
            self.history,
            progress_made,
        )

    def _resume(self) -> int:
        """Continue from the checkpoint, if there is one; returns the number of passes already done."""
        path = self.options.checkpoint
        if path is None or not os.path.exists(path):
            return 0
        with damage_named(path, KIND):
            snapshot, self.best_w, self.history, made = load_checkpoint(path, self._fingerprint())
            self.optimizer.restore(snapshot)
            self.objective.remember(snapshot["samples"])
            check_like({"best": self.best_w}, {"best": self.optimizer.w})
            self.best_value, self.best_validation = (
                float(made["best_value"]),
                float(made["best_validation"]),
            )
            self.idle, self.finished = int(made["idle"]), str(made["finished"])
            if int(made["passes"]) != len(self.history) or not 0 <= self.idle <= len(self.history):
                raise ValueError(
                    f"progress: expected {len(self.history)} passes as in the history, got {made['passes']!r}"
                )
            return int(made["passes"])


# ---------------------------------------------------------------------- what runs with the samples


def description(state: SampleState) -> dict[str, Any]:
    """What identifies a sample: a hash of its truth, costs and features, its size and its loss."""
    digest = hashlib.sha256(str(state.weight).encode())
    for array in (state.sample.observed, state.truth, state.truth_features, state.sample.crf.unary):
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "digest": digest.digest(),
        "duals": len(state.dual.coords),
        "loss": f"{state.loss.name} {vars(state.loss)}",
        "latent": state.sample.latent,
    }


def error_of(model: TrainedModel, sample: Sample) -> float:
    """Share of wrong labels of the model's prediction."""
    return float(np.mean(model.predict(sample.crf).labels != np.asarray(sample.labels)))


def completed_labels(state: SampleState) -> np.ndarray | None:
    """The completed truth of a latent sample."""
    return state.truth if state.sample.latent else None

"""``gm.train``: learning by dual decomposition, latent or not, by any registered optimiser."""

from __future__ import annotations

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.progress import progress
from gmlearn._utils.validation import check_number
from gmlearn.learn.checkpoint import load_checkpoint, save_checkpoint
from gmlearn.learn.completion import complete_all
from gmlearn.learn.history import TrainingHistory
from gmlearn.learn.model import TrainedModel, plain_settings
from gmlearn.learn.objective import Objective, SampleState, weights_dict
from gmlearn.learn.optimizers import Optimizer
from gmlearn.learn.prior import L2, Prior
from gmlearn.learn.sample import Sample, check_sample
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
    settings: dict[str, Any] = field(default_factory=dict)


class Trainer(ABC):
    """A whole training method; closed forms are trainers of the same interface."""

    registry_kind: ClassVar[str] = "trainer"
    name: ClassVar[str] = ""

    @abstractmethod
    def train(self, samples: Sequence[Sample], options: TrainingOptions) -> TrainedModel:
        """Weights for `samples`."""


def train(samples: Sequence[Sample], loss: str | Loss = "hamming", decomposition: Any = "auto", optimizer: str = "auto",
          regularizer: Any = None, constraints: Any = None, checkpoint: str | os.PathLike | None = None, n_jobs: int = 1,
          seed: int = 0, *, method: str | Trainer = "dual-decomposition", weights: Any = None, temperature: float = 0.0,
          max_iter: int = 100, tol: float = 1e-4, completion_every: int = 5, completion_solver: str = "auto",
          validation: Any = None, patience: int = 10, callbacks: Sequence[Callable[..., Any]] = (), checkpoint_every: int = 10,
          show_progress: bool | None = None, **settings: Any) -> TrainedModel:
    r"""Learn the weights of a CRF: :math:`\min_w R(w) + \sum_k c_k L_k(w)`, with every hinge replaced by its dual bound.

    Parameters
    ----------
    samples : list of `Sample`; each has its own model.
    loss : name or `Loss`, the margin Delta(x, truth).
    decomposition : name or `Decomposition` of the loss-augmented energy; larger slaves give a tighter objective.
    optimizer : "bcfw" (default), "subgradient", "stochastic", "incremental", "cutting-plane", "lbfgs" (temperature > 0).
    regularizer : `L2` (default mu = 1), `L1`, `ElasticNet`, `GroupL2`, or a mapping from segments to them.
    constraints : `NonNegative`, `Box`, `Simplex`, `Fixed`, a projection function, or a mapping from segments to them.
    checkpoint : path; written every `checkpoint_every` passes, and resumed from if it is there.
    n_jobs : threads over samples (-1: all cores).
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
    options = TrainingOptions(loss, decomposition, optimizer, regularizer, constraints, weights, temperature, max_iter, tol,
                              completion_every, completion_solver, validation, patience, callbacks, checkpoint, checkpoint_every,
                              n_jobs, seed, show_progress, settings)
    return trainer.train(samples, options)


class DualDecomposition(Trainer):
    """The generic trainer: knows slave groups, completion and losses; not what a sample is about."""

    name = "dual-decomposition"

    def train(self, samples: Sequence[Sample], options: TrainingOptions) -> TrainedModel:
        from threadpoolctl import threadpool_limits

        executor = make_executor(options.n_jobs)
        try:
            # small products on many BLAS threads are far slower than on one
            with threadpool_limits(limits=1, user_api="blas"):
                return TrainingRun(samples, options, executor).run()
        finally:
            executor.close()


def build_objective(samples: Sequence[Sample], options: TrainingOptions, executor: Executor | None = None) -> Objective:
    """The checked objective of a training problem; every error names the sample."""
    samples = list(samples)
    if not samples:
        raise ValueError("samples: expected at least one, got none")
    check_number("temperature", options.temperature, low=0)
    checked = [check_sample(k, s) for k, s in enumerate(samples)]
    loss = registry.get("loss", options.loss) if isinstance(options.loss, str) else options.loss
    loss = loss() if isinstance(loss, type) else loss
    if not isinstance(loss, Loss):
        raise TypeError(f"loss: expected a name or a gmlearn.Loss, got {type(loss).__name__}")
    layout = _merged_layout(checked)
    if layout.size == 0:
        raise ValueError("samples: the models have no weights to learn; give potentials a `weight` name")
    prior = Prior(layout, L2(1.0) if options.regularizer is None else options.regularizer, options.constraints)
    states = []
    for k, sample in enumerate(checked):
        own = sample.loss or loss
        _check_finite(k, sample)
        states.append(SampleState(k, sample, own, options.decomposition, layout, options.temperature))
        _check_truth(k, states[-1])
    return Objective(states, prior, executor)


def _merged_layout(samples: Sequence[Sample]) -> WeightLayout:
    """The weight segments of all samples; a clash names the sample."""
    layout = WeightLayout({})
    for k, sample in enumerate(samples):
        try:
            layout = WeightLayout.merged([layout.shapes, sample.crf.layout.shapes], "samples")
        except ValueError as error:
            raise ValueError(f"samples[{k}].crf: {error}") from None
    return layout


def _check_finite(k: int, sample: Sample) -> None:
    """No NaN in the features of any block."""
    for i, block in enumerate(sample.crf.blocks):
        for name, value in block.features(block.gather(sample.labels)).items():
            if not np.isfinite(value).all():
                raise ValueError(f"samples[{k}].crf.blocks[{i}] ({block!r}): the features of segment {name!r} are not finite")


def _check_truth(k: int, state: SampleState) -> None:
    """The loss is zero at the truth, and the truth is feasible (hidden parts are completed later)."""
    sample = state.sample
    value = state.loss.value(sample.crf, sample.labels, sample.labels, sample.observed)
    if value != 0.0:
        raise ValueError(f"samples[{k}]: the loss {state.loss.name!r} is {value:g} at the truth, expected 0")
    if not sample.latent and not np.isfinite(state.truth_fixed):
        zero = {name: np.zeros(shape) for name, shape in sample.crf.layout.shapes.items()}
        broken = [f"blocks[{i}] ({b!r})" for i, b in enumerate(sample.crf.blocks)
                  if not np.isfinite(b.energy(b.gather(sample.labels), zero)).all()]
        where = broken[0] if broken else "the unary costs"
        raise ValueError(f"samples[{k}]: the true labels break a hard constraint of {where} (their energy is inf)")
    if np.isnan(state.augmented.unary).any():
        raise ValueError(f"samples[{k}].crf.unary: contains NaN; a cost is finite, or +inf to forbid")


class TrainingRun:
    """One run: objective, optimiser, completions, history, checkpoints, stopping."""

    def __init__(self, samples: Sequence[Sample], options: TrainingOptions, executor: Executor):
        self.options = options
        check_number("max_iter", options.max_iter, low=0, integer=True)
        check_number("completion_every", options.completion_every, low=1, integer=True)
        check_number("checkpoint_every", options.checkpoint_every, low=1, integer=True)
        check_number("patience", options.patience, low=1, integer=True)
        self.objective = build_objective(samples, options, executor)
        prior, layout = self.objective.prior, self.objective.layout
        given = np.zeros(layout.size) if options.weights is None else layout.join(layout.check(options.weights))
        self.data_digest = self._digest(given)
        self.optimizer = self._make_optimizer(prior.project(given))
        self.history = TrainingHistory()
        self.best_w, self.best_value, self.best_validation = self.optimizer.w.copy(), np.inf, np.inf
        self.idle = 0
        self.finished = ""
        self.latent = any(s.sample.latent for s in self.objective.states)

    def _make_optimizer(self, w: np.ndarray) -> Optimizer:
        options, prior = self.options, self.objective.prior
        name = options.optimizer
        if name == "auto":
            name = "lbfgs" if options.temperature > 0 else "bcfw"
        kind = registry.get("optimizer", name)
        reason = kind.refuses(prior, options.temperature)
        if reason is not None:
            raise ValueError(f"optimizer {name!r} refuses this problem: {reason}")
        unknown = [s for s in options.settings if s not in kind.settings]
        if unknown:
            raise TypeError(f"optimizer {name!r} has no setting {unknown[0]!r}; it has {sorted(kind.settings)}")
        self.optimizer_name = name
        return kind(self.objective, w, options.seed, **options.settings)

    # ------------------------------------------------------------------ the loop

    def run(self) -> TrainedModel:
        options = self.options
        start, begin = time.perf_counter(), self._resume()
        if self.finished:
            return self._model(self.finished)
        status = f"max_iter = {options.max_iter} passes"
        with progress(total=options.max_iter, initial=begin, desc="training", show=options.show_progress) as bar:
            for t in range(begin, options.max_iter):
                drop = self._complete(t)
                report = self.optimizer.run()
                validation = self._keep_best(report.objective)
                self.history.append(passes=t + 1, objective=report.objective, bound=report.bound, gap=report.gap,
                                    seconds=time.perf_counter() - start, step=report.step, validation=validation, completion=drop)
                bar.update(1)
                if report.objective is not None:
                    bar.set_postfix_str(f"objective {self.best_value:.6g}")
                reason = self._stop()
                if options.checkpoint is not None and ((t + 1) % options.checkpoint_every == 0 or reason):
                    self._save(t + 1, reason)
                if reason:
                    status = reason
                    break
        return self._model(status)

    def _complete(self, t: int) -> float | None:
        """Every `completion_every` passes, fill in hidden labels."""
        if not self.latent or t % self.options.completion_every:
            return None
        before = self._truth_energy(self.best_w)
        drop = complete_all(self.objective, self.optimizer.w, self.options.completion_solver, self.options.seed, first=t == 0)
        if t == 0:
            self.optimizer.start()
        self.optimizer.truth_changed()
        self.best_value += self._truth_energy(self.best_w) - before  # F of the kept weights, with the new truths
        return drop

    def _truth_energy(self, w: np.ndarray) -> float:
        return float(sum(s.weight * s.truth_energy(w) for s in self.objective.states))

    def _keep_best(self, value: float | None) -> float | None:
        """Keep the weights of the lowest objective (or validation error) among those that were evaluated."""
        if value is None:
            return None
        w = self.optimizer.evaluated_w
        validation = self._validate(w)
        better = validation < self.best_validation if validation is not None else value < self.best_value
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
        wrong = [np.mean(model.predict(s.crf).labels != np.asarray(s.labels)) for s in validation]
        return float(np.mean(wrong))

    def _stop(self) -> str:
        """Why training should end after this pass; empty to go on."""
        options, history = self.options, self.history
        for callback in options.callbacks:
            if callback(len(history), weights_dict(self.objective.layout, self.optimizer.w), history):
                return f"callback {getattr(callback, '__name__', type(callback).__name__)}"
        if options.validation is not None and self.idle >= options.patience:
            return f"no better validation error in {options.patience} evaluations"
        bound, scale = history.bound[-1], max(abs(self.best_value), 1e-12)
        if np.isfinite(bound) and self.best_value - bound <= options.tol * scale:
            return f"certified: objective within {options.tol:g} of its lower bound"
        values = np.minimum.accumulate(history.evaluated())
        measured = len(values) >= 5 and np.isfinite(history.objective[-1]) and not np.isfinite(bound)
        if measured and options.validation is None and values[-4] - values[-1] < options.tol * scale:
            return f"objective fell by less than {options.tol:g} in three evaluations"
        return ""

    def _model(self, status: str) -> TrainedModel:
        options = self.options
        settings = plain_settings({"optimizer": self.optimizer_name, "loss": options.loss, "decomposition": options.decomposition,
                                   "regularizer": options.regularizer, "constraints": options.constraints,
                                   "temperature": options.temperature, "max_iter": options.max_iter, "tol": options.tol,
                                   **options.settings})
        completions = [s.truth for s in self.objective.states if s.sample.latent]
        weights = dict(weights_dict(self.objective.layout, self.best_w))
        return TrainedModel(weights, float(self.best_value), self.history, completions, settings, options.seed, status=status)

    # ------------------------------------------------------------------ checkpoints

    def _digest(self, w: np.ndarray) -> str:
        """A hash of what training starts from: initial weights, truths, costs and features."""
        digest = hashlib.sha256(w.tobytes())
        for s in self.objective.states:
            digest.update(str(s.weight).encode())
            for array in (s.sample.observed, s.truth, s.truth_features, s.sample.crf.unary):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _fingerprint(self) -> dict[str, Any]:
        objective, options = self.objective, self.options
        return {"optimizer": self.optimizer_name, "seed": options.seed, "settings": plain_settings(options.settings),
                "segments": {n: list(s) for n, s in objective.layout.shapes.items()}, "samples": len(objective.states),
                "duals": [len(s.dual.coords) for s in objective.states], "temperature": options.temperature, "tol": options.tol,
                "regularizer": repr([(n, vars(r)) for n, r in objective.prior.regularizers.items()]),
                "constraints": [type(s).__name__ for s in objective.prior.sets.values()],
                "loss": sorted({f"{s.loss.name} {vars(s.loss)}" for s in objective.states}), "data": self.data_digest}

    def _save(self, passes: int, reason: str) -> None:
        progress_made = {"passes": passes, "finished": reason, "best_value": self.best_value,
                         "best_validation": self.best_validation, "idle": self.idle}
        save_checkpoint(self.options.checkpoint, self._fingerprint(), self.optimizer.state,  # type: ignore[arg-type]
                        [s.truth for s in self.objective.states], self.best_w, self.history, progress_made)

    def _resume(self) -> int:
        """Continue from the checkpoint, if there is one; returns the number of passes already done."""
        path = self.options.checkpoint
        if path is None or not os.path.exists(path):
            return 0
        state, truths, best, history, made = load_checkpoint(path, self._fingerprint())
        for s, truth in zip(self.objective.states, truths):
            s.set_truth(truth)
        self.optimizer.state.update(state)
        self.best_w, self.history = best, history
        self.best_value, self.best_validation, self.idle = made["best_value"], made["best_validation"], int(made["idle"])
        self.finished = str(made["finished"])
        return int(made["passes"])

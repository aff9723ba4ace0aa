"""One training run: optimiser, completions, history, checkpoints, stopping."""

from __future__ import annotations

import numbers
import os
import time
from typing import Any, NamedTuple

import numpy as np

from gmlearn._utils.archive import check_like, damage_named
from gmlearn._utils.files import check_folder
from gmlearn._utils.progress import progress
from gmlearn._utils.validation import check_choice, check_flag, check_number, check_sequence
from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.checkpoint import KIND, Checkpoint, load_checkpoint, save_checkpoint
from gmlearn.learn.completion import STARTS, take_completion, take_start
from gmlearn.learn.fingerprint import problem_fingerprint
from gmlearn.learn.history import TrainingHistory
from gmlearn.learn.likelihoods import objective_kind
from gmlearn.learn.model import TrainedModel, plain_settings
from gmlearn.learn.objective import Objective, truth_energy_of, weights_dict
from gmlearn.learn.optimizers import Optimizer
from gmlearn.learn.sample import check_sample
from gmlearn.learn.trainer import TrainingOptions, choose_optimizer
from gmlearn.probabilities.api import marginals
from gmlearn.registry import registry
from gmlearn.solvers.api import named_solver

#: labels of all samples up to which the exact objective is bounded after training
MOST_LABELS = 20_000
#: relative fall of its upper bound at which that ends: a third of the default's iterations
BOUND_TOL = 1e-6


def check_functions(options: TrainingOptions) -> None:
    """Refuse callbacks that cannot be called, and a validation that is neither a function nor
    samples.
    """
    for i, callback in enumerate(check_sequence("callbacks", options.callbacks, "functions")):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{i}]: expected a function of (passes, weights, history), got "
                f"{callback!r}"
            )
    if options.validation is None or callable(options.validation):
        return
    if not len(check_sequence("validation", options.validation, "gmlearn.Sample")):
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

    def __init__(self, objective: Objective, options: TrainingOptions):
        self.objective, self.options = objective, options
        check_number("max_iter", options.max_iter, low=0, integer=True)
        check_number("completion_every", options.completion_every, low=1, integer=True)
        check_number("checkpoint_every", options.checkpoint_every, low=1, integer=True)
        check_number("patience", options.patience, low=1, integer=True)
        check_number("tol", options.tol)
        check_number("seed", options.seed, low=0, integer=True)
        if options.show_progress is not None:
            check_flag("show_progress", options.show_progress)
        named_solver("completion_solver", options.completion_solver)
        check_functions(options)
        if not callable(options.start):
            check_choice("start", options.start, STARTS)
        regularization, layout = objective.regularization, objective.layout
        given = (
            np.zeros(layout.size)
            if options.weights is None
            else layout.join(layout.check(options.weights))
        )
        self.fingerprint: dict[str, Any] = {}
        if options.checkpoint is not None:
            check_folder("checkpoint", options.checkpoint)
            self.fingerprint = problem_fingerprint(objective, options, given)
        self.optimizer = self._make_optimizer(regularization.project(given))
        self.history = TrainingHistory()
        self.best_w, self.best_value, self.best_validation = self.optimizer.w.copy(), np.inf, np.inf
        self.idle = 0
        self.box = np.inf
        self.finished = ""
        self.about: list[About] = objective.each(about_batch)
        self.latent = any(about.latent for about in self.about)
        self.generation = objective.executor.generation

    def _make_optimizer(self, w: np.ndarray) -> Optimizer:
        options, regularization = self.options, self.objective.regularization
        name, self.optimizer_reason = choose_optimizer(options)
        kind = registry.get("optimizer", name)
        reason = kind.refuses(regularization, options.temperature)
        if reason is not None:
            raise ValueError(f"optimizer {name!r} refuses this problem: {reason}")
        unknown = [s for s in options.settings if s not in kind.settings]
        if unknown:
            raise TypeError(
                f"optimizer {name!r} has no setting {unknown[0]!r}; it has {sorted(kind.settings)}"
            )
        self.optimizer_name = name
        self.fingerprint["optimizer"] = name
        return kind(self.objective, w, options.seed, **options.settings)

    # ------------------------------------------------------------------ the loop

    def run(self) -> TrainedModel:
        options = self.options
        start, begin = time.perf_counter(), self._resume()
        if self.finished:
            return self._model(self.finished)
        status, reason = f"max_iter = {options.max_iter} passes", ""
        with progress(
            total=options.max_iter, initial=begin, desc="training", show=options.show_progress
        ) as bar:
            for t in range(begin, options.max_iter):
                drop = self._complete(t)
                report = self.optimizer.run()
                self.box = report.box
                self._mend()
                validation = self._keep_best(report.objective)
                self.history.append(
                    passes=t + 1,
                    objective=report.objective,
                    bound=report.bound,
                    subproblem_gap=report.subproblem_gap,
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
        if not reason or np.isnan(self.history.objective[-1]):
            self._evaluate_last()
        return self._model(status)

    def _evaluate_last(self) -> None:
        """Look at where the last passes have led, if they do not report it themselves."""
        history = self.history
        report = self.optimizer.last_report() if len(history) else None
        if report is None or report.objective is None or report.bound is None:
            return
        self.box = report.box
        validation = self._keep_best(report.objective)
        history.bound[-1] = report.bound
        if np.isnan(history.objective[-1]):  # else it is F at the start of that pass
            history.objective[-1] = report.objective
        history.validation[-1] = np.nan if validation is None else validation

    def _complete(self, t: int) -> float | None:
        """Every `completion_every` passes, fill in hidden labels."""
        if not self.latent or t % self.options.completion_every:
            return None
        before = self.objective.total(truth_energy_of, self.best_w)
        if t == 0:
            self._start()
            drop, changed = 0.0, True
            self.optimizer.begin(self.optimizer.w)
        else:
            drop, changed = self._complete_now()
        if changed:
            self.optimizer.truth_changed()
        if np.isfinite(self.best_value):  # F of the kept weights, with the new truths
            self.best_value += float(self.objective.total(truth_energy_of, self.best_w) - before)
        return drop

    def _start(self) -> None:
        """The first completion."""
        options = self.options
        start = options.start
        if start == "auto":
            start = "zero" if self.optimizer.w.any() else "random"
        self.objective.each(
            take_start, start, self.optimizer.w, options.completion_solver, options.seed
        )

    def _complete_now(self) -> tuple[float, bool]:
        """How much F fell by completing hidden labels, and whether any label changed."""
        options = self.options
        found = self.objective.each(
            take_completion, self.optimizer.w, options.completion_solver, options.seed
        )
        return float(np.sum([drop for drop, _ in found])), any(changed for _, changed in found)

    def _mend(self) -> None:
        """After the loss of a worker: what its samples had learnt is that of the last
        checkpoint, or starts again.
        """
        if self.objective.executor.generation != self.generation:
            self.generation = self.objective.executor.generation
            if self.latent:
                self._complete_now()
            self.optimizer.truth_changed()

    def _keep_best(self, value: float | None) -> float | None:
        """Keep the weights of the lowest objective (or validation error) among those that were
        evaluated, with the objective there.
        """
        if value is None:
            return None
        w = self.optimizer.evaluated_w
        validation = self._validate(w)
        if validation is None:
            better = value < self.best_value
        else:
            better = validation < self.best_validation
            self.best_validation = min(validation, self.best_validation)
        if better:
            self.best_w, self.best_value = w.copy(), value
        self.idle = 0 if better else self.idle + 1
        return validation

    def _validate(self, w: np.ndarray) -> float | None:
        validation = self.options.validation
        if validation is None:
            return None
        weights = weights_dict(self.objective.layout, w)
        if callable(validation):
            answer: Any = validation(weights)
            known = isinstance(answer, (numbers.Real, np.ndarray, np.generic))
            if not known or np.size(answer) != 1:
                raise TypeError(
                    f"validation: expected a number, got {type(answer).__name__} in pass "
                    f"{len(self.history) + 1}"
                )
            error = float(np.asarray(answer).item())
        else:
            found = TrainedModel(weights, np.nan).predict_many(
                [sample.crf for sample in validation], self.objective.executor
            )
            wrong = [np.mean(r.labels != s.labels) for r, s in zip(found, validation)]
            error = float(np.mean(wrong))
        if not np.isfinite(error):
            passes = len(self.history) + 1
            raise ValueError(f"validation: expected a finite error, got {error} in pass {passes}")
        return error

    def _stop(self) -> str:
        """Why training should end after this pass; empty to go on."""
        options, history = self.options, self.history
        for callback in options.callbacks:
            answer = callback(
                len(history), weights_dict(self.objective.layout, self.optimizer.w), history
            )
            name = getattr(callback, "__name__", type(callback).__name__)
            if isinstance(answer, (float, np.floating)) and not np.isfinite(answer):
                raise ValueError(
                    f"callbacks: {name} answered {answer} in pass {len(history)}; expected true to "
                    f"end training, else false"
                )
            if answer:
                return f"callback {name}"
        if options.validation is not None and self.idle >= options.patience:
            return f"no better validation error in {options.patience} evaluations"
        values = np.minimum.accumulate(history.evaluated())
        if not len(values) or not np.isfinite(history.objective[-1]):
            return ""
        least, bound = options.tol * max(abs(values[-1]), 1e-12), history.bound[-1]
        over = "" if np.isinf(self.box) else f" over multipliers up to {self.box:.3g}"
        if values[-1] - bound <= least:
            kind = "converged" if over else "certified"
            return f"{kind}: objective within {options.tol:g} of its lower bound{over}"
        left = f", {values[-1] - bound:.3g} above its lower bound{over}" if bound > -np.inf else ""
        since = ""
        if options.validation is None:
            gaps = history.gap[np.isfinite(history.objective)]
            since = self.optimizer.stalled(values, least, gaps)
        if not since:
            return ""
        return f"stalled: objective fell by less than {options.tol:g} {since}{left}"

    def _model(self, status: str) -> TrainedModel:
        options = self.options
        if not np.isfinite(self.best_value):  # no pass has evaluated F
            vertices = self.objective.vertices(self.best_w)
            self.best_value = self.objective.value(self.best_w, vertices)
        settings = plain_settings(
            {
                "optimizer": self.optimizer_name,
                "optimizer_reason": self.optimizer_reason,
                "loss": options.loss,
                "decomposition": options.decomposition,
                "regularizer": options.regularizer,
                "constraints": options.constraints,
                "temperature": options.temperature,
                "likelihood": options.likelihood,
                "max_iter": options.max_iter,
                "tol": options.tol,
                **options.settings,
            }
        )
        if len(self.history.evaluated()) > 1 and not self.best_w.any():
            status += "; all learnt weights are zero: none were better"
        completions = [c for batch in self.objective.each(completed_labels) for c in batch]
        bounds = np.array(self.history.bound)
        return TrainedModel(
            weights_dict(self.objective.layout, self.best_w),
            float(self.best_value),
            self.history,
            completions,
            settings,
            options.seed,
            status=status,
            bound=float(bounds[-1]) if len(bounds) and np.isfinite(bounds[-1]) else -np.inf,
            objective_kind=self.objective_kind,
            exact_objective=self._exact_objective(),
        )

    @property
    def objective_kind(self) -> str:
        """Of all samples: "exact" only if it is for each."""
        kinds = {about.kind for about in self.about}
        return next((k for k in sorted(kinds) if k != "exact"), "exact")

    def _exact_objective(self) -> tuple[float, float]:
        """Bounds of the exact objective at the best weights, where the slaves only bound it and
        the samples are small enough to look.
        """
        value = float(self.best_value)
        if self.objective_kind == "exact":
            return value, value
        size = sum(about.labels for about in self.about)
        if self.options.temperature == 0 or size > MOST_LABELS or not np.isfinite(value):
            return -np.inf, np.inf
        low, high = self.objective.total(exact_bounds, self.best_w)
        penalty = self.objective.regularization.value(self.best_w)
        return float(low + penalty), float(high + penalty)

    # ------------------------------------------------------------------ checkpoints

    def _save(self, passes: int, reason: str) -> None:
        progress_made = {
            "passes": passes,
            "finished": reason,
            "best_value": self.best_value,
            "best_validation": self.best_validation,
            "idle": self.idle,
        }
        state, batches = self.optimizer.snapshot()
        self.objective.remember(batches)
        kept = Checkpoint(state, [b.arrays() for b in batches], self.best_w, self.history)
        assert self.options.checkpoint is not None
        save_checkpoint(self.options.checkpoint, self.fingerprint, kept, progress_made)

    def _resume(self) -> int:
        """Continue from the checkpoint, if there is one; returns the number of passes already
        done.
        """
        path = self.options.checkpoint
        if path is None or not os.path.exists(path):
            return 0
        with damage_named(path, KIND):
            kept, made = load_checkpoint(path, self.fingerprint, self.objective.n_batches)
            self.optimizer.restore(kept.state, kept.batches)
            self.objective.remember(self.objective.snapshots())
            self.best_w, self.history = kept.best, kept.history
            check_like({"best": self.best_w}, {"best": self.optimizer.w})
            self.best_value, self.best_validation = (
                float(made["best_value"]),
                float(made["best_validation"]),
            )
            self.idle, self.finished = int(made["idle"]), str(made["finished"])
            if int(made["passes"]) != len(self.history) or not 0 <= self.idle <= len(self.history):
                raise ValueError(
                    f"progress: expected {len(self.history)} passes as in the history, got "
                    f"{made['passes']!r}"
                )
            return int(made["passes"])


# ---------------------------------------------------------------------- what runs with the samples


class About(NamedTuple):
    """What the run must know of a batch.

    latent : are there hidden labels?   kind : of its objective.   labels : of all variables.
    """

    latent: bool
    kind: str
    labels: int


def about_batch(batch: SampleBatch) -> About:
    return About(batch.latent, objective_kind(batch), batch.model.n_coords)


def exact_bounds(batch: SampleBatch, w: np.ndarray) -> np.ndarray:
    """Lower and upper bound of c_k (E(x^k) + T log Z), summed: how far soft slaves may be off."""
    named = batch.layout.split(w)
    total = np.zeros(2)
    for crf, weight in batch.weighted_models():
        own = {n: named[n] for n in crf.layout.shapes}
        found = marginals(crf, own, temperature=batch.temperature, tol=BOUND_TOL)
        total += weight * np.array([found.lower, found.upper])
    return batch.weight * batch.truth_energy(w) + batch.temperature * total


def completed_labels(batch: SampleBatch) -> list[np.ndarray]:
    """The completed truths of the latent samples."""
    return [truth for truth, s in zip(batch.truths, batch.samples) if s.latent]

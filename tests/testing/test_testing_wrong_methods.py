"""The kit on deliberately wrong MAP solvers, file formats, experiments, optimisers and trainers."""

import time

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.testing import checks_for


def registered(kind, name):
    return next(e.obj for e in gm.plugins() if e.kind == kind and e.name == name)


def assert_caught(thing, name):
    one = next(c for c in checks_for(thing) if c.name == name)
    with pytest.raises(AssertionError, match=f"{name} failed for the {thing.registry_kind} "):
        one(thing)


# ---------------------------------------------------------------------- marginal methods


class Uniform(gm.MarginalMethod):
    """Equal probabilities, and no bound: honest, if not good."""

    name = "uniform"
    lower, upper = -np.inf, np.inf

    def run(self, problem):
        states = problem.crf.n_states
        p = np.repeat(1.0 / states, states)
        return problem.answer(self.name, 0.0, p, self.lower, self.upper)


class LowerTooHigh(Uniform):
    lower = 1e3


class UpperTooLow(Uniform):
    upper = -1e3


class CallsItselfExact(Uniform):
    def run(self, problem):
        exact = gm.marginals(problem.crf, problem.w, "brute-force", problem.temperature)
        exact.node = super().run(problem).node
        return exact


class DoesNotAddUp(Uniform):
    def run(self, problem):
        found = super().run(problem)
        found.node, found.status = found.node * 0.9, gm.MarginalStatus.BOUNDS
        return found


class ForgetsTheTemperature(Uniform):
    def run(self, problem):
        return gm.marginals(problem.crf, problem.w, "brute-force")


class DrawsAnew(Uniform):
    rng = np.random.default_rng(0)

    def run(self, problem):
        found = super().run(problem)
        found.node = found.node * self.rng.random()
        return found


def test_an_honest_marginal_method_passes():
    gm.testing.check(Uniform())


@pytest.mark.parametrize(
    "thing, name",
    [
        (LowerTooHigh(), "check_bounds_hold_log_z"),
        (UpperTooLow(), "check_bounds_hold_log_z"),
        (CallsItselfExact(), "check_bounds_hold_log_z"),
        (ForgetsTheTemperature(), "check_bounds_hold_log_z"),
        (DoesNotAddUp(), "check_marginals_are_distributions"),
        (DrawsAnew(), "check_same_seed_same_marginals"),
        (LowerTooHigh(), "check_infeasible_models_have_no_lower_bound"),
    ],
)
def test_wrong_marginal_methods_are_caught(thing, name):
    assert_caught(thing, name)


# ---------------------------------------------------------------------- MAP solvers


class Guess(gm.MapSolver):
    """All zeros, and no bound: honest, if not good."""

    name = "guess"
    bounds = False

    def run(self, problem):
        problem.iterations += 1
        problem.offer(np.zeros(problem.crf.n_vars, int), "guess")
        problem.log()


class ClaimsOptimal(Guess):
    def run(self, problem):
        super().run(problem)
        problem.raise_bound(problem.energy)


class BoundTooHigh(Guess):
    """High in the history only: the result clips it."""

    bounds = True

    def run(self, problem):
        super().run(problem)
        problem.raise_bound(problem.energy + 5.0)
        problem.log()


class BoundALittleTooHigh(Guess):
    bounds = True

    def run(self, problem):
        super().run(problem)
        problem.raise_bound(gm.testing.brute_force(problem.crf, problem.w)[1] + 1e-3)


class CallsAllInfeasible(Guess):
    def run(self, problem):
        super().run(problem)
        problem.raise_bound(np.inf)


class IgnoresMaxIter(Guess):
    def run(self, problem):
        for _ in range(10):
            super().run(problem)


class IgnoresTheClock(Guess):
    def run(self, problem):
        super().run(problem)
        if problem.options.time_limit == 0:
            time.sleep(0.2)


class ByChance(Guess):
    counter = 0

    def run(self, problem):
        type(self).counter += 1
        problem.iterations += 1
        problem.offer(self.counter % problem.crf.n_states, "chance")


class ChangesTheModel(Guess):
    def run(self, problem):
        super().run(problem)
        problem.crf.unary += 1e-3


class ForgetsInitial(Guess):
    def run(self, problem):
        problem.labels = None
        super().run(problem)


class MissesInfeasible(Guess):
    """Says that it has bounds of its own, and takes one from thin air."""

    bounds = True

    def run(self, problem):
        super().run(problem)
        problem.raise_bound(-1e6)


class RefusesAll(Guess):
    def refuses(self, crf):
        return "no"


def test_an_honest_solver_passes():
    gm.testing.check(Guess())


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (ClaimsOptimal, "check_bound_minimum_energy"),
        (ClaimsOptimal, "check_optimal_means_optimal"),
        (BoundTooHigh, "check_history_never_above_the_minimum"),
        (BoundALittleTooHigh, "check_bound_minimum_energy"),
        (CallsAllInfeasible, "check_optimal_means_optimal"),
        (IgnoresMaxIter, "check_max_iter_is_kept"),
        (IgnoresTheClock, "check_no_time_no_work"),
        (ByChance, "check_same_seed_same_answer"),
        (ChangesTheModel, "check_the_model_is_untouched"),
        (ForgetsInitial, "check_initial_labels_are_not_made_worse"),
        (MissesInfeasible, "check_infeasible_models_are_told"),
        (RefusesAll, "check_has_examples"),
    ],
)
def test_wrong_solvers_are_caught(wrong, caught_by):
    assert_caught(wrong(), caught_by)


# ---------------------------------------------------------------------- files, experiments


class Rounds(type(registered("format", "npz"))):
    name = "rounds"

    def write(self, crf, path, weights=None):
        rounded = crf.copy()
        rounded.unary = np.round(crf.unary, 3)
        super().write(rounded, path, weights)


class ReadsAnything(Rounds):
    def read(self, path):
        return gm.CRF(3, 2)


class UpperCase(Rounds):
    extensions = (".NPZ",)


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (Rounds, "check_round_trip_keeps_energies"),
        (ReadsAnything, "check_bad_files_are_refused"),
        (UpperCase, "check_extensions"),
    ],
)
def test_wrong_formats_are_caught(wrong, caught_by):
    assert_caught(wrong(), caught_by)


@pytest.mark.parametrize(
    "wrong",
    [
        gm.Experiment("two words", "a summary", print),
        gm.Experiment("name", "", print),
        gm.Experiment("name", "two\nlines", print),
        gm.Experiment("name", "a summary", None),
        gm.Experiment("name", "a summary", print, data=" "),
    ],
)
def test_wrong_experiments_are_caught(wrong):
    assert_caught(wrong, "check_name_and_summary")


# ---------------------------------------------------------------------- optimisers, trainers

Subgradient = registered("optimizer", "subgradient")


class StandsStill(Subgradient):
    def run(self):
        w = self.state["w"].copy()
        report = super().run()
        self.state["w"] = w
        return report


class Optimist(Subgradient):
    """Reports objectives that are too low."""

    def run(self):
        report = super().run()
        report.objective = 0.5 * report.objective
        return report


class HighLowerBound(Subgradient):
    def run(self):
        report = super().run()
        report.bound = report.objective + 1.0
        return report


class LeavesTheSet(Subgradient):
    def run(self):
        report = super().run()
        self.state["w"] = self.state["w"] - 1.0
        return report


class Restless(Subgradient):
    calls = 0

    def run(self):
        type(self).calls += 1
        report = super().run()
        self.state["w"] = self.state["w"] + 1e-9 * self.calls
        return report


class RemembersAside(Subgradient):
    """Keeps something outside `state`, which a checkpoint loses."""

    def run(self):
        report = super().run()
        self.seen = getattr(self, "seen", 0) + 1
        self.state["w"] = self.state["w"] * (1.0 - 1e-3 * self.seen)
        return report


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (StandsStill, "check_the_objective_falls"),
        (Optimist, "check_objective_bounds_hinge_bounds_loss"),
        (HighLowerBound, "check_lower_bounds_hold"),
        (LeavesTheSet, "check_weights_stay_feasible"),
        (Restless, "check_same_seed_same_weights"),
        (RemembersAside, "check_state_is_all_it_remembers"),
    ],
)
def test_wrong_optimisers_are_caught(wrong, caught_by):
    assert_caught(wrong, caught_by)


class Untrained(gm.Trainer):
    name = "untrained"
    objective = 0.0

    def train(self, samples, options):
        shapes = {name: shape for s in samples for name, shape in s.crf.layout.shapes.items()}
        return gm.TrainedModel(
            {name: np.zeros(shape) for name, shape in shapes.items()}, self.objective
        )


class FewWeights(Untrained):
    def train(self, samples, options):
        model = super().train(samples, options)
        model.weights.pop("smooth")
        return model


class GetsWorse(Untrained):
    def train(self, samples, options):
        model = super().train(samples, options)
        model.objective = 100.0 + options.max_iter
        return model


class ByTheClock(Untrained):
    def train(self, samples, options):
        model = super().train(samples, options)
        model.weights["smooth"] = np.array(float(time.perf_counter_ns()))
        return model


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (Untrained, "check_objective_bounds_the_hinge"),
        (FewWeights, "check_weights_fit_the_models"),
        (GetsWorse, "check_more_passes_are_not_worse"),
        (ByTheClock, "check_same_seed_same_model"),
    ],
)
def test_wrong_trainers_are_caught(wrong, caught_by):
    assert_caught(wrong(), caught_by)

"""Plausible mistakes of plugin authors, one each, in things that are otherwise right: the kit
names the plugin, the thing and the check.
"""

import itertools
import time

import numpy as np
import primal_cases
import pytest
from primal_cases import AllDifferent

import gmlearn as gm
from gmlearn.registry import registry
from gmlearn.slaves import Enumeration
from gmlearn.testing import loopback, run_checks


class Greedy(gm.MapSolver):
    """The cheapest label of each variable, and the sum of unary and clique minima as a bound."""

    name = "planted"

    def run(self, problem):
        unary = self.unary(problem)
        problem.iterations += 1
        problem.offer(self.labels(problem, unary), "cheapest labels")
        problem.raise_bound(self.bound(problem))
        problem.log()

    def unary(self, problem):
        costs, starts = problem.crf.unary_costs(problem.w), problem.crf.offsets
        return [costs[a:b] for a, b in itertools.pairwise(starts)]

    def labels(self, problem, unary):
        return np.array([costs.argmin() for costs in unary])

    def bound(self, problem):
        return gm.Dual(gm.decompose(problem.crf), problem.w).round().bound


class IgnoresStop(Greedy):
    """Works for .2 s before it asks."""

    def run(self, problem):
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:
            self.bound(problem)
        super().run(problem)


class AsksTooSeldom(Greedy):
    """Asks before it starts, then works for .2 s."""

    def run(self, problem):
        super().run(problem)
        if not problem.stop():
            time.sleep(0.2)


class OffersNothing(Greedy):
    def run(self, problem):
        problem.raise_bound(self.bound(problem))
        problem.log()


class RoundsItsBound(Greedy):
    """Two decimals look better in a log."""

    def bound(self, problem):
        return round(gm.testing.brute_force(problem.crf, problem.w)[1] + 0.004, 2)


class SinglePrecision(Greedy):
    """The minimum, computed in 32 bits."""

    def bound(self, problem):
        minimum = np.float32(gm.testing.brute_force(problem.crf, problem.w)[1])
        return float(np.nextafter(minimum, np.float32(np.inf))) + 1e-5


class NegativeLabels(Greedy):
    """-1 for the last label, as Python indexes."""

    def run(self, problem):
        super().run(problem)
        problem.labels = np.where(problem.labels == 0, problem.labels - problem.crf.n_states, 0)


class LabelsFromOne(Greedy):
    def labels(self, problem, unary):
        return super().labels(problem, unary) + 1


class SeededByTheClock(Greedy):
    def labels(self, problem, unary):
        return np.random.default_rng(time.perf_counter_ns()).integers(0, problem.crf.n_states)


class RefusesByCrash(Greedy):
    def refuses(self, crf):
        return None if crf.blocks[0].arity == 2 else "not pairwise"


class RefusesWithTrue(Greedy):
    def refuses(self, crf):
        return any(b.arity > 2 for b in crf.blocks)


class WritesUnary(Greedy):
    """Subtracts the minima once: afterwards nothing changes any more."""

    def run(self, problem):
        for start, stop in itertools.pairwise(problem.crf.offsets):
            part = problem.crf.unary[start:stop]
            problem.crf.constant += part.min()
            part -= part.min()
        super().run(problem)


class Covers(gm.Decomposition):
    """One slave per clique."""

    name = "planted"

    def decompose(self, crf, power=None):
        return gm.decompose(crf, "per-clique", power)


class ChangesTheModel(Covers):
    """Moves the constant of the unary costs into the model's."""

    def decompose(self, crf, power=None):
        low = np.minimum.reduceat(crf.unary, crf.offsets[:-1])
        crf.unary = crf.unary - np.repeat(low, crf.n_states)
        crf.constant += low.sum()
        return super().decompose(crf, power)


class ChangesABlock(Covers):
    """Scales tables in place, and the slaves back."""

    def decompose(self, crf, power=None):
        for block in crf.blocks:
            if isinstance(block, gm.Table):
                block.values += 1e-12
        return super().decompose(crf, power)


class Slave(Enumeration):
    name = "planted"

    def refuses(self, block):
        return super().refuses(block) if isinstance(block, gm.Table) else "not tables"


class CostRaises(Slave):
    """Written for one kind of block, asked about another."""

    def cost(self, block, power="minimise"):
        return float(block.n_patterns)


class CostOfAPowerRaises(Slave):
    def cost(self, block, power="minimise"):
        return {"minimise": 1.0, "marginals": 2.0}[power]


class NegativeCost(Slave):
    def cost(self, block, power="minimise"):
        return -1.0


class RefusesWithException(Slave):
    def refuses(self, block):
        if not isinstance(block, gm.Table):
            raise TypeError("tables only")


class SinglePrecisionMinima(Slave):
    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        return labels, value.astype(np.float32).astype(float)


class OutOfRange(Slave):
    """Labels count from one."""

    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        return labels + 1, value


class WritesTheta(Slave):
    """Normalises in place."""

    def minimise(self, block, theta, w):
        low = np.where(np.isfinite(theta), theta, 0.0).min(axis=2, keepdims=True)
        theta -= low
        labels, value = super().minimise(block, theta, w)
        return labels, value + low.sum(axis=(1, 2))


class Hungarian(primal_cases.Hungarian):
    """Right, with min-marginals by one assignment for each label."""

    name = "planted"

    def refuses(self, block):
        return None if isinstance(block, AllDifferent) else "not all-different"

    def min_marginals(self, block, theta, w):
        out = np.empty_like(theta)
        for i, label in np.ndindex(theta.shape[1:]):
            fixed = theta.copy()
            fixed[:, i] = np.inf
            fixed[:, i, label] = theta[:, i, label]
            out[:, i, label] = self.minimise(block, fixed, w)[1]
        return out

    def examples(self, rng):
        return [(AllDifferent([[0, 1, 2], [3, 1, 0]]).bind(np.full(4, 3)), {})]

    def large_examples(self, rng):
        return [(AllDifferent([np.arange(14)]).bind(np.full(14, 14)), {})]


class GreedyWhenLarge(Hungarian):
    """Exact for a few variables only: enumeration does not see it."""

    min_marginals = None

    def minimise(self, block, theta, w):
        if block.arity < 8:
            return super().minimise(block, theta, w)
        left, labels = theta.copy(), np.zeros(theta.shape[:2], np.int64)
        for i in range(block.arity):
            labels[:, i] = left[:, i].argmin(axis=1)
            left[np.arange(len(left)), :, labels[:, i]] = np.inf
        return labels, np.take_along_axis(theta, labels[:, :, None], axis=2).sum(axis=(1, 2))


class MarginalsOffWhenLarge(Hungarian):
    def min_marginals(self, block, theta, w):
        found = super().min_marginals(block, theta, w)
        return found + (1e-6 if block.arity > 8 else 0.0)


class CostTooLow(Hungarian):
    """Min-marginals that are said to cost as much as minima, and take 196 times as long."""

    def cost(self, block, power="minimise"):
        return 1.0


class ProposesTheCheapest(Hungarian):
    """Each variable's cheapest label, whether others take it or not."""

    def propose(self, block, theta, w):
        return theta.argmin(axis=2)


class ProposesRight(Hungarian):
    def propose(self, block, theta, w):
        return self.minimise(block, theta, w)[0]


class Repairs(AllDifferent):
    """Keeps the first of each label, and gives the others what is left."""

    def repair(self, x, w):
        fixed = x.copy()
        for m, labels in enumerate(x):
            free = [label for label in range(self.n_labels) if label not in labels]
            for i in range(1, len(labels)):
                if labels[i] in labels[:i]:
                    fixed[m, i] = free.pop()
        return fixed

    @classmethod
    def examples(cls, rng):
        return [(cls([[0, 1, 2], [3, 1, 0]]).bind(np.full(4, 3)), {})]


class RepairsBadly(Repairs):
    """Changes one of the repeated labels only."""

    name = "planted"

    def repair(self, x, w):
        return np.where(np.arange(x.shape[1]) == 0, (x + 1) % self.n_labels, x)


class LateWhenLarge(Greedy):
    """Prepares for most of a second, if there is much to prepare."""

    def run(self, problem):
        super().run(problem)
        end = time.thread_time() + 0.7
        while problem.crf.n_vars > 20 and time.thread_time() < end:
            self.unary(problem)


class HighBoundWhenLarge(Greedy):
    def bound(self, problem):
        return super().bound(problem) + (1e4 if problem.crf.n_vars > 20 else 0.0)


PLANTED = [
    (IgnoresStop, "check_no_time_no_work", "took more than .* s in 10 runs with time_limit=0.0"),
    (AsksTooSeldom, "check_no_time_no_work", "with time_limit=0.02"),
    (OffersNothing, "check_bound_minimum_energy", "offers no labelling: call problem.offer"),
    (RoundsItsBound, "check_bound_minimum_energy", "above the minimum"),
    (SinglePrecision, "check_bound_minimum_energy", "above the minimum"),
    (NegativeLabels, "check_bound_minimum_energy", "are no states 0..L-1"),
    (LabelsFromOne, "check_bound_minimum_energy", ""),
    (SeededByTheClock, "check_same_seed_same_answer", "and then"),
    (RefusesByCrash, "check_has_examples", r"refuses\(crf\) raised IndexError"),
    (RefusesWithTrue, "check_has_examples", r"refuses\(crf\) returns False, expected None or"),
    (WritesUnary, "check_the_model_is_untouched", r"changed \(.*model: unary"),
    (ChangesTheModel, "check_the_model_is_untouched", r"changed \(.*model: unary"),
    (ChangesABlock, "check_the_model_is_untouched", r"changed \(block 0, table: values"),
    (CostRaises, "check_accepts_its_examples", r"cost\(.*'minimise'\) raised AttributeError"),
    (CostOfAPowerRaises, "check_accepts_its_examples", r"'min_marginals'\) raised KeyError"),
    (NegativeCost, "check_accepts_its_examples", "is -1.0, expected a number >= 0"),
    (RefusesWithException, "check_accepts_its_examples", r"refuses\(.*\) raised TypeError"),
    (SinglePrecisionMinima, "check_matches_enumeration", "value: .* expected"),
    (OutOfRange, "check_values_are_energies", "labels out of range"),
    (WritesTheta, "check_theta_is_untouched", "theta was written to"),
    (GreedyWhenLarge, "check_large_minima", "a labelling costs less than the minimum"),
    (MarginalsOffWhenLarge, "check_large_minima", "least min-marginal of each member"),
    (ProposesTheCheapest, "check_proposals_are_feasible", "propose breaks a hard constraint"),
    (CostTooLow, "check_cost_of_powers", "times as long as minimise, cost says 1"),
    (LateWhenLarge, "check_large_models", "by the solver 'planted' with time_limit"),
    (HighBoundWhenLarge, "check_large_models", "the bound .* lies above the energy"),
]


@pytest.mark.parametrize("right", [Greedy, Covers, Slave, Hungarian, ProposesRight])
def test_without_a_mistake_they_pass(right):
    assert [row for row in run_checks(right()) if not row[2]] == []


@pytest.mark.parametrize(
    ("wrong", "caught_by", "says"), PLANTED, ids=lambda part: getattr(part, "__name__", "")
)
def test_a_planted_mistake_is_caught(wrong, caught_by, says):
    thing = wrong()
    with loopback():
        registry.add(thing, owner="gardener")
        one = next(c for c in gm.testing.checks_for(thing) if c.name == caught_by)
        told = f"{caught_by} failed for the {thing.registry_kind} 'planted' .plugin 'gardener'"
        with pytest.raises(AssertionError, match=f"{told}.*{says}"):
            one(thing)


def test_repairs_that_break_constraints_are_caught():
    gm.testing.check(Repairs)
    with pytest.raises(AssertionError, match=r"check_repairs_are_feasible .* repair breaks a hard"):
        gm.testing.check(RepairsBadly)


@pytest.mark.parametrize("wrong", [Greedy, Covers, Slave])
def test_a_class_in_place_of_an_object_is_told(wrong):
    expected = f"expected an object of the class {wrong.__name__}, got the class itself; pass"
    for call in (gm.testing.check, run_checks):
        with pytest.raises(TypeError, match=expected):
            call(wrong)
    with pytest.raises(gm.PluginError, match=f"is a class; expected an object, {wrong.__name__}"):
        gm.register(wrong)


@pytest.mark.parametrize("other", [gm, gm.CRF(2, 2), "potts", gm.SlaveGroup, None])
def test_what_cannot_be_registered_is_told(other):
    with pytest.raises(TypeError, match=r"expected a class derived from .*run_checks\(name\)"):
        gm.testing.check(other)

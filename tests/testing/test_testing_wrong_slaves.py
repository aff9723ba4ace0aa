"""The kit on deliberately wrong slave solvers and slave groups: each is caught by the check that
is meant for it.
"""

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.testing import GroupCase, check, checks_for


def failing(thing):
    """Names of the checks that a thing fails."""
    found = set()
    for one in checks_for(thing):
        try:
            one(thing)
        except AssertionError:
            found.add(one.name)
        except gm.testing.NotApplicable:
            continue
    return found


def named(thing, name):
    """One of the thing's checks."""
    return next(one for one in checks_for(thing) if one.name == name)


class Reference(gm.SlaveSolver):
    """A right solver, written plainly; the wrong ones differ from it in one thing each."""

    name = "reference"

    def prepare(self, block, w):
        return block.table(w)

    def totals(self, block, theta, table):
        m, k, size = theta.shape
        for i in range(k):
            table = table + theta[:, i].reshape((m,) + (1,) * i + (size,) + (1,) * (k - 1 - i))
        return table

    def minimise(self, block, theta, w):
        total = self.totals(block, theta, w)
        flat = total.reshape(len(block), int(np.prod(total.shape[1:])))
        best = self.choose(flat)
        return np.stack(np.unravel_index(best, total.shape[1:]), axis=1), flat[
            np.arange(len(block)), best
        ]

    def choose(self, flat):
        return flat.argmin(axis=1)

    def examples(self, rng):
        edges = [[0, 1], [1, 2], [2, 0]]
        table = np.where(rng.random((2, 2, 3, 2)) < 0.2, np.inf, rng.normal(size=(2, 2, 3, 2)))
        table[:, 0, 0, 0] = 0.0
        return [
            (
                gm.LearntTable(edges, symmetric=False).bind(np.full(3, 3)),
                {"pair": rng.normal(size=(3, 3))},
            ),
            (gm.Potts(edges, rng.normal(size=3)).bind(np.array([2, 3, 2])), {}),
            (gm.Table([[0, 1, 2], [3, 1, 2]], table).bind(np.array([2, 3, 2, 2])), {}),
        ]

    def refuses(self, block):
        return "ragged" if isinstance(block, gm.RaggedBlock) else None


class WithPowers(Reference):
    name = "reference with powers"

    def min_marginals(self, block, theta, w):
        total = self.totals(block, theta, w)
        axes = set(range(1, total.ndim))
        return np.stack([total.min(axis=tuple(axes - {i + 1})) for i in range(block.arity)], axis=1)

    def log_partition(self, block, theta, w, temperature):
        total = self.totals(block, theta, w)
        flat = total.reshape(len(block), int(np.prod(total.shape[1:])))
        low = np.where(np.isfinite(flat.min(axis=1)), flat.min(axis=1), 0.0)
        weight = np.exp(-(flat - low[:, None]) / temperature)
        with np.errstate(divide="ignore"):
            value = low - temperature * np.log(weight.sum(axis=1))
        joint = (weight / np.maximum(weight.sum(axis=1), 1e-300)[:, None]).reshape(total.shape)
        axes = set(range(1, total.ndim))
        marginals = np.stack(
            [joint.sum(axis=tuple(axes - {i + 1})) for i in range(block.arity)], axis=1
        )
        return value, marginals, block.expected_features(joint)


class SecondBest(Reference):
    """Wrong argmin, right value."""

    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        labels[:, 0] = np.where(
            np.isfinite(theta[:, 0, 1]), 1 - np.minimum(labels[:, 0], 1), labels[:, 0]
        )
        return labels, value


class WrongValue(Reference):
    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        return labels, value + 1e-3


class IgnoresTheClique(Reference):
    """Takes each variable's own minimum: value and labels agree, but are not minimal."""

    def minimise(self, block, theta, w):
        labels = theta.argmin(axis=2)
        return labels, self.totals(block, theta, w)[(np.arange(len(block)), *labels.T)]


class WritesTheta(Reference):
    def minimise(self, block, theta, w):
        answer = super().minimise(block, theta, w)
        theta[:, 0] += 1.0
        return answer


class InfinityAsBillion(Reference):
    def minimise(self, block, theta, w):
        return super().minimise(block, np.where(np.isinf(theta), 1e9, theta), w)


class NotANumber(Reference):
    """Subtracts the minimum of each row first: inf - inf."""

    def minimise(self, block, theta, w):
        low = theta.min(axis=2, keepdims=True)
        with np.errstate(invalid="ignore"):
            labels, value = super().minimise(block, theta - low, w)
        return labels, value + low.sum(axis=(1, 2))


class TiesByBatch(Reference):
    """The first of equal minima alone, the last in a batch."""

    def choose(self, flat):
        last = flat.shape[1] - 1 - flat[:, ::-1].argmin(axis=1)
        return flat.argmin(axis=1) if len(flat) == 1 or np.isinf(flat.min(axis=1)).any() else last


class TiesByChance(Reference):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def choose(self, flat):
        order = self.rng.permutation(flat.shape[1])
        return order[flat[:, order].argmin(axis=1)]


class ForgetsZero(Reference):
    """An early exit that forgets the clique's own energy."""

    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        return labels, np.where(theta.any(axis=(1, 2)), value, 0.0)


class CrashesWhenEmpty(Reference):
    def choose(self, flat):
        return np.array([row.argmin() for row in np.split(flat, len(flat))])


class HighRelaxation(Reference):
    exact = False

    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        return labels, value + 0.1


class LowRelaxation(Reference):
    """A right one: bounds from below, of a concave function with the same slopes."""

    exact = False

    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        return labels, value - 0.1


class RefusesItsExamples(Reference):
    def refuses(self, block):
        return "not today" if block.arity == 3 else None


class NoExamples(Reference):
    def examples(self, rng):
        return []

    def refuses(self, block):
        return "everything"


class WrongMinMarginals(WithPowers):
    """Forgets the cost of the label itself."""

    def min_marginals(self, block, theta, w):
        found = super().min_marginals(block, theta, w)
        return np.where(np.isfinite(theta), found - np.where(np.isfinite(theta), theta, 0), found)


class WrongMember(WithPowers):
    """Answers for the first member, whichever is asked for."""

    def member_marginals(self, block, theta, w, member):
        return self.min_marginals(block, theta, w)[:, 0]


class WrongTemperature(WithPowers):
    def log_partition(self, block, theta, w, temperature):
        return super().log_partition(block, theta, w, 1.1 * temperature)


class WrongExpectedFeatures(WithPowers):
    def log_partition(self, block, theta, w, temperature):
        value, marginals, features = super().log_partition(block, theta, w, temperature)
        return value, marginals, {name: 1.1 * f for name, f in features.items()}


class HighSoftBound(WithPowers):
    soft_exact = False

    def log_partition(self, block, theta, w, temperature):
        value, marginals, features = super().log_partition(block, theta, w, temperature)
        return value + 0.01, marginals, features


class LowSoftBound(WithPowers):
    soft_exact = False

    def log_partition(self, block, theta, w, temperature):
        value, marginals, features = super().log_partition(block, theta, w, temperature)
        return value - 0.01, marginals, features


class SoftNotANumber(WithPowers):
    """The usual shift by the minimum, where the minimum is inf."""

    def log_partition(self, block, theta, w, temperature):
        value, marginals, features = super().log_partition(block, theta, w, temperature)
        return np.where(np.isinf(value), np.nan, value), marginals, features


@pytest.mark.parametrize(
    "solver",
    [Reference(), WithPowers(), LowRelaxation(), LowSoftBound()],
    ids=lambda s: type(s).__name__,
)
def test_right_solvers_pass(solver):
    assert failing(solver) == set()


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (SecondBest, "check_values_are_energies"),
        (SecondBest, "check_indicators_are_supergradients"),
        (SecondBest, "check_features_are_supergradients"),
        (WrongValue, "check_matches_enumeration"),
        (IgnoresTheClique, "check_matches_enumeration"),
        (WritesTheta, "check_theta_is_untouched"),
        (InfinityAsBillion, "check_infinity_stays_exact"),
        (NotANumber, "check_infinity_stays_exact"),
        (TiesByBatch, "check_batch_equals_one_by_one"),
        (TiesByChance, "check_repeatable"),
        (ForgetsZero, "check_ties_and_zeros"),
        (CrashesWhenEmpty, "check_empty_batch"),
        (HighRelaxation, "check_matches_enumeration"),
        (RefusesItsExamples, "check_accepts_its_examples"),
        (NoExamples, "check_has_examples"),
        (WrongMinMarginals, "check_min_marginals"),
        (WrongMember, "check_member_marginals"),
        (WrongTemperature, "check_log_partition"),
        (WrongExpectedFeatures, "check_log_partition"),
        (HighSoftBound, "check_log_partition"),
        (SoftNotANumber, "check_log_partition_with_infinity"),
    ],
)
def test_wrong_solvers_are_caught(wrong, caught_by):
    with pytest.raises(AssertionError, match=f"{caught_by} failed for the slave solver 'reference"):
        named(wrong(), caught_by)(wrong())


@pytest.mark.parametrize(
    ("wrong", "only"),
    [
        (TiesByBatch, {"check_batch_equals_one_by_one"}),
        (CrashesWhenEmpty, {"check_empty_batch"}),
        (InfinityAsBillion, {"check_infinity_stays_exact"}),
        (WrongExpectedFeatures, {"check_log_partition"}),
        (WrongMinMarginals, {"check_min_marginals"}),
        (WrongMember, {"check_member_marginals"}),
    ],
)
def test_a_single_fault_is_told_by_a_single_check(wrong, only):
    """The report points at the fault."""
    assert failing(wrong()) == only


# ---------------------------------------------------------------------- groups


def group_of(kind=gm.CliqueGroup):
    rng = np.random.default_rng(1)
    block = gm.LearntTable([[0, 1], [1, 2], [2, 0]], symmetric=False).bind(np.full(3, 3))
    return kind(block, Reference(), np.arange(0, 10, 3)), {"pair": rng.normal(size=(3, 3))}


class HalfFeatures(gm.CliqueGroup):
    def features(self, result):
        return {name: 0.5 * value for name, value in super().features(result).items()}

    def slave_features(self, result):
        return {name: 0.5 * value for name, value in super().slave_features(result).items()}


class UnequalSlaveFeatures(gm.CliqueGroup):
    def slave_features(self, result):
        return {name: 2.0 * value for name, value in super().slave_features(result).items()}


class FlippedIndicators(gm.CliqueGroup):
    def solve(self, theta, prepared):
        result = super().solve(theta, prepared)
        return gm.SlaveResult(
            result.ind.reshape(-1, 3)[:, ::-1].ravel(), result.value, result.labels
        )


class FractionalIndicators(gm.CliqueGroup):
    def solve(self, theta, prepared):
        result = super().solve(theta, prepared)
        return gm.SlaveResult(0.9 * result.ind + 0.1 / 3, result.value, result.labels)


class SharedBuffer(gm.CliqueGroup):
    """All results share one array."""

    def solve(self, theta, prepared):
        result = super().solve(theta, prepared)
        if not hasattr(self, "buffer"):
            self.buffer = np.empty(len(theta))
        self.buffer[:] = result.ind
        return gm.SlaveResult(self.buffer, result.value, result.labels)


class TakesTooMany(gm.CliqueGroup):
    def take(self, index):
        return gm.CliqueGroup(self.block, self.solver, self.offsets)


def keep(kind):
    """`take` of the wrong kind again, so that its parts are as wrong as the whole."""
    kind.take = lambda self, index: kind(self.block.take(index), self.solver, self.offsets)
    return kind


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (HalfFeatures, "check_features_are_supergradients"),
        (UnequalSlaveFeatures, "check_slave_features_sum_to_features"),
        (keep(FlippedIndicators), "check_indicators_are_supergradients"),
        (FractionalIndicators, "check_indicators_are_zero_one"),
        (SharedBuffer, "check_repeatable"),
        (TakesTooMany, "check_batch_equals_one_by_one"),
        (TakesTooMany, "check_empty_batch"),
    ],
)
def test_wrong_groups_are_caught(wrong, caught_by):
    right, w = group_of()
    assert failing(GroupCase(right, w)) == set()
    thing = GroupCase(group_of(wrong)[0], w)
    with pytest.raises(AssertionError, match=f"{caught_by} failed for the slave group"):
        named(thing, caught_by)(thing)


def test_half_features_are_told_by_the_weights_alone():
    group, w = group_of(keep(HalfFeatures))
    assert failing(GroupCase(group, w)) == {"check_features_are_supergradients"}


def test_check_takes_a_group_with_weights():
    check(*group_of())
    group, w = group_of(HalfFeatures)
    with pytest.raises(
        AssertionError,
        match=r"check_features_are_supergradients failed for the slave group 'HalfFeatures'",
    ):
        check(group, weights=w)

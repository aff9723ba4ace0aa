"""The kit on deliberately wrong potentials, losses and decompositions."""

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.testing import MarkedClique, checks_for


def assert_caught(thing, name):
    one = next(c for c in checks_for(thing) if c.name == name)
    with pytest.raises(
        AssertionError, match=f"{name} failed for the {thing.registry_kind} {thing.name!r}"
    ):
        one(thing)


def assert_clean(thing):
    for one in checks_for(thing):
        try:
            one(thing)
        except gm.testing.NotApplicable:
            continue


# ---------------------------------------------------------------------- potentials


class Right(gm.Block):
    """h(x) = w . z_c [a != b] + 0.5 [a = 0], and a = b = 2 is forbidden."""

    name = "right"
    per_clique = ("inputs",)

    def __init__(self, edges, inputs):
        super().__init__(edges)
        self.inputs = np.asarray(inputs, float)

    def segments(self):
        return {"w": self.inputs.shape[1:]}

    def _differ(self, x):
        return (x[:, 0] != x[:, 1]).astype(float)

    def energy(self, x, w):
        hard = np.where((x == 2).all(axis=1), np.inf, 0.0)
        return self._differ(x) * (self.inputs @ w["w"]) + 0.5 * (x[:, 0] == 0) + hard

    def features(self, x, weight=None):
        d = self._differ(x)
        return {"w": (d if weight is None else d * weight) @ self.inputs}

    def clique_features(self, x):
        return {"w": self._differ(x)[:, None] * self.inputs}

    @classmethod
    def examples(cls, rng):
        return [
            (
                cls([[0, 1], [1, 2], [2, 3]], rng.normal(size=(3, 2))).bind(np.array([3, 3, 3, 2])),
                {"w": rng.normal(size=2)},
            )
        ]


class NonLinear(Right):
    def energy(self, x, w):
        return super().energy(x, {"w": np.abs(w["w"])})


class WrongFeatures(Right):
    def features(self, x, weight=None):
        return {"w": super().features(x, weight)["w"] + 0.1 * len(self)}


class IgnoresWeight(Right):
    def features(self, x, weight=None):
        return super().features(x)


class WrongCliqueFeatures(Right):
    def clique_features(self, x):
        return {"w": np.abs(self.inputs)}


class WrongSegments(Right):
    def segments(self):
        return {"w": (2,), "bias": ()}


class Billion(Right):
    def energy(self, x, w):
        return np.minimum(super().energy(x, w), 1e9)


class InfinityTimesWeight(Right):
    """A hard constraint that a weight of zero would switch off."""

    def energy(self, x, w):
        soft = Right.energy(self, np.where((x == 2).all(axis=1)[:, None], 0, x), w)
        return np.where((x == 2).all(axis=1) & (w["w"][0] != 0), np.inf, soft)


class TakeForgets(Right):
    """An attribute with a leading M is not in `per_clique`."""

    per_clique = ()

    def energy(self, x, w):
        return self._differ(x) * (
            self.inputs[: len(x)] @ w["w"] if len(x) <= len(self.inputs) else w["w"][0]
        )

    def features(self, x, weight=None):
        d = self._differ(x)
        return {"w": (d if weight is None else d * weight) @ self.inputs[: len(x)]}


class WrongTable(Right):
    def table(self, w):
        return super().table(w).swapaxes(1, 2)


class WrongPairwise(Right):
    """Claims to be Potts."""

    def pairwise(self, w):
        form = super().pairwise(w)
        return gm.PairwiseForm(form.values, form.start, form.stride, form.scale, kind=1)


class AcceptsRepeats(Right):
    def _check_distinct(self):
        return None


class WritesLabels(Right):
    def energy(self, x, w):
        value = super().energy(x, w)
        x[:] = 0
        return value


class Unexemplified(Right):
    examples = None


def test_a_right_potential_passes():
    assert_clean(Right)
    # a bound block will do as well
    gm.testing.check(Right.examples(np.random.default_rng(0))[0][0])


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (NonLinear, "check_energy_is_linear_in_w"),
        (NonLinear, "check_energy_is_const_plus_w_features"),
        (WrongFeatures, "check_energy_is_const_plus_w_features"),
        (IgnoresWeight, "check_weighted_features_are_linear"),
        (WrongCliqueFeatures, "check_clique_features_sum_to_features"),
        (WrongSegments, "check_features_fit_segments"),
        (Billion, "check_infinity_is_exact"),
        (InfinityTimesWeight, "check_infinity_is_exact"),
        (TakeForgets, "check_take"),
        (WrongTable, "check_table_equals_energies"),
        (WrongPairwise, "check_pairwise_equals_table"),
        (AcceptsRepeats, "check_bind_refuses_bad_variables"),
        (WritesLabels, "check_inputs_are_untouched"),
        (Unexemplified, "check_has_examples"),
    ],
)
def test_wrong_potentials_are_caught(wrong, caught_by):
    assert_caught(wrong, caught_by)


# ---------------------------------------------------------------------- losses


class RightLoss(gm.Loss):
    """Counts wrong pairs of neighbours (an own hypergraph): Delta = sum over observed pairs [a,
    b not both right].
    """

    name = "pairs"
    extra = 0.0

    def _pairs(self, crf, observed):
        return [(v, v + 1) for v in range(crf.n_vars - 1) if observed[v] and observed[v + 1]]

    def value(self, crf, x, truth, observed):
        return float(
            sum(x[a] != truth[a] or x[b] != truth[b] for a, b in self._pairs(crf, observed))
        )

    def blocks(self, crf, truth, observed):
        pairs = self._pairs(crf, observed)
        tables = []
        for a, b in pairs:
            table = -np.ones((crf.n_states[a], crf.n_states[b]))
            table[truth[a], truth[b]] = 0.0
            tables.append(table)
        return [gm.Table(np.array(pairs), tables)] if pairs else []


class NotZeroAtTruth(RightLoss):
    def value(self, crf, x, truth, observed):
        return super().value(crf, x, truth, observed) + 0.5


class Negative(RightLoss):
    def value(self, crf, x, truth, observed):
        return -super().value(crf, x, truth, observed)


class SignNotTurned(RightLoss):
    def blocks(self, crf, truth, observed):
        blocks = super().blocks(crf, truth, observed)
        for block in blocks:
            block.values = -block.values
        return blocks


class WrongConstant(RightLoss):
    def constant(self, crf, truth, observed):
        return 1.0


class CountsHidden(RightLoss):
    def _pairs(self, crf, observed):
        return super()._pairs(crf, np.ones(crf.n_vars, bool))


class BringsWeights(RightLoss):
    def blocks(self, crf, truth, observed):
        return [*super().blocks(crf, truth, observed), gm.Potts([[0, 1]], weight="margin")]


class ChangesTheModel(RightLoss):
    def augment(self, crf, truth, observed=None):
        augmented = super().augment(crf, truth, observed)
        crf.unary += 1.0
        return augmented


def test_right_losses_pass():
    assert_clean(RightLoss)
    gm.testing.check(gm.Hamming(2.0))  # an object with parameters will do as well


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (NotZeroAtTruth, "check_zero_at_the_truth"),
        (Negative, "check_never_negative"),
        (WrongConstant, "check_augmented_energy_is_energy_minus_delta"),
        (SignNotTurned, "check_augmented_energy_is_energy_minus_delta"),
        (SignNotTurned, "check_loss_augmented_minimum"),
        (CountsHidden, "check_hidden_variables_are_ignored"),
        (BringsWeights, "check_blocks_are_fixed"),
        (ChangesTheModel, "check_the_model_is_untouched"),
        (WrongConstant, "check_loss_augmented_minimum"),
    ],
)
def test_wrong_losses_are_caught(wrong, caught_by):
    assert_caught(wrong, caught_by)


# ---------------------------------------------------------------------- decompositions


def per_clique(crf, power=None):
    return gm.decompose(crf, "per-clique", power)


class LeavesOut(gm.Decomposition):
    name = "leaves out"

    def decompose(self, crf, power=None):
        slaves = per_clique(crf, power)
        groups = list(slaves.groups)
        if isinstance(groups[0], gm.CliqueGroup) and groups[0].n > 1:
            groups[0] = groups[0].take(np.arange(1, groups[0].n))
        elif len(groups) > 1:
            groups = groups[1:]
        return gm.Slaves(crf, groups)


class CountsTwice(gm.Decomposition):
    name = "counts twice"

    def decompose(self, crf, power=None):
        groups = per_clique(crf, power).groups
        return gm.Slaves(crf, [*groups, groups[0].take(np.arange(1))])


class Halves(gm.Decomposition):
    """Sums are right, but every clique of tables is in two slaves."""

    name = "halves"

    def decompose(self, crf, power=None):
        if not all(isinstance(b, (gm.Table, MarkedClique)) for b in crf.blocks):
            raise ValueError("tables only")
        half = gm.CRF(crf.n_states)
        half.unary, half.constant = crf.unary, crf.constant
        for block in crf.blocks:
            for _ in range(2):
                half.add(self.halved(block))
        return gm.Slaves(crf, per_clique(half, power).groups)

    def halved(self, block):
        other = block.take(np.arange(len(block)))
        attribute = "values" if isinstance(block, gm.Table) else "tables"
        setattr(other, attribute, 0.5 * getattr(block, attribute))
        return other


class WrongCount(gm.Decomposition):
    name = "wrong count"

    def decompose(self, crf, power=None):
        slaves = per_clique(crf, power)
        slaves.count = np.ones(slaves.n_coords)
        return slaves


class HighBound(gm.Decomposition):
    name = "high bound"

    def decompose(self, crf, power=None):
        class High(gm.Slaves):
            def constant(self, w):
                return super().constant(w) + 10.0

        return High(crf, per_clique(crf, power).groups)


class LacksPower(gm.Decomposition):
    name = "lacks power"

    def decompose(self, crf, power=None):
        return per_clique(crf)


class WrongProposal(gm.Decomposition):
    name = "wrong proposal"

    def decompose(self, crf, power=None):
        class Last(gm.Slaves):
            def proposals(self, results, mean):
                return [self.crf.n_states - 1]

        return Last(crf, per_clique(crf, power).groups)


class RefusesAll(gm.Decomposition):
    name = "refuses all"

    def decompose(self, crf, power=None):
        raise ValueError("not for me")


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        (LeavesOut, "check_slaves_sum_to_the_energy"),
        (LeavesOut, "check_copies_sum_to_the_clique"),
        (CountsTwice, "check_slaves_sum_to_the_energy"),
        (CountsTwice, "check_copies_sum_to_the_clique"),
        (WrongCount, "check_count"),
        (WrongCount, "check_slaves_sum_to_the_energy"),
        (HighBound, "check_bound_below_the_minimum"),
        (LacksPower, "check_power_is_granted"),
        (WrongProposal, "check_agreement_is_optimal"),
        (RefusesAll, "check_has_examples"),
    ],
)
def test_wrong_decompositions_are_caught(wrong, caught_by):
    assert_caught(wrong(), caught_by)


def test_copies_may_have_shares_of_a_clique():
    halves = Halves()
    next(c for c in checks_for(halves) if c.name == "check_copies_sum_to_the_clique")(halves)

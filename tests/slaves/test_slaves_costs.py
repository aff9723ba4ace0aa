"""Costs per power: who is chosen for which power, and that more powers never hurt."""

import numpy as np
import pytest
from core_cases import seeds
from primal_cases import AllDifferent, Hungarian

import gmlearn as gm
from gmlearn.registry import registry
from gmlearn.slaves.choose import choose_solver
from gmlearn.solvers.srmp import srmp_suits
from gmlearn.testing import loopback


class SlowMarginals(Hungarian):
    """One assignment for each label of each variable; asked or not, it counts."""

    asked = 0

    def min_marginals(self, block, theta, w):
        type(self).asked += 1
        out = np.empty_like(theta)
        for i, label in np.ndindex(theta.shape[1:]):
            fixed = theta + 1e3
            fixed[:, i, label] = theta[:, i, label]
            out[:, i, label] = self.minimise(block, fixed, w)[1] - 1e3 * (theta.shape[1] - 1)
        return out


class OldCost(SlowMarginals):
    """Written before powers had costs."""

    def cost(self, block):
        return 7.0


class StatedCost(SlowMarginals):
    def cost(self, block, power="minimise"):
        return 7.0 if power == "minimise" else 21.0


def all_different(n):
    return AllDifferent([np.arange(n)]).bind(np.full(n, n))


def test_a_power_without_a_stated_cost_is_worth_one_minimisation_a_label():
    block = all_different(4)
    for solver, cost in ((Hungarian(), 4.0**4), (OldCost(), 7.0)):
        assert solver.cost(block) == cost
        assert solver.cost(block, "min_marginals") == solver.cost(block, "log_partition")
        assert solver.cost(block, "min_marginals") == 16 * cost
    assert StatedCost().cost(block, "min_marginals") == 21.0


def test_a_group_says_what_it_can_afford():
    offsets = np.arange(0, 21, 4)
    group = gm.CliqueGroup(all_different(4), SlowMarginals(), offsets)
    assert group.affordable("min_marginals") and group.affordable("min_marginals", 16)
    assert not group.affordable("min_marginals", 15)
    assert not group.affordable("log_partition")
    assert not gm.CliqueGroup(all_different(4), Hungarian(), offsets).affordable("min_marginals")
    free = gm.FreeGroup(np.arange(3), offsets)
    assert free.cost() == free.cost("min_marginals") and free.affordable("min_marginals", 1)


class Cheap(StatedCost):
    """The cheapest minima, and the most expensive min-marginals."""

    name = "cheap"

    def cost(self, block, power="minimise"):
        return 1.0 if power == "minimise" else 100.0


def test_a_solver_is_chosen_by_the_cost_of_the_power_that_is_asked_for():
    block = all_different(4)
    with loopback():
        gm.register(StatedCost())
        gm.register(Cheap())
        assert choose_solver(block).name == "cheap"
        assert choose_solver(block, "min_marginals").name == "test-hungarian"


def test_the_choices_among_the_built_in_solvers():
    states = np.full(8, 8)
    with loopback():
        for power in (None, "min_marginals"):
            assert choose_solver(gm.Potts([[0, 1]]).bind(states), power).name == "potts-edge"
            assert choose_solver(gm.Truncated([[0, 1]]).bind(states), power).name == "pairwise-edge"
            table = gm.Table([[0, 1, 2]], np.zeros((8, 8, 8))).bind(states)
            assert choose_solver(table, power).name == "table"
        for solver in registry.objects("slave solver"):
            if solver.refuses(table) is None:
                assert solver.cost(table, "min_marginals") >= solver.cost(table)


def model(n, seed):
    rng = np.random.default_rng(seed)
    crf = gm.CRF(n, n).add_unary(rng.random((n, n)))
    chain = np.arange(n - 1)[:, None] + [0, 1]
    crf.add(gm.Pairwise(chain, table=0.1 * rng.random((n - 1, n, n))))
    crf.add(AllDifferent([np.arange(n)]))
    return crf


@pytest.mark.parametrize("kind", [SlowMarginals, OldCost])
def test_slow_min_marginals_keep_srmp_out(kind):
    crf = model(16, 0)
    with loopback():
        gm.register(kind())
        assert not srmp_suits(gm.decompose(crf))
    with loopback():
        gm.register(StatedCost())
        assert srmp_suits(gm.decompose(crf))


@pytest.mark.parametrize("seed", seeds(2, daily=1))
def test_more_powers_never_hurt(seed):
    """`auto` takes the same way with slow min-marginals as without them."""
    answers = []
    for kind in (Hungarian, SlowMarginals):
        with loopback():
            gm.register(kind())
            answers.append(gm.solve(model(16, seed)))
    assert answers[0].energy == answers[1].energy and answers[0].bound == answers[1].bound
    assert SlowMarginals.asked == 0

"""SRMP: bounds that rise and hold, decoding, its state as multipliers, and min-marginals of one
member.
"""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import KINDS, frustrated_cycle, impossible_model, minimum, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm
from gmlearn.master.srmp import SequentialMessages
from gmlearn.slaves import CliqueGroup, Enumeration
from gmlearn.solvers.exact import ascend
from gmlearn.solvers.problem import Options, Problem
from gmlearn.solvers.srmp import srmp_suits
from gmlearn.solvers.trws import PairwiseMessages


def messages_of(crf, w=None, seed=0):
    return SequentialMessages(
        gm.decompose(crf, "per-clique", "min_marginals"), crf.check_weights(w), seed
    )


@settings(deadline=None, max_examples=60, derandomize=True)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 500), coarse=st.booleans())
def test_bounds_rise_and_never_pass_the_minimum(kind, seed, coarse):
    crf, w = random_model(np.random.default_rng(seed), kind, coarse)
    best = minimum(crf, w)[0]
    messages, last = messages_of(crf, w, seed), -np.inf
    for _ in range(6):
        bound = messages.sweep() + crf.constant
        assert last - 1e-9 <= bound and (bound <= best + 1e-9 or best == np.inf)
        if bound == np.inf:
            return
        assert not np.isnan(messages.theta).any() and not np.isnan(messages.costs).any()
        assert crf.energy(messages.decode(), w) >= best - 1e-9
        last = bound


@settings(deadline=None, max_examples=40, derandomize=True)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 500), sweeps=st.integers(1, 4))
def test_the_state_is_a_reparametrisation_and_moves_to_multipliers_without_loss(kind, seed, sweeps):
    crf, w = random_model(np.random.default_rng(seed), kind)
    w, best = crf.check_weights(w), minimum(crf, w)[0]
    messages = messages_of(crf, w)
    for _ in range(sweeps):
        bound = messages.sweep() + crf.constant
    if bound == np.inf:
        return
    dual = messages.dual(w)
    assert np.abs(np.bincount(dual.coords, dual.lam, crf.n_coords)).max(initial=0.0) < 1e-9, (
        "multipliers sum to zero"
    )
    after = dual.round().bound
    assert after >= bound - 1e-8 and (after <= best + 1e-8 or best == np.inf)


@pytest.mark.parametrize("seed", range(6))
def test_trees_are_solved(seed):
    crf, w = random_model(np.random.default_rng(seed), "tree")
    messages = messages_of(crf, w)
    for _ in range(4):
        bound = messages.sweep()
    best = minimum(crf, w)[0]
    assert bound + crf.constant == pytest.approx(best) and crf.energy(
        messages.decode(), w
    ) == pytest.approx(best)


def test_it_settles_where_trws_does():
    rng = np.random.default_rng(3)
    crf = gm.CRF(30, 3).add_unary(rng.normal(size=(30, 3)))
    crf.add(gm.Potts(gm.grid_edges(5, 6), 0.7))
    sequential, pairwise = messages_of(crf), PairwiseMessages(crf, {})
    for _ in range(200):
        ours, theirs = sequential.sweep(), pairwise.sweep()
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_higher_orders_close_the_gap_of_a_frustrated_cycle():
    """Edges leave a gap on an odd cycle; the clique of the whole cycle does not."""
    crf = frustrated_cycle()
    loose = gm.solve(crf, solver="srmp")
    whole = gm.CRF(crf.n_states)
    table = np.array([crf.energy(x) for x in np.ndindex(*crf.n_states.tolist())]).reshape(
        crf.n_states
    )
    whole.add(gm.Table([np.arange(crf.n_vars)], table[None]))
    tight = gm.solve(whole, solver="srmp")
    assert (
        loose.gap > 0.1
        and tight.status is gm.Status.OPTIMAL
        and tight.energy == pytest.approx(minimum(crf)[0])
    )


def test_hard_contradictions_are_proved_where_the_relaxation_sees_them():
    crf = gm.CRF(3, 2)
    crf.add(gm.Table([[0, 1, 2]], np.where(np.arange(8).reshape(1, 2, 2, 2) < 4, np.inf, 0.0)))
    result = gm.solve(crf.clamp({0: 0}), solver="srmp")
    assert result.status is gm.Status.INFEASIBLE and result.energy == np.inf == result.bound
    unseen = gm.solve(impossible_model(), solver="srmp")
    assert (
        unseen.energy == np.inf and unseen.status is gm.Status.BOUND and not np.isnan(unseen.bound)
    )


class OneMember(Enumeration):
    """Enumeration that also knows the min-marginals of one member, and counts how often it is
    asked.
    """

    name = "one-member"
    asked = 0

    def member_marginals(self, block, theta, w, member):
        type(self).asked += 1
        return self.min_marginals(block, theta, w)[np.arange(len(block)), member]


@pytest.mark.parametrize("states", [[2, 3, 2, 4], [3, 3, 3, 3]])
def test_one_member_is_what_all_members_say_of_it(states):
    rng, states = np.random.default_rng(0), np.array(states)
    cliques = [[0, 1, 2], [3, 1, 0], [2, 3, 1]]
    block = gm.Table(cliques, [rng.normal(size=states[c]) for c in cliques]).bind(states)
    offsets = np.concatenate([[0], np.cumsum(states)])
    member = np.array([2, 0, 1])
    for solver in (Enumeration(), OneMember()):
        group = CliqueGroup(block, solver, offsets)
        theta = rng.normal(size=len(group.coords))
        prepared = group.prepare({})
        full, found = (
            group.min_marginals(theta, prepared),
            group.member_marginals(theta, prepared, member),
        )
        for m, place in enumerate(block.indptr[:-1] + member):
            expected = full[group.ptr[place] : group.ptr[place + 1]]
            assert np.allclose(found[m, : len(expected)], expected)
    assert OneMember.asked > 0


def test_one_seed_one_answer_and_other_orders_for_other_seeds():
    crf, w = random_model(np.random.default_rng(1), "high-order")
    orders = []
    for seed in (0, 0, 1):
        messages = messages_of(crf, w, seed)
        orders.append([(messages.sweep(), messages.order.tolist()) for _ in range(5)])
    assert orders[0] == orders[1] and [o for _, o in orders[0]] != [o for _, o in orders[2]]


def test_slaves_must_be_single_cliques():
    crf, w = random_model(np.random.default_rng(0), "pairwise")
    with pytest.raises(ValueError, match="SRMP works with one slave per clique"):
        SequentialMessages(gm.decompose(crf, "chains"), crf.check_weights(w))


@pytest.mark.parametrize("seed", range(5))
def test_ascent_with_larger_cliques_returns_the_state_of_its_best_bound(seed):
    crf, w = random_model(np.random.default_rng(seed), "high-order")
    problem = Problem(crf, crf.check_weights(w), Options())
    dual = ascend(problem)
    assert (
        dual.round().bound == pytest.approx(problem.bound, abs=1e-6)
        and "SRMP" in problem.decoded_from
    )
    assert problem.bound >= messages_of(crf, w).sweep() + crf.constant - 1e-9


class OnlyMinima(gm.SlaveSolver):
    """Minima of the stranger's potential in no time, and nothing else."""

    name = "only-minima"

    def cost(self, block):
        return 1.0

    def minimise(self, block, theta, w):
        return Enumeration().minimise(block, theta, Enumeration().prepare(block, w))


def test_auto_leaves_it_out_where_min_marginals_are_dear_or_coordinates_are_strange():
    crf = gm.CRF(4, 2)
    block = crf.add(gm.Table([[0, 1, 2], [1, 2, 3]], np.zeros((2, 2, 2, 2))))
    slaves = gm.decompose(crf, "auto")
    assert srmp_suits(slaves)
    dear = gm.Slaves(crf, [CliqueGroup(block, OnlyMinima(), crf.offsets)])
    assert not srmp_suits(dear)

    class Strange(gm.Slaves):
        """Slaves with coordinates of their own."""

        def indicators(self, labels):
            raise NotImplementedError

    assert not srmp_suits(Strange(crf, slaves.groups))

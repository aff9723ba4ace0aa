"""The ascent engine against its reference, and what holds of every mixture."""

import numpy as np
import pytest
from core_cases import random_model
from reference_mixture import ReferenceMixture

import gmlearn as gm
from gmlearn.master.mixture import Mixture
from gmlearn.model import WeightLayout

FROZEN = np.zeros(0)


def started(crf, w, decomposition):
    dual = gm.Dual(gm.decompose(crf, decomposition), w)
    first = dual.round()
    mixture = Mixture(dual, WeightLayout({}), size=64)
    mixture.begin(mixture.read(first.results, dual.share + dual.lam, FROZEN))
    return mixture, ReferenceMixture(dual, w, first.results)


@pytest.mark.parametrize("decomposition", ["per-clique", "chains", "trees"])
@pytest.mark.parametrize("kind", ["pairwise", "mixed", "high-order"])
def test_every_move_is_that_of_the_reference(kind, decomposition):
    """Twenty passes on three models: indicators and proximal centre agree to rounding."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        crf, w = random_model(rng, kind)
        mixture, reference = started(crf, w, decomposition)
        for t in range(20):
            inverse = 0.3 + 0.1 * (t % 4)
            for move in ("visit", "exchange", "exchange"):
                # line searches end in ties, which rounding would break in two ways
                noise = 0.1 * rng.normal(size=len(mixture.state.centre))
                mixture.state.centre += noise
                reference.shift_centre(noise)
                getattr(mixture, move)(FROZEN, inverse)
                getattr(reference, move)(inverse)
            if t % 3 == 2:
                mixture.move_centre(inverse, 0.5)
                reference.move_centre(inverse)
            y, centre = reference.arrays()
            np.testing.assert_allclose(mixture.state.y, y, atol=1e-7)
            np.testing.assert_allclose(mixture.state.centre, centre, atol=1e-7)


@pytest.mark.parametrize("size", [2, 3, 16])
def test_a_mixture_is_a_mixture_of_minimisers(size):
    """Shares are between 0 and 1, indicators and costs are those of the shares."""
    rng = np.random.default_rng(0)
    crf = gm.CRF(9, 3).add_unary(rng.normal(size=(9, 3)))
    crf.add(gm.Pairwise(gm.grid_edges(3, 3), table=rng.normal(size=(12, 3, 3))))
    dual = gm.Dual(gm.decompose(crf, "chains"), {})
    mixture = Mixture(dual, WeightLayout({}), size=size)
    first = dual.round()
    mixture.begin(mixture.read(first.results, dual.share + dual.lam, FROZEN))
    for _ in range(60):
        mixture.visit(FROZEN, 0.5)
        mixture.exchange(FROZEN, 0.5)
        state = mixture.state
        assert (state.share >= 0).all() and (state.share.sum(axis=1) <= 1 + 1e-9).all()
        per_variable = np.add.reduceat(state.y, np.arange(0, len(state.y), 3))
        np.testing.assert_allclose(per_variable, 1.0, atol=1e-9)
        np.testing.assert_allclose(state.mean, dual.slaves.mean(state.y), atol=1e-9)


def test_a_part_of_a_move_can_be_taken_back():
    rng = np.random.default_rng(1)
    crf = gm.CRF(5, 3)
    crf.add(gm.Unary(rng.normal(size=(5, 2)), "u"))
    crf.add(gm.LearntTable([[i, (i + 1) % 5] for i in range(5)], "pair"))
    layout = crf.layout
    dual = gm.Dual(gm.decompose(crf, "per-clique"), layout.split(np.zeros(layout.size)))
    mixture = Mixture(dual, layout)
    w = rng.normal(size=layout.size)
    dual.set_weights(layout.split(w))
    mixture.begin(mixture.minimise(dual.share + dual.lam, w))
    for _ in range(5):
        old, phi = [a.copy() for a in mixture.state.point], mixture.features()
        other = w + rng.normal(size=layout.size)
        dual.set_weights(layout.split(other))
        direction = mixture.visit(other, 0.7)
        new = [a.copy() for a in mixture.state.point]
        np.testing.assert_allclose(mixture.features() - phi, direction.features, atol=1e-6)
        mixture.settle(0.25, 0.0)
        for a, b, now in zip(old, new, mixture.state.point):
            np.testing.assert_allclose(now, a + 0.25 * (b - a), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_rise_to_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    crf = gm.CRF(16, 3).add_unary(rng.normal(size=(16, 3)))
    crf.add(gm.Pairwise(gm.grid_edges(4, 4), table=rng.normal(size=(24, 3, 3))))
    optimum = gm.solve(crf, solver="lp").bound
    bound = gm.solve(crf, solver="bcfw", tol=0.0, max_iter=60).history.bound[-1]
    assert optimum - 1e-3 * abs(optimum) <= bound

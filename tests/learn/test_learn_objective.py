"""The objective against enumeration: bounds, subgradients, and the truths that completions
leave.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from learn_cases import KINDS, objective_of, random_point, random_problem, true_hinge

import gmlearn as gm

seeds = st.integers(0, 10**6)
FEW = settings(deadline=None, max_examples=40)


def problem(seed, kind, latent=False, **options):
    rng = np.random.default_rng(seed)
    samples, chosen = random_problem(rng, kind, 2, int(rng.integers(2, 4)), latent, **options)
    objective = objective_of(samples, chosen)
    if latent:
        for batch in objective.batches:
            complete_by_enumeration(batch, rng.normal(size=objective.layout.size))
    return rng, objective


def complete_by_enumeration(batch, w):
    """Any feasible completion will do: here the cheapest at w."""
    from gmlearn.testing.brute_force import energy_table

    (sample,) = batch.samples
    table = energy_table(sample.crf.clamp(sample.labels, sample.observed), batch.layout.split(w))
    batch.set_truth(np.array(np.unravel_index(int(table.argmin()), table.shape)))


@FEW
@given(
    seeds, st.sampled_from(KINDS), st.sampled_from(["auto", "per-clique", "trees"]), st.booleans()
)
def test_objective_is_at_least_the_hinge_is_at_least_delta(seed, kind, decomposition, latent):
    rng, objective = problem(seed, kind, latent, decomposition=decomposition)
    w, lams = random_point(rng, objective)
    vertices = objective.vertices(w, lams)
    total = objective.regularization.value(w)
    for batch, vertex in zip(objective.batches, vertices):
        if not np.isfinite(batch.truth_fixed):
            assume(False)
        slave_hinge = batch.truth_energy(w) - vertex.value
        hinge, delta = true_hinge(batch, w)
        assert slave_hinge >= hinge - 1e-9
        assert hinge >= delta - 1e-9
        total += batch.weight * slave_hinge
    assert objective.value(w, vertices) == pytest.approx(total, rel=1e-12, abs=1e-12)


@FEW
@given(seeds)
def test_objective_of_one_slave_is_the_hinge(seed):
    """Where one slave holds a tree, F is the structured hinge itself."""
    rng, objective = problem(seed, "tree", loss=gm.Hamming(), decomposition="trees")
    w, _ = random_point(rng, objective)
    for batch, vertex in zip(objective.batches, objective.vertices(w)):
        assert batch.truth_energy(w) - vertex.value == pytest.approx(
            true_hinge(batch, w)[0], abs=1e-9
        )


def _value(objective, w, lams):
    return objective.value(w, objective.vertices(w, lams))


@FEW
@given(seeds, st.sampled_from(KINDS), st.booleans())
def test_subgradients_match_finite_differences(seed, kind, in_w):
    rng, objective = problem(seed, kind, regularizer=gm.L2(0.7))
    w, lams = random_point(rng, objective)
    dw, dlams = random_point(rng, objective)
    dw, dlams = (dw, [0 * d for d in dlams]) if in_w else (0 * dw, dlams)
    step = 1e-6
    ahead, here, back = (
        _value(objective, w + t * dw, [a + t * b for a, b in zip(lams, dlams)])
        for t in (step, 0.0, -step)
    )
    assume(abs(ahead - 2 * here + back) < 1e-9)  # the minimisers are unique: no kink here
    vertices = objective.vertices(w, lams)
    slope = float((objective.slope(vertices) + 0.7 * w) @ dw)
    for batch, vertex, d in zip(objective.batches, vertices, dlams):
        slope -= batch.weight * float(d @ (vertex.ind - vertex.mean[batch.dual.coords]))
    assert (ahead - back) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-6)


@FEW
@given(seeds, st.sampled_from(KINDS))
def test_subgradient_inequality_holds_everywhere(seed, kind):
    """F(z') >= F(z) + <g, z' - z>: also at kinks, also far away."""
    rng, objective = problem(seed, kind, regularizer=gm.NoRegularizer())
    w, lams = random_point(rng, objective)
    vertices = objective.vertices(w, lams)
    far, far_lams = random_point(rng, objective, 3.0)
    linear = objective.value(w, vertices) + float(objective.slope(vertices) @ (far - w))
    for batch, vertex, a, b in zip(objective.batches, vertices, lams, far_lams):
        linear -= batch.weight * float((b - a) @ vertex.ind)
    assert _value(objective, far, far_lams) >= linear - 1e-9


@FEW
@given(seeds, st.sampled_from(KINDS))
def test_vertex_is_linear_in_weights_and_multipliers(seed, kind):
    """value = fixed + w . features + <lambda, ind>: what bcfw and the cutting planes build on."""
    rng, objective = problem(seed, kind, loss=gm.Hamming())
    w, lams = random_point(rng, objective)
    batch = objective.batches[0]
    vertex = batch.vertex(w, lams[0])
    labels = vertex.ind.reshape(-1)
    assert np.isin(labels, (0.0, 1.0)).all()
    other, other_lams = random_point(rng, objective, 1e-7)
    moved = batch.vertex(w + other, lams[0] + other_lams[0])
    assume(np.array_equal(moved.ind, vertex.ind))
    expected = vertex.value + float(other @ vertex.features) + float(other_lams[0] @ vertex.ind)
    assert moved.value == pytest.approx(expected, abs=1e-10)

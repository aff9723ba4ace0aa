"""Many models at once: the same answers as one by one."""

import numpy as np
import pytest
from core_cases import KINDS, random_model

import gmlearn as gm


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_many_models_are_those_of_each(kind):
    models = [random_model(np.random.default_rng(seed), kind) for seed in range(5)]
    weights = models[0][1]
    model = gm.TrainedModel(dict(weights), 0.0)
    found = model.predict_many([crf for crf, _ in models])
    for (crf, _), result in zip(models, found):
        one = gm.solve(crf, weights)
        assert result.energy == pytest.approx(one.energy, abs=1e-9)
        assert result.bound <= one.energy + 1e-9
        if np.isfinite(result.energy):
            assert crf.energy(result.labels, weights) == pytest.approx(result.energy, abs=1e-9)


def test_chains_of_all_lengths_are_solved_at_once():
    rng = np.random.default_rng(0)
    crfs = []
    for n in [1, 2, 7, 1, 3] * 4:
        crf = gm.CRF(n, 3).add_unary(rng.normal(size=(n, 3)))
        crf.add(gm.LearntTable([[i, i + 1] for i in range(n - 1)] or np.zeros((0, 2), int)))
        crf.constant = float(n)
        crfs.append(crf)
    weights = {"pair": rng.normal(size=6)}
    found = gm.TrainedModel(weights, 0.0).predict_many(crfs)
    for crf, result in zip(crfs, found):
        one = gm.solve(crf, weights)
        np.testing.assert_array_equal(result.labels, one.labels)
        assert (result.energy, result.bound) == pytest.approx((one.energy, one.energy))
        assert result.status is gm.Status.OPTIMAL
    with pytest.raises(ValueError, match="pair"):
        gm.TrainedModel({}, 0.0).predict_many(crfs)


def test_joined_models_are_the_sum_of_their_parts():
    rng = np.random.default_rng(1)
    models = [random_model(rng, kind) for kind in ("pairwise", "mixed", "high-order", "binary")]
    union = gm.join([crf for crf, _ in models])
    weights = {"smooth": np.array(0.3), "weird": np.array(0.2)}
    for _ in range(20):
        parts = [rng.integers(0, crf.n_states) for crf, _ in models]
        total = sum(
            crf.energy(x, {n: weights[n] for n in crf.layout.shapes})
            for (crf, _), x in zip(models, parts)
        )
        assert union.energy(np.concatenate(parts), weights) == pytest.approx(total)

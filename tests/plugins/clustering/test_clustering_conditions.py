"""Sets from other conditions: aligned distances, folds by range, and weights by contrast."""

import numpy as np
import pytest
from gmlearn_clustering import (
    DistanceBank,
    ExemplarClusteringLearner,
    LDAPosterior,
    LDAProjection,
    MLCAProjection,
    range_folds,
)
from gmlearn_clustering.contrast import contrast_weights, contrasts
from gmlearn_clustering.crossfit import cross_fit
from gmlearn_clustering.distances import DimensionBank, PrecomputedBank
from gmlearn_clustering.metrics import squared_euclidean
from gmlearn_clustering.multiview import load_split
from gmlearn_clustering.scores import nearest_neighbour_accuracy

import gmlearn as gm

KINDS = (LDAProjection, LDAPosterior, MLCAProjection)


def points(seed=0, n=60):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    centres = 3 * np.random.default_rng(9).normal(size=(4, 5))
    return [centres[y] + rng.normal(size=(n, 5)), rng.normal(size=(n, 3))], y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("view", [0, None])
def test_aligned_distances_do_not_see_a_move_or_stretch_of_the_whole_set(kind, view):
    X, y = points()
    moved = [v * (1 + np.arange(v.shape[1])) + 7.0 for v in X]
    aligned, plain = kind(view, align=True).fit(X, y), kind(view).fit(X, y)
    assert np.allclose(aligned.transform(X), plain.transform(X))
    assert np.allclose(aligned.transform(moved), plain.transform(X))
    assert not np.allclose(plain.transform(moved), plain.transform(X), atol=0.1)
    assert aligned.label == plain.label.replace(kind.kind, f"aligned {kind.kind}")


def test_aligned_posterior_knows_the_classes_of_a_moved_set():
    (X, y), (new, truth) = points(), points(seed=1)
    moved = [v + 6.0 for v in new]
    banks = [DistanceBank([LDAPosterior(0, align=align)]).fit([X], [y]) for align in (False, True)]
    plain, aligned = (
        nearest_neighbour_accuracy(bank.cross_features(moved, X)[0], y, truth) for bank in banks
    )
    assert aligned >= 0.95 and plain < 0.8


def test_align_refuses_what_it_cannot_do():
    X, y = points()
    with pytest.raises(ValueError, match="align: expected True or False, got 'yes'"):
        LDAProjection(align="yes").fit(X, y)
    with pytest.raises(ValueError, match="X: aligned distances need a set of points, got 1"):
        LDAProjection(align=True).fit(X, y).transform([v[:1] for v in X])


def test_range_folds_keep_neighbouring_values_together():
    condition = np.array([5, 1, 2, 4, 3, 1, 5])
    assert range_folds(condition).tolist() == [2, 0, 0, 1, 1, 0, 2]
    assert range_folds(condition / 10, n_folds=5).tolist() == [4, 0, 1, 3, 2, 0, 4]
    for bad, settings, message in [
        ([1, 2, 2], {}, "condition: expected at least 3 different values for 3 folds, got 2"),
        (condition, {"n_folds": 2}, "n_folds"),
        ([[1, 2, 3]], {}, "condition"),
        ([1.0, np.nan, 2.0], {}, "condition: contains NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            range_folds(bad, **settings)


def test_folds_by_range_show_that_a_distance_does_not_extrapolate():
    """The points drift with the condition, ever faster: a fit on one range takes out the drift
    there, but not in the others.
    """
    rng = np.random.default_rng(0)
    condition, y = np.arange(180) % 9, np.arange(180) // 9 % 2
    X = np.stack([3.0 * y + condition**2 / 4.0, 1.0 * condition], axis=1) + 0.3 * rng.normal(
        size=(180, 2)
    )
    same = (y[:, None] == y) & ~np.eye(180, dtype=bool)

    def told_apart(folds):
        d = cross_fit(DistanceBank([LDAProjection(0)]), [[X]], [y], folds=[folds])[0].matrices[0]
        return d[y[:, None] != y].mean() / d[same].mean()

    assert told_apart(condition) > 1.3 * told_apart(range_folds(condition))


def test_learner_takes_folds():
    X, y = points()
    bank = DistanceBank([LDAProjection(0), (0, "l2")])
    by_range = [range_folds(X[0][:, 0])]
    samples = cross_fit(bank, [X], [y], folds=by_range)
    wanted = contrasts(samples, [y]).clip(0) ** 2
    learner = ExemplarClusteringLearner(bank, weighting="contrast")
    assert np.allclose(
        learner.fit([X], [y], by_range).weights_ / learner.weights_.sum(), wanted / wanted.sum()
    )
    assert not np.allclose(
        learner.fit([X], [y]).weights_ / learner.weights_.sum(), wanted / wanted.sum()
    )
    with pytest.raises(ValueError, match="folds: only banks with supervised distances"):
        ExemplarClusteringLearner().fit([X[0]], [y], by_range)


@pytest.mark.parametrize(
    "folds",
    [
        [np.arange(60) % 3] * 2,
        [np.arange(59) % 3],
        [np.arange(60) % 3 - 1],
        [np.arange(60) % 3 / 2],
    ],
)
def test_bad_folds(folds):
    X, y = points()
    with pytest.raises(ValueError, match="folds"):
        cross_fit(DistanceBank([LDAProjection(0)]), [X], [y], folds=folds)


def test_contrast_is_one_minus_the_mean_within_clusters():
    rng = np.random.default_rng(0)
    y = [np.array([2, 0, 1, 0, 0, 2, 1, 0]), np.array([0, 1, 1, 0, 1])]
    X = [rng.normal(size=(len(truth), 3)) + 4 * truth[:, None] * [1, 0, 0] for truth in y]
    same = [(t[:, None] == t) & ~np.eye(len(t), dtype=bool) for t in y]
    stacks = [np.stack([squared_euclidean(x[:, [i]], x[:, [i]]) for i in range(3)]) for x in X]
    # not symmetric
    stacks = [stack + 0.1 * np.triu(np.ones(stack.shape[1:]), 1) for stack in stacks]
    bank = PrecomputedBank().fit(stacks)
    wanted = (
        1
        - np.array(
            [np.concatenate([s[i][m] for s, m in zip(stacks, same)]).mean() for i in range(3)]
        )
        / bank.scale_
    )
    assert np.allclose(contrasts([bank.prepare(s) for s in stacks], y), wanted)
    by_dimension = DimensionBank().fit(X)
    within = np.concatenate([((x[:, None] - x) ** 2)[m] for x, m in zip(X, same)]).mean(axis=0)
    assert np.allclose(
        contrasts([by_dimension.prepare(x) for x in X], y), 1 - within / by_dimension.scale_
    )
    assert not contrasts([by_dimension.prepare(X[0])], [np.arange(8)]).any()


def test_weights_by_contrast():
    X, y = points()
    sample = np.hstack([*X, X[0][:, :1] + 0.5 * np.random.default_rng(2).normal(size=(60, 1))])
    prepared = DimensionBank().fit([sample]).prepare(sample)
    squared = contrasts([prepared], [y]).clip(0) ** 2
    w = contrast_weights([prepared], [y])
    np.testing.assert_allclose(w, squared / squared.sum())
    assert w[5:8].sum() <= 0.02 and (w[:5] > 0).all()
    half = np.where(np.arange(len(y)) % 2, y, -1)
    known = prepared.take(np.flatnonzero(half >= 0))
    np.testing.assert_allclose(
        contrast_weights([prepared], [half]), contrast_weights([known], [half[half >= 0]])
    )
    # clusters of single points tell nothing
    assert np.ptp(contrast_weights([prepared], [np.arange(60)])) == 0.0


def test_no_texture_descriptor_is_made_of_rounding():
    """Means that are 0 but for rounding became features of unit variance, and results differed
    from machine to machine.
    """
    from gmlearn_clustering.metrics import deviations
    from gmlearn_clustering.textures import texture_views

    images = np.random.default_rng(0).integers(0, 256, (12, 40, 40)).astype(float)
    for view, again in zip(texture_views(images), texture_views(images * (1.0 + 1e-13))):
        np.testing.assert_allclose(view / deviations(view), again / deviations(view), atol=1e-6)


@pytest.mark.parametrize("name", ["kth by scale", "kth far scales"])
def test_splits_by_scale_differ_in_their_test_points(tmp_path, name):
    """Each has scales of its own; far ones are not between those of training."""
    (tmp_path / "texture").mkdir()
    scale = np.repeat(np.arange(1, 10), 4)
    images = np.random.default_rng(0).integers(0, 256, (36, 16, 16)).astype(np.uint8)
    images[:, 0, 0] = np.arange(36)  # the last view counts grey values
    np.savez(
        tmp_path / "texture/kth_tips_gray_128.npz",
        images=images,
        labels=np.tile([0, 0, 1, 1], 9),
        scale=scale,
    )
    run = gm.Run(data=tmp_path)
    tests = set()
    for seed in range(5):
        split = load_split(run, name, seed)
        assert len(split.train_labels) + len(split.test_labels) == 36
        assert len(split.folds) == len(split.train_labels) and split.folds.max() >= 2
        tests.add(np.abs(split.test[-1]).sum())
    assert len(tests) == 5

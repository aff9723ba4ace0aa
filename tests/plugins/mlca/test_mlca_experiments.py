"""The experiments' thresholds, in their quick form, and the features they rest on."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gmlearn_mlca import SpectralMetric, delta_loss
from gmlearn_mlca.plugin import gmlearn_experiments
from gmlearn_mlca.segmentation import (
    border_contrast,
    colour_channels,
    gradient_histograms,
    multiscale_features,
    patch_features,
)
from gmlearn_mlca.segmentation_choice import validation_losses
from gmlearn_mlca.synthetic import two_layer_categories

import gmlearn as gm

DATA = Path(__file__).parents[4] / "shared" / "data"
EXPERIMENTS = {e.name: e for e in gmlearn_experiments()}


def test_synthetic_tables(tmp_path):
    run = EXPERIMENTS["mlca-synthetic"].run(gm.Run(name="mlca-synthetic", quick=True, out=tmp_path))
    run.write()
    for key, limit in (("same_size", 0.07), ("sizes_noise", 0.09), ("sizes_clean", 0.0)):
        assert run.values[f"{key}/MLCA/delta"] <= limit
        assert 2.8 <= run.values[f"{key}/Euclid/delta"] <= 3.2
        assert run.values[f"{key}/SpectralMetric/time_ratio"] > 1.0
    assert (tmp_path / "mlca_synthetic.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs the horses")
def test_segmentation_thresholds(tmp_path):
    run = EXPERIMENTS["mlca-segmentation"].run(
        gm.Run(name="mlca-segmentation", data=DATA, out=tmp_path)
    )
    values = run.values
    assert values["sift_colour/MLCA multivariate/rand"] <= 0.30
    assert values["sift_colour/MLCA multivariate/delta"] <= 1.30
    assert (
        abs(values["sift_colour/MLCA multivariate/rand"] - values["sift_colour/LDA + k-means/rand"])
        <= 0.01
    )
    assert values["multiscale/MLCA multivariate/rand"] <= 0.24
    assert len(values["sift_colour/chosen"]) == 5  # one choice of settings per split
    assert values["sift_colour/all background/delta"] == pytest.approx(1.0)


def test_metrics_transfer_to_new_partitions_but_not_to_new_classes(tmp_path):
    """On data sets that share their features, far above k-means; on unseen digits, below it."""
    run = gm.Run(name="mlca-transfer", quick=True, out=tmp_path, show_progress=False)
    EXPERIMENTS["mlca-transfer"].function(run)
    own, unseen = run.values.values()
    plain = np.mean(own.pop("k-means"))
    assert len(own) == 3 and all(np.mean(scores) > plain + 0.5 for scores in own.values())
    assert np.mean(unseen["MLCA"]) < np.mean(unseen["k-means"])


def test_lab_of_known_colours():
    lab = (
        colour_channels(np.array([[[255, 255, 255], [0, 0, 0], [255, 0, 0]]], np.uint8))[0, :, 3:6]
        * 100
    )
    np.testing.assert_allclose(lab, [[100, 0, 0], [0, 0, 0], [53.24, 80.09, 67.20]], atol=0.1)


def test_gradient_histograms_see_the_orientation():
    ramp = np.tile(np.linspace(0, 1, 40, dtype=np.float32), (30, 1))
    along, across = (
        gradient_histograms(image)[15, 15].reshape(16, 8).sum(axis=0)
        for image in (ramp, ramp.T[:30, :30].copy())
    )
    assert along.argmax() == 0 and across.argmax() == 2  # gradient to the right; downwards
    assert np.linalg.norm(gradient_histograms(ramp)[15, 15]) == pytest.approx(1.0, abs=0.05)


def test_root_histograms_are_roots_of_shares():
    image = np.random.default_rng(0).random((30, 40)).astype(np.float32)
    shares = gradient_histograms(image, 4, root=True) ** 2
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0, atol=0.02)
    # blind to contrast
    np.testing.assert_allclose(gradient_histograms(5 * image, 4, root=True) ** 2, shares, atol=0.01)


def test_border_contrast_finds_what_the_border_does_not_show():
    rng = np.random.default_rng(0)
    image = np.full((40, 50, 3), (60, 160, 60)) + rng.integers(-8, 9, (40, 50, 3))
    image[12:28, 15:35] = (150, 90, 40)
    contrast = border_contrast(colour_channels(image.astype(np.uint8)), 1.0)
    assert contrast.shape == (40, 50, 8)
    inside, outside = contrast[15:25, 20:30, -1], contrast[:8, :, -1]
    assert inside.min() > 2 * outside.max()
    flat = border_contrast(colour_channels(np.full((20, 20, 3), 90, np.uint8)), 1.0)
    # a plain image: no division by a spread of zero
    np.testing.assert_allclose(flat, 0.0, atol=1e-3)


def test_settings_are_chosen_without_the_test_images():
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (12, 14, 3)).astype(np.uint8) for _ in range(12)]
    truth = [(image[..., 0].ravel() > 128).astype(np.int64) for image in images]
    settings = [{"cell": 2, "blur": 0.5}, {"cell": 2, "blur": 2.0}]
    train = np.arange(12)[2:]
    before = validation_losses(patch_features, settings, images, truth, [train])
    for i in (0, 1):  # these are the test images: whatever is in them, nothing may change
        images[i], truth[i] = 255 - images[i], 1 - truth[i]
    np.testing.assert_array_equal(
        validation_losses(patch_features, settings, images, truth, [train]), before
    )
    # the sides are single pixels here: less blur is better
    assert before.shape == (2, 1) and before[0] < before[1]
    with pytest.raises(ValueError, match="colour"):
        patch_features(images[0], colour="grey")


def test_feature_shapes():
    image = np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8)
    for describe, d in ((patch_features, 135), (multiscale_features, 316)):
        table = describe(image)
        assert table.shape == (1200, d) and table.dtype == np.float32 and np.isfinite(table).all()
    assert patch_features(image, colour="plain", root=False).shape == (1200, 135)


def test_surrogate_learns_from_datasets_whose_clusters_are_not_linked():
    pairs = [two_layer_categories((60, 80, 100), noise=0.0, rng=seed) for seed in range(3)]
    renamed = [(X, y + 3 * seed) for seed, (X, y) in enumerate(pairs)]
    model = SpectralMetric(random_state=0).fit([X for X, _ in renamed], [y for _, y in renamed])
    X_test, y_test = two_layer_categories((100, 100, 100), noise=0.0, rng=9)
    assert delta_loss(model.predict(X_test), y_test) < 0.05
    assert len(model.classes_) == 9 and len(set(model.predict(X_test, n_clusters=5))) == 5
    assert model.history_.min() < model.history_[0]


def test_plugin_module_is_light():
    code = (
        "import sys, gmlearn_mlca.plugin as p\n"
        "p.gmlearn_experiments(), p.gmlearn_potentials(), p.gmlearn_decompositions()\n"
        "print([m for m in ('numba', 'sklearn', 'matplotlib', 'cvxpy') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"

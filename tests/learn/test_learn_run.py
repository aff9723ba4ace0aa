"""Around the optimisers: callbacks, early stopping, history, saving, reproducibility."""

import json
import zipfile

import numpy as np
import pytest
from learn_cases import chain_samples, ring_samples

import gmlearn as gm


def test_callbacks_see_every_pass_and_can_stop():
    seen = []

    def stop_at_four(passes, weights, history):
        seen.append((passes, sorted(weights), len(history)))
        return passes == 4

    model = gm.train(chain_samples(), max_iter=50, tol=-1, callbacks=[stop_at_four])
    assert seen == [(t, ["pair", "u"], t) for t in range(1, 5)]
    assert model.status == "callback stop_at_four" and len(model.history) == 4


def test_weights_given_to_callbacks_are_copies():
    def vandal(passes, weights, history):
        weights["u"][:] = np.nan

    model = gm.train(chain_samples(), max_iter=6, callbacks=[vandal])
    assert np.isfinite(model.weights["u"]).all()


def test_early_stopping_keeps_the_weights_of_the_best_validation_error():
    errors = iter([0.5, 0.3, 0.4, 0.35, 0.6, 0.1])
    measured = []

    def validation(weights):
        measured.append(weights)
        return next(errors)

    model = gm.train(
        chain_samples(), optimizer="subgradient", validation=validation, patience=3, max_iter=50
    )
    assert model.status == "no better validation error in 3 evaluations"
    assert [e for e in model.history.validation if np.isfinite(e)] == [0.5, 0.3, 0.4, 0.35, 0.6]
    np.testing.assert_array_equal(model.weights["u"], measured[1]["u"])


def test_validation_samples_give_the_share_of_wrong_labels():
    samples, held_out = chain_samples(0), chain_samples(7)
    model = gm.train(
        samples,
        optimizer="subgradient",
        regularizer=gm.L2(0.1),
        validation=held_out,
        patience=100,
        max_iter=8,
    )
    best = min(e for e in model.history.validation if np.isfinite(e))
    wrong = np.mean([np.mean(model.predict(s.crf).labels != s.labels) for s in held_out])
    assert wrong == pytest.approx(best)


def test_training_stops_when_the_objective_no_longer_falls():
    model = gm.train(
        chain_samples(), optimizer="bcfw", regularizer=gm.L2(0.1), tol=1e-2, max_iter=1000
    )
    assert model.status == "certified: objective within 0.01 of its lower bound"
    assert len(model.history) < 1000


@pytest.mark.parametrize("passes", [1, 3, 6])
def test_the_last_passes_count(passes):
    """bcfw evaluates F every five passes, and once more where it ends."""
    model = gm.train(chain_samples(), regularizer=gm.L2(0.1), max_iter=passes, tol=0)
    shorter = gm.train(chain_samples(), regularizer=gm.L2(0.1), max_iter=passes - 1, tol=0)
    assert model.objective < shorter.objective
    again = gm.train(chain_samples(), regularizer=gm.L2(0.1), weights=model.weights, max_iter=0)
    assert again.objective == pytest.approx(model.objective)


def test_no_passes_return_the_initial_weights():
    given = {"u": np.eye(3), "pair": np.ones(6)}
    model = gm.train(chain_samples(), weights=given, max_iter=0)
    np.testing.assert_array_equal(model.weights["u"], np.eye(3))


@pytest.mark.parametrize("optimizer", ["bcfw", "stochastic", "incremental"])
def test_the_seed_decides_the_order(optimizer):
    samples = ring_samples(0)
    first, again, other = (
        gm.train(
            samples, optimizer=optimizer, max_iter=7, tol=-1, seed=seed, regularizer=gm.L2(0.1)
        )
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.weights["u"], again.weights["u"])
    assert not np.array_equal(first.weights["u"], other.weights["u"])


def test_history_has_one_entry_for_each_pass():
    model = gm.train(chain_samples(), optimizer="cutting-plane", max_iter=5, tol=0.0)
    arrays = model.history.arrays()
    assert {len(a) for a in arrays.values()} == {len(model.history)}
    assert np.isfinite(arrays["objective"]).all() and np.isfinite(arrays["bound"]).all()
    assert (np.diff(arrays["seconds"]) >= 0).all()
    assert model.gap == pytest.approx(arrays["objective"][-1] - arrays["bound"][-1], abs=1e-9)


def test_history_plots_itself():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    model = gm.train(chain_samples(), max_iter=12, tol=-1)
    ax = model.plot()
    drawn = [line for line in ax.lines if np.isfinite(np.asarray(line.get_ydata(), float)).any()]
    np.testing.assert_allclose(np.asarray(drawn[0].get_ydata(), float), model.history.evaluated())
    matplotlib.pyplot.close(ax.figure)


def test_saved_models_load_without_pickle(tmp_path):
    samples = ring_samples(0, hidden=True)
    model = gm.train(samples, regularizer=gm.L2(0.1), max_iter=6, seed=3)
    model.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as archive:
        header = json.loads(bytes(archive["header"]).decode())
        assert all(archive[n].dtype != object for n in archive.files)
    assert header["seed"] == 3 and header["settings"]["optimizer"] == "bcfw"
    loaded = gm.load(tmp_path / "m.npz")
    for name, value in model.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], value)
        assert loaded.weights[name].shape == value.shape
    assert (
        loaded.objective == model.objective
        and loaded.status == model.status
        and loaded.settings == model.settings
    )
    np.testing.assert_array_equal(loaded.history.objective, model.history.objective)
    np.testing.assert_array_equal(loaded.completions[0], model.completions[0])
    np.testing.assert_array_equal(
        loaded.predict(samples[0].crf).labels, model.predict(samples[0].crf).labels
    )
    assert "objective" in repr(loaded) and "<table>" in loaded._repr_html_()


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"x\.npz: not a gmlearn trained model file"):
        gm.load(path)
    with pytest.raises(FileNotFoundError):
        gm.load(tmp_path / "absent.npz")


def test_an_archive_with_a_header_that_is_no_array_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", b"junk")
    with pytest.raises(ValueError, match=r"x\.npz: not a gmlearn trained model file"):
        gm.load(path)


def test_learning_pays_on_held_out_data():
    samples, held_out = chain_samples(0, n=60, length=12), chain_samples(1, n=200, length=12)
    model = gm.train(samples, regularizer=gm.L2(0.02))
    unary_only = np.mean(
        [np.mean(s.crf.blocks[0].inputs.argmax(axis=1) != s.labels) for s in held_out]
    )
    learnt = np.mean([np.mean(model.predict(s.crf).labels != s.labels) for s in held_out])
    assert learnt < 0.9 * unary_only


def test_one_sample_or_several_models_are_told_what_was_meant():
    crf = gm.CRF(2, 2).add_unary(np.zeros((2, 2)))
    crf.add(gm.Potts([[0, 1]], weight="s"))
    sample = gm.Sample(crf, [0, 0])
    with pytest.raises(TypeError, match=r"samples: expected a list of gmlearn.Sample.*\[sample\]"):
        gm.train(sample)
    model = gm.train([sample], max_iter=2)
    with pytest.raises(TypeError, match=r"expected one gmlearn.CRF, got list; predict_many takes"):
        model.predict([crf, crf])
    with pytest.raises(TypeError, match=r"got Sample; a sample's model is sample.crf"):
        model.predict(sample)

"""Bad input is refused before training, by a message that names the sample (and the block)."""

import numpy as np
import pytest
from learn_cases import chain_samples

import gmlearn as gm


class Rude(gm.Potts):
    """Edges whose features can be spoilt after construction, as a user's own block might be."""

    name = "rude"
    broken = "truth"

    def features(self, x, weight=None):
        found = super().features(x, weight)
        return (
            {name: value * np.nan for name, value in found.items()}
            if self.broken == "truth"
            else found
        )


class WrongAtTruth(gm.Hamming):
    name = "off by one"

    def value(self, crf, x, truth, observed):
        return super().value(crf, x, truth, observed) + 1.0


def spoilt(k=2, **changes):
    """Five good samples, one of them with changed fields."""
    samples = chain_samples()
    fields = dict(crf=samples[k].crf, labels=samples[k].labels) | changes
    samples[k] = gm.Sample(**fields)
    return samples


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """Whatever is refused must be refused before the first pass."""
    from gmlearn.learn.bcfw import BlockFrankWolfe

    def run(self):
        raise AssertionError("training had started")

    monkeypatch.setattr(BlockFrankWolfe, "run", run)


def with_block(block, k=2):
    samples = chain_samples()
    crf = samples[k].crf.copy()
    crf.add(block)
    return spoilt(k, crf=crf, labels=samples[k].labels)


def test_features_that_are_not_finite():
    with pytest.raises(
        ValueError,
        match=r"samples\[2\]\.crf\.blocks\[2\] \(Rude\(M=1, k=2, L=3\)\): .*'bad' are not finite",
    ):
        gm.train(with_block(Rude([[0, 1]], weight="bad")))


def test_nan_that_was_written_into_a_block_later():
    samples = chain_samples()
    samples[3].crf.blocks[0].inputs[1, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"samples\[3\]\.crf\.blocks\[0\] \(Unary.*'u' are not finite"
    ):
        gm.train(samples)


def test_nan_in_fixed_costs_of_labels_that_are_not_true():
    samples = chain_samples()
    crf = samples[1].crf
    crf.unary[crf.offsets[0] + (int(samples[1].labels[0]) + 1) % 3] = np.nan
    with pytest.raises(ValueError, match=r"samples\[1\]"):
        gm.train(samples)


def test_loss_that_is_not_zero_at_the_truth():
    with pytest.raises(
        ValueError, match=r"samples\[0\]: the loss 'off by one' is 1 at the truth, expected 0"
    ):
        gm.train(chain_samples(), loss=WrongAtTruth())
    with pytest.raises(ValueError, match=r"samples\[2\]: the loss"):
        gm.train(spoilt(loss=WrongAtTruth()))


def test_loss_that_is_not_zero_at_the_truth_of_a_latent_sample():
    with pytest.raises(ValueError, match=r"samples\[2\]: the loss"):
        gm.train(spoilt(hidden=np.arange(6) == 1, loss=WrongAtTruth()))


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 1, 2, 3, 0, 0], r"samples\[2\]\.labels: variable 3 has states 0..2, got 3"),
        ([0, 1, 2, -1, 0, 0], r"samples\[2\]\.labels: variable 3 has states 0..2, got -1"),
        ([0, 1], r"samples\[2\]\.labels: expected shape \(6,\), got \(2,\)"),
        ([0.5] * 6, r"samples\[2\]\.labels"),
        (None, r"samples\[2\]\.labels"),
        ("abcdef", r"samples\[2\]\.labels"),
    ],
)
def test_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        gm.train(spoilt(labels=labels))


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            dict(hidden=np.zeros(3, bool)),
            r"samples\[2\]\.hidden: expected shape \(6,\), got \(3,\)",
        ),
        (dict(weight=-1.0), r"samples\[2\]\.weight"),
        (dict(weight=np.nan), r"samples\[2\]\.weight"),
    ],
)
def test_other_fields_of_a_sample(changes, message):
    with pytest.raises(ValueError, match=message):
        gm.train(spoilt(**changes))


def forbidding(pairs):
    """A table that forbids label pairs of variables 0 and 1."""
    table = np.zeros((3, 3))
    table[tuple(zip(*pairs))] = np.inf
    return gm.Table([[0, 1]], table)


def test_truth_that_breaks_a_hard_constraint():
    truth = chain_samples()[2].labels
    samples = with_block(forbidding([(truth[0], truth[1])]))
    with pytest.raises(ValueError, match=r"samples\[2\]: the true labels break a hard constraint"):
        gm.train(samples)


def test_truth_that_breaks_a_hard_constraint_names_the_block():
    truth = chain_samples()[2].labels
    with pytest.raises(ValueError, match=r"samples\[2\].*blocks\[2\] \(Table"):
        gm.train(with_block(forbidding([(truth[0], truth[1])])))


def test_hidden_labels_without_a_feasible_completion():
    truth = chain_samples()[2].labels
    samples = with_block(forbidding([(truth[0], b) for b in range(3)]))
    samples[2].hidden = np.arange(6) == 1
    with pytest.raises(
        ValueError, match=r"samples\[2\]: no completion of the hidden labels is feasible"
    ):
        gm.train(samples)


def test_one_feasible_completion_is_enough():
    truth = chain_samples()[2].labels
    samples = with_block(forbidding([(truth[0], b) for b in (0, 1)]))
    samples[2].hidden = np.arange(6) == 1
    with pytest.raises(AssertionError, match="training had started"):
        gm.train(samples)


def test_weights_of_different_shapes():
    samples = chain_samples() + chain_samples(n=1, n_labels=2)
    with pytest.raises(
        ValueError,
        match=r"weight segment 'u' has shape \(3, 3\) in one of the samples and \(2, 2\) in another",
    ):
        gm.train(samples)


def test_weights_of_different_shapes_name_the_sample():
    with pytest.raises(ValueError, match=r"samples\[5\]"):
        gm.train(chain_samples() + chain_samples(n=1, n_labels=2))


def test_models_without_weights():
    with pytest.raises(ValueError, match="no weights to learn"):
        gm.train([gm.Sample(gm.CRF(2, 2), [0, 1])])


@pytest.mark.parametrize(
    "samples, error, message",
    [
        ([], ValueError, "samples: expected at least one"),
        ([3], TypeError, r"samples\[0\]: expected a gmlearn.Sample, got int"),
        ([gm.Sample(None, [0])], TypeError, r"samples\[0\]\.crf: expected a gmlearn.CRF"),
    ],
)
def test_things_that_are_no_samples(samples, error, message):
    with pytest.raises(error, match=message):
        gm.train(samples)


@pytest.mark.parametrize(
    "options, error, message",
    [
        (
            dict(optimizer="bcwf"),
            gm.UnknownNameError,
            "no optimizer named 'bcwf'; did you mean 'bcfw'",
        ),
        (
            dict(loss="haming"),
            gm.UnknownNameError,
            "no loss named 'haming'; did you mean 'hamming'",
        ),
        (dict(loss=3), TypeError, "loss: expected a name or a gmlearn.Loss, got int"),
        (dict(method="magic"), gm.UnknownNameError, "no trainer named 'magic'"),
        (dict(decomposition="rows"), gm.UnknownNameError, "no decomposition named 'rows'"),
        (dict(setp=0.1), TypeError, "optimizer 'bcfw' has no setting 'setp'; it has"),
        (dict(max_iter=-1), ValueError, "max_iter"),
        (dict(max_iter=2.5), ValueError, "max_iter"),
        (dict(completion_every=0), ValueError, "completion_every"),
        (dict(checkpoint_every=0), ValueError, "checkpoint_every"),
        (dict(n_jobs=0), ValueError, "n_jobs"),
        (dict(n_jobs=-2), ValueError, "n_jobs"),
        (dict(weights={"u": np.zeros((3, 3))}), ValueError, "no value given for the segment"),
        (
            dict(weights={"u": np.full((3, 3), np.nan), "pair": np.zeros(6)}),
            ValueError,
            r"weights\['u'\]",
        ),
        (
            dict(optimizer="cutting-plane", oracle="perfect"),
            ValueError,
            "oracle, slack: expected 'relaxed'",
        ),
        (
            dict(optimizer="cutting-plane", constraints=lambda w: w),
            ValueError,
            "known only by its projection",
        ),
    ],
)
def test_options(options, error, message):
    with pytest.raises(error, match=message):
        gm.train(chain_samples(), **options)


@pytest.mark.parametrize(
    "options",
    [dict(step=-1.0), dict(step=np.nan), dict(prox=0.0), dict(evaluate_every=0), dict(patience=-1)],
)
def test_values_of_settings(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        gm.train(chain_samples(), **options)


class Unfaithful(gm.Hamming):
    """Its value is 0 at the truth, what it adds to the energy is not."""

    name = "unfaithful"

    def unary(self, crf, truth, observed):
        return super().unary(crf, truth, observed) - 0.5


def changed(k, **parts):
    samples = chain_samples(n=3)
    samples[k] = gm.Sample(**({"crf": samples[k].crf, "labels": samples[k].labels} | parts))
    return samples


@pytest.mark.parametrize(
    "samples, options, message",
    [
        (
            chain_samples(n=3),
            dict(loss=Unfaithful()),
            r"samples\[0\]: what the loss 'unfaithful' adds .* is -3 at the truth",
        ),
        (
            changed(1, labels=list("abcdef")),
            {},
            r"samples\[1\].labels: expected whole numbers, got an array of dtype",
        ),
        (changed(2, hidden=[0, 3, 5, 1, 1, 0]), {}, r"samples\[2\].hidden: expected True or False"),
        (
            changed(
                1,
                hidden=[True] + 5 * [False],
                completion=lambda s, w: np.where(s.observed, s.labels, 9),
            ),
            {},
            r"samples\[1\].completion: labels: variable 0 has states 0..2, got 9",
        ),
        (chain_samples(), dict(tol=np.nan), "tol: expected a number, got nan"),
        (chain_samples(), dict(seed="a"), "seed: expected a whole number"),
        (
            chain_samples(),
            dict(callbacks=[3]),
            r"callbacks\[0\]: expected a function of \(passes, weights, history\), got 3",
        ),
        (chain_samples(), dict(validation=[]), "validation: expected samples, or a function"),
        (
            chain_samples(),
            dict(validation=[3]),
            r"validation\[0\]: expected a gmlearn.Sample, got int",
        ),
        (
            chain_samples(),
            dict(optimizer="stochastic", lambda_step=0.0),
            "lambda_step: expected a number",
        ),
    ],
)
def test_bad_input_names_what_is_wrong(samples, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gm.train(samples, max_iter=3, **options)

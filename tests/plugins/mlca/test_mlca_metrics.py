"""Partition losses against their definitions with n x n matrices."""

import numpy as np
import pytest
from gmlearn_mlca import clustering_accuracy, delta_loss, normalised_mutual_information, rand_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score, rand_score

labellings = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=25)


@settings(deadline=None, max_examples=80)
@given(pairs=labellings)
def test_losses_equal_their_definitions(pairs):
    a, b = np.array(pairs).T
    A, B = (np.eye(4)[v][:, np.unique(v)] for v in (a, b))
    assert delta_loss(a, b) == pytest.approx(
        np.sum((A @ np.linalg.pinv(A) - B @ np.linalg.pinv(B)) ** 2), abs=1e-9
    )
    n = len(a)
    assert rand_loss(a, b) == pytest.approx(np.sum((A @ A.T - B @ B.T) ** 2) / (n * (n - 1)))
    assert rand_loss(a, b) == pytest.approx(1 - rand_score(a, b))
    assert normalised_mutual_information(a, b) == pytest.approx(
        normalized_mutual_info_score(a, b), abs=1e-9
    )


def test_accuracy_matches_labels_one_to_one():
    assert clustering_accuracy([2, 2, 0, 0, 1], ["a", "a", "b", "b", "b"]) == pytest.approx(0.8)


def test_trivial_answer_and_renaming():
    truth = np.repeat([0, 1], [70, 30])
    # one cluster scores k - 1, however bad it is
    assert delta_loss(np.zeros(100), truth) == pytest.approx(1.0)
    assert rand_loss(np.zeros(100), truth) == pytest.approx(2 * 70 * 30 / (100 * 99))
    assert delta_loss(1 - truth, truth) == rand_loss(1 - truth, truth) == 0.0


def test_lengths_are_checked():
    with pytest.raises(
        ValueError, match="labels, truth: expected two non-empty vectors of one length"
    ):
        delta_loss([0, 1], [0, 1, 1])

"""Where hidden states of labels start: k-means within labels, on features and surroundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

import gmlearn as gm


def clustered_states(
    models: Sequence[gm.CRF],
    labels: Sequence[np.ndarray],
    features: Sequence[Any],
    label_of_state: np.ndarray,
    seed: int,
) -> list[np.ndarray]:
    """States (V,) of each model that k-means finds among the variables of each label.

    labels : int (V,) of each.   features : (V, F) of each, or None where there are none.
    label_of_state : int (n_states,), ascending.

    A variable is described by its features and by how many of its neighbours have each label: a
    state may be a place in a shape, which features of single variables do not show. Both parts have
    the same variance in all.
    """
    from sklearn.cluster import KMeans

    n_labels = int(label_of_state[-1]) + 1
    flat = np.concatenate(labels)
    states = np.searchsorted(label_of_state, flat)
    around = [surroundings(crf, own, n_labels) for crf, own in zip(models, labels)]
    parts = [np.concatenate(around)]
    if all(f is not None for f in features):
        parts.append(np.concatenate(features))
    for label, number in enumerate(np.bincount(label_of_state)):
        own = np.flatnonzero(flat == label)
        if 1 < number < len(own):
            rows = np.concatenate([evened(part[own]) for part in parts], axis=1)
            states[own] += KMeans(int(number), n_init=5, random_state=seed).fit_predict(rows)
    return np.split(states, np.cumsum([len(own) for own in labels])[:-1])


def surroundings(crf: gm.CRF, labels: np.ndarray, n_labels: int) -> np.ndarray:
    """float (V, n_labels): how many members of the cliques of a variable have each label, without
    itself.
    """
    n = crf.n_vars
    found = np.zeros((n, n_labels))
    one = np.eye(n_labels)[labels]
    for block in crf.clique_blocks:
        owner = np.repeat(np.arange(len(block)), np.diff(block.indptr))
        member = sparse.csr_array((np.ones(len(owner)), (owner, block.members)), (len(block), n))
        degree = np.bincount(block.members, minlength=n)
        found += member.T @ (member @ one) - degree[:, None] * one
    return found


def evened(part: np.ndarray) -> np.ndarray:
    """Columns without their means, with a total variance of 1 (or 0)."""
    centred = part - part.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=1).mean())
    return centred / spread if spread > 0.0 else centred

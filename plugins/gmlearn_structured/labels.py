"""Estimators for single points: one label each, or a set of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

import gmlearn as gm
from gmlearn_structured.estimator import StructuredBase


@dataclass(eq=False, repr=False)
class PointBase(StructuredBase):
    """Points as the rows of one matrix.

    Parameters
    ----------
    fit_intercept : add a feature that is always 1.
    """

    fit_intercept: bool = True

    def _inputs(self, X: Any, fitting: bool = False) -> list[Any]:
        rows = gm.validate_data(self, X, accept_sparse="csr", dtype=float, reset=fitting)
        if self.fit_intercept:
            ones = np.ones((rows.shape[0], 1))
            rows = (
                sparse.hstack([rows, ones], format="csr")
                if sparse.issparse(rows)
                else np.hstack([rows, ones])
            )
        return [rows[k : k + 1] for k in range(rows.shape[0])]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _weights_of_features(self, scores: np.ndarray) -> np.ndarray:
        return scores[..., :-1] if self.fit_intercept else scores

    @property
    def intercept_(self) -> np.ndarray:
        """Scores that do not depend on features."""
        scores = super().coef_
        return scores[..., -1] if self.fit_intercept else np.zeros(scores.shape[:-1])


@dataclass(eq=False, repr=False)
class MultiClassCRF(ClassifierMixin, PointBase):
    """One label for each point: the multi-class hinge (Crammer and Singer) or logistic regression.

    Parameters
    ----------
    fit_intercept : add a feature that is always 1 (regularised like the others).
    class_weight : as in `StructuredBase`, a factor of the whole loss of a point.

    Further parameters as in `StructuredBase`. X is (n, F), dense or scipy sparse; y is (n,).
    """

    def build_model(self, x: Any, n_states: int) -> gm.CRF:
        crf = gm.CRF(1, n_states)
        crf.add(gm.Unary(x))
        return crf

    def node_features(self, x: Any) -> np.ndarray:
        return x.toarray() if sparse.issparse(x) else x

    def _targets(self, y: Any, n: int) -> list[np.ndarray]:
        with gm.naming("y"):
            flat = column_or_1d(y, warn=True)
            check_classification_targets(flat)
        return super()._targets(flat, n)

    @property
    def _weights_inputs(self) -> bool:
        return self.class_weight is not None

    def _collect(self, found: list[Any]) -> np.ndarray:
        return np.concatenate(found)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, n_classes), of the best state of each label; (n,) for two labels."""
        check_is_fitted(self, "model_")
        costs = np.concatenate([np.asarray(x @ self.weights_["unary"].T) for x in self._inputs(X)])
        first = np.searchsorted(self.label_of_state_, np.arange(len(self.classes_)))
        scores = np.maximum.reduceat(-costs, first, axis=1)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, n_classes); of the model's own distribution if loss="likelihood"."""
        return self.predict_marginals(X)

    @property
    def coef_(self) -> np.ndarray:
        return self._weights_of_features(super().coef_)


@dataclass(eq=False, repr=False)
class MultiLabelCRF(PointBase):
    """A set of labels for each point: one binary variable for each label, with weights of its own,
    and learnt tables for pairs of labels.

    Parameters
    ----------
    edges : pairs of labels with a table: "independent", none; "tree", the spanning tree of largest
        mutual information; "full", all; or int (E, 2).
    fit_intercept : add a feature that is always 1 (regularised like the others).

    Further parameters as in `StructuredBase`. X is (n, F), dense or scipy sparse; y is (n, K) of
    0 and 1.

    Attributes
    ----------
    edges_ : int (E, 2).   n_outputs_ : K.   coef_ : float (K, F), scores of having a label.
    """

    edges: Any = "full"
    kept = ("edges_", "n_outputs_")

    def _targets(self, y: Any, n: int) -> list[np.ndarray]:
        rows = np.asarray(y.toarray() if sparse.issparse(y) else y)
        if rows.ndim != 2 or len(rows) != n:
            raise ValueError(f"y: expected shape ({n}, n_labels), got {rows.shape}")
        wrong = np.flatnonzero(~np.isin(rows, (0, 1)).all(axis=1))
        if wrong.size:
            raise ValueError(f"y[{int(wrong[0])}]: expected 0 or 1 for each label")
        return list(rows.astype(np.int64))

    def _classes(self, targets: list[np.ndarray]) -> np.ndarray:
        return np.arange(2)

    def _prepare(self, inputs: list[Any], labels: list[np.ndarray]) -> None:
        rows = np.stack(labels)
        self.n_outputs_ = rows.shape[1]
        if isinstance(self.edges, str):
            gm.check_choice("edges", self.edges, ("independent", "tree", "full"))
            choose = {"independent": no_edges, "tree": tree_edges, "full": all_edges}
            self.edges_ = choose[self.edges](rows)
        else:
            self.edges_ = gm.check_index("edges", self.edges, rows.shape[1], shape=(None, 2))

    def build_model(self, x: Any, n_states: int) -> gm.CRF:
        k = int(self.n_outputs_)
        crf = gm.CRF(k, n_states)
        # row k has the features in columns of its own: weights of its own for every label
        crf.add(gm.Unary(sparse.kron(sparse.eye_array(k), sparse.csr_array(x), format="csr")))
        if len(self.edges_):
            crf.add(gm.FeatureTable(self.edges_, sparse.eye_array(len(self.edges_), format="csr")))
        return crf

    def _collect(self, found: list[Any]) -> np.ndarray:
        return np.stack(found)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, K) of having each label: the log-odds of `predict_marginals`."""
        marginals = np.maximum(self.predict_marginals(X), np.finfo(float).tiny)
        return np.log(marginals[..., 1]) - np.log(marginals[..., 0])

    @property
    def _scores(self) -> np.ndarray:
        costs = self.weights_["unary"].reshape(len(self.label_of_state_), int(self.n_outputs_), -1)
        return costs[0] - costs[-1]

    @property
    def coef_(self) -> np.ndarray:
        return self._weights_of_features(self._scores)

    @property
    def intercept_(self) -> np.ndarray:
        """Scores that do not depend on features."""
        return self._scores[:, -1] if self.fit_intercept else np.zeros(int(self.n_outputs_))


def no_edges(rows: np.ndarray) -> np.ndarray:
    """No pair of labels."""
    return np.zeros((0, 2), np.int64)


def all_edges(rows: np.ndarray) -> np.ndarray:
    """All pairs (E, 2) of the labels of `rows` (n, K)."""
    return np.stack(np.triu_indices(rows.shape[1], 1), axis=1)


def tree_edges(rows: np.ndarray) -> np.ndarray:
    """The spanning tree (K - 1, 2) of largest mutual information of binary labels (n, K): Chow and
    Liu, 1968.
    """
    from scipy.sparse.csgraph import minimum_spanning_tree

    both = np.stack([1 - rows, rows])
    joint = np.einsum("anj,bnk->abjk", both, both) / len(rows)
    own = both.mean(axis=1)
    independent = own[:, None, :, None] * own[None, :, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log(joint / independent)
    information = np.nan_to_num(terms).sum(axis=(0, 1))
    # distances must be positive: zero means no edge
    distance = 1.0 + information.max() - information
    tree = minimum_spanning_tree(sparse.csr_array(np.triu(distance, 1))).tocoo()
    return np.stack([tree.row, tree.col], axis=1).astype(np.int64)

"""Features of sequences as CRFsuite's users write them: a dictionary, or a list of names, for each
position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction import DictVectorizer


class SequenceVectorizer(TransformerMixin, BaseEstimator):
    """Sequences of feature dictionaries as sparse arrays (T, F), one for each sequence.

    A position is a mapping from names to numbers, strings (which become ``name=value``) or bools;
    or a list of names, which all count 1.

    Examples
    --------
    >>> from gmlearn_structured import SequenceVectorizer
    >>> words = [[{"word": "the", "first": True}, {"word": "cat"}], [["word=cat", "first"]]]
    >>> [x.shape for x in SequenceVectorizer().fit_transform(words)]
    [(2, 3), (1, 3)]
    """

    def fit(self, X: Iterable[Sequence[Any]], y: Any = None) -> Self:
        """Learn the names of the features."""
        self.vectorizer_ = DictVectorizer().fit([p for x in self._read(X) for p in x])
        return self

    def transform(self, X: Iterable[Sequence[Any]]) -> list[sparse.csr_array]:
        """Sparse arrays (T, F); names that were not seen in `fit` are left out."""
        sequences = self._read(X)
        flat = self.vectorizer_.transform([p for x in sequences for p in x])
        ends = np.cumsum([0, *(len(x) for x in sequences)])
        rows = sparse.csr_array(flat)
        return [rows[a:b] for a, b in pairwise(ends.tolist())]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the features."""
        return self.vectorizer_.get_feature_names_out()

    def _read(self, X: Iterable[Sequence[Any]]) -> list[list[dict[str, Any]]]:
        found = []
        for k, x in enumerate(X):
            if not len(x):
                raise ValueError(f"X[{k}]: expected at least one position, got none")
            found.append([_features(k, position) for position in x])
        if not found:
            raise ValueError("X: expected at least one sequence, got none")
        return found


def _features(k: int, position: Any) -> dict[str, Any]:
    if isinstance(position, Mapping):
        return {n: float(v) if isinstance(v, bool) else v for n, v in position.items()}
    if isinstance(position, str) or not isinstance(position, Iterable):
        raise TypeError(
            f"X[{k}]: expected a mapping or a list of names for each position, got {position!r}"
        )
    return {str(name): 1.0 for name in position}

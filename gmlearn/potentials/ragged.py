"""Arrays of different lengths, held as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array


class RaggedArrays(Sequence[np.ndarray]):
    """A sequence of one-dimensional arrays, held as one array with their sizes.

    values : (S,), the arrays one after the other.   sizes : int (M,), their lengths.
    """

    def __init__(self, values: Any, sizes: Any):
        try:
            self.values = np.asarray(values)
        except ValueError:
            raise ValueError("values: expected one array, got arrays of different sizes") from None
        if self.values.ndim != 1:
            raise ValueError(f"values: expected one dimension, got shape {self.values.shape}")
        self.sizes = check_array("sizes", sizes, ndim=1, dtype=np.int64)
        # every number is compared before the sum, which could wrap around
        most = self.values.size
        if (self.sizes < 0).any() or (self.sizes > most).any():
            raise ValueError(f"sizes: expected lengths of arrays in 0..{most}, as of values")
        self._ends = np.cumsum(self.sizes)
        if int(self.sizes.sum()) != most or (np.diff(self._ends) < 0).any():
            raise ValueError(f"sizes: expected lengths with the sum {most}, as of values")

    @classmethod
    def of(cls, arrays: Any) -> RaggedArrays:
        """The arrays of any sequence, one value for all types of numbers."""
        if isinstance(arrays, cls):
            return arrays
        arrays = list(arrays)
        if any(isinstance(a, np.ma.MaskedArray) for a in arrays):
            raise ValueError("masked arrays are not accepted")
        parts = [np.ravel(np.asarray(a)) for a in arrays]
        values = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return cls(values, np.array([len(p) for p in parts], np.int64))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: Any) -> Any:
        place = range(len(self))[i]
        return self.values[self._ends[place] - self.sizes[place] : self._ends[place]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(np.split(self.values, self._ends[:-1]) if len(self) else [])

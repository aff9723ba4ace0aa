"""Costs of edges as compiled kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: how compiled kernels may treat the costs of an edge
DENSE, POTTS, LINEAR = 0, 1, 2


@dataclass(frozen=True)
class PairwiseForm:
    """Costs of edges as compiled kernels read them: ``scale[e] * values[start[e] + a * stride[e] +
    b]``.

    values : float, a pool of tables shared by edges.   start, stride : int (M,).   scale : float
        (M,).   Costs of the difference b - a need 2 L - 1 values: start L - 1, stride -1.
    kind : `POTTS`, the table is [a != b]; `LINEAR`, it is min(|a - b|, cut); both allow messages in
        O(L). Else `DENSE`.
    """

    values: np.ndarray
    start: np.ndarray
    stride: np.ndarray
    scale: np.ndarray
    kind: int = DENSE
    cut: float = np.inf

    @classmethod
    def of_difference(
        cls, values: np.ndarray, scale: np.ndarray, kind: int = DENSE, cut: float = np.inf
    ) -> PairwiseForm:
        """Edges that cost ``scale[e] * values[|a - b|]``, values (L,): no table of pairs."""
        m, size = len(scale), len(values)
        both = np.concatenate([values[:0:-1], values]).astype(float)
        return cls(both, np.full(m, size - 1), np.full(m, -1), scale, kind, cut)

    def table(self, e: int, rows: int, columns: int) -> np.ndarray:
        """The costs (rows, columns) of one edge, without its scale."""
        step = self.stride[e] * np.arange(rows)
        return self.values[self.start[e] + step[:, None] + np.arange(columns)]

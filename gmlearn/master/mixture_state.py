"""What a mixture of minimisers is made of (`mixture` says what it is for): typed arrays that pass
through compiled code and into checkpoints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np


class Structure(NamedTuple):
    """What does not change while slaves move.

    starts : int (M + 1,), where the dual variables of each slave begin.
    words : int (M + 1,), where the words of its bits begin.
    coords : uint32 (D,), the coordinate of each dual variable.
    weight : float (n_coords,), 1 / how many slaves hold each coordinate (1 where none does).
    share : float (M,), the factor of each slave's costs in what all of them add up to.
    """

    starts: np.ndarray
    words: np.ndarray
    coords: np.ndarray
    weight: np.ndarray
    share: np.ndarray


class Point(NamedTuple):
    """A convex combination of minimisers for every slave, and what it costs.

    y : float (D,), its indicators.   mean : float (n_coords,), their averages over copies.
    rest : float (M, P), clique features of its part that is on minimisers that are not in the
        working set; (0, P) as long as there are none.
    fixed : float (M,), clique costs without weights.
    share : float (M, C), how much of it is on each minimiser of the working set. What is missing
        to 1 is on the rest.
    """

    y: np.ndarray
    mean: np.ndarray
    rest: np.ndarray
    fixed: np.ndarray
    share: np.ndarray


class WorkingSet(NamedTuple):
    """The last C minimisers of each slave that were of use.

    bits : uint64 (words[-1], C), their indicators, 64 to a word.
    columns : int32 (M, C, K), which clique features are not zero.   values : float (M, C, K), what
        these are. Behind the last one both are 0.
    fixed : float (M, C).   used : int32 (M, C), when one was last the cheapest; 0 for an empty
        place.
    """

    bits: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    fixed: np.ndarray
    used: np.ndarray


@dataclass
class MixtureState:
    """All that a mixture remembers; the fields of `Point` and `WorkingSet` are explained there.

    centre : float (D,), the proximal centre.   average : float (D,), of the centres so far.
    curvature : float (), curvature in w of the last move over its squared length.
    known_index, known_values : flat, since K grows.
    old_y, ... : the point before the last move, until it is settled; empty otherwise.
    """

    centre: np.ndarray
    average: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    rest: np.ndarray
    fixed: np.ndarray
    share: np.ndarray
    bits: np.ndarray
    known_index: np.ndarray
    known_values: np.ndarray
    known_fixed: np.ndarray
    used: np.ndarray
    curvature: np.ndarray
    old_y: np.ndarray
    old_mean: np.ndarray
    old_rest: np.ndarray
    old_fixed: np.ndarray
    old_share: np.ndarray

    @property
    def point(self) -> Point:
        return Point(*(getattr(self, name) for name in Point._fields))

    @property
    def old_point(self) -> Point:
        return Point(*(getattr(self, f"old_{name}") for name in Point._fields))

    @old_point.setter
    def old_point(self, point: Point) -> None:
        for name, array in point._asdict().items():
            setattr(self, f"old_{name}", array)

    @property
    def working_set(self) -> WorkingSet:
        shape = (*self.used.shape, self.n_kept)
        index, values = self.known_index.reshape(shape), self.known_values.reshape(shape)
        return WorkingSet(self.bits, index, values, self.known_fixed, self.used)

    @property
    def n_kept(self) -> int:
        """K: how many features there is room for in each place of the working sets."""
        return len(self.known_index) // max(self.used.size, 1)

    def copy(self) -> MixtureState:
        """The same with arrays of its own."""
        return replace(self, **{name: value.copy() for name, value in vars(self).items()})

    def widen(self, n_kept: int) -> None:
        """Make room for so many features."""
        old, shape = self.working_set, (*self.used.shape, n_kept)
        self.known_index = np.zeros(math.prod(shape), np.int32)
        self.known_values = np.zeros(math.prod(shape))
        self.working_set.columns[..., : old.columns.shape[2]] = old.columns
        self.working_set.values[..., : old.columns.shape[2]] = old.values


class Sparse(NamedTuple):
    """Rows of a sparse matrix: row m has `values` at `columns`, both from indptr[m] to
    indptr[m + 1].
    """

    indptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray


class Minimisers(NamedTuple):
    """Of all slaves: indicators (D,), where they are not 0 (K,), clique features (M rows), fixed
    costs (M,), the error that these may have (M,), minima (M,).
    """

    ind: np.ndarray
    ones: np.ndarray
    features: Sparse
    fixed: np.ndarray
    rounding: np.ndarray
    value: np.ndarray


class Direction(NamedTuple):
    """A joint move of all slaves, as the weights see it.

    features : float (P,), change of all features.   slope : derivative of the proximal dual along
    the move without its part w . features.   spread : curvature along it in lambda.   square : its
    squared length in y, each slave's with its squared share.   gain : by how much the move lowers
    the proximal dual at fixed weights.
    """

    features: np.ndarray
    slope: float
    spread: float
    square: float
    gain: float

"""Where the numbers of a network's arrays belong among the labels of joined models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn._utils.ranges import ranges


class Places:
    """Costs and labels of a batch, as one padded array or one array for each model, to and from
    flat ones.

    Parameters
    ----------
    states : int (V,), numbers of states of the variables of all models.
    shapes : int (n, 2), variables and largest number of states of each model.
    name : what a sample is called in messages, by its place in the batch.
    """

    def __init__(self, states: np.ndarray, shapes: np.ndarray, name: Callable[[int], str]):
        self.shapes, self.name = shapes, name
        self.states = states
        self.home = np.repeat(np.arange(len(shapes)), shapes[:, 0])
        first = np.cumsum(shapes[:, 0]) - shapes[:, 0]
        #: int (V,): the number of each variable within its model
        self.variable = np.arange(len(states)) - first[self.home]
        self._known: tuple[Any, Any] = (None, None)

    @cached_property
    def owner(self) -> np.ndarray:
        """int (n_coords,): the variable of each coordinate."""
        return np.repeat(np.arange(len(self.states)), self.states)

    @cached_property
    def label(self) -> np.ndarray:
        """int (n_coords,): the label of each coordinate."""
        return ranges(np.zeros_like(self.states), self.states)

    def costs(self, given: Any, name: str = "unary") -> np.ndarray:
        """float (n_coords,): costs, without NaN and -inf."""
        flat = _ravelled(given)
        place = self._place(name, given)
        flat = (flat if place is None else flat[place]).astype(float, copy=False)
        if np.isfinite(flat).all():
            return flat
        wrong = ~(flat > -np.inf)
        if wrong.any():
            at = int(wrong.argmax())
            v, l = int(self.owner[at]), int(self.label[at])
            raise ValueError(
                f"{name}{self.name(int(self.home[v]))}: the cost of variable {self.variable[v]}, "
                f"label {l} is {flat[at]}; expected finite costs, or +inf to forbid"
            )
        return flat

    def like(self, given: Any, rows: Sequence[np.ndarray]) -> Any:
        """Rows (V, L) of each model in the form of `given`, zeros beyond them."""
        shapes = [np.shape(a) for a in given]
        out = [
            own if own.shape == shape else _padded(own, shape) for own, shape in zip(rows, shapes)
        ]
        return out if isinstance(given, (list, tuple)) else np.stack(out)

    def rows(self, given: Any) -> list[np.ndarray]:
        """The rows (V, L) of each model in a padded array, or in one array for each."""
        return [np.asarray(a)[:n, :size] for a, (n, size) in zip(given, self.shapes.tolist())]

    def labels(self, given: Any, name: str = "truth") -> np.ndarray:
        """int (V,): labels of all variables, within their numbers of states."""
        whole = self._whole(given, name)
        wrong = np.flatnonzero((whole < 0) | (whole >= self.states))
        if len(wrong):
            v = int(wrong[0])
            raise ValueError(
                f"{name}{self.name(int(self.home[v]))}: variable {self.variable[v]} has states "
                f"0..{self.states[v] - 1}, got {whole[v]}"
            )
        return whole

    def _whole(self, given: Any, name: str) -> np.ndarray:
        self._check_number(name, given)
        shapes = [np.shape(a) for a in given]
        lengths = np.array([shape[0] if len(shape) == 1 else -1 for shape in shapes])
        wrong = np.flatnonzero(lengths < self.shapes[:, 0])
        if len(wrong):
            k = int(wrong[0])
            raise ValueError(
                f"{name}{self.name(k)}: expected shape ({self.shapes[k, 0]},), got {shapes[k]}"
            )
        chosen = _ravelled(given)
        if len(chosen) > len(self.states):
            chosen = chosen[(np.cumsum(lengths) - lengths)[self.home] + self.variable]
        if chosen.dtype.kind in "iu":
            return chosen.astype(np.int64)
        whole = chosen.astype(np.int64)
        if (whole != chosen).any():
            raise ValueError(f"{name}: expected whole numbers, got {chosen[whole != chosen][0]}")
        return whole

    def _place(self, name: str, given: Any) -> np.ndarray | None:
        """int (n_coords,): where the costs are in the ravelled arrays; None for all in order."""
        padded = not isinstance(given, (list, tuple))
        shapes = [np.shape(given)] if padded else [np.shape(a) for a in given]
        if self._known[0] == shapes:
            return self._known[1]
        self._check_number(name, given)
        each = [shapes[0][1:]] * len(self.shapes) if padded else shapes
        widest = int(self.shapes[:, 1].max())
        for k, (shape, (n, size)) in enumerate(zip(each, self.shapes.tolist())):
            size = widest if padded else size
            if len(shape) != 2 or shape[0] < n or shape[1] != size:
                raise ValueError(
                    f"{name}{self.name(k)}: expected shape ({n}, {size}), got {tuple(shape)}"
                )
        rows, columns = np.array(each).T
        if int(self.states.sum()) == int((rows * columns).sum()):
            self._known = (shapes, None)
            return None
        start = np.cumsum(rows * columns) - rows * columns
        of_variable = start[self.home] + self.variable * columns[self.home]
        place = of_variable[self.owner] + self.label
        self._known = (shapes, place)
        return place

    def _check_number(self, name: str, given: Any) -> None:
        if len(given) != len(self.shapes):
            raise ValueError(
                f"{name}: expected one for each of {len(self.shapes)} samples, got {len(given)}"
            )


def _padded(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`rows` with zeros below and to the right."""
    out = np.zeros(shape)
    out[: rows.shape[0], : rows.shape[1]] = rows
    return out


def _ravelled(given: Any) -> np.ndarray:
    """All numbers of an array, or of a list of arrays."""
    if not isinstance(given, (list, tuple)):
        return np.asarray(given).ravel()
    try:
        return np.concatenate(given).ravel()
    except ValueError:  # of different numbers of columns
        return np.concatenate([np.ravel(a) for a in given])

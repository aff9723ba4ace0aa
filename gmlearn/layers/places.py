"""Where the numbers of a network's arrays belong among the labels of joined models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmlearn.model.crf import CRF


class Places:
    """Costs and labels of a batch, as one padded array or one array for each model, to and from
    flat ones.

    Attributes
    ----------
    shapes : int (n, 2), variables and largest number of states of each model.
    names : what samples are called in messages.
    """

    def __init__(self, crfs: Sequence[CRF], names: Sequence[str] | None = None):
        self.shapes = np.array([(c.n_vars, c.n_states.max(initial=1)) for c in crfs], np.int64)
        self.names = [f"[{k}]" for k in range(len(crfs))] if names is None else list(names)
        states = np.concatenate([c.n_states for c in crfs])
        self.home = np.repeat(np.arange(len(crfs)), self.shapes[:, 0])
        first = np.cumsum(self.shapes[:, 0]) - self.shapes[:, 0]
        #: int (V,): the number of each variable within its model
        self.variable = np.arange(len(states)) - first[self.home]
        #: int (n_coords,): the variable and the label of each coordinate
        self.owner = np.repeat(np.arange(len(states)), states)
        self.label = np.arange(len(self.owner)) - np.repeat(np.cumsum(states) - states, states)
        self._known: tuple[Any, Any] = (None, None)

    def costs(self, given: Any, name: str = "unary") -> np.ndarray:
        """float (n_coords,): costs, without NaN and -inf."""
        flat = _ravelled(given)
        place = self._place(name, given)
        flat = flat.astype(float) if place is None else flat[place].astype(float)
        wrong = ~(flat > -np.inf)
        if wrong.any():
            at = int(wrong.argmax())
            v, l = int(self.owner[at]), int(self.label[at])
            raise ValueError(
                f"{name}{self.names[self.home[v]]}: the cost of variable {self.variable[v]}, label "
                f"{l} is {flat[at]}; expected finite costs, or +inf to forbid"
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
        """int (V,): labels of all variables."""
        lengths = np.array([np.shape(a)[0] if np.ndim(a) == 1 else -1 for a in given])
        self._check_number(name, given)
        wrong = np.flatnonzero(lengths < self.shapes[:, 0])
        if len(wrong):
            k = int(wrong[0])
            raise ValueError(
                f"{name}{self.names[k]}: expected shape ({self.shapes[k, 0]},), got "
                f"{np.shape(given[k])}"
            )
        flat = _ravelled(given)
        chosen = flat[(np.cumsum(lengths) - lengths)[self.home] + self.variable]
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
                    f"{name}{self.names[k]}: expected shape ({n}, {size}), got {tuple(shape)}"
                )
        rows, columns = np.array(each).T
        start = np.cumsum(rows * columns) - rows * columns
        of_variable = start[self.home] + self.variable * columns[self.home]
        place: np.ndarray | None = of_variable[self.owner] + self.label
        if len(self.owner) == int((rows * columns).sum()):
            place = None
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
    return np.concatenate([np.ravel(a) for a in given])

"""Named weight segments: users see a mapping, optimisers one flat vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array, did_you_mean


class WeightLayout:
    """Where each named segment lives in the flat weight vector.

    Parameters
    ----------
    segments : name -> shape.
    """

    def __init__(self, segments: Mapping[str, tuple[int, ...]]):
        if not (
            isinstance(segments, Mapping)
            and all(isinstance(shape, (tuple, list)) for shape in segments.values())
        ):
            raise TypeError(
                f"segments: expected a mapping name -> shape, got {type(segments).__name__}"
            )
        self.shapes = {name: tuple(int(n) for n in shape) for name, shape in segments.items()}
        self.slices: dict[str, slice] = {}
        self.size = 0
        for name, shape in self.shapes.items():
            length = math.prod(shape)
            self.slices[name] = slice(self.size, self.size + length)
            self.size += length

    @classmethod
    def merged(
        cls, parts: Iterable[Mapping[str, tuple[int, ...]]], what: str = "blocks"
    ) -> WeightLayout:
        """The union of several segment tables; one name with two shapes is an error."""
        merged: dict[str, tuple[int, ...]] = {}
        for part in parts:
            for name, shape in part.items():
                if merged.setdefault(name, tuple(shape)) != tuple(shape):
                    raise ValueError(
                        f"weight segment {name!r} has shape {merged[name]} in one of the {what} "
                        f"and "
                        f"{tuple(shape)} in another; rename one of them"
                    )
        return cls(merged)

    def split(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """Views of the flat `vector` (P,) by name."""
        return {
            name: vector[where].reshape(self.shapes[name]) for name, where in self.slices.items()
        }

    def join(
        self, parts: Mapping[str, np.ndarray], out: np.ndarray | None = None, scale: float = 1.0
    ) -> np.ndarray:
        """Add `scale` times the named parts to the flat vector `out` (zeros by default)."""
        out = np.zeros(self.size) if out is None else out
        for name, value in parts.items():
            if name in self.slices:
                out[self.slices[name]] += scale * np.asarray(value).ravel()
        return out

    def check(self, weights: Any, what: str = "weights") -> dict[str, np.ndarray]:
        """`weights` (a mapping, or one flat vector) as complete, finite arrays of the right
        shapes.
        """
        if weights is None:
            weights = {}
        if not isinstance(weights, Mapping):
            return self.split(check_array(what, weights, shape=(self.size,)))
        unknown = [name for name in weights if name not in self.shapes]
        if unknown:
            there = f"it has {sorted(self.shapes) or 'none'}"
            raise ValueError(
                f"{what}: the model has no weight segment {unknown[0]!r}; "
                f"{did_you_mean(unknown[0], self.shapes, there)}"
            )
        missing = [name for name in self.shapes if name not in weights]
        if missing:
            raise ValueError(
                f"{what}: no value given for the segment(s) {missing}; shapes: "
                f"{ {name: self.shapes[name] for name in missing} }"
            )
        result = {}
        for name, shape in self.shapes.items():
            value = check_array(f"{what}[{name!r}]", weights[name])
            if value.shape != shape and not (value.ndim <= 1 and value.size == int(np.prod(shape))):
                raise ValueError(f"{what}[{name!r}]: expected shape {shape}, got {value.shape}")
            result[name] = value.reshape(shape)
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightLayout) and self.shapes == other.shapes

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"WeightLayout({self.shapes})"

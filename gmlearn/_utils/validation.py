"""Checks at the door: every message names the argument, what was given and what is accepted."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np


def check_array(
    name: str,
    value: Any,
    *,
    ndim: int | tuple[int, ...] | None = None,
    shape: tuple[int | None, ...] | None = None,
    dtype: Any = np.float64,
    allow_inf: bool = False,
    allow_nan: bool = False,
) -> np.ndarray:
    """`value` as a contiguous array of `dtype`, or an error that names the argument.

    Parameters
    ----------
    shape : expected shape; None in a place accepts any length there.
    allow_inf : accept +inf (a hard constraint); -inf is never accepted unless NaN is.
    """
    try:
        array = np.asarray(value, dtype=dtype, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: expected numbers of type {np.dtype(dtype).name}, got {_describe(value)} "
            f"({error})"
        ) from None
    if np.issubdtype(array.dtype, np.integer):
        original = np.asarray(value)
        if original.dtype.kind == "f" and not np.array_equal(original, array):
            raise ValueError(f"{name}: expected whole numbers, got {_describe(value)}")
    if ndim is not None and array.ndim not in (ndim if isinstance(ndim, tuple) else (ndim,)):
        raise ValueError(
            f"{name}: expected {ndim} dimension(s), got an array of shape {array.shape}"
        )
    if shape is not None and (
        array.ndim != len(shape)
        or any(s is not None and s != t for s, t in zip(shape, array.shape))
    ):
        wanted = (
            "("
            + ", ".join("any" if s is None else str(s) for s in shape)
            + ("," if len(shape) == 1 else "")
            + ")"
        )
        raise ValueError(f"{name}: expected shape {wanted}, got {array.shape}")
    if array.dtype.kind == "f" and not allow_nan:
        if np.isnan(array).any():
            where = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
            raise ValueError(
                f"{name}: contains NaN (first at index {where}); only finite numbers"
                f"{' and +inf' if allow_inf else ''} are accepted"
            )
        if not allow_inf and np.isinf(array).any():
            where = tuple(int(i) for i in np.argwhere(np.isinf(array))[0])
            raise ValueError(
                f"{name}: contains inf (first at index {where}); only finite numbers are accepted"
            )
        if allow_inf and np.isneginf(array).any():
            where = tuple(int(i) for i in np.argwhere(np.isneginf(array))[0])
            raise ValueError(
                f"{name}: contains -inf (first at index {where}); a cost is finite, or +inf to "
                f"forbid"
            )
    return array


def check_index(
    name: str,
    value: Any,
    n: int,
    *,
    shape: tuple[int | None, ...] | None = None,
    ndim: int | None = None,
) -> np.ndarray:
    """`value` as int64 indices in 0..n-1."""
    array = check_array(name, value, shape=shape, ndim=ndim, dtype=np.int64)
    if array.size and (array.min() < 0 or array.max() >= n):
        bad = int(array[(array < 0) | (array >= n)][0])
        raise ValueError(f"{name}: expected indices in 0..{n - 1}, got {bad}")
    return array


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    strict: bool = False,
    integer: bool = False,
) -> Any:
    """`value` if it is a finite number within [low, high] (open ends with `strict`)."""
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind) or np.isnan(float(value)):
        raise ValueError(f"{name}: expected {'a whole' if integer else 'a'} number, got {value!r}")
    number = float(value)
    inside = (low < number < high) if strict else (low <= number <= high)
    if not inside:
        left, right = ("(", ")") if strict else ("[", "]")
        raise ValueError(
            f"{name}: expected a number in {left}{low:g}, {high:g}{right}, got {value!r}"
        )
    return value


def check_choice(name: str, value: Any, choices: tuple[str, ...] | list[str]) -> str:
    """`value` if it is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__}" + (
        f" of shape {shape}" if shape is not None else f" {str(value)[:60]!r}"
    )

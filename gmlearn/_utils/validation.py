"""Checks at the door: every message names the argument, what was given and what is accepted."""

from __future__ import annotations

import contextlib
import difflib
import numbers
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

#: larger finite numbers are refused: their squares and sums overflow
HUGE = 1e100


@contextlib.contextmanager
def naming(argument: str) -> Iterator[None]:
    """Errors of others' checks within it name the argument, too.

    >>> with naming("X"):
    ...     float("many")
    Traceback (most recent call last):
    ...
    ValueError: X: could not convert string to float: 'many'
    """
    try:
        yield
    except (ValueError, TypeError, LookupError) as error:
        if argument in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{argument}: {error}") from error


def validate_data(estimator: Any, X: Any, **settings: Any) -> Any:
    """scikit-learn's checks of an estimator's table X, whose errors name it."""
    from sklearn.utils.validation import validate_data as checked

    with naming("X"):
        return checked(estimator, X, **settings)


def check_random_state(value: Any) -> np.random.RandomState:
    """The generator of an estimator's `random_state`: None, a seed, or a RandomState."""
    from sklearn.utils import check_random_state as made

    with naming("random_state"):
        return made(value)


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
    allow_nan : accept anything that is not a number beyond `HUGE`.
    """
    array = _as_numbers(name, value, np.dtype(dtype))
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
    if array.dtype.kind == "f" and array.size:
        _check_finite(name, array, allow_inf, allow_nan)
    return array


def _as_numbers(name: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """`value` as an array of `dtype`, if that changes none of its numbers."""
    try:
        given = np.asarray(value)
        if np.ma.getmask(value) is not np.ma.nomask and np.any(np.ma.getmask(value)):
            raise ValueError("some entries are masked; fill or leave them out")
        if given.dtype.kind not in "biufO":
            raise ValueError(f"its dtype is {given.dtype}")
        with np.errstate(invalid="ignore"):
            array = np.asarray(given, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name}: expected numbers of type {dtype.name}, got {_describe(value)} ({error})"
        ) from None
    if dtype.kind in "iub" and given.dtype != dtype and not _unchanged(given, array):
        wanted = "True or False" if dtype.kind == "b" else f"whole numbers of type {dtype.name}"
        raise ValueError(f"{name}: expected {wanted}, got {given.dtype}: {_short(value)}")
    return array


def _unchanged(given: np.ndarray, array: np.ndarray) -> bool:
    """Did the numbers survive the cast? An unsigned one may have wrapped around."""
    if given.dtype.kind == "u" and array.dtype.kind == "i" and array.size and array.min() < 0:
        return False
    return given.dtype.kind == "b" or np.array_equal(given, array)


def _check_finite(name: str, array: np.ndarray, allow_inf: bool, allow_nan: bool) -> None:
    """Refuse NaN, infinities that are not allowed, and numbers whose square would overflow."""
    low, high = array.min(), array.max()  # NaN if there is one
    if low >= -HUGE and high <= HUGE:
        return
    size = np.abs(array)
    wrong = [
        (np.isnan(array), "NaN", not allow_nan),
        (array == np.inf, "inf", not (allow_inf or allow_nan)),
        (array == -np.inf, "-inf", not allow_nan),
        ((size > HUGE) & (size < np.inf), f"a number beyond {HUGE:g}", True),
    ]
    for found, what, refused in wrong:
        if refused and found.any():
            where = tuple(int(i) for i in np.argwhere(found)[0])
            raise ValueError(
                f"{name}: contains {what} (first at index {where}); only finite numbers up to "
                f"{HUGE:g}{', or +inf to forbid,' if allow_inf else ''} are accepted"
            )


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
    try:
        number = float(value) if isinstance(value, kind) and not isinstance(value, bool) else np.nan
    except OverflowError:
        number = -np.inf
    if np.isnan(number) or (integer and abs(number) >= 2**63):
        size = " of 64 bits" if abs(number) >= 2**63 else ""
        wanted = "a whole" if integer else "a"
        raise ValueError(f"{name}: expected {wanted} number{size}, got {_short(value)}")
    inside = (low < number < high) if strict else (low <= number <= high)
    if not inside:
        left, right = ("(", ")") if strict else ("[", "]")
        raise ValueError(
            f"{name}: expected a number in {left}{low:g}, {high:g}{right}, got {_short(value)}"
        )
    return value


def check_flag(name: str, value: Any) -> bool:
    """`value` as True or False, if it is one of them (or 0 or 1)."""
    if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
        raise TypeError(f"{name}: expected True or False, got {_short(value)}")
    return bool(value)


def check_sequence(name: str, value: Any, of: str) -> list[Any]:
    """The items of a sequence; text and mappings are none."""
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: expected a list of {of}, got {type(value).__name__}")
    return list(value)


def is_number(value: Any) -> bool:
    """Is it one number, and not an array or a list?"""
    return not isinstance(value, (list, tuple)) and np.ndim(value) == 0


def check_choice(name: str, value: Any, choices: tuple[Any, ...] | list[str]) -> Any:
    """`value` if it is one of `choices`."""
    if not isinstance(value, (str, numbers.Number)) or value not in choices:
        raise ValueError(
            f"{name}: expected one of {', '.join(map(repr, choices))}, got {_short(value)}"
        )
    return value


def did_you_mean(name: Any, known: Iterable[str], otherwise: str = "") -> str:
    """A question with the names close to one that is not known; `otherwise` if there are none."""
    near = difflib.get_close_matches(str(name), sorted(known), n=3, cutoff=0.5)
    return f"did you mean {', '.join(map(repr, near))}?" if near else otherwise


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ + (
        f" of shape {shape}" if shape is not None else _short(value, " ")
    )


def _short(value: Any, before: str = "") -> str:
    """The value as a message shows it."""
    text = repr(value)
    return before + (text if len(text) <= 60 else f"{text[:57]}...")

"""What travels between processes that trust one another: requests, results, and errors as they
were.

Nothing here ever reads a file: pickled bytes come only from a worker that this process started or
was told to use.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

#: pickled bytes, or an array of them
Buffer = bytes | np.ndarray
dumps: Callable[[Any], bytes] = cloudpickle.dumps
loads: Callable[[Buffer], Any] = cloudpickle.loads


def outcome(function: Callable[..., Any], *args: Any) -> tuple[str, Buffer]:
    """("value", the pickled result), or ("error", the pickled exception)."""
    try:
        return "value", dumps(function(*args))
    except Exception as error:  # whatever a shard raises belongs to the caller
        return "error", dumps(_pack(error))


def unpack(answer: tuple[str, Buffer]) -> Any:
    """The result, or the exception raised as it was, with the remote traceback as a note."""
    kind, content = answer
    if kind == "value":
        return loads(content)
    recipe, parts, trace = loads(content)
    error = recipe(*parts)
    error.add_note(f"On the worker:\n{trace}")
    raise error


def _pack(error: Exception) -> tuple[Callable[..., Exception], tuple, str]:
    """(a function that makes the exception again, its arguments, the traceback).

    Exceptions are often not what their pickle makes of them (a constructor that refuses its own
    args), so what comes out is compared before it is sent.
    """
    trace = "".join(traceback.format_exception(error)).rstrip()
    for recipe in (_whole, _called, _bare):
        try:
            parts = (
                (dumps(error),) if recipe is _whole else (type(error), error.args, error.__dict__)
            )
            again = recipe(*loads(dumps(parts)))
        # any constructor or pickle may refuse: the next recipe, and the last resort says why
        except Exception as reason:
            refusal = f"{type(reason).__name__}: {reason}"
            continue
        if type(again) is type(error) and str(again) == str(error):
            return recipe, parts, trace
        refusal = "it does not survive pickling"
    return (
        _called,
        (RuntimeError, (f"{type(error).__name__}: {error} (not sent as it was: {refusal})",), {}),
        trace,
    )


def _whole(content: bytes) -> Exception:
    return loads(content)


def _called(cls: type[Exception], args: tuple, attributes: dict[str, Any]) -> Exception:
    error = cls(*args)
    error.__dict__.update(attributes)
    return error


def _bare(cls: type[Exception], args: tuple, attributes: dict[str, Any]) -> Exception:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(attributes)
    return error

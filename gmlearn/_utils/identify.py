"""A text that tells one object from another, for checkpoints."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Set
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

#: bytes of an array that are hashed one by one
SMALL = 2**10


def identify(thing: Any) -> str:
    """A stable text with the class and all parameters of an object, arrays included.

    Functions count by name, code, defaults and what they close over; other objects by what a copy
    would be made of.
    """
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes)):
        return repr(thing)
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        return f"{thing.dtype.str}{thing.shape}:{_array_digest(thing)}"
    if isinstance(thing, (list, tuple)):
        return f"[{', '.join(map(identify, thing))}]"
    if isinstance(thing, (type, FunctionType, ModuleType)):
        if not isinstance(thing, FunctionType):
            return _name(thing)
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return f"{_name(thing)}:{digest([thing.__code__, thing.__defaults__, cells])}"
    if isinstance(thing, CodeType):
        return identify([thing.co_code, thing.co_names, thing.co_consts])
    if isinstance(thing, (Mapping, Set)):
        items = thing.items() if isinstance(thing, Mapping) else thing
        return f"{{{', '.join(sorted(map(identify, items)))}}}"
    try:
        reduced = thing.__reduce_ex__(2)
    except TypeError:
        raise ValueError(
            f"fingerprint: a {type(thing).__name__} cannot be told from others of its kind; give "
            f"the class that holds it a `fingerprint()` of its own"
        ) from None
    return reduced if isinstance(reduced, str) else identify(reduced[1:3])


def identify_function(function: Any) -> str:
    """The name of a function, or of a class that can be called, and a digest of its code.

    What it closes over is left out: a counter or a list of results may change between two runs. A
    function without code of its own (a built-in one) is said to be unidentified.
    """
    if isinstance(function, functools.partial):
        return identify_function(function.func)
    if isinstance(function, MethodType):
        function = function.__func__
    elif not isinstance(function, FunctionType):
        function = vars(type(function)).get("__call__")
    if not isinstance(function, FunctionType):
        return "unidentified"
    return f"{_name(function)}:{digest(function.__code__)}"


def digest(thing: Any) -> str:
    """`identify` in 32 characters."""
    return hashlib.blake2b(identify(thing).encode(), digest_size=16).hexdigest()


def _array_digest(array: np.ndarray) -> str:
    """A hash of the memory; of a large array, of what a kernel folds it into.

    blake2b of all bytes takes fifteen times as long, which is a good part of a training pass.
    """
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    found = hashlib.blake2b(digest_size=16)
    if raw.size > SMALL:
        # imported here, since listing plugins loads no compiler
        from gmlearn._utils._hash_numba import hash_words

        whole = raw.size // 64 * 64
        lanes = np.zeros(8, np.uint64)
        hash_words(raw[:whole].view(np.uint64), lanes)
        found.update(lanes.data)
        raw = raw[whole:]
    found.update(raw.data)
    return found.hexdigest()


def _name(thing: Any) -> str:
    own = getattr(thing, "__qualname__", thing.__name__)
    return f"{getattr(thing, '__module__', '')}.{own}"

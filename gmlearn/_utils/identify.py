"""A text that tells one object from another, for checkpoints.

Objects are walked through, which gives texts; the numbers of arrays are folded into one hash on the
way, so that an array costs little more than its memory takes to be read.
"""

from __future__ import annotations

import dis
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Set
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

#: what stands for a function or an object that cannot be told from others
UNIDENTIFIED = "<unidentified>"
#: bytes up to which an array is kept as it is, and 64-bit words that are folded side by side
SMALL = 1024
LANES = 128
#: beginnings of modules whose classes count by name alone
KNOWN = ("gmlearn", "builtins", "numpy", "typing")
CONSTANTS = frozenset([type(None), bool, int, float, complex, str, bytes])


def identify(thing: Any) -> str:
    """A stable text with the class and all parameters of an object, arrays included.

    Functions count by name, code, defaults and what they close over; other objects by what a copy
    would be made of, and by the code of their class unless it is one of gmlearn.
    """
    walk = Walk()
    walk.add(thing)
    return walk.text()


def identify_function(function: Any) -> str:
    """The name of a function, or of a class that can be called, and a digest of its code, its
    defaults, and the constants and arrays that it closes over.

    Lists, other objects and variables that it sets itself are left out: a counter or a list of
    results may change between two runs. A function without code of its own (a built-in one) is
    `UNIDENTIFIED`.
    """
    given: list[Any] = []
    while isinstance(function, functools.partial):
        given += [*function.args, *sorted(function.keywords.items())]
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, FunctionType):
        function = vars(type(function)).get("__call__")
    if not isinstance(function, FunctionType):
        return UNIDENTIFIED
    given += [function.__defaults__, *sorted((function.__kwdefaults__ or {}).items())]
    given += _closed_over(function)
    return f"{_name(function)}:{digest([function.__code__, _steady(tuple(given))])}"


def digest(thing: Any) -> str:
    """`identify` in 32 characters."""
    return hashlib.blake2b(identify(thing).encode(), digest_size=16).hexdigest()


class Walk:
    """The texts of what was met so far, and a hash of the arrays in the same order.

    Lengths are among the texts, so arrays need no mark between them.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.small: list[bytes] = []
        self.lanes: np.ndarray | None = None
        self.within: list[int] = []

    def add(self, thing: Any) -> None:
        """Walk through `thing`; a ValueError says that a part of it cannot be identified."""
        kind: Any = type(thing)
        if kind is np.ndarray and not thing.dtype.hasobject:
            self._add_array(thing)
        elif kind in CONSTANTS:
            self.texts.append(repr(thing))
        elif id(thing) in self.within:  # an object that holds itself
            self.texts.append(f"<{self.within.index(id(thing))}>")
        else:
            self.within.append(id(thing))
            if kind is tuple or kind is list:
                self._add_all("[", thing)
            elif kind is dict:
                self._add_mapping(thing)
            else:
                self._add_parts(thing)
            self.within.pop()

    def try_add(self, thing: Any) -> None:
        """The same; what cannot be identified is marked as such."""
        try:
            self.add(thing)
        except ValueError:
            self.texts.append(UNIDENTIFIED)
            self.within = []

    def text(self) -> str:
        """All texts, and the hash of the arrays if there were any."""
        found = ", ".join(self.texts)
        if not self.small and self.lanes is None:
            return found
        numbers = hashlib.blake2b(b"".join(self.small), digest_size=16)
        if self.lanes is not None:
            numbers.update(self.lanes.data)
        return f"{found}:{numbers.hexdigest()}"

    @classmethod
    def merged(cls, walks: Iterable[Walk]) -> Walk:
        """One walk for several, which were made apart."""
        whole = cls()
        lanes = []
        for walk in walks:
            whole.texts += [*walk.texts, "." if walk.lanes is None else ";"]
            whole.small += walk.small
            lanes += [] if walk.lanes is None else [walk.lanes]
        if lanes:
            whole.lanes = np.zeros(LANES, np.uint64)
            _hash_words()(np.concatenate(lanes), whole.lanes)
        return whole

    def _add_all(self, mark: str, things: Iterable[Any]) -> None:
        self.texts.append(mark)
        for thing in things:
            self.add(thing)
        self.texts.append("]")

    def _add_mapping(self, things: Mapping[Any, Any]) -> None:
        if set(map(type, things)) == {str}:
            self._add_all("{", [part for key in sorted(things) for part in (key, things[key])])
        else:
            self._add_all("{", sorted(map(identify, things.items())))

    def _add_items(self, thing: Any) -> None:
        """Class, items and attributes of a set, or of a kind of list or mapping."""
        self.add(type(thing))
        if isinstance(thing, Mapping):
            self._add_mapping(thing)
        else:
            self._add_all("[", sorted(map(identify, thing)) if isinstance(thing, Set) else thing)
        self.add(getattr(thing, "__dict__", None))

    def _add_parts(self, thing: Any) -> None:
        if isinstance(thing, (list, tuple, Mapping, Set)):
            self._add_items(thing)
        elif isinstance(thing, np.generic) and type(thing.item()) in CONSTANTS:
            self.texts.append(repr(thing.item()))
        elif isinstance(thing, type):
            self.texts.append(_class_text(thing))
        elif isinstance(thing, CodeType):
            self._add_all("code", (thing.co_code, thing.co_names, thing.co_consts))
        elif isinstance(thing, ModuleType):
            self.texts.append(_name(thing))
        elif isinstance(thing, FunctionType):
            cells = [_content(cell) for cell in thing.__closure__ or ()]
            own = (thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells)
            self._add_all(_name(thing), own)
        elif isinstance(getattr(thing, "__wrapped__", None), FunctionType):  # by a compiler, say
            self._add_all("wrapped", (type(thing), thing.__wrapped__))
        else:
            self._add_object(thing)

    def _add_object(self, thing: Any) -> None:
        try:
            reduced = thing.__reduce_ex__(2)
        except Exception:  # whatever pickle, or the object itself, says
            raise ValueError(
                f"fingerprint: a {type(thing).__name__} cannot be told from others of its kind; "
                f"give the class that holds it a `fingerprint()` of its own"
            ) from None
        if isinstance(reduced, str):
            self.texts.append(reduced)
            return
        maker, *parts = reduced
        self.texts.append(_class_text(maker) if isinstance(maker, type) else _name(maker))
        # what it is made with, its state, and the items of a list or a mapping
        self._add_all("[", [*parts[:2], *(list(items) for items in parts[2:4] if items)])

    def _add_array(self, array: np.ndarray) -> None:
        self.texts.append(f"{array.dtype.str}{array.shape}")
        if array.nbytes <= SMALL:
            self.small.append(array.tobytes())
            return
        if not array.flags.carray:  # the kernel is compiled for one kind of array
            array = np.array(array, order="C")
        flat = array.reshape(-1)
        if flat.itemsize % 8:
            flat = flat.view(np.uint8)
            whole = len(flat) // 8 * 8
            self.small.append(flat[whole:].tobytes())
            flat = flat[:whole]
        if self.lanes is None:
            self.lanes = np.zeros(LANES, np.uint64)
        _hash_words()(flat.view(np.uint64), self.lanes)


@functools.cache
def _hash_words() -> Callable[[np.ndarray, np.ndarray], None]:
    """Loaded when an array is hashed, since listing plugins loads no compiler."""
    from gmlearn._utils._hash_numba import hash_words

    return hash_words


@functools.cache
def _class_text(kind: Any) -> str:
    """The name of a class, and a digest of its functions and constants unless it is one of
    gmlearn, whose versions share their checkpoints.
    """
    own: list[Any] = []
    for base in kind.__mro__:
        if not base.__module__.startswith(KNOWN):
            members = (_member(name, value) for name, value in sorted(vars(base).items()))
            # of the others not even the number: Python keeps caches among them
            own += [member for member in members if member is not None]
    return f"{_name(kind)}:{digest(own)}" if own else _name(kind)


def _member(name: str, value: Any) -> Any:
    """What a function, method, property or constant of a class is; None of anything else."""
    function = getattr(value, "fget", getattr(value, "__func__", value))
    if isinstance(function, FunctionType):
        return name, identify_function(function)
    hidden = name.startswith("__") and name.endswith("__")
    return None if hidden or type(value) not in CONSTANTS else (name, value)


def _closed_over(function: FunctionType) -> list[Any]:
    """The contents of a function's cells, without those that it sets itself."""
    code = function.__code__
    sets = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_DEREF"}
    cells = zip(code.co_freevars, function.__closure__ or ())
    return [_content(cell) for name, cell in cells if name not in sets]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return "empty"


def _steady(thing: Any) -> Any:
    """Constants, arrays, functions and tuples of them; of other things the kind alone."""
    if type(thing) in CONSTANTS or isinstance(thing, (np.ndarray, np.generic)):
        return thing
    if isinstance(thing, FunctionType):
        return [_name(thing), thing.__code__]
    if isinstance(thing, tuple):
        return [_steady(part) for part in thing]
    return type(thing).__name__


def _name(thing: Any) -> str:
    own = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "")
    return f"{getattr(thing, '__module__', '')}.{own}"

"""Kernels compiled when a package is built, and loaded when they are first called.

numba caches what it compiles, but the first call on a machine still pays for all of it. A package
may therefore ship compiled kernels in its folder ``_prebuilt/LEVEL/``, in numba's own cache
format, made by ``build`` (which ``hatch_build.py`` calls) from the signatures in its file
``kernels.txt``. Where a kernel is looked for: in the user's cache (compiled for this very CPU),
then here, then it is compiled as usual. Another version of numba, llvmlite or Python, another
platform, a CPU below the level, or kernel sources that have changed since: each of these only means
that nothing is found here.

``install`` is an entry point of the group ``numba_extensions``, which numba calls before it
compiles or loads anything. ``GMLEARN_PREBUILT=0`` turns the look-up off.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: what LLVM's level x86-64-v3 may use
V3_FEATURES = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
#: a package's list of the signatures that are worth compiling ahead: module, function, arguments
LIST = "kernels.txt"
#: how one kernel module imports from another
IMPORTED = re.compile(rb"^from (\S+_numba) import", re.MULTILINE)


class Kernel(NamedTuple):
    """One line of ``kernels.txt``; `arguments` is a JSON list, see ``spell``."""

    module: str
    function: str
    arguments: str

    def dispatcher(self) -> Any:
        return getattr(importlib.import_module(self.module), self.function)

    def signature(self) -> tuple:
        """The types of the arguments."""
        return tuple(_read(spelt) for spelt in json.loads(self.arguments))

    def compile(self) -> None:
        """Compile, or load from the user's cache; nothing if that was done before."""
        self.dispatcher().compile(self.signature())


def spell(kind: Any) -> Any:
    """A numba type in JSON: "float64", "float64 2 C" for an array ("2 C r": read only), a list for
    a tuple, headed by its class if it is named. LookupError for what cannot be written so.
    """
    from numba import types

    if isinstance(kind, types.Array):
        return f"{kind.dtype} {kind.ndim} {kind.layout}{'' if kind.mutable else ' r'}"
    if isinstance(kind, types.BaseTuple):
        named = getattr(kind, "instance_class", tuple)
        head = "" if named is tuple else f"{named.__module__}:{named.__qualname__}"
        return [head, *map(spell, kind)]
    if str(kind) in _scalars():
        return str(kind)
    raise LookupError(f"no spelling for the numba type {kind!r}")


def _read(spelt: Any) -> Any:
    """The numba type of what ``spell`` wrote."""
    from numba import types

    if isinstance(spelt, list):
        module, _, name = spelt[0].partition(":")
        named = getattr(importlib.import_module(module), name) if module else None
        return types.BaseTuple.from_types([_read(part) for part in spelt[1:]], named)
    dtype, *array = spelt.split()
    scalar = _scalars()[dtype]
    return types.Array(scalar, int(array[0]), array[1], "r" in array[2:]) if array else scalar


@functools.cache
def _scalars() -> dict[str, Any]:
    from numba import types

    kinds = [types.none, types.boolean, *types.integer_domain, *types.real_domain]
    return {str(kind): kind for kind in kinds}


def listed(packages: Iterable[str]) -> list[Kernel]:
    """The kernels that the packages list, those without a list left out."""
    found = []
    for package in packages:
        path = _home(package) / LIST
        if path.exists():
            for line in path.read_text().splitlines():
                found.append(Kernel(*line.split(" ", 2)))
    return found


@functools.cache
def level() -> str:
    """The level of this CPU: what shipped kernels may ask of it."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if platform.machine().lower() in ("x86_64", "amd64") and all(
        features.get(name) for name in V3_FEATURES
    ):
        return "x86-64-v3"
    return "generic"


@functools.cache
def _home(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ValueError(f"no package {package!r} is installed")
    return Path(spec.origin).parent


@functools.cache
def _stamp(module: str) -> str:
    """Changes with whatever the machine code depends on beside numba's and Python's versions,
    which the files themselves carry: the source of the module and of the kernel modules that it
    imports (kernels call each other), llvmlite, the platform.
    """
    import llvmlite

    parts = hashlib.sha256(
        f"{llvmlite.__version__} {platform.system()} {platform.machine()}".encode()
    )
    for name, source in sorted(_sources(module).items()):
        parts.update(f"{name}\n".encode() + source)
    return parts.hexdigest()


def _sources(module: str) -> dict[str, bytes]:
    """The text of a kernel module and of those that it imports, directly or not, by their names."""
    found: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        spec = None if name in found else importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        found[name] = Path(spec.origin).read_bytes()
        for imported in IMPORTED.findall(found[name]):
            waiting.append(importlib.util.resolve_name(imported.decode(), spec.parent))
    return found


@functools.cache
def _folder(package: str) -> Path | None:
    """The compiled kernels of a package for this CPU; None if it ships none."""
    loaded = sys.modules.get(package)
    home = getattr(loaded, "__file__", None)
    folder = Path(home).parent / "_prebuilt" / level() if home else None
    return folder if folder is not None and folder.is_dir() else None


def shipped_for(package: str) -> str | None:
    """The level of the compiled kernels that a package ships and this installation can use."""
    kernels = listed([package])
    folder = _folder(package)
    usable = folder is not None and any(_shipped(k, folder) for k in kernels)
    return f"compiled ahead for {level()}" if usable else None


def _file(cache: Any, folder: Path) -> Any:
    """numba's own file of compiled versions of one kernel, in this folder."""
    from numba.core import caching

    stamp = _stamp(cache._py_func.__module__)
    return caching.IndexDataCacheFile(str(folder), cache._impl.filename_base, stamp)


def _key(cache: Any, signature: Any) -> tuple[str, str]:
    return str(signature), hashlib.sha256(cache._py_func.__code__.co_code).hexdigest()


def _load(cache: Any, signature: Any, target: Any) -> Any:
    """The compiled kernel; None wherever anything is missing or differs."""
    package = cache._py_func.__module__.partition(".")[0]
    folder = _folder(package)
    if folder is None:
        return None
    # numba's private classes: whatever went wrong, the kernel can still be compiled
    with contextlib.suppress(Exception):
        data = _file(cache, folder).load(_key(cache, signature))
        return None if data is None else cache._impl.rebuild(target, data)
    return None


def install() -> None:
    """Let numba look for shipped kernels where its own cache has none.

    A cache that was written by another version may name classes that now stand elsewhere. numba
    looks these up before it compares versions, and fails; here such a cache is emptied.
    """
    from numba.core import caching

    usual: Callable = caching.FunctionCache.load_overload
    if hasattr(usual, "shipped"):
        return

    @functools.wraps(usual)
    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        try:
            found = usual(self, sig, target_context)
        except (AttributeError, ImportError):
            self.flush()
            found = None
        return _load(self, sig, target_context) if found is None and _enabled else found

    load_overload.shipped = True  # type: ignore[attr-defined]
    caching.FunctionCache.load_overload = load_overload


_enabled = os.environ.get("GMLEARN_PREBUILT") != "0"


@contextlib.contextmanager
def ignored() -> Iterator[None]:
    """Compile for this very CPU, whatever is shipped."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


def build(packages: Iterable[str], part: int = 0, parts: int = 1) -> int:
    """Compile the listed kernels of packages into their folders, except those there and fresh;
    returns how many there are. A line that fits no kernel any more is reported and left out.

    Processes may share the work: each compiles one of the `parts`. All signatures of a kernel
    belong to one part, since numba keeps them in one file.
    """
    kernels = listed(packages)
    functions = sorted({(kernel.module, kernel.function) for kernel in kernels})
    mine = set(functions[part::parts])
    return sum(_built(kernel) for kernel in kernels if (kernel.module, kernel.function) in mine)


def _built(kernel: Kernel) -> bool:
    folder = _home(kernel.module.partition(".")[0]) / "_prebuilt" / level()
    folder.mkdir(parents=True, exist_ok=True)
    return _shipped(kernel, folder) or _ship(kernel, folder)


def _shipped(kernel: Kernel, folder: Path) -> bool:
    with contextlib.suppress(AttributeError, ImportError):
        cache = kernel.dispatcher()._cache
        return _file(cache, folder).load(_key(cache, kernel.signature())) is not None
    return False


def _ship(kernel: Kernel, folder: Path) -> bool:
    """Compile one kernel into the folder."""
    try:
        kernel.compile()
        dispatcher = kernel.dispatcher()
        signature = kernel.signature()
        cache = dispatcher._cache
        data = cache._impl.reduce(dispatcher.overloads[signature])
        _file(cache, folder).save(_key(cache, signature), data)
    except Exception as error:  # numba's errors share no base class with import errors
        reason = str(error).strip().partition("\n")[0]
        print(f"left out: {kernel.module}.{kernel.function}: {reason}", file=sys.stderr)
        return False
    return True

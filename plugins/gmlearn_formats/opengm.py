"""OpenGM's models in HDF5 files.

The HDF5 library is not written for hostile files, so a child process opens the file and hands
over plain arrays; whatever happens to it, this process lives on.
"""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

import numpy as np

import gmlearn as gm

#: seconds for opening a file, and a rate that no sound file falls below
SECONDS, BYTES_PER_SECOND = 60.0, 2**22
#: the names of functions are this number plus one of `_KINDS`
OFFSET = 16000


class OpenGM(gm.FileFormat):
    """Sums of functions with shared tables, as OpenGM saves them; costs are energies.

    Explicit tables (first variable fastest), Potts functions, squared and truncated differences
    and constants are read; other functions are refused by their number. Needs h5py, the extra
    ``hdf5``. The first group that has a model's header is taken.
    """

    name = "opengm"
    extensions = (".h5", ".hdf5")

    def read(self, path: str | os.PathLike) -> gm.CRF:
        arrays = _read_in_child(path)
        model = _Model(path, arrays)
        return model.build(os.path.getsize(path))


def _read_in_child(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of the file's model, by name."""
    if importlib.util.find_spec("h5py") is None:
        raise ImportError(f"{os.fspath(path)}: OpenGM's files need h5py: install gmlearn[hdf5]")
    seconds = SECONDS + os.path.getsize(path) / BYTES_PER_SECOND
    command = [sys.executable, "-m", "gmlearn_formats._hdf5_child", os.fspath(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise gm.FormatError(path, "an HDF5 file", f"one that takes over {seconds:.0f} s") from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
        reason = told[:200] if done.returncode > 0 else f"signal {-done.returncode}"
        raise gm.FormatError(path, "an HDF5 file with a model of OpenGM", reason)
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as archive:
        return dict(archive)


class _Model:
    """The header, functions and factors of a file, with every number checked."""

    def __init__(self, path: str | os.PathLike, arrays: dict[str, np.ndarray]):
        self.path = path
        self.arrays = arrays
        header = self._whole("header")
        if len(header) < 5 or len(header) < 5 + 2 * header[4]:
            self._fail("a header with a version, sizes and kinds of functions", f"{len(header)}")
        self.n_factors = int(header[3])
        kinds = header[5 : 5 + 2 * int(header[4])].reshape(-1, 2)
        self.states = self._whole("numbers-of-states")
        if len(self.states) != header[2] or not len(self.states) or self.states.min() < 1:
            self._fail(f"{header[2]} variables with states", f"{len(self.states)}")
        self.kinds = [(int(kind), int(number)) for kind, number in kinds]

    def build(self, n_characters: int) -> gm.CRF:
        builder = gm.ModelBuilder(self.states, self._fail, n_characters)
        tables = [self._functions(kind, number) for kind, number in self.kinds]
        factors = self._whole("factors") if self.n_factors else np.zeros(0, np.int64)
        place = 0
        for _ in range(self.n_factors):
            function, kind, arity = self._slice(factors, place, 3).tolist()
            scope = self._slice(factors, place + 3, arity)
            place += 3 + arity
            if kind >= len(tables) or function >= len(tables[kind]):
                self._fail("factors with functions of the file", f"function {function} of {kind}")
            if len(scope) and scope.max() >= len(self.states):
                self._fail(f"variables in 0..{len(self.states) - 1}", str(scope.max()))
            self._add(builder, scope, tables[kind][function])
        if place != len(factors):
            self._fail(f"{self.n_factors} factors", "further numbers")
        return builder.finish()

    def _add(self, builder: gm.ModelBuilder, scope: np.ndarray, table: np.ndarray) -> None:
        if table.shape != builder.shape(scope):
            self._fail(f"a table of shape {builder.shape(scope)}", f"{table.shape}")
        order = np.argsort(scope, kind="stable")
        same = np.array_equal(order, np.arange(len(scope)))
        flat = table.reshape(-1) if same else np.ascontiguousarray(table.transpose(order)).ravel()
        builder.add(scope[order], flat)

    def _functions(self, kind: int, number: int) -> list[np.ndarray]:
        """The tables of all functions of one kind, last variable fastest."""
        if not number:
            return []
        if kind - OFFSET not in _KINDS:
            known = ", ".join(str(OFFSET + k) for k in _KINDS)
            self._fail(f"functions with a number among {known}", str(kind))
        index = self._whole(f"function-id-{kind}/indices")
        values = np.asarray(self.arrays.get(f"function-id-{kind}/values", ()), float)
        if np.isnan(values).any() or np.isneginf(values).any():
            self._fail("costs that are numbers or inf", "NaN or -inf")
        read = _KINDS[kind - OFFSET]
        tables = []
        for _ in range(number):
            sized = kind - OFFSET in (0, 8)
            dimension = int(self._slice(index, 0, 1)[0]) if sized else 2
            shape = self._slice(index, int(sized), dimension)
            index = index[int(sized) + dimension :]
            size = float(np.prod(shape, dtype=float))
            if size > max(len(values), gm.ModelBuilder.MAX_DECLARED):
                self._fail("tables that the file has room for", f"{size:.3g} entries")
            table, used = read(tuple(shape.tolist()), values)
            if used > len(values):
                self._fail(f"{used} values of a function", str(len(values)))
            values = values[used:]
            tables.append(table)
        return tables

    def _whole(self, name: str) -> np.ndarray:
        found = self.arrays.get(name)
        if found is None or found.ndim != 1 or found.dtype.kind not in "iu":
            self._fail(f"whole numbers as {name!r}", "none" if found is None else str(found.dtype))
        if found.size and (found.max() > 2**40 or found.min() < 0):
            self._fail(f"numbers in 0..2^40 as {name!r}", str(found.max()))
        return found.astype(np.int64)

    def _slice(self, array: np.ndarray, start: int, n: int) -> np.ndarray:
        if start + n > len(array):
            self._fail(f"{start + n} numbers", str(len(array)))
        return array[start : start + n]

    def _fail(self, expected: str, got: str) -> NoReturn:
        raise gm.FormatError(self.path, expected, got)


Reader = Callable[[tuple[int, ...], np.ndarray], tuple[np.ndarray, int]]


def _explicit(shape: tuple[int, ...], values: np.ndarray) -> tuple[np.ndarray, int]:
    size = int(np.prod(shape, dtype=np.int64))
    if size > len(values):
        return np.zeros(0), size
    return np.ascontiguousarray(values[:size].reshape(shape, order="F")), size


def _differences(power: int, truncated: bool) -> Reader:
    """weight * min(|x - y|^power, truncation)."""

    def read(shape: tuple[int, ...], values: np.ndarray) -> tuple[np.ndarray, int]:
        used = 1 + truncated
        if used > len(values):
            return np.zeros(0), used
        x, y = np.indices(shape)
        gap = np.abs(x - y).astype(float) ** power
        if truncated:
            gap = np.minimum(gap, values[0])
        return values[used - 1] * gap, used

    return read


def _potts(shape: tuple[int, ...], values: np.ndarray) -> tuple[np.ndarray, int]:
    if len(values) < 2:
        return np.zeros(0), 2
    x, y = np.indices(shape)
    return np.where(x == y, values[0], values[1]), 2


def _constant(shape: tuple[int, ...], values: np.ndarray) -> tuple[np.ndarray, int]:
    return np.full(shape, values[0] if len(values) else 0.0), 1


_KINDS: dict[int, Reader] = {
    0: _explicit,
    3: _differences(1, True),
    4: _differences(2, False),
    5: _differences(2, True),
    6: _potts,
    8: _constant,
}

"""From the factors of a file to a model: unary costs, and one block of tables for each arity."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from gmlearn._utils.validation import HUGE
from gmlearn.io.text import SAFE_BYTES
from gmlearn.model import CRF
from gmlearn.potentials import Table

#: how many more labels or entries than `ModelBuilder.MAX_DECLARED` each further character of a
#: long file may declare
DECLARED_PER_CHARACTER = 32
#: variables of one factor; numpy arrays have at most 64 dimensions, one of which counts the cliques
MAX_ARITY = 63

Fail = Callable[[str, str], object]


class ModelBuilder:
    """Collects factors (scope, table) and makes a model of them.

    The same array given for several scopes is stored once.

    Parameters
    ----------
    n_states : int (V,), V >= 1.
    fail : called as ``fail(expected, got)`` for what the file may not ask for; must raise.
    n_characters : the length of the file.
    """

    #: what a short file may declare without listing it: labels of all variables, entries filled by
    #: a default cost
    MAX_DECLARED: ClassVar[int] = 2**22

    def __init__(self, n_states: np.ndarray, fail: Fail, n_characters: int = 0):
        self._room = self._check_room(float(n_states.sum(dtype=float)), fail, n_characters)
        self.crf = CRF(n_states)
        self._fail = fail
        self._default_entries = 0
        self._scopes: dict[int, list[np.ndarray]] = {}
        self._tables: dict[int, list[np.ndarray]] = {}
        self._used: dict[int, list[int]] = {}  # which table each scope has
        self._index: dict[int, int] = {}  # id of a table (kept alive above) -> its place

    @classmethod
    def uniform(cls, n_vars: int, n_labels: int, fail: Fail, n_characters: int = 0) -> ModelBuilder:
        """For variables with the same number of labels, checked before memory is asked for."""
        cls._check_room(float(n_vars) * n_labels, fail, n_characters)
        return cls(np.full(n_vars, n_labels, np.int64), fail, n_characters)

    @classmethod
    def _check_room(cls, total: float, fail: Fail, n_characters: int) -> int:
        """How many labels and default entries a file of this length may declare."""
        room = cls.MAX_DECLARED + DECLARED_PER_CHARACTER * max(0, n_characters - SAFE_BYTES)
        if total > room:
            fail(f"at most {room} states over all variables", f"{total:.4g}")
        return room

    def shape(self, scope: np.ndarray) -> tuple[int, ...]:
        """The shape of a table over `scope`; no variable may come twice."""
        if len(scope) > MAX_ARITY:
            self._fail(f"scopes of at most {MAX_ARITY} variables", str(len(scope)))
        if len(scope) > 1 and len(set(scope.tolist())) != len(scope):
            self._fail("a scope of different variables", f"the scope {scope.tolist()}")
        return tuple(self.crf.n_states[scope].tolist())

    def default_table(self, shape: tuple[int, ...], default: float) -> np.ndarray:
        """A flat table filled with one cost, if the model stays within bounds."""
        size = float(np.prod(shape, dtype=float))
        if self._default_entries + size > self._room:
            self._fail(
                f"at most {self._room} table entries with a default cost",
                f"{self._default_entries + size:.4g}; such a table needs a block of its own kind",
            )
        self._default_entries += int(size)
        return np.full(int(size), default)

    def add(self, scope: np.ndarray, table: np.ndarray) -> None:
        """Add the flat costs `table` over `scope`, last variable fastest; +inf forbids."""
        if not ((np.abs(table) <= HUGE) | np.isposinf(table)).all():
            self._fail(f"costs of at most {HUGE:g}, or inf", "others")
        arity, crf = len(scope), self.crf
        if arity < 2:  # constants are paid by whatever label variable 0 takes
            variable = int(scope[0]) if arity else 0
            crf.unary[crf.offsets[variable] : crf.offsets[variable + 1]] += table
            return
        tables = self._tables.setdefault(arity, [])
        place = self._index.setdefault(id(table), len(tables))
        if place == len(tables):
            tables.append(table)
        self._scopes.setdefault(arity, []).append(scope)
        self._used.setdefault(arity, []).append(place)

    def finish(self) -> CRF:
        """The model."""
        for arity in sorted(self._scopes):
            scopes = np.array(self._scopes[arity], np.int64)
            used = np.array(self._used[arity], np.int64)
            first = np.unique(used, return_index=True)[1]
            shaped = [t.reshape(self.shape(scopes[m])) for t, m in zip(self._tables[arity], first)]
            block = Table(scopes[first], shaped).take(used)
            block.variables = scopes
            self.crf.add(block)
        return self.crf

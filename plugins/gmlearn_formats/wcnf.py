"""WCNF and CNF files: clauses of literals that cost their weight where no literal holds."""

from __future__ import annotations

import os
from typing import NoReturn

import numpy as np

import gmlearn as gm

#: clauses of more literals are not written out as tables
MAX_TABLE_ARITY = 3


class Wcnf(gm.FileFormat):
    """MaxSAT: the sum of the weights of unsatisfied clauses; variable i of the file is variable
    i - 1 of the model, and 1 means true.

    All common forms: ``p cnf``, ``p wcnf`` with or without the weight of hard clauses, and the form
    without a header, where hard clauses start with ``h``. Hard clauses are ``inf``.
    """

    name = "wcnf"
    extensions = gm.compressed(".wcnf", ".cnf")

    def read(self, path: str | os.PathLike) -> gm.CRF:
        text = gm.read_text(path)
        clauses = _Clauses(path, text)
        most = max((abs(x) for literals in clauses.literals for x in literals), default=1)
        n_vars = max(most, clauses.n_vars)
        builder = gm.ModelBuilder.uniform(n_vars, 2, clauses.fail, len(text))
        large = []
        for literals, weight in zip(clauses.literals, clauses.weights):
            scope = np.abs(literals) - 1
            if len(literals) > MAX_TABLE_ARITY:
                large.append((scope, literals > 0, weight))
                continue
            table = np.zeros((2,) * len(literals))
            table[tuple((literals < 0).astype(int))] = weight
            builder.add(scope, table.ravel())
        crf = builder.finish()
        if large:
            _add_large(crf, large)
        return crf


def _add_large(crf: gm.CRF, clauses: list[tuple[np.ndarray, np.ndarray, float]]) -> None:
    """Clauses as functions of how many literals hold."""
    scopes, signs, weights = zip(*clauses)
    holds = np.concatenate(signs).astype(int)
    costs = []
    for scope, weight in zip(scopes, weights):
        cost = np.zeros(len(scope) + 1)
        cost[0] = weight
        costs.append(cost)
    values = np.stack([1 - holds, holds], axis=1)
    crf.add("value_sum", cliques=list(scopes), values=values, costs=costs)


class _Clauses:
    """The clauses of a file: distinct literals (k,), and weights; those that always hold are left
    out.
    """

    def __init__(self, path: str | os.PathLike, text: bytes):
        self.path = path
        self.n_vars = 0
        self.literals: list[np.ndarray] = []
        self.weights: list[float] = []
        self._line = 0
        self._seen = 0
        weighted = True
        top = np.inf
        header = False
        declared = 0
        for self._line, row in enumerate(text.split(b"\n"), 1):
            words = row.split()
            if not words or words[0].startswith(b"c"):
                continue
            if words[0] == b"p":
                if header or self.literals:
                    self.fail("one header, first of all", repr(row[:40]))
                header = True
                weighted, declared, top = self._header(words)
                continue
            self._add(words, weighted, top)
        if header and declared != self._seen:
            self.fail(f"{declared} clauses", f"{self._seen}")
        if not header and not self._seen:
            self.fail("clauses", "none")

    def _header(self, words: list[bytes]) -> tuple[bool, int, float]:
        """(are there weights, the number of clauses, the weight of hard ones)."""
        kinds = {b"cnf": (4,), b"wcnf": (4, 5)}
        if len(words) < 2 or len(words) not in kinds.get(words[1], ()):
            self.fail("p cnf VARIABLES CLAUSES, or p wcnf VARIABLES CLAUSES [TOP]", _shown(words))
        numbers = [self._whole(word) for word in words[2:]]
        if min(numbers) < 0 or numbers[0] < 1:
            self.fail("at least one variable", _shown(words))
        self.n_vars = numbers[0]
        top = float(numbers[2]) if len(numbers) > 2 else np.inf
        return words[1] == b"wcnf", numbers[1], top

    def _add(self, words: list[bytes], weighted: bool, top: float) -> None:
        self._seen += 1
        weight = 1.0
        if weighted:
            first, *words = words
            if first == b"h":
                weight = np.inf
            else:
                weight = self._number(first)
                weight = np.inf if weight >= top else weight
        literals = [self._whole(word) for word in words]
        if not literals or literals[-1] != 0 or 0 in literals[:-1]:
            self.fail("literals and a 0 at the end", _shown(words))
        distinct = np.unique(np.array(literals[:-1], np.int64))
        if self.n_vars and distinct.size and np.abs(distinct).max() > self.n_vars:
            self.fail(f"literals of at most {self.n_vars} variables", _shown(words))
        if len(np.unique(np.abs(distinct))) == len(distinct):  # else one of two opposites holds
            self.literals.append(distinct)
            self.weights.append(weight)

    def _whole(self, word: bytes) -> int:
        digits = word.lstrip(b"+-")
        if not digits.isdigit() or len(digits) > 18 or len(word) - len(digits) > 1:
            self.fail("a whole number", repr(word[:40].decode("utf-8", "backslashreplace")))
        return int(word)

    def _number(self, word: bytes) -> float:
        tokens = gm.Tokens(self.path, word, self._line)
        value = float(tokens.numbers(1, "weight of a clause")[0])
        if value < 0:
            self.fail("weights of at least 0", repr(word[:40].decode()))
        return value

    def fail(self, expected: str, got: str) -> NoReturn:
        raise gm.FormatError(self.path, expected, got, max(self._line, 1))


def _shown(words: list[bytes]) -> str:
    return repr(b" ".join(words)[:40].decode("utf-8", "backslashreplace"))

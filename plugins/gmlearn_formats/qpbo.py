"""QPBO files: quadratic functions of binary variables."""

from __future__ import annotations

import os

import numpy as np

import gmlearn as gm


class Qpbo(gm.FileFormat):
    """Quadratic functions x'Wx of variables in {0, 1}, or {1, -1} if their number is negative.

    The file lists entries i <= j of the symmetric matrix W, so that those off the diagonal count
    twice. A negative number of entries asks for the maximum: energies are then minus the function.
    Label 0 means the value 0 (or 1), label 1 means 1 (or -1).
    """

    name = "qpbo"
    extensions = gm.compressed(".qpbo")

    def read(self, path: str | os.PathLike) -> gm.CRF:
        tokens = gm.Tokens(path, gm.read_text(path))
        declared = tokens.integer("the number of variables, negative for values 1 and -1")
        n_entries = tokens.integer("the number of entries, negative to maximise")
        n_vars = abs(declared)
        if n_vars < 1 or 3 * abs(n_entries) > tokens.left():
            tokens.fail("at least one variable, and entries that the file has room for")
        states = np.array([0.0, 1.0]) if declared > 0 else np.array([1.0, -1.0])
        builder = gm.ModelBuilder.uniform(n_vars, 2, tokens.fail, len(tokens.text))
        product = np.multiply.outer(states, states)
        entries: dict[tuple[int, int], float] = {}
        for _ in range(abs(n_entries)):
            i = tokens.integer("a row", 1, n_vars) - 1
            j = tokens.integer("a column", 1, n_vars) - 1
            value = float(tokens.numbers(1, "entry of the matrix")[0])
            pair = (min(i, j), max(i, j))
            entries[pair] = entries.get(pair, 0.0) + value
        tokens.end("the end of the file after the last entry")
        sign = -1.0 if n_entries < 0 else 1.0
        for (i, j), value in entries.items():
            if i == j:
                builder.add(np.array([i]), sign * value * states**2)
            else:
                builder.add(np.array([i, j]), (2 * sign * value * product).ravel())
        return builder.finish()

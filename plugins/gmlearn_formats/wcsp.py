"""WCSP files of toulbar2: cost functions with a default cost and listed tuples."""

from __future__ import annotations

import os

import numpy as np

import gmlearn as gm
from gmlearn_formats.global_functions import GlobalTerms


class Wcsp(gm.FileFormat):
    """Weighted constraint satisfaction: a sum of whole costs; one that reaches the upper bound of
    the header is forbidden.

    A cost function is ``arity variables default n`` and n tuples ``labels cost``. A negative arity
    makes it reusable: later functions give ``-i`` instead of n to have the tuples of the i-th
    reusable one. Functions by keyword (default cost -1) are read if their cost is a sum of
    functions of counts or of sums of labels (``salldiff``, ``sgcc``, ``samong``, ``wsum``,
    ``clique``, ``knapsack`` and their kin) or arithmetic (``>=``, ``disj``, ...); others are
    refused by name.
    Costs above 2^53 are rounded to doubles.
    """

    name = "wcsp"
    extensions = gm.compressed(".wcsp")

    def read(self, path: str | os.PathLike) -> gm.CRF:
        tokens = gm.Tokens(path, gm.read_text(path))
        tokens.word("the name of the problem")
        n_vars = tokens.integer("the number of variables", low=1)
        tokens.integer("the largest number of states", low=1)
        n_functions = tokens.integer("the number of cost functions", low=0)
        bound = float(tokens.integer("the upper bound", low=0))
        # A negative size declares an interval of that many states: the same variable to us.
        states = np.abs(tokens.integers(n_vars, "numbers of states"))
        if not states.all():
            tokens.fail("numbers of states, not 0", index=5 + int(np.flatnonzero(states == 0)[0]))
        builder = gm.ModelBuilder(states, tokens.fail, len(tokens.text))
        # each has at least its arity, its default cost and the number of tuples
        if 3 * n_functions > tokens.left():
            tokens.fail("a number of cost functions that the file has room for", str(n_functions))
        shared: list[tuple[tuple[int, ...], np.ndarray]] = []
        terms = GlobalTerms(builder, tokens.fail, bound)
        for function in range(n_functions):
            _read_function(tokens, builder, shared, terms, f"cost function {function}")
        tokens.end("the end of the file after the last cost function")
        crf = builder.finish()
        terms.finish(crf)
        return crf


def _read_function(
    tokens: gm.Tokens,
    builder: gm.ModelBuilder,
    shared: list[tuple[tuple[int, ...], np.ndarray]],
    terms: GlobalTerms,
    what: str,
) -> None:
    """Read one cost function into `builder`."""
    n_vars = builder.crf.n_vars
    arity = tokens.integer(f"the arity of {what}", -n_vars, n_vars)
    scope = tokens.integers(abs(arity), f"variables of {what}", 0, n_vars - 1)
    default = float(tokens.integer(f"the default cost of {what}", low=-1))
    if default < 0:
        terms.read(tokens, tokens.word(f"the keyword of {what}"), scope)
        return
    shape = builder.shape(scope)
    n_tuples = tokens.integer(f"the number of tuples of {what}")
    if n_tuples < 0:
        if arity < 0 or -n_tuples > len(shared) or shared[-n_tuples - 1][0] != shape:
            tokens.fail(
                f"an earlier reusable cost function of shape {shape} for {what} ({len(shared)} so "
                f"far)"
            )
        table = shared[-n_tuples - 1][1]
    else:
        table = builder.default_table(shape, default)
        _fill(tokens, table, shape, n_tuples, what)
        table[table >= terms.bound] = np.inf
    if arity < 0:
        shared.append((shape, table))
    builder.add(scope, table)


def _fill(
    tokens: gm.Tokens, table: np.ndarray, shape: tuple[int, ...], n_tuples: int, what: str
) -> None:
    """Enter the listed tuples into a flat table."""
    width, first = len(shape) + 1, tokens.index
    rows = tokens.whole(n_tuples * width, f"numbers in {n_tuples} tuples of {what}", low=0).reshape(
        n_tuples, width
    )
    wrong = np.argwhere(rows[:, :-1] >= np.array(shape, float))
    if wrong.size:
        row, column = map(int, wrong[0])
        tokens.fail(
            f"a label in 0..{shape[column] - 1} in {what}", index=first + row * width + column
        )
    where = (
        np.ravel_multi_index(tuple(rows[:, :-1].T.astype(np.int64)), shape)
        if shape
        else np.zeros(n_tuples, np.int64)
    )
    table[where] = rows[:, -1]
    twice = np.flatnonzero(table[where] != rows[:, -1])
    if twice.size:
        row = int(twice[0])
        labels = rows[row, :-1].astype(int).tolist()
        tokens.fail(
            f"one cost for each tuple of {what}", f"two for {labels}", index=first + row * width
        )

"""UAI files: products of factor tables, MARKOV or BAYES, and their evidence."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator

import numpy as np

from gmlearn._utils.files import atomic_write
from gmlearn._utils.validation import check_array
from gmlearn.io.base import FileFormat, Path
from gmlearn.io.build import ModelBuilder
from gmlearn.io.text import Tokens, compress, compressed, read_text
from gmlearn.model import CRF
from gmlearn.potentials import Block, RaggedBlock

#: beyond this exp(-E) is subnormal or infinite in double precision
MAX_ENERGY = 708.0


class Uai(FileFormat):
    r"""UAI: :math:`E(x) = -\sum_f \ln f(x_f)`, the value 0 is forbidden, the last variable of a
    scope changes fastest.

    A Bayesian network (BAYES) is read as the product of its conditional tables. Written files keep
    the energy of the model for given weights, as factors exp(-E) in full precision; single costs
    outside -708..708 do not fit in a double that way and are refused (``inf`` is written as 0).
    """

    name = "uai"
    extensions = compressed(".uai")

    def read(self, path: Path) -> CRF:
        tokens = Tokens(path, read_text(path))
        if tokens.word("MARKOV or BAYES").upper() not in ("MARKOV", "BAYES"):
            tokens.fail("MARKOV or BAYES")
        n_vars = tokens.integer("the number of variables", low=1)
        states = tokens.integers(n_vars, "numbers of states", low=1)
        builder = ModelBuilder(states, tokens.fail, len(tokens.text))
        for factor, scope in enumerate(_scopes(tokens, builder)):
            size = states[scope].prod(dtype=float)
            if tokens.integer(f"the number of entries of factor {factor}") != size:
                tokens.fail(
                    f"{size:.15g} entries in factor {factor} over the variables "
                    f"{scope.tolist()[:8]}"
                )
            first = tokens.index
            values = tokens.numbers(int(size), f"values of factor {factor}")
            negative = values < 0
            if negative.any():
                tokens.fail(
                    f"values of factor {factor}, at least 0", index=first + int(np.argmax(negative))
                )
            with np.errstate(divide="ignore"):
                builder.add(scope, -np.log(values))
        tokens.end("the end of the file after the last factor")
        return builder.finish()

    def write(self, crf: CRF, path: Path, weights: object = None) -> None:
        if crf.n_vars == 0:
            raise ValueError(
                f"{os.fspath(path)}: a UAI file needs at least one variable, the model has none; "
                f"use .npz"
            )
        factors = list(_factors(crf, crf.check_weights(weights)))
        lines = [
            "MARKOV",
            str(crf.n_vars),
            " ".join(map(str, crf.n_states.tolist())),
            str(len(factors)),
        ]
        lines += [" ".join(map(str, [len(scope), *scope])) for scope, _ in factors]
        for scope, energies in factors:
            lines += [
                "",
                str(energies.size),
                " ".join(map(repr, _values(path, scope, energies).tolist())),
            ]
        text = ("\n".join(lines) + "\n").encode()
        with atomic_write(path) as stream:
            stream.write(compress(path, text))


def _scopes(tokens: Tokens, builder: ModelBuilder) -> list[np.ndarray]:
    """The variables of each factor."""
    n_vars = builder.crf.n_vars
    n_factors = tokens.integer("the number of factors", low=0)
    if 3 * n_factors > tokens.left():  # each has at least its arity, its size and one value
        tokens.fail("a number of factors that the file has room for")
    scopes = []
    for factor in range(n_factors):
        arity = tokens.integer(f"the number of variables of factor {factor}", 0, n_vars)
        scope = tokens.integers(arity, f"variables of factor {factor}", 0, n_vars - 1)
        builder.shape(scope)
        scopes.append(scope)
    return scopes


def _factors(crf: CRF, w: dict[str, np.ndarray]) -> Iterator[tuple[list[int], np.ndarray]]:
    """Scopes and energies of a model: the costs of each variable, then the cliques."""
    costs = crf.unary_costs(w)
    if crf.n_vars:  # the format has no place for a constant: the first variable carries it
        costs[: crf.offsets[1]] += crf.constant
    for v in range(crf.n_vars):
        own = costs[crf.offsets[v] : crf.offsets[v + 1]]
        if own.any():
            yield [v], own
    for block in crf.clique_blocks:
        yield from _pairs(block, w) if _is_pairwise(block) else _cliques(block, w)


def _is_pairwise(block: Block) -> bool:
    return block.arity == 2 and not isinstance(block, RaggedBlock)


def _pairs(block: Block, w: dict[str, np.ndarray]) -> Iterator[tuple[list[int], np.ndarray]]:
    form = block.pairwise(w)
    for m, (scope, (rows, columns)) in enumerate(
        zip(block.variables.tolist(), block.states.tolist())
    ):  # type: ignore[union-attr]
        where = form.start[m] + np.arange(rows)[:, None] * form.stride[m] + np.arange(columns)
        yield scope, form.scale[m] * form.values[where]


def _cliques(block: Block, w: dict[str, np.ndarray]) -> Iterator[tuple[list[int], np.ndarray]]:
    for m in range(len(block)):
        clique = block.take([m])
        yield (
            clique.members.tolist(),
            clique.table(w)[0][tuple(map(slice, clique.member_states.tolist()))],
        )


def _values(path: Path, scope: list[int], energies: np.ndarray) -> np.ndarray:
    """exp(-E) (entries,), or an error if a cost is lost in it."""
    lost = ~(np.abs(energies) <= MAX_ENERGY) & ~np.isposinf(energies)
    if lost.any():
        raise ValueError(
            f"{os.fspath(path)}: the factor over the variables {scope[:8]} has the cost "
            f"{float(energies[lost][0])!r}, but a UAI file holds exp(-cost) and keeps only costs "
            f"in "
            f"-{MAX_ENERGY:g}..{MAX_ENERGY:g} and inf; scale the model, or write it as .npz"
        )
    return np.exp(-energies).ravel()


def read_evidence(path: Path, n_states: np.ndarray | None = None) -> list[dict[int, int]]:
    """The samples of a UAI evidence file, each a mapping variable -> label.

    Two forms are in use: ``n variable label ...`` (one sample), and the older one that starts with
    the number of samples, each ``n variable label ...``. A file that can be read both ways is taken
    in the first.

    Parameters
    ----------
    n_states : int (V,), the states of the model's variables, to check the evidence against.
    """
    if n_states is not None:
        n_states = check_array("n_states", n_states, ndim=1, dtype=np.int64)
    tokens = Tokens(path, read_text(path))
    count = tokens.integer("the number of observed variables, or of samples", low=0)
    if 2 * count == sum(1 for _ in re.finditer(rb"\S+", tokens.text)) - 1:
        return [_sample(tokens, count, n_states)]
    if count > tokens.left():
        tokens.fail("a number of observed variables, or of samples, that the file has room for")
    samples = [
        _sample(tokens, tokens.integer("the number of observed variables", low=0), n_states)
        for _ in range(count)
    ]
    tokens.end("the end of the file after the last sample")
    return samples


def _sample(tokens: Tokens, count: int, n_states: np.ndarray | None) -> dict[int, int]:
    first, sample = tokens.index, dict[int, int]()
    pairs = tokens.integers(2 * count, "numbers, a variable and its label in turn", low=0).reshape(
        -1, 2
    )
    for i, (variable, label) in enumerate(pairs.tolist()):
        if n_states is not None and variable >= len(n_states):
            tokens.fail(f"a variable in 0..{len(n_states) - 1}", index=first + 2 * i)
        n_labels = math.inf if n_states is None else int(n_states[variable])
        if label >= n_labels or sample.setdefault(variable, label) != label:
            tokens.fail(
                f"one label of variable {variable}, which has {n_labels} states",
                index=first + 2 * i + 1,
            )
    return sample

"""Random small models on which solvers, decompositions, losses and formats are tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.grid import grid_edges
from gmlearn.potentials import Block, Difference, LearntTable, Potts, Table, Truncated, Unary
from gmlearn.testing.kit import answer_of, expect

Model = tuple[str, CRF, dict[str, np.ndarray]]


def random_labels(rng: np.random.Generator, crf: CRF) -> np.ndarray:
    """A labelling (V,)."""
    return rng.integers(0, crf.n_states)


def random_weights(rng: np.random.Generator, crf_or_block: Any) -> dict[str, np.ndarray]:
    """Normal weights for all segments of a model or block."""
    shapes = (
        crf_or_block.layout.shapes if isinstance(crf_or_block, CRF) else crf_or_block.segments()
    )
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def _unary(rng: np.random.Generator, crf: CRF) -> CRF:
    return crf.add_unary([rng.normal(size=int(s)) for s in crf.n_states])


def _some_edges(rng: np.random.Generator, n: int, density: float) -> np.ndarray:
    pairs = np.array([(a, b) for a in range(n) for b in range(a + 1, n)]).reshape(-1, 2)
    keep = rng.random(len(pairs)) < density
    if len(keep):
        keep[int(rng.integers(len(keep)))] = True
    flip = rng.random(len(pairs)) < 0.5
    return np.where(flip[:, None], pairs[:, ::-1], pairs)[keep]


def _tables(rng: np.random.Generator, crf: CRF, scopes: np.ndarray, hard: float) -> Table:
    tables = [rng.normal(size=tuple(crf.n_states[s])) for s in scopes]
    for table in tables:
        forbidden = rng.random(table.shape) < hard
        # all zeros stay allowed, so that the model is feasible
        forbidden[(0,) * table.ndim] = False
        table[forbidden] = np.inf
    return Table(scopes, tables)


def random_crf(
    rng: np.random.Generator,
    n_vars: int = 5,
    n_states: Any = (2, 3),
    density: float = 0.6,
    n_triples: int = 0,
    hard: float = 0.0,
    learnt: bool = False,
) -> tuple[CRF, dict[str, np.ndarray]]:
    """A small random model and weights for it.

    Parameters
    ----------
    n_states : one number of states for all variables, or numbers to draw from.
    density : share of all pairs of variables that have an edge with a table; at least one has.
    n_triples : cliques of three variables with tables.
    hard : share of table entries that are ``inf``; the labelling of all zeros stays feasible.
    learnt : add learnt unary, Potts and difference potentials (one number of states only).

    Examples
    --------
    >>> import numpy as np, gmlearn as gm
    >>> crf, w = gm.testing.random_crf(np.random.default_rng(0), n_triples=2)
    >>> labels, minimum = gm.testing.brute_force(crf, w)
    >>> bool(gm.solve(crf, w).energy >= minimum - 1e-9)
    True
    """
    uniform = np.ndim(n_states) == 0
    crf = _unary(
        rng, CRF(np.full(n_vars, n_states) if uniform else rng.choice(np.asarray(n_states), n_vars))
    )
    edges = _some_edges(rng, n_vars, density)
    crf.add(_tables(rng, crf, edges, hard))
    if n_triples:
        crf.add(
            _tables(
                rng, crf, np.array([rng.permutation(n_vars)[:3] for _ in range(n_triples)]), hard
            )
        )
    if learnt:
        if not uniform:
            raise ValueError(
                f"learnt: needs one number of states for all variables, got n_states={n_states!r}"
            )
        crf.add(Unary(rng.normal(size=(n_vars, 2)), "u"))
        crf.add(Potts(edges, rng.random(len(edges)), "smooth"))
        crf.add(Difference(edges[:2], "V"))
    return crf, random_weights(rng, crf)


def small_models(rng: np.random.Generator) -> Iterator[Model]:
    """Models of every structure that a solver or decomposition may accept or refuse: name,
    model, weights.
    """
    yield ("pairwise", *random_crf(rng, n_states=3))
    yield ("mixed states", *random_crf(rng, n_vars=6))
    yield ("high order", *random_crf(rng, n_triples=3))
    yield ("hard constraints", *random_crf(rng, n_triples=1, hard=0.3))
    yield ("learnt", *random_crf(rng, n_states=3, learnt=True))
    yield ("tree", *_tree(rng))
    yield (
        "grid",
        *_grid(rng, 3, lambda e: Truncated(e, 1.5, contrast=rng.random(len(e)), weight="t")),
    )
    yield ("binary submodular grid", *_grid(rng, 2, lambda e: Potts(e, rng.random(len(e)))))
    yield ("free variables", _unary(rng, CRF([2, 3, 2])), {})
    yield ("no cliques", _unary(rng, CRF(3, 2)), {})
    yield ("ties", *_ties())


def accepted_models(
    thing: Any, rng: np.random.Generator
) -> tuple[list[tuple[CRF, dict[str, np.ndarray]]], list[str]]:
    """Of the kit's models and the thing's own ``examples(rng)``: those that it does not refuse, and
    the reasons for the others.
    """
    own = thing.examples(rng) if callable(getattr(thing, "examples", None)) else []
    models = [(crf, crf.check_weights(w)) for crf, w in own]
    models += [(crf, w) for _, crf, w in small_models(rng)]
    accepted, reasons = [], []
    for crf, w in models:
        reason = answer_of("refuses(crf)", lambda crf=crf: thing.refuses(crf))  # type: ignore[misc]
        expect(
            reason is None or (isinstance(reason, str) and reason),
            f"refuses(crf) returns {reason!r}, expected None or the reason in words",
        )
        if reason is None:
            accepted.append((crf, w))
        else:
            reasons.append(reason)
    return accepted, reasons


def _ties() -> tuple[CRF, dict[str, np.ndarray]]:
    crf = CRF(4, 2)
    crf.add(Potts([[0, 1], [1, 2], [2, 3], [0, 3]]))
    return crf, {}


def _tree(rng: np.random.Generator) -> tuple[CRF, dict[str, np.ndarray]]:
    crf = _unary(rng, CRF(6, 3))
    edges = np.array([(int(rng.integers(v)), v) for v in range(1, 6)])
    crf.add(LearntTable(edges, symmetric=False, contrast=rng.normal(size=5)))
    return crf, random_weights(rng, crf)


def _grid(
    rng: np.random.Generator, n_labels: int, edge_block: Any
) -> tuple[CRF, dict[str, np.ndarray]]:
    crf = _unary(rng, CRF(6, n_labels))
    block = crf.add(edge_block(grid_edges(2, 3)))
    return crf, {name: np.abs(rng.normal(size=shape)) for name, shape in block.segments().items()}


def large_models(rng: np.random.Generator) -> Iterator[Model]:
    """Models that no enumeration reaches: a frustrated grid, and cliques of three."""
    grid = _unary(rng, CRF(400, 4))
    grid.add(Potts(grid_edges(20, 20), rng.normal(size=760)))
    yield "grid", grid, {}
    yield ("high order", *random_crf(rng, n_vars=60, n_states=4, density=0.05, n_triples=60))


def infeasible_models() -> Iterator[Model]:
    """Models without a feasible labelling; the first is seen by any bound, the second by no
    local relaxation.
    """
    yield "a variable without labels", CRF(3, 2).add_unary([[0, 1], [np.inf, np.inf], [1, 0]]), {}
    triangle = CRF(3, 2)
    triangle.add(Table([[0, 1], [1, 2], [0, 2]], np.where(np.eye(2) > 0, np.inf, 0.0)))
    yield "a triangle to be coloured with two colours", triangle, {}


@contextmanager
def untouched(crf: CRF, w: dict[str, np.ndarray]) -> Iterator[None]:
    """AssertionError if a model or its weights are others after the `with` than before."""

    def state() -> dict[str, np.ndarray]:
        parts = {"model": vars(crf), "weights": w}
        parts |= {f"block {i}, {b.name}": vars(b) for i, b in enumerate(crf.blocks)}
        return {
            f"{part}: {name}": np.array(value)
            for part, held in parts.items()
            for name, value in held.items()
            if isinstance(value, (np.ndarray, float, int))
        }

    blocks, before = list(crf.blocks), state()
    yield
    expect(
        len(blocks) == len(crf.blocks) and all(a is b for a, b in zip(blocks, crf.blocks)),
        "the model has other blocks than before",
    )
    after = state()
    changed = [
        name
        for name, value in before.items()
        if name not in after or not np.array_equal(value, after[name])
    ]
    expect(not changed, f"the model was changed ({', '.join(changed)})")


class MarkedClique(Block):
    r"""One clique with a weight of its own, :math:`h(x) = w\, table[x]`: by the weights one sees
    who holds which clique.
    """

    name = "marked"
    per_clique = ("tables",)

    def __init__(self, variables: Any, table: np.ndarray, weight: str):
        super().__init__([variables])
        self.tables, self.weight = np.asarray(table, float)[None], weight

    def segments(self) -> dict[str, tuple[int, ...]]:
        return {self.weight: ()}

    def _paid(self, x: np.ndarray) -> np.ndarray:
        return self.tables[(np.arange(len(self)), *x.T)]

    def energy(self, x: np.ndarray, w: Any) -> np.ndarray:
        return w[self.weight] * self._paid(x)

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        paid = self._paid(x)
        return {self.weight: np.asarray((paid if weight is None else paid * weight).sum())}

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        return {self.weight: self._paid(x)}


def marked_crf(rng: np.random.Generator, crf: CRF) -> CRF:
    """The hypergraph of `crf` with a `MarkedClique` (weight ``"clique <i>"``) in place of every
    clique.
    """
    marked = _unary(rng, CRF(crf.n_states))
    for block in crf.clique_blocks:
        for m in range(len(block)):
            scope = block.members[block.indptr[m] : block.indptr[m + 1]]
            table = rng.normal(size=tuple(crf.n_states[scope]))
            marked.add(MarkedClique(scope, table, f"clique {len(marked.blocks)}"))
    return marked

"""Spanning hypertrees: slaves that hold all variables and overlap in their cliques.

A hypertree is a sub-hypergraph of small induced width, which elimination solves exactly; of
pairwise cliques the thinnest ones are spanning trees. At temperatures that add up to 1 their soft
minima bound the log-partition by the tree-reweighted bound (Wainwright, Jaakkola and Willsky 2005).
Slaves that hold a part of the variables alone cannot do this: their temperature must be 1 as soon
as one variable is in no other slave.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.decompositions.base import Decomposition, Slaves
from gmlearn.decompositions.subgraphs import MAX_CLIQUE, cover
from gmlearn.model.crf import CRF
from gmlearn.slaves.elimination import MAX_TABLE, MAX_TOTAL, eliminates
from gmlearn.slaves.junction_tree import by_shape, ranges

#: the most hypertrees of a part, and eliminations that are tried to make one
MOST_SLAVES, MOST_TESTS = 256, 400
#: structures whose hypertrees are kept
MOST_KEPT = 8


class SpanningHypertrees(Decomposition):
    """Overlapping slaves over all variables, each with as many cliques as keep its elimination
    cheap: by default spanning trees, where cliques are edges.

    Cliques are shared, with multipliers on their joint labels. Each hypertree prefers the cliques
    that the ones before it left out. It is the choice for likelihoods of models with cycles, whose
    hypertrees have weights that are learnt; for MAP, larger slaves without overlap are cheaper.

    Parameters
    ----------
    n_slaves : hypertrees of each connected part; more where that is needed to hold all cliques.
    max_table : entries of the largest table that an elimination may have. Never below what the
        largest clique has, so 1 gives trees.
    max_total : entries of all its tables together; never below what a forest needs.
    seed : of the order in which cliques are taken.
    """

    name = "hypertrees"
    joint = True

    def __init__(
        self,
        n_slaves: int = 8,
        max_table: float = 1.0,
        max_total: float = MAX_TOTAL,
        seed: int = 0,
    ):
        check_number("n_slaves", n_slaves, low=1, high=MOST_SLAVES, integer=True)
        check_number("max_table", max_table, low=1, high=MAX_TABLE)
        check_number("max_total", max_total, low=1, high=MAX_TOTAL)
        check_number("seed", seed, low=0, integer=True)
        self.n_slaves, self.max_table, self.seed = n_slaves, float(max_table), seed
        self.max_total = float(max_total)

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        scopes = Scopes(crf)
        known: dict[tuple[bytes, ...], np.ndarray] = {}
        sets: list[np.ndarray] = []
        found: list[np.ndarray] = []
        for part in range(len(crf.parts) - 1):
            own = scopes.of_part(part)
            variables = np.arange(crf.parts[part], crf.parts[part + 1])
            indptr, local = scopes.local(own)
            states = crf.n_states[variables]
            key = (states.tobytes(), indptr.tobytes(), local.tobytes())
            if key not in known:
                settings = self.n_slaves, self.max_table, self.max_total, self.seed
                known[key] = hypertrees(*key, *settings)
            for tree in known[key]:
                found.append(own[tree] + scopes.n * len(sets))
                sets.append(variables)
        pairs = np.concatenate([np.zeros(0, np.int64), *found])
        slave, scope = np.divmod(pairs, max(scopes.n, 1))

        def held(number: int, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            place = np.full(scopes.n, -1)
            place[scopes.number(number, index)] = np.arange(len(index))
            mine = place[scope] >= 0
            return slave[mine], place[scope[mine]]

        return cover(crf, sets, True, power, held=held)


@lru_cache(MOST_KEPT)
def hypertrees(
    states: bytes,
    indptr: bytes,
    scope: bytes,
    n_slaves: int,
    max_table: float,
    max_total: float,
    seed: int,
) -> np.ndarray:
    """bool (slaves, cliques): the cliques of each hypertree of one connected part, whose arrays
    come as bytes: models that are alike are planned once.
    """
    n_states, ptr, members = (np.frombuffer(a, np.int64) for a in (states, indptr, scope))
    first, same = distinct_scopes(ptr, members)
    sizes = np.diff(ptr)[first]
    members = members[ranges(ptr[first], sizes)]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    rng = np.random.default_rng(seed)
    count = np.zeros(len(first), np.int64)
    trees: list[np.ndarray] = []
    while len(trees) < n_slaves or ((count == 0).any() and len(trees) < MOST_SLAVES):
        order = np.lexsort((rng.random(len(first)), count))
        tree = np.zeros(len(first), bool)
        tree[hypertree(ptr, members, n_states, order, max_table, max_total)] = True
        count += tree
        trees.append(tree)
    return np.unique(trees, axis=0)[::-1, same]


def distinct_scopes(indptr: np.ndarray, scope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first (m,), same (n,)): one clique for each set of variables, and which of these sets each
    clique has: parallel cliques go together.
    """
    known: dict[bytes, int] = {}
    owner = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    ordered = scope[np.lexsort((scope, owner))]
    same = np.array(
        [
            known.setdefault(ordered[a:b].tobytes(), len(known))
            for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist())
        ],
        np.int64,
    )
    return np.unique(same, return_index=True)[1], same


def hypertree(
    indptr: np.ndarray,
    scope: np.ndarray,
    states: np.ndarray,
    order: np.ndarray,
    max_table: float,
    max_total: float,
) -> np.ndarray:
    """Cliques that are taken in `order` as long as elimination needs no table above `max_table`
    entries, or above that of the largest clique, and at most `max_total` entries in all.
    """
    sizes = np.diff(indptr)
    joint = np.ones(0)
    if len(scope):
        joint = np.multiply.reduceat(states[scope].astype(float), indptr[:-1])
    largest = float(joint.max(initial=1.0))
    kept, left = forest(indptr, scope, order, len(states))
    if max_table <= largest and (sizes <= 2).all():
        return kept
    tests = MOST_TESTS

    def fits(cliques: np.ndarray) -> bool:
        members = scope[ranges(indptr[cliques], sizes[cliques])]
        own = np.concatenate([[0], np.cumsum(sizes[cliques])])
        most = max(max_table, largest)
        return eliminates(own, members, states, most, max_total)

    waiting = [left]
    while waiting and tests:
        some = waiting.pop()
        tests -= 1
        if len(some) and fits(np.append(kept, some)):
            kept = np.append(kept, some)
        elif len(some) > 1:
            half = len(some) // 2
            waiting += [some[half:], some[:half]]
    return kept


def forest(
    indptr: np.ndarray, scope: np.ndarray, order: np.ndarray, n_vars: int
) -> tuple[np.ndarray, np.ndarray]:
    """(cliques of a forest that takes them in `order`, the others): those that share at most one
    variable with what is connected already.
    """
    from gmlearn.decompositions._assign_numba import in_forest

    kept = in_forest(indptr, scope, order, n_vars)
    return order[kept], order[~kept]


class Scopes:
    """The cliques of a model with tables that are not too large, numbered through."""

    def __init__(self, crf: CRF):
        self.parts = crf.parts
        begin = np.cumsum([0, *(len(b) for b in crf.clique_blocks)])
        self.begin, self.n = begin[:-1], int(begin[-1])
        members = [b.members for b in crf.clique_blocks]
        sizes = [np.diff(b.indptr) for b in crf.clique_blocks]
        self.members = np.concatenate([np.zeros(0, np.int64), *members])
        self.indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, int), *sizes]))])
        self.small = np.zeros(self.n, bool)
        for first, block in zip(self.begin, crf.clique_blocks):
            for index, _, shape in by_shape(block):
                self.small[first + index] = float(np.prod(np.array(shape, float))) <= MAX_CLIQUE
        home = np.searchsorted(crf.parts, self.members[self.indptr[:-1]], side="right") - 1
        self.home = np.where(self.small, home, -1)

    def of_part(self, part: int) -> np.ndarray:
        """int (n,): the cliques of a joined model's part."""
        return np.flatnonzero(self.home == part)

    def local(self, cliques: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(indptr, scope) of cliques of one part, in the part's own variables."""
        sizes = np.diff(self.indptr)[cliques]
        members = self.members[ranges(self.indptr[cliques], sizes)]
        first = self.parts[self.home[cliques[0]]] if len(cliques) else 0
        return np.concatenate([[0], np.cumsum(sizes)]), members - first

    def number(self, block: int, index: np.ndarray) -> np.ndarray:
        """The numbers of some cliques of a block."""
        return self.begin[block] + index

"""Built-in decompositions: per clique, chains, rows and columns, spanning trees, and the
automatic choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gmlearn.decompositions.base import Decomposition, Slaves, clique_groups, with_free_variables
from gmlearn.decompositions.forests import forest_slaves, is_forest
from gmlearn.decompositions.hypertrees import SpanningHypertrees
from gmlearn.decompositions.subgraphs import MAX_CLIQUE, Components
from gmlearn.model.crf import CRF
from gmlearn.model.grid import find_grid, grid_widths
from gmlearn.potentials.base import Block
from gmlearn.registry import registry
from gmlearn.slaves.choose import has_edge_form
from gmlearn.slaves.elimination import MAX_TOTAL, elimination_order

#: what one soft slave for each connected part may cost, and the most variables that are looked at
PASSES, MOST_VARIABLES = 16.0, 20_000
#: hypertrees of a model, and the most table entries of models that get them
N_HYPERTREES, MOST_ENTRIES = 4, 2.0**17


class PerClique(Decomposition):
    """One slave per clique: the local-polytope relaxation, with the smallest slaves."""

    name = "per-clique"
    joint = True

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        return Slaves(crf, with_free_variables(crf, clique_groups(crf, crf.clique_blocks, power)))


class Chains(Decomposition):
    """Edge-disjoint chains in the order of the variables; the same bound as per clique, reached
    much faster.

    On a grid numbered row by row these are its rows and columns. Other cliques get a slave each.
    """

    name = "chains"
    joint = True

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        return forest_slaves(crf, assign_chains, power)


def assign_chains(edges: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The chain (E,) of each edge: straight lines on grids, chains as long as they get elsewhere.

    parts : int (n + 1,), first variable of each part of a joined model; the last is their number.
    """
    from gmlearn.decompositions._assign_numba import monotone_chains

    straight = np.repeat(grid_widths(edges, parts) > 0, np.diff(parts))
    return monotone_chains(edges, int(parts[-1]), ~straight)


class RowsColumns(Chains):
    """Rows and columns of a 4-connected grid numbered row by row; refuses anything else."""

    name = "rows-columns"
    joint = False

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        edges = [b.variables for b in crf.clique_blocks if has_edge_form(b)]
        if not edges or find_grid(np.concatenate(edges), crf.n_vars) is None:
            raise ValueError(
                f"decomposition 'rows-columns': the edges of {crf} are not those of a 4-connected "
                f"grid numbered "
                "row by row; use 'chains' or 'trees'"
            )
        return super().decompose(crf, power)


class SpanningTrees(Decomposition):
    """Edge-disjoint spanning trees, peeled off greedily: few large slaves. Other cliques get a
    slave each.
    """

    name = "trees"
    joint = True

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        from gmlearn.decompositions._assign_numba import spanning_forests

        return forest_slaves(crf, lambda e, parts: spanning_forests(e, int(parts[-1])), power)


class Auto(Decomposition):
    """A plugin's own decomposition where one claims the model; else chains for edges and a slave
    for each larger clique.

    Soft slaves bound, where they share variables, what one slave would give exactly: so connected
    parts of small induced width become one slave each, if that costs no more than some passes
    over the tables.
    """

    name = "auto"

    def resolve(self, crf: CRF) -> Decomposition:
        return self.resolve_each([crf])[0]

    def resolve_each(self, crfs: Sequence[CRF]) -> list[Decomposition]:
        registered = reversed(registry.objects("decomposition"))
        # few have a claim, and there may be thousands of small models
        candidates = [c for c in registered if type(c).claims is not Decomposition.claims]
        chains: list[Decomposition] = [Chains()] * len(crfs)
        for candidate in reversed(candidates):
            chains = [candidate if candidate.claims(crf) else old for crf, old in zip(crfs, chains)]
        return chains

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        found = self.resolve(crf)
        if found.name == Chains.name and power == "log_partition":
            found = self.soft(crf)
        return found.decompose(crf, power)

    def soft(self, crf: CRF) -> Decomposition:
        """The decomposition for soft minima of a model that nobody claims."""
        return Components() if small_parts(crf) else Chains()


class Reweighted(Auto):
    """The choice of likelihoods and of the upper bound of log Z: as "auto", but where that shares
    variables of a model with cycles, overlapping hypertrees with learnt weights.

    They cost more than chains, and their bound is several times as tight.

    Parameters
    ----------
    max_table, max_total : of `SpanningHypertrees`; by default an induced width of 2 for small
        numbers of labels, and some passes over the tables.
    """

    name = "reweighted"

    def __init__(self, max_table: float | None = None, max_total: float | None = None):
        self.max_table, self.max_total = max_table, max_total

    def soft(self, crf: CRF) -> Decomposition:
        found = super().soft(crf)
        if found.name != Chains.name or not overlap_pays(crf):
            return found
        table, total = self.max_table, self.max_total
        if table is None:
            table = min(max(float(crf.n_states.max()) ** 3, 16.0), 2.0**12)
        if total is None:
            total = min(PASSES * entries_of(crf) / (len(crf.parts) - 1), MAX_TOTAL)
        return SpanningHypertrees(N_HYPERTREES, table, total)


class Sparse(Auto):
    """The choice of SparseMAP: as "auto", but a slave for each clique where chains would share
    variables.

    The relaxation is the same; a solution has a share of a few corners of a clique's hull, and of
    about as many corners of a chain's as the chain has labels.
    """

    name = "sparse"

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        found = self.resolve(crf)
        loopy = found.name == Chains.name and not is_forest(crf)
        return (PerClique() if loopy else found).decompose(crf, power)


def entries_of(crf: CRF) -> float:
    """Entries of the tables of all cliques."""
    return sum(Block.form_size(b) for b in crf.clique_blocks)


def overlap_pays(crf: CRF) -> bool:
    """Has the model cycles, and few and small enough cliques that hypertrees hold all?"""
    small = all(0 < b.table_size() <= MAX_CLIQUE for b in crf.clique_blocks)
    few = entries_of(crf) <= MOST_ENTRIES and crf.n_vars <= MOST_VARIABLES
    return small and few and not is_forest(crf)


def small_parts(crf: CRF) -> bool:
    """Has the model cycles, and does elimination of its connected parts cost no more than `PASSES`
    passes over its tables?
    """
    size = entries_of(crf)
    if crf.n_vars > MOST_VARIABLES or not 0 < size < np.inf or is_forest(crf):
        return False
    sizes = np.concatenate([np.diff(b.indptr) for b in crf.clique_blocks])
    scope = np.concatenate([b.members for b in crf.clique_blocks])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return elimination_order(indptr, scope, crf.n_states, 2.0**12, PASSES * size) is not None


def named(decomposition: str | Decomposition) -> Decomposition:
    """The decomposition that a name or object stands for."""
    if isinstance(decomposition, str):
        decomposition = registry.get("decomposition", decomposition)
    if not isinstance(decomposition, Decomposition):
        raise TypeError(
            f"decomposition: expected a name or a gmlearn.Decomposition, got "
            f"{type(decomposition).__name__}"
        )
    return decomposition


def resolve_each(
    crfs: Sequence[CRF], decomposition: str | Decomposition = "auto"
) -> list[Decomposition]:
    """The decomposition that a name or object stands for on each of some models."""
    return named(decomposition).resolve_each(crfs)


def decompose(
    crf: CRF, decomposition: str | Decomposition = "auto", power: str | None = None
) -> Slaves:
    """Cover `crf` by slaves, by the name of a registered decomposition or with a given one."""
    if not isinstance(crf, CRF):
        raise TypeError(f"crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    return named(decomposition).decompose(crf, power)

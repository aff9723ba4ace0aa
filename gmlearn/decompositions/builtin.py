"""Built-in decompositions: per clique, chains, rows and columns, spanning trees, and the
automatic choice.
"""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions.base import (
    Decomposition,
    Slaves,
    clique_groups,
    forest_slaves,
    is_edge_block,
    split_by_part,
    with_free_variables,
)
from gmlearn.model.crf import CRF
from gmlearn.model.grid import find_grid
from gmlearn.registry import registry


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

    sizes, own = np.diff(parts), split_by_part(edges, parts)
    grid = [find_grid(e, n) is not None for e, n in zip(own, sizes.tolist())]
    return monotone_chains(edges, int(parts[-1]), ~np.repeat(grid, sizes))


class RowsColumns(Chains):
    """Rows and columns of a 4-connected grid numbered row by row; refuses anything else."""

    name = "rows-columns"
    joint = False

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        edges = [b.variables for b in crf.clique_blocks if is_edge_block(b)]
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
    """

    name = "auto"

    def resolve(self, crf: CRF) -> Decomposition:
        for candidate in reversed(registry.objects("decomposition")):
            if candidate.name != self.name and candidate.claims(crf):
                return candidate
        return Chains()

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        return self.resolve(crf).decompose(crf, power)


def resolve(crf: CRF, decomposition: str | Decomposition = "auto") -> Decomposition:
    """The decomposition that a name or object stands for on this model."""
    if isinstance(decomposition, str):
        decomposition = registry.get("decomposition", decomposition)
    if not isinstance(decomposition, Decomposition):
        raise TypeError(
            f"decomposition: expected a name or a gmlearn.Decomposition, got "
            f"{type(decomposition).__name__}"
        )
    return decomposition.resolve(crf)


def decompose(
    crf: CRF, decomposition: str | Decomposition = "auto", power: str | None = None
) -> Slaves:
    """Cover `crf` by slaves, by the name of a registered decomposition or with a given one."""
    return resolve(crf, decomposition).decompose(crf, power)

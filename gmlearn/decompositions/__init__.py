"""Decompositions: from an energy to slave groups.

They ask the registry for solvers and never iterate.
"""

from gmlearn.decompositions.base import Decomposition, Slaves
from gmlearn.decompositions.builtin import (
    Auto,
    Chains,
    PerClique,
    Reweighted,
    RowsColumns,
    SpanningTrees,
    Sparse,
    decompose,
    resolve_each,
)
from gmlearn.decompositions.hypertrees import SpanningHypertrees
from gmlearn.decompositions.strips import Strips
from gmlearn.decompositions.subgraphs import Components, Subgraphs

__all__ = [
    "Auto",
    "Chains",
    "Components",
    "Decomposition",
    "PerClique",
    "Reweighted",
    "RowsColumns",
    "Slaves",
    "SpanningHypertrees",
    "SpanningTrees",
    "Sparse",
    "Strips",
    "Subgraphs",
    "decompose",
    "resolve_each",
]

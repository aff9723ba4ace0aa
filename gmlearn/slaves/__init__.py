"""Slaves: exact batched minimisers.

They see block, theta and weights; never another slave or the master.
"""

from gmlearn.slaves.base import (
    CliqueGroup,
    SlaveGroup,
    SlaveResult,
    SlaveSolver,
    SoftResult,
)
from gmlearn.slaves.cliques import Enumeration, PairwiseEdge, PottsEdge, TableClique
from gmlearn.slaves.forest import EdgeCosts, ForestGroup, FreeGroup
from gmlearn.slaves.junction_tree import JunctionTreeGroup, Part

__all__ = [
    "CliqueGroup",
    "EdgeCosts",
    "Enumeration",
    "ForestGroup",
    "FreeGroup",
    "JunctionTreeGroup",
    "PairwiseEdge",
    "Part",
    "PottsEdge",
    "SlaveGroup",
    "SlaveResult",
    "SlaveSolver",
    "SoftResult",
    "TableClique",
]

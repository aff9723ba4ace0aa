"""Slaves: exact batched minimisers. They see block, theta and weights; never another slave or the master."""

from gmlearn.slaves.base import (
    CliqueGroup,
    SlaveGroup,
    SlaveResult,
    SlaveSolver,
    SoftResult,
    expected_features,
)
from gmlearn.slaves.cliques import Enumeration, PairwiseEdge, PottsEdge, TableClique
from gmlearn.slaves.forest import EdgeCosts, ForestGroup, FreeGroup

__all__ = [
    "CliqueGroup",
    "EdgeCosts",
    "Enumeration",
    "ForestGroup",
    "FreeGroup",
    "PairwiseEdge",
    "PottsEdge",
    "SlaveGroup",
    "SlaveResult",
    "SlaveSolver",
    "SoftResult",
    "TableClique",
    "expected_features",
]

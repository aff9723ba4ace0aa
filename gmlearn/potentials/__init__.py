"""Potentials: blocks of cliques with vectorised energies and features.

They never solve anything.
"""

from gmlearn.potentials.base import Block, Weights
from gmlearn.potentials.deprecated import expected_features
from gmlearn.potentials.feature_table import FeatureTable
from gmlearn.potentials.form import PairwiseForm
from gmlearn.potentials.pairwise import Difference, LearntTable, Potts, Truncated
from gmlearn.potentials.ragged import RaggedArrays
from gmlearn.potentials.ragged_block import RaggedBlock
from gmlearn.potentials.table import Pairwise, Table
from gmlearn.potentials.unary import Unary

__all__ = [
    "Block",
    "Difference",
    "FeatureTable",
    "LearntTable",
    "Pairwise",
    "PairwiseForm",
    "Potts",
    "RaggedArrays",
    "RaggedBlock",
    "Table",
    "Truncated",
    "Unary",
    "Weights",
    "expected_features",
]

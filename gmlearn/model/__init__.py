"""The model room: variables, blocks, named weights. Knows no algorithm."""

from gmlearn.model.crf import CRF
from gmlearn.model.grid import find_grid, grid_cliques, grid_edges
from gmlearn.model.join import join
from gmlearn.model.weights import WeightLayout

__all__ = ["CRF", "WeightLayout", "find_grid", "grid_cliques", "grid_edges", "join"]

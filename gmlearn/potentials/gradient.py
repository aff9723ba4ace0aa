"""The derivative of an energy in a block's own numbers: strengths, table entries, features.

Energies are linear in these numbers as they are in the weights. So they may be seen as one more
weight segment whose weights happen to be zero, and whatever yields (expected) features of slaves,
ours or a plugin's, yields their derivative as well.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

Weights = Mapping[str, np.ndarray]


class CostGradient:
    """What every block can be asked about its own numbers; the defaults know none."""

    #: name and size of the segment that `with_cost_gradient` adds; None in ordinary blocks
    gradient_segment: tuple[str, int] | None = None
    #: int (M,), where the numbers of each clique begin in that segment
    gradient_start: np.ndarray | None = None

    def own_costs(self) -> np.ndarray | None:
        """int (M,): in how many numbers of its own (a strength, the entries of a table) the energy
        of each clique is linear. None if the block has none, or cannot differentiate in them.
        """
        return None

    def cost_gradient(self, found: np.ndarray, w: Weights) -> Any:
        """The derivative in the block's numbers, in the shape in which they were given; `found`
        has those of `own_costs`, clique after clique.
        """
        return found

    def with_costs(self, numbers: Any) -> Self:
        """The same cliques with other numbers, in the shape of `cost_gradient`."""
        raise TypeError(f"{type(self).__name__} has no costs of its own that can be replaced")

    def with_cost_gradient(self, name: str, start: np.ndarray, size: int) -> Self:
        """The same cliques; `features` and `expected_features` have one more segment `name` of
        `size` numbers, the derivative of the energy in `own_costs`, from `start` (M,) on.

        The weights of that segment are always zero, so that energies stay what they are. For
        blocks with `own_costs`, which add ``self.gradient_features(...)`` to their features.
        """
        other = copy.copy(self)
        other.gradient_segment, other.gradient_start = (name, int(size)), start
        return other

    def gradient_features(self, place: Any, amount: np.ndarray) -> dict[str, np.ndarray]:
        """`amount` (M, n) of the costs at `place` (n,) or (M, n) of each clique, as features;
        none in ordinary blocks.
        """
        if self.gradient_segment is None:
            return {}
        assert self.gradient_start is not None
        name, size = self.gradient_segment
        where = self.gradient_start[:, None] + place
        return {name: np.bincount(where.ravel(), np.ravel(amount), size)}

    def clique_gradient_features(self, place: Any, amount: np.ndarray) -> dict[str, np.ndarray]:
        """The same clique by clique, (M, size): for small blocks."""
        if self.gradient_segment is None:
            return {}
        assert self.gradient_start is not None
        name, size = self.gradient_segment
        out = np.zeros((len(self.gradient_start), size))
        where = np.broadcast_to(self.gradient_start[:, None] + place, np.shape(amount))
        np.put_along_axis(out, where, amount, axis=1)
        return {name: out}

    def gradient_segments(self) -> dict[str, tuple[int, ...]]:
        """What `with_cost_gradient` has added to the segments."""
        if self.gradient_segment is None:
            return {}
        name, size = self.gradient_segment
        return {name: (size,)}

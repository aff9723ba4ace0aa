"""Names that go; see the page "What is public"."""

from __future__ import annotations

import numpy as np

from gmlearn._utils.deprecation import deprecated
from gmlearn.potentials.base import Block


@deprecated("block.expected_features(joint)", removed_in="0.4")
def expected_features(block: Block, joint: np.ndarray) -> dict[str, np.ndarray]:
    """The features of a block under joint label probabilities of its cliques."""
    return block.expected_features(joint)

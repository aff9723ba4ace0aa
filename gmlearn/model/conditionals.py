"""Costs of changing one variable of a labelling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block

#: labels of changed cliques that are written out for one block
MAX_CHANGED = 50_000_000


def changed_cliques(
    block: Block, labels: np.ndarray, offsets: np.ndarray
) -> tuple[Block, np.ndarray, np.ndarray]:
    """(cliques, their labels, coordinates (n,)): every clique with one member at any of its
    labels, the others as in `labels` (V,), and the coordinate of that label.
    """
    states, sizes = block.member_states, np.diff(block.indptr)
    owner = np.repeat(np.arange(len(block)), sizes)
    entries = float((sizes[owner] * states).sum())
    if entries > MAX_CHANGED:
        raise ValueError(
            f"{block}: to change one variable at a time would write out {entries:.3g} labels "
            f"(limit {MAX_CHANGED:.3g})"
        )
    part = block.take(np.repeat(owner, states))
    changed = labels[part.members]
    place = np.repeat(np.arange(len(owner)) - block.indptr[:-1][owner], states)
    own = np.arange(int(states.sum())) - np.repeat(np.cumsum(states) - states, states)
    changed[part.indptr[:-1] + place] = own
    coords = np.repeat(offsets[block.members], states) + own
    return part, part.shape_members(changed), coords


def conditional_costs(crf: CRF, w: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
    """float (n_coords,): what each label of each variable costs, in its own and its cliques'
    energies, if all others have `labels` (V,).
    """
    costs = crf.unary_costs(w)
    for block in crf.clique_blocks:
        part, changed, coords = changed_cliques(block, labels, crf.offsets)
        costs += np.bincount(coords, part.energy(changed, w), len(costs))
    return costs

"""Joined models: any number of models side by side as one, their disjoint union.

Energies, bounds and features of the union are the sums of those of its parts, and no slave spans
two of them. Blocks of one kind become one block, so that thousands of small models cost one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_sequence
from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block

#: kinds of one type of block that are told apart before a block is left on its own
MOST_KINDS = 8


def check_models(name: str, crfs: Any) -> list[CRF]:
    """`crfs` as a list of models."""
    listed = check_sequence(name, crfs, "gmlearn.CRF")
    wrong = [type(crf).__name__ for crf in listed if not isinstance(crf, CRF)]
    if wrong:
        raise TypeError(f"{name}: expected a list of gmlearn.CRF, got one of {wrong[0]}")
    return listed


def join(crfs: Sequence[CRF]) -> CRF:
    """The disjoint union of models; its `parts` (n + 1,) says where the variables of each begin.

    Examples
    --------
    >>> import gmlearn as gm
    >>> edge = gm.CRF(2, 2).add_unary([[0, 1], [1, 0]])
    >>> _ = edge.add(gm.Potts([[0, 1]], 0.5))
    >>> both = gm.join([edge, edge])
    >>> both.n_vars, len(both.blocks), both.parts.tolist()
    (4, 1, [0, 2, 4])
    """
    crfs = check_models("crfs", crfs)
    states = [crf.n_states for crf in crfs]
    union = CRF(np.concatenate([np.zeros(0, np.int64), *states]))
    union.parts = np.cumsum([0, *(len(s) for s in states)])
    union.unary = np.concatenate([np.zeros(0), *(crf.unary for crf in crfs)])
    union.constant = float(sum(crf.constant for crf in crfs))
    # two lists for each group, no pairs: thousands of new objects would set off the collector
    kinds: dict[type, list[tuple[list[Block], list[int]]]] = {}
    for crf, shift in zip(crfs, union.parts.tolist()):
        for block in crf.blocks:
            groups = kinds.setdefault(type(block), [])
            for blocks, shifts in groups[-MOST_KINDS:]:
                if blocks[0].fits(block):
                    blocks.append(block)
                    shifts.append(shift)
                    break
            else:
                groups.append(([block], [shift]))
    for groups in kinds.values():
        for blocks, shifts in groups:
            union.blocks.append(blocks[0].join(blocks, shifts))
    return union

r"""Proximal ascent of the dual at fixed weights: needs nothing but slave minimisers, no step size.

Each proximal step :math:`\max_\lambda D(\lambda) - \frac c2|\lambda - \bar\lambda|^2` is solved
roughly by pairwise steps over working sets of minimisers (see `mixture`); the next one starts
where it led. The bound is evaluated at a running average of the centres, which swing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from gmlearn.master.dual import Dual, Round
from gmlearn.master.mixture import Mixture
from gmlearn.model.weights import WeightLayout

#: share of the first proximal step below which a step counts as tiny, and the most passes of one
SMALLEST, MOST_PASSES = 1e-3, 16
#: share of the newest centre in the running average
RATE = 0.5
#: rounds after which what rounding has left in the multipliers' sums is taken out
RECENTRE = 8
#: share of a minimisation's gain that a move between known minimisers must bring to be repeated
WORTH = 0.5
#: the most passes in a row that go without such moves after one that was not worth it
LONGEST_PAUSE = 15


def ascend_bcfw(
    dual: Dual, *, reach: float = 1.0, passes: int = 4, exchanges: int = 3
) -> Iterator[Round]:
    """Yield a round (a valid bound) after every `passes` passes; ``dual.lam`` holds the best
    multipliers.

    Parameters
    ----------
    reach : the first proximal step moves multipliers by about `reach` times the typical cost;
        adapted by success. Where that makes it tiny the steps were solved too roughly: each then
        gets twice as many passes, and starts from the first size again.
    passes : passes over all slaves between two evaluations of the bound, whose minimisers serve as
        one more.
    exchanges : moves between known minimisers after each pass.
    """
    first = dual.round()
    yield first
    if not np.isfinite(first.bound):
        return
    frozen = np.zeros(0)
    mixture = Mixture(dual, WeightLayout({}))
    mixture.begin(mixture.read(first.results, dual.share + dual.lam, frozen))
    state = mixture.state
    inverse = full = reach * dual.cost_scale(first)  # 1 / c
    best, inner = first.bound, 1
    pause = waited = 0  # passes without exchanges
    for k in count(1):
        for p in range(max(passes, inner)):
            gain = mixture.visit(frozen, inverse).gain
            pause -= 1
            for e in range(exchanges if pause < 0 else 0):
                if mixture.exchange(frozen, inverse).gain < WORTH * gain:
                    if e == 0:  # not worth it now: wait, longer each time
                        pause = waited = min(2 * waited + 1, LONGEST_PAUSE)
                    break
                waited = 0
            if (p + 1) % inner == 0:
                mixture.move_centre(inverse, RATE)
        if k % RECENTRE == 0:
            mixture.recentre()
        current = replace(dual.round(state.average), blend=state.mean.copy())
        if current.bound > best:
            best = current.bound
            dual.lam = state.average.copy()
            inverse *= 1.2
        elif inverse > SMALLEST * full:
            inverse *= 0.6
        else:
            inverse, inner = full, min(2 * inner, MOST_PASSES)
        yield current
        if current.disagreement == 0.0:
            return
        at = mixture.read(current.results, dual.share + state.average, frozen)
        mixture.move_to(at, frozen, inverse)

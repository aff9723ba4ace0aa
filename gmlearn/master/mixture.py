r"""The dual iterate: a convex combination of minimisers for every slave, and the steps on it.

A proximal step on the dual, :math:`\max_\lambda D(\lambda) - \frac c2|\lambda - \bar\lambda|^2`
at weights w, has the dual problem

.. math:: \min_y \sum_i \langle\bar\theta_i, y_i\rangle + h_i(y_i; w)
          + \tfrac1{2c}|y - \mathrm{mean}(y)|^2,
          \qquad \lambda = \bar\lambda + (y - \mathrm{mean}(y))/c,

over the hulls of the slaves' minimisers; mean(y) averages over the copies of a coordinate. Slaves
keep the minimisers that they have met (a working set) and move between two of them at a time
(pairwise Frank-Wolfe: Lacoste-Julien and Jaggi, 2015; working sets: Shah, Kolmogorov and Lampert,
2015). Such steps need no minimisation, and tolerate that many slaves are minimised at once.

MAP moves y alone (`ascent`), training moves the weights with it (`learn.bcfw`). The slaves may be
those of any number of samples, side by side.
"""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions.base import Slaves
from gmlearn.master.dual import Dual
from gmlearn.master.mixture_state import (
    Direction,
    Minimisers,
    MixtureState,
    Point,
    Sparse,
    Structure,
)
from gmlearn.model.weights import WeightLayout
from gmlearn.slaves import SlaveResult

#: relative error of a minimiser's costs
ROUNDING = 1e-9
#: bytes that the working sets of one batch may take
MOST_BYTES = 2**26


class Mixture:
    """Slaves with the convex combination of minimisers where each of them stands.

    Parameters
    ----------
    dual : the slaves at some weights; its multipliers are where the mixture starts.
    layout : of the weights that move; an empty one where they are frozen.
    size : the most minimisers that are kept for each slave.
    shares : float (n_slaves,), factors of the slaves' costs, the same for all that share a
        coordinate; None: 1.
    still : do unary costs stay what they are? Slaves that share nothing are then minimised once,
        where the weights are frozen too.
    """

    def __init__(
        self,
        dual: Dual,
        layout: WeightLayout,
        size: int = 16,
        shares: np.ndarray | None = None,
        still: bool = True,
    ):
        self.dual, self.layout, self.size = dual, layout, size
        self.slaves: Slaves = dual.slaves
        slaves = dual.slaves
        read = {name for block in self.slaves.crf.clique_blocks for name in block.segments()}
        #: the weights that cliques read, as a layout of their own, and their places among all
        self.cliques = WeightLayout({n: s for n, s in layout.shapes.items() if n in read})
        places = [np.arange(layout.size)[layout.slices[n]] for n in self.cliques.shapes]
        self.columns = np.concatenate([np.zeros(0, np.int64), *places])
        # features that are known as a sum only: the group then moves as one slave
        self._whole = [self.cliques.size > 0 and not g.knows_slaves for g in self.slaves.groups]
        self.structure = self._structure(shares)
        #: float (n_coords,): the shares of the slaves that hold each coordinate
        self.coord_shares = None if shares is None else self._coord_shares(shares)
        # groups that share no coordinate, and what they found: frozen weights never move them
        alone = [slaves.count[g.coords].max(initial=1.0) <= 1.0 for g in slaves.groups]
        self._alone = [still and bool(a) for a in alone]
        self._still: list[SlaveResult | None] = [None] * len(alone)
        self.state: MixtureState

    def _coord_shares(self, shares: np.ndarray) -> np.ndarray:
        found = np.ones(self.slaves.n_coords)
        found[self.slaves.coords] = np.repeat(shares, self.slaves.sizes)
        return found

    def _structure(self, shares: np.ndarray | None) -> Structure:
        slaves = self.slaves
        starts = [
            where.start + (np.zeros(1, np.int64) if whole else group.indptr[:-1])
            for group, where, whole in zip(slaves.groups, slaves.slices, self._whole)
        ]
        bounds = np.concatenate([*starts, [len(slaves.coords)]]).astype(np.int64)
        words = np.concatenate([[0], np.cumsum((np.diff(bounds) + 63) // 64)])
        weight = 1.0 / np.maximum(slaves.count, 1.0)
        parts = zip(slaves.by_group(shares), self._whole)
        own = [p if p is None or not whole else p[:1] for p, whole in parts]
        share = np.ones(len(bounds) - 1) if shares is None else np.concatenate([np.zeros(0), *own])
        return Structure(bounds, words, slaves.coords.astype(np.uint32), weight, share)

    # ------------------------------------------------------------------ minimisers

    def minimise(self, theta: np.ndarray, w: np.ndarray) -> Minimisers:
        """All slaves at dual costs `theta` (D,) and at `w` (P,), the weights of `dual`."""
        groups = zip(self.slaves.groups, self.slaves.slices, self.dual.prepared, self._still)
        found = [still or g.solve(theta[s], ready) for g, s, ready, still in groups]
        if self.layout.size == 0:
            self._still = [r if alone else None for r, alone in zip(found, self._alone)]
        return self.read(found, theta, w)

    def read(self, results: list[SlaveResult], theta: np.ndarray, w: np.ndarray) -> Minimisers:
        """What the groups found at `theta` and `w`, slave by slave."""
        from gmlearn.master._mixture_numba import costs_of

        ind, ones = self._indicators(results)
        sums = [[r.value.sum()] if whole else r.value for r, whole in zip(results, self._whole)]
        value = np.concatenate([np.zeros(0), *sums])
        features = self._features(results)
        fixed, size = value.copy(), np.abs(value)
        costs_of(self.structure.starts, ones, ind, theta, features, w[self.columns], fixed, size)
        return Minimisers(ind, ones, features, fixed, ROUNDING * size, value)

    def _indicators(self, results: list[SlaveResult]) -> tuple[np.ndarray, np.ndarray]:
        """The indicators (D,), and where they are not 0, int (K,), ascending."""
        where = zip(self.slaves.slices, results)
        chosen = [s.start + r.chosen for s, r in where if r.chosen is not None]
        if len(chosen) < len(results):
            ind = np.concatenate([r.ind for r in results])
            return ind, np.flatnonzero(ind)
        ind = np.zeros(len(self.slaves.coords))
        ones = np.concatenate([np.zeros(0, np.int64), *chosen])
        ind[ones] = 1.0
        return ind, ones

    def _features(self, results: list[SlaveResult]) -> Sparse:
        """Clique features of the minimisers."""
        first, pieces = 0, []
        for group, result, whole in zip(self.slaves.groups, results, self._whole):
            n = 1 if whole else group.n
            if self.cliques.size:
                found = group.features(result) if whole else group.slave_features(result)
                for name in self.cliques.shapes.keys() & found.keys():
                    flat = np.reshape(found[name], (n, -1))
                    place = np.flatnonzero(flat)  # much faster than `nonzero` of two dimensions
                    row, column = np.divmod(place, max(flat.shape[1], 1))
                    begin = self.cliques.slices[name].start
                    pieces.append((row + first, column + begin, flat.ravel()[place]))
            first += n
        if not pieces:
            return Sparse(np.zeros(first + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        row, column, value = (np.concatenate(part) for part in zip(*pieces))
        if len(pieces) > 1:
            order = np.lexsort([column, row])
            row, column, value = row[order], column[order], value[order]
        return Sparse(np.searchsorted(row, np.arange(first + 1)), column, value.astype(float))

    def keep(self, found: Minimisers) -> np.ndarray:
        """Put minimisers into the working sets; int (M,), their places there, -1 for none."""
        from gmlearn.master._mixture_numba import keep_minimisers

        place = np.empty(len(found.value), np.int64)
        state = self.state
        if len(found.features.values):
            most = int(np.diff(found.features.indptr).max(initial=0))
            if most > state.n_kept:
                state.widen(most)
        if self.cliques.size and (state.share > 0.0).all(axis=1).any():  # one in use may have to go
            self._make_rest()
        keep_minimisers(
            *(self.structure, state.working_set, state.share, state.rest, *found[:-1], place)
        )
        return place

    def _make_rest(self) -> None:
        """Room for the features of minimisers that no working set holds."""
        if len(self.state.rest) == 0:
            self.state.rest = np.zeros((len(self.state.fixed), self.cliques.size))

    # ------------------------------------------------------------------ the point

    def begin(self, found: Minimisers) -> None:
        """Start at given minimisers, with the multipliers of `dual`."""
        m, words = len(found.value), int(self.structure.words[-1])
        numbers = len(found.features.columns)
        size = int(np.clip(MOST_BYTES // (20 * m + 12 * numbers + 8 * words + 1), 2, self.size))
        self.state = MixtureState(
            centre=self.dual.lam.copy(),
            average=self.dual.lam.copy(),
            y=found.ind.copy(),
            mean=self.slaves.mean(found.ind),
            rest=np.zeros((0 if self.cliques.size else m, self.cliques.size)),
            fixed=found.fixed.copy(),
            share=np.zeros((m, size)),
            bits=np.zeros((words, size), np.uint64),
            known_index=np.zeros(0, np.int32),
            known_values=np.zeros(0),
            known_fixed=np.zeros((m, size)),
            used=np.zeros((m, size), np.int32),
            curvature=np.zeros(()),
            **{f"old_{name}": np.zeros(0) for name in Point._fields},
        )
        place = self.keep(found)
        self.state.share[:, 0] = place == 0
        if (place < 0).any():
            self._make_rest()
        for slave in np.flatnonzero(place < 0).tolist():
            own = slice(*found.features.indptr[slave : slave + 2].tolist())
            self.state.rest[slave, found.features.columns[own]] = found.features.values[own]

    def check(self) -> None:
        """Refuse numbers of a stranger's file that compiled code could not trust."""
        state, sizes, words = self.state, np.diff(self.structure.starts), self.structure.words
        last = words[1:][sizes % 64 > 0] - 1
        beyond = state.bits[last] >> (sizes[sizes % 64 > 0] % 64).astype(np.uint64)[:, None]
        if beyond.any():
            raise ValueError("bits: expected places within their slave")
        outside = (state.known_index < 0) | (state.known_index >= max(self.cliques.size, 1))
        kept = state.n_kept * state.used.size
        if outside.any() or kept != len(state.known_index) or kept != len(state.known_values):
            raise ValueError("known_index: expected places of features of cliques")
        if len(state.rest) not in (0, len(sizes)):
            raise ValueError(f"rest: expected a row for each of {len(sizes)} slaves, or none")
        if (state.share < 0).any() or (state.share.sum(axis=1) > 1.0 + 1e-6).any():
            raise ValueError("share: expected shares of the mixture of each slave")

    def total(self, per_slave: np.ndarray) -> float:
        """The sum of values (M,) with the slaves' shares."""
        if self.coord_shares is None:
            return float(per_slave.sum())
        return float(self.structure.share @ per_slave)

    def weighed(self, per_coord: np.ndarray) -> np.ndarray:
        """Values of coordinates (n_coords,) with the shares of their slaves."""
        return per_coord if self.coord_shares is None else per_coord * self.coord_shares

    def features(self) -> np.ndarray:
        """phi (P,): the features of the mixture, all slaves together."""
        out = self.layout.join(self.slaves.unary_features(self.weighed(self.state.mean)))
        out[self.columns] += self.clique_features()
        return out

    def clique_features(self, shares: np.ndarray | None = None) -> np.ndarray:
        """float (P,): the clique features of the mixture, all slaves together; with other shares
        (M, C) of the working sets.
        """
        state, n, share = self.state, self.cliques.size, self.structure.share
        own = state.share if shares is None else shares
        used = np.nonzero(own)
        known = state.working_set
        value = known.values[used] * (own[used] * share[used[0]])[:, None]
        found = np.bincount(known.columns[used].ravel(), value.ravel(), n)
        return found + share @ state.rest if len(state.rest) else found

    def clique_costs(self, w: np.ndarray) -> np.ndarray:
        """float (M,): what the clique features of each slave's mixture cost at `w` (P,)."""
        state, own = self.state, w[self.columns]
        used = np.nonzero(state.share)
        if self.cliques.size == 0:
            return np.zeros(len(state.fixed))
        known = state.working_set
        price = (own[known.columns[used]] * known.values[used]).sum(axis=1)
        found = np.bincount(used[0], price * state.share[used], len(state.fixed))
        return found + state.rest @ own if len(state.rest) else found

    def fixed_cost(self, box: float, w: np.ndarray) -> tuple[float, float]:
        """What the mixture costs at zero weights, without what no slave holds, plus the most that
        multipliers of reasonable size can gain from the disagreement of slaves,
        sum_d B_d |y_d - mean_d|; and the largest B_d.

        An optimum has multipliers of about the range of the slaves' costs: averaging min-marginals
        over the copies of a coordinate, which never lowers the dual, leaves none that is larger.
        B_d is the range met in the working sets (at the weights w), of the slave or on average over
        the copies, or `box` times the slave's largest multiplier if that is more. Where slaves
        agree, nothing is assumed: the second number is 0.
        """
        state, slaves = self.state, self.slaves
        zero = self.layout.split(np.zeros(self.layout.size))
        unary, used = slaves.unary(zero), state.mean > 0
        held = self.total(state.fixed) + float(unary[used] @ self.weighed(state.mean)[used])
        apart = np.abs(state.y - slaves.spread(state.mean))
        apart *= slaves.spread(self.weighed(np.ones(slaves.n_coords)))
        if apart.sum() <= 1e-12:
            return held, 0.0
        price = self._multiplier_sizes(box, w)
        return held + float(price @ apart), float(price.max(initial=0.0))

    def _multiplier_sizes(self, box: float, w: np.ndarray) -> np.ndarray:
        """B_d (D,), see `fixed_cost`."""
        state, starts = self.state, self.structure.starts
        kept = state.working_set
        known = state.known_fixed + (w[self.columns][kept.columns] * kept.values).sum(axis=2)
        highest = np.where(state.used > 0, known, -np.inf).max(axis=1, initial=-np.inf)
        lowest = np.where(state.used > 0, known, np.inf).min(axis=1, initial=np.inf)
        ranges = np.where(highest > lowest, highest - lowest, 0.0)
        sizes = np.diff(starts)
        largest = np.zeros(len(sizes))
        # slaves without dual variables have no part in `reduceat`
        filled = sizes > 0
        largest[filled] = np.maximum.reduceat(np.abs(state.centre), starts[:-1][filled])
        own = np.repeat(ranges, sizes)
        shared = self.slaves.spread(self.slaves.mean(own))
        return np.maximum(np.maximum(own, shared), np.repeat(box * largest, sizes))

    def indicators(self, slave: np.ndarray, number: np.ndarray, size: int) -> np.ndarray:
        """float (G, n, size): minimisers `number` (G, n) of slaves `slave` (G,) of one size."""
        words = self.structure.words[slave][:, None] + np.arange((size + 63) // 64)
        bits = self.state.bits[words[:, None], number[:, :, None]]
        ones = np.ascontiguousarray(bits).astype("<u8").view(np.uint8)
        return np.unpackbits(ones, axis=2, count=size, bitorder="little").astype(float)

    # ------------------------------------------------------------------ moves

    def visit(self, w: np.ndarray, inverse: float) -> Direction:
        """Minimise all slaves at the present dual costs, then move; inverse is 1 / c."""
        from gmlearn.master._mixture_numba import dual_costs

        state, structure = self.state, self.structure
        theta = np.empty(len(structure.coords))
        unary = self.dual.unary_share
        dual_costs(structure.coords, unary, state.centre, state.y, state.mean, inverse, theta)
        return self.move_to(self.minimise(theta, w), w, inverse)

    def move_to(self, found: Minimisers, w: np.ndarray, inverse: float) -> Direction:
        """Keep new minimisers and move towards them."""
        from gmlearn.master._mixture_numba import frank_wolfe_steps

        place = self.keep(found)
        if (place < 0).any():  # fractions are never kept
            self._make_rest()
        self._remember()
        state = self.state
        moved = frank_wolfe_steps(
            *(self.structure, state.working_set, state.point, place, found.ind, found.features),
            *(found.fixed, self.dual.unary_share, state.centre, w[self.columns], inverse),
            float(state.curvature),
        )
        return self._direction(moved, w, inverse)

    def exchange(self, w: np.ndarray, inverse: float) -> Direction:
        """Move between known minimisers, without a minimisation."""
        from gmlearn.master._mixture_numba import pairwise_steps

        self._remember()
        state = self.state
        moved = pairwise_steps(
            *(self.structure, state.working_set, state.point, self.dual.unary_share),
            *(state.centre, w[self.columns], inverse, float(state.curvature)),
        )
        return self._direction(moved, w, inverse)

    def _remember(self) -> None:
        """Where the slaves stand before a move, so that `settle` can take a part of it back."""
        if self.layout.size:
            self.state.old_point = Point(*(a.copy() for a in self.state.point))

    def _direction(
        self, moved: tuple[np.ndarray, float, float, float], w: np.ndarray, inverse: float
    ) -> Direction:
        """The joint move that the steps of all slaves add up to."""
        clique, change, square, squares = moved
        if self.layout.size == 0:  # nobody takes a part of it back
            return Direction(clique, change, 0.0, squares, -change)
        mean = self.state.mean - self.state.old_mean
        weighed = self.weighed(mean)
        features = self.layout.join(self.slaves.unary_features(weighed))
        features[self.columns] += clique
        together = float((mean * weighed / self.structure.weight).sum())
        spread = max(square - together, 0.0) * inverse
        # along the move the proximal dual is a parabola: change = slope + spread / 2
        slope = change - 0.5 * spread - float(features @ w)
        return Direction(features, slope, spread, squares, -change)

    def settle(self, gamma: float, curvature: float) -> None:
        """Keep the part `gamma` of the last move; `curvature` as in the state, 0 if unknown."""
        state = self.state
        if gamma < 1.0:
            for now, old in zip(state.point, state.old_point):
                now[...] = old + gamma * (now - old)
        if curvature > 0.0:
            state.curvature = np.array(curvature)
        state.old_point = Point(*(np.zeros(0) for _ in Point._fields))

    def move_centre(self, inverse: float, rate: float) -> None:
        """The next proximal step starts where this one led; the average of centres follows."""
        from gmlearn.master._mixture_numba import move_centre

        state, structure = self.state, self.structure
        arrays = structure.coords, state.centre, state.average, state.y, state.mean
        move_centre(*arrays, inverse, rate)

    def recentre(self) -> None:
        """Take out what rounding has left in the means and in the multipliers' sums."""
        state = self.state
        state.mean = self.slaves.mean(state.y)
        state.centre = self.dual.centred(state.centre)
        state.average = self.dual.centred(state.average)

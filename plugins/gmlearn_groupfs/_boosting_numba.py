"""Boosting over dyadic hypercuts, compiled: one call trains all stages of one cluster's
classifier.
"""

from __future__ import annotations

import numba
import numpy as np

N_BINS = 32
#: working responses beyond this are clipped, as LogitBoost's authors advise (points that are badly
#: wrong)
MAX_RESPONSE = 4.0


@numba.njit(cache=True, nogil=True)
def _next(state):
    """xorshift64*: a stream of 64-bit numbers from state (1,) uint64, never zero."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@numba.njit(cache=True, nogil=True)
def _below(state, n):
    """A whole number in 0..n-1."""
    return np.int64((_next(state) >> np.uint64(33)) % np.uint64(n))


@numba.njit(cache=True, nogil=True)
def working_set(scores, signs, held, exponential, weight, response):
    """LogitBoost: w = p (1 - p), z = (y - p) / w.

    ExpLoss (gentle boosting): w = exp(-y f), z = y. Writes w and w z.
    """
    for i in range(scores.size):
        if held[i]:
            weight[i] = 0.0
            response[i] = 0.0
        elif exponential:
            weight[i] = np.exp(min(-signs[i] * scores[i], 30.0))
            response[i] = weight[i] * signs[i]
        else:
            p = 1.0 / (1.0 + np.exp(-scores[i]))
            weight[i] = max(p * (1.0 - p), 1e-6)
            z = ((1.0 if signs[i] > 0 else 0.0) - p) / weight[i]
            response[i] = weight[i] * min(max(z, -MAX_RESPONSE), MAX_RESPONSE)


@numba.njit(cache=True, nogil=True)
def _fill_bins(projection, low, step, weight, response, bins):
    """Sums of weight and response by bin, (N_BINS, 2)."""
    bins[:] = 0.0
    for i in range(projection.size):
        b = np.int64((projection[i] - low) * step)
        bins[b, 0] += weight[i]
        bins[b, 1] += response[i]


@numba.njit(cache=True, nogil=True)
def _project(positive, negative, projection):
    """projection = positive - negative, and its range; four running extremes, since one would
    wait for itself.
    """
    n = projection.size
    low0 = low1 = low2 = low3 = high0 = high1 = high2 = high3 = positive[0] - negative[0]
    for i in range(0, n - 3, 4):
        a, b = positive[i] - negative[i], positive[i + 1] - negative[i + 1]
        c, d = positive[i + 2] - negative[i + 2], positive[i + 3] - negative[i + 3]
        projection[i], projection[i + 1], projection[i + 2], projection[i + 3] = a, b, c, d
        low0, low1, low2, low3 = min(low0, a), min(low1, b), min(low2, c), min(low3, d)
        high0, high1, high2, high3 = max(high0, a), max(high1, b), max(high2, c), max(high3, d)
    for i in range(n - n % 4, n):
        projection[i] = positive[i] - negative[i]
        low0, high0 = min(low0, projection[i]), max(high0, projection[i])
    return min(min(low0, low1), min(low2, low3)), max(max(high0, high1), max(high2, high3))


@numba.njit(cache=True, nogil=True)
def _best_cut(bins, total_weight, total_response):
    """The split of the bins with the largest drop of weighted squared error: gain, bin, mean
    below, mean above.
    """
    best, where, below, above = -1.0, -1, 0.0, 0.0
    left_weight = left_response = 0.0
    for b in range(N_BINS - 1):
        left_weight += bins[b, 0]
        left_response += bins[b, 1]
        right_weight = total_weight - left_weight
        if left_weight <= 1e-12 or right_weight <= 1e-12:
            continue
        right_response = total_response - left_response
        gain = (
            left_response * left_response / left_weight
            + right_response * right_response / right_weight
        )
        if gain > best:
            best, where = gain, b
            below, above = left_response / left_weight, right_response / right_weight
    return best, where, below, above


@numba.njit(cache=True, nogil=True)
def best_hypercut(
    kernels, positives, negatives, weight, response, n_cuts, state, projection, bins, cut
):
    """The best of `n_cuts` random hypercuts (all of them if n_cuts is 0) for given working weights
    and responses.

    kernels : float32 (M, n, n) among training points. positives, negatives : indices. weight,
        response : (n,).
    cut : float64 (6,) written as kernel, positive, negative, threshold, value at or below, value
        above. Returns the gain.
    """
    n_kernels = kernels.shape[0]
    everything = n_cuts == 0
    n_pairs = positives.size * negatives.size
    n_tries = n_kernels * n_pairs if everything else n_cuts
    total_weight, total_response = weight.sum(), response.sum()
    best = -1.0
    for t in range(n_tries):
        if everything:
            m, pair = t // n_pairs, t % n_pairs
            p, q = positives[pair // negatives.size], negatives[pair % negatives.size]
        else:
            m = _below(state, n_kernels)
            p = positives[_below(state, positives.size)]
            q = negatives[_below(state, negatives.size)]
        low, high = _project(kernels[m, p], kernels[m, q], projection)
        if not high > low:
            continue
        # the last bin must hold the largest value, in float32 arithmetic too
        step = np.float32(N_BINS * (1.0 - 1e-6)) / (high - low)
        _fill_bins(projection, low, step, weight, response, bins)
        gain, b, below, above = _best_cut(bins, total_weight, total_response)
        if gain > best:
            best = gain
            cut[0] = m
            cut[1] = p
            cut[2] = q
            cut[3] = low + (b + 1) / step
            cut[4] = below
            cut[5] = above
    return best


@numba.njit(cache=True, nogil=True)
def boost(
    kernels, signs, held, n_stages, n_cuts, exponential, shrinkage, seed, cuts, gains, scores
):
    """Train one classifier on the points that are not held out; score all points. Returns the
    constant term.

    kernels : float32 (M, n, n). signs : float64 (n,) of -1 and 1, both present among the training
        points.
    held : bool (n,), points that lend neither labels nor hypercuts: their scores are cross-fitted.
    Written: cuts (n_stages, 6), gains (n_stages,) (drop of squared error over the best constant),
    scores (n,).
    """
    n = signs.size
    state = np.array([seed * np.uint64(2) + np.uint64(1)], np.uint64)
    for _ in range(8):
        _next(state)
    positives, negatives = np.flatnonzero((signs > 0) & ~held), np.flatnonzero((signs < 0) & ~held)
    offset = np.log(positives.size / negatives.size) * (0.5 if exponential else 1.0)
    scores[:] = offset
    weight, response = np.empty(n), np.empty(n)
    projection, bins = np.empty(n, np.float32), np.empty((N_BINS, 2))
    for s in range(n_stages):
        working_set(scores, signs, held, exponential, weight, response)
        gain = best_hypercut(
            kernels,
            positives,
            negatives,
            weight,
            response,
            n_cuts,
            state,
            projection,
            bins,
            cuts[s],
        )
        gains[s] = max(gain - response.sum() ** 2 / weight.sum(), 0.0)
        if gain < 0:  # every projection was constant: the stage says nothing
            cuts[s] = 0.0
            continue
        cuts[s, 4] *= shrinkage
        cuts[s, 5] *= shrinkage
        m, p, q = np.int64(cuts[s, 0]), np.int64(cuts[s, 1]), np.int64(cuts[s, 2])
        for i in range(n):
            scores[i] += (
                cuts[s, 5] if kernels[m, p, i] - kernels[m, q, i] > cuts[s, 3] else cuts[s, 4]
            )
    return offset


@numba.njit(cache=True, nogil=True)
def evaluate(cross, offset, cuts, scores):
    """scores[i] = offset + the cuts' values; cross float32 (M, k, n): kernels from k points to
    the training points.
    """
    for i in range(scores.size):
        total = offset
        for s in range(cuts.shape[0]):
            m, p, q = np.int64(cuts[s, 0]), np.int64(cuts[s, 1]), np.int64(cuts[s, 2])
            total += cuts[s, 5] if cross[m, i, p] - cross[m, i, q] > cuts[s, 3] else cuts[s, 4]
        scores[i] = total

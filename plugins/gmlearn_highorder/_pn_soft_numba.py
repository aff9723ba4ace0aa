r"""Compiled log-partition of Pn-Potts cliques, in closed form, theta (S, L).

With p_i the members' own label probabilities, :math:`Z = \sum_l e^{-\beta_l} c_l + e^{-\beta_{max}}
(1 - \sum_l c_l)` and :math:`c_l = \prod_i p_i(l)`. No digits are lost in the bracket: the likeliest
constant labelling is taken off 1 by ``expm1``; where that leaves next to nothing, :math:`1 -
\prod_i p_i = \sum_i (1 - p_i)` to first order, summed as logarithms, and the other constant
labellings are smaller still.
"""

import numpy as np
from numba import njit

from gmlearn_highorder._cardinality_numba import longest

#: masses below this are summed as logarithms
TINY = 1e-12


@njit(cache=True, nogil=True)
def log_probabilities(row, temperature, log_p):
    """log p(l), p ~ exp(-row / temperature), exact also next to p = 1; returns the
    log-normaliser.
    """
    low = row.min()
    if low == np.inf:
        log_p[:] = -np.inf
        return -np.inf
    top, others = np.argmin(row), 0.0
    for l in range(len(row)):
        log_p[l] = (low - row[l]) / temperature
        if l != top:
            others += np.exp(log_p[l])
    # the likeliest label has share 1 before normalising: log(1 / (1 + others)) keeps the digits
    log_norm = np.log1p(others)
    for l in range(len(row)):
        log_p[l] -= log_norm
    return log_norm - low / temperature


@njit(cache=True, nogil=True)
def log_sum(values, skip):
    """log sum exp of `values`, leaving out the one at `skip`."""
    high = -np.inf
    for i in range(len(values)):
        if i != skip:
            high = max(high, values[i])
    if high == -np.inf:
        return high
    total = 0.0
    for i in range(len(values)):
        if i != skip:
            total += np.exp(values[i] - high)
    return high + np.log(total)


@njit(cache=True, nogil=True)
def log_weights(constant, beta, beta_max, temperature, single, own, log_q):
    """log of each label's constant mass and of the mixed mass, both with their costs; the latter is
    returned.

    log_q (k,) : log of each member's probability of another label than the likeliest constant one.
    """
    top = np.argmax(constant)
    rest = -np.expm1(constant[top])
    for l in range(len(constant)):
        if l != top:
            rest -= np.exp(constant[l])
        own[l] = constant[l] - beta[l] / temperature
    if single:
        return -np.inf
    return (np.log(rest) if rest > TINY else log_sum(log_q, -1)) - beta_max / temperature


@njit(cache=True, nogil=True)
def log_partition_pn(theta, indptr, beta, beta_max, temperature, value, marginals, chosen, rest):
    """Soft minima (M,), marginals (S, L), and the probabilities of constant labels (M, L) and of
    mixed labellings (M,).

    Where no labelling is possible the value is inf and there are no marginals.
    """
    size, k = theta.shape[1], longest(indptr)
    log_p, ahead, own = np.empty((k, size)), np.empty((k + 1, size)), np.empty(size)
    behind, log_q = np.empty(size), np.empty(k)
    for m in range(len(beta_max)):
        lo, hi = indptr[m], indptr[m + 1]
        k, log_norm = hi - lo, 0.0
        for i in range(k):
            log_norm += log_probabilities(theta[lo + i], temperature, log_p[i])
        ahead[k] = 0.0  # sums of log p over the members from i on
        for i in range(k - 1, -1, -1):
            for l in range(size):
                ahead[i, l] = ahead[i + 1, l] + log_p[i, l]
        top = np.argmax(ahead[0])
        for i in range(k):
            log_q[i] = log_sum(log_p[i], top)
        mixed = log_weights(ahead[0], beta[m], beta_max[m], temperature, k == 1, own, log_q[:k])
        high = max(mixed, own.max())
        if high == -np.inf or log_norm == -np.inf:
            value[m] = np.inf
            rest[m] = 0.0
            chosen[m] = 0.0
            marginals[lo:hi] = 0.0
            continue
        log_z = high + np.log(np.exp(own - high).sum() + np.exp(mixed - high))
        value[m] = -temperature * (log_z + log_norm)
        rest[m] = np.exp(mixed - log_z)
        chosen[m, :size] = np.exp(own - log_z)
        chosen[m, size:] = 0.0
        behind[:] = 0.0
        shift = -beta_max[m] / temperature - log_z
        for i in range(k):
            for l in range(size):
                # x_i = l in a mixed clique: not all others take l
                unlike = -np.expm1(behind[l] + ahead[i + 1, l])
                log_unlike = np.log(unlike) if unlike > TINY else log_sum(log_q[:k], i)
                marginals[lo + i, l] = chosen[m, l] + np.exp(log_p[i, l] + shift + log_unlike)
                behind[l] += log_p[i, l]

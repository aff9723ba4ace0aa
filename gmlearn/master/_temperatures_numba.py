"""Compiled passes over slaves: which variables they hold, and how low their temperatures go."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def take_back(variable, ptr, total, rho):
    """Lower each slave's temperature, one after the other, by what is left over beyond 1 at all
    of its variables; `total` (V,) holds the sums of `rho`.
    """
    for i in range(len(rho)):
        spare = rho[i]
        for j in range(ptr[i], ptr[i + 1]):
            spare = min(spare, total[variable[j]] - 1.0)
        # never to 0: a slave keeps a temperature, if a low one
        spare = min(spare, 0.98 * rho[i])
        if ptr[i + 1] > ptr[i] and spare > 1e-12:
            rho[i] -= spare
            for j in range(ptr[i], ptr[i + 1]):
                total[variable[j]] -= spare


@njit(cache=True, nogil=True)
def held_variables(coords, sizes, owner, possible):
    """(variable, slave), one after the other, of all variables of which a slave holds several
    labels that are possible; `owner` and `possible` of the labels, which are the first coordinates.
    """
    variable = np.empty(len(coords) // 2, np.int64)
    slave = np.empty(len(coords) // 2, np.int64)
    n_vars = owner[-1] + 1 if len(owner) else 0
    last = np.full(n_vars, -1)
    count = np.zeros(n_vars, np.int64)
    n, d = 0, 0
    for i in range(len(sizes)):
        for _ in range(sizes[i]):
            c = coords[d]
            d += 1
            if c >= len(owner) or not possible[c]:
                continue
            v = owner[c]
            if last[v] != i:
                last[v] = i
                count[v] = 0
            count[v] += 1
            if count[v] == 2:
                variable[n] = v
                slave[n] = i
                n += 1
    return variable[:n], slave[:n]

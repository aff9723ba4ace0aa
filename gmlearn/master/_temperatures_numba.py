"""Compiled pass over slaves that lowers their temperatures."""

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

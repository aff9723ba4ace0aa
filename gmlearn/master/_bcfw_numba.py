"""Compiled inner step of block-coordinate Frank-Wolfe on the proximal dual.

Arrays over dual variables are those of one batch, side by side; `coords` tells the coordinate of each.
"""

from numba import njit


@njit(cache=True, nogil=True)
def batch_theta(coords, base, y, mean, inverse, theta):
    """theta = base + (y - mean) / c; `base` is share + centre."""
    for i in range(len(coords)):
        theta[i] = base[i] + inverse * (y[i] - mean[coords[i]])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def batch_step(indptr, coords, loose, base, theta, ind, value, cost, y, mean, inverse):
    """Move each subproblem of a batch towards its minimiser at `theta`, by the exact line search at the present costs.

    f(gamma) = f(0) - gamma gap + gamma^2 / (2c) sum_d (ind - y)^2 loose; cost (M,) holds h(y) of each subproblem.
    loose : 1 - 1 / the number of slaves that hold a coordinate. Earlier subproblems of the batch may have moved coordinates of
    later ones: the gap is that of the present costs, so that every step is a descent.
    """
    for m in range(len(indptr) - 1):
        part = slice(indptr[m], indptr[m + 1])
        to, at, where, level, costs, freedom = (
            ind[part],
            y[part],
            coords[part],
            base[part],
            theta[part],
            loose[part],
        )
        gap, quadratic, vertex = cost[m], 0.0, value[m]
        for i in range(len(to)):
            move = to[i] - at[i]
            # selections: a forbidden label costs inf and does not move; branches would be mispredicted
            paid = costs[i] if to[i] > 0.0 else 0.0
            now = level[i] + inverse * (at[i] - mean[where[i]]) if move != 0.0 else 0.0
            vertex -= paid * to[i]
            gap -= now * move
            quadratic += move * move * freedom[i]
        gamma = min(1.0, max(gap - vertex, 0.0) / max(inverse * quadratic, 1e-300))
        for i in range(len(to)):
            move = gamma * (to[i] - at[i])
            at[i] += move
            mean[where[i]] += move * (1.0 - freedom[i])
        cost[m] += gamma * (vertex - cost[m])


@njit(cache=True, nogil=True)
def move_centre(coords, slots, y, mean, inverse, rate, centre, average, base):
    """centre += (y - mean) / c, and `base` with it; `average` follows the centre."""
    for i in range(len(coords)):
        step, slot = inverse * (y[i] - mean[coords[i]]), slots[i]
        centre[slot] += step
        average[slot] += rate * (centre[slot] - average[slot])
        base[i] += step

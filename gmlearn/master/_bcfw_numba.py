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
        gap, quadratic, vertex = cost[m], 0.0, value[m]
        for i in range(indptr[m], indptr[m + 1]):
            move = ind[i] - y[i]
            # selections: a forbidden label costs inf and does not move; branches would be mispredicted
            paid = theta[i] if ind[i] > 0.0 else 0.0
            now = base[i] + inverse * (y[i] - mean[coords[i]]) if move != 0.0 else 0.0
            vertex -= paid * ind[i]
            gap -= now * move
            quadratic += move * move * loose[i]
        gap -= vertex
        quadratic *= inverse
        if gap <= 0.0:
            continue
        gamma = 1.0 if quadratic <= gap else gap / quadratic
        for i in range(indptr[m], indptr[m + 1]):
            move = gamma * (ind[i] - y[i])
            y[i] += move
            mean[coords[i]] += move * (1.0 - loose[i])
        cost[m] += gamma * (vertex - cost[m])


@njit(cache=True, nogil=True)
def move_centre(coords, slots, y, mean, inverse, centre, base):
    """centre += (y - mean) / c, and `base` with it."""
    for i in range(len(coords)):
        step = inverse * (y[i] - mean[coords[i]])
        centre[slots[i]] += step
        base[i] += step

"""Compiled inner step of block-coordinate Frank-Wolfe on the proximal dual."""

from numba import njit


@njit(cache=True, nogil=True)
def batch_theta(slots, coords, base, y, mean, inverse, theta):
    """theta = base + (y - mean) / c for the dual variables of one batch; `base` is share + centre."""
    for i in range(len(slots)):
        d = slots[i]
        theta[i] = base[d] + inverse * (y[d] - mean[coords[d]])


@njit(cache=True, nogil=True)
def batch_step(slots, indptr, coords, count, theta, ind, value, cost, y, mean, inverse):
    """Move each subproblem of a batch towards its minimiser by the exact line search; returns the sum of the gaps.

    f(gamma) = f(0) - gamma gap + gamma^2 / (2c) sum_d (ind - y)^2 (1 - 1/count); cost (M,) holds h(y) of each subproblem.
    """
    total = 0.0
    for m in range(len(indptr) - 1):
        gap, quadratic, vertex = cost[m] - value[m], 0.0, value[m]
        for i in range(indptr[m], indptr[m + 1]):
            d = slots[i]
            if y[d] > 0.0:
                gap += theta[i] * y[d]
            if ind[i] > 0.0:
                vertex -= theta[i] * ind[i]
            move = ind[i] - y[d]
            quadratic += move * move * (1.0 - 1.0 / count[coords[d]])
        quadratic *= inverse
        total += gap
        if gap <= 0.0:
            continue
        gamma = 1.0 if quadratic <= gap else gap / quadratic
        for i in range(indptr[m], indptr[m + 1]):
            d = slots[i]
            move = gamma * (ind[i] - y[d])
            y[d] += move
            mean[coords[d]] += move / count[coords[d]]
        cost[m] += gamma * (vertex - cost[m])
    return total

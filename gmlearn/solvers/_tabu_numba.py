"""Compiled tabu search on factor graphs."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def uniform(state):
    """A number in [0, 1) from a 64-bit xorshift generator; `state` (1,) moves on."""
    s = state[0]
    s ^= s << np.uint64(13)
    s ^= s >> np.uint64(7)
    s ^= s << np.uint64(17)
    state[0] = s
    return (s >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def conditionals(x, offsets, unary, indptr, scope, stride, start, scale, values, cost):
    """Cost (n_coords,) of every label of every variable with all others fixed at x."""
    for c in range(len(unary)):
        cost[c] = unary[c]
    for f in range(len(start)):
        base = start[f]
        for j in range(indptr[f], indptr[f + 1]):
            base += x[scope[j]] * stride[j]
        for j in range(indptr[f], indptr[f + 1]):
            v = scope[j]
            row = base - x[v] * stride[j]
            for a in range(offsets[v + 1] - offsets[v]):
                cost[offsets[v] + a] += scale[f] * values[row + a * stride[j]]


@njit(cache=True, nogil=True)
def move(
    v,
    label,
    x,
    offsets,
    adj_ptr,
    adj_slot,
    owner,
    indptr,
    scope,
    stride,
    start,
    scale,
    values,
    cost,
):
    """Set x[v] = label and bring the conditional costs of its neighbours up to date."""
    old = x[v]
    for i in range(adj_ptr[v], adj_ptr[v + 1]):
        slot = adj_slot[i]
        f = owner[slot]
        base = start[f]
        for j in range(indptr[f], indptr[f + 1]):
            base += x[scope[j]] * stride[j]
        shift = (label - old) * stride[slot]
        for j in range(indptr[f], indptr[f + 1]):
            if j != slot:
                u = scope[j]
                row = base - x[u] * stride[j]
                for b in range(offsets[u + 1] - offsets[u]):
                    cost[offsets[u] + b] += scale[f] * (
                        values[row + shift + b * stride[j]] - values[row + b * stride[j]]
                    )
    x[v] = label


@njit(cache=True, nogil=True)
def tabu_steps(
    x,
    best_x,
    energy,
    best,
    clock,
    steps,
    patience,
    random,
    tabu,
    allowed,
    offsets,
    unary,
    adj_ptr,
    adj_slot,
    owner,
    indptr,
    scope,
    stride,
    start,
    scale,
    values,
    cost,
):
    """`steps` moves, each the best that is not tabu (or beats the best known); kicks after
    `patience` moves without gain.

    Returns (energy, best, clock, last gain); x, best_x, tabu, cost and random are brought along.
    """
    n = len(x)
    idle = 0
    for _ in range(steps):
        clock += 1
        chosen, label, low, ties = -1, 0, np.inf, 0
        for v in range(n):
            own = cost[offsets[v] + x[v]]
            for a in range(offsets[v + 1] - offsets[v]):
                d = offsets[v] + a
                if a == x[v] or not allowed[d]:
                    continue
                change = cost[d] - own
                if tabu[d] > clock and energy + change >= best - 1e-9:
                    continue
                if change < low - 1e-12:
                    chosen, label, low, ties = v, a, change, 1
                elif change <= low + 1e-12:
                    ties += 1
                    if uniform(random) * ties < 1.0:
                        chosen, label, low = v, a, change
        if chosen >= 0:
            tabu[offsets[chosen] + x[chosen]] = (
                clock + 7 + np.int64(uniform(random) * (6 + 0.05 * n))
            )
            move(
                chosen,
                label,
                x,
                offsets,
                adj_ptr,
                adj_slot,
                owner,
                indptr,
                scope,
                stride,
                start,
                scale,
                values,
                cost,
            )
            energy += low
        idle += 1
        if energy < best - 1e-9:
            best, idle = energy, 0
            for u in range(n):
                best_x[u] = x[u]
        if idle > patience or chosen < 0:
            idle = 0
            for u in range(n):
                x[u] = best_x[u]
            for _k in range(3 + np.int64(uniform(random) * (0.1 * n))):
                v = np.int64(uniform(random) * n)
                a = np.int64(uniform(random) * (offsets[v + 1] - offsets[v]))
                if allowed[offsets[v] + a]:
                    x[v] = a
            conditionals(x, offsets, unary, indptr, scope, stride, start, scale, values, cost)
            energy = 0.0
            for v in range(n):
                energy += unary[offsets[v] + x[v]]
            for f in range(len(start)):
                base = start[f]
                for j in range(indptr[f], indptr[f + 1]):
                    base += x[scope[j]] * stride[j]
                energy += scale[f] * values[base]
    return energy, best, clock

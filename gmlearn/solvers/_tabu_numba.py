"""Compiled tabu search on factor graphs, which come as the NamedTuple `Tables` of their arrays.

A move sets one variable to another label; the label given up is tabu for some moves.
"""

from typing import NamedTuple

import numpy as np
from numba import njit


class Search(NamedTuple):
    """x, best_x : int (V,), the current and the best labelling.   cost : (n_coords,), of every
        label with all other variables fixed.
    tabu : int (n_coords,), until when a label may not be taken.   allowed : bool (n_coords,).
    random : uint64 (1,), the generator.
    """

    x: np.ndarray
    best_x: np.ndarray
    cost: np.ndarray
    tabu: np.ndarray
    allowed: np.ndarray
    random: np.ndarray


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
def conditionals(x, g, cost):
    """Cost (n_coords,) of every label of every variable with all others fixed at x."""
    for c in range(len(g.unary)):
        cost[c] = g.unary[c]
    for f in range(len(g.start)):
        base = g.start[f]
        for j in range(g.indptr[f], g.indptr[f + 1]):
            base += x[g.scope[j]] * g.stride[j]
        for j in range(g.indptr[f], g.indptr[f + 1]):
            v = g.scope[j]
            row = base - x[v] * g.stride[j]
            for a in range(g.offsets[v + 1] - g.offsets[v]):
                cost[g.offsets[v] + a] += g.scale[f] * g.values[row + a * g.stride[j]]


@njit(cache=True, nogil=True)
def energy_of(x, g):
    """The energy of labels x (V,)."""
    energy = 0.0
    for v in range(len(x)):
        energy += g.unary[g.offsets[v] + x[v]]
    for f in range(len(g.start)):
        base = g.start[f]
        for j in range(g.indptr[f], g.indptr[f + 1]):
            base += x[g.scope[j]] * g.stride[j]
        energy += g.scale[f] * g.values[base]
    return energy


@njit(cache=True, nogil=True)
def move(v, label, x, g, cost):
    """Set x[v] = label and bring the conditional costs of its neighbours up to date."""
    old = x[v]
    for i in range(g.ptr[v], g.ptr[v + 1]):
        slot = g.slots[i]
        f = g.owner[slot]
        base = g.start[f]
        for j in range(g.indptr[f], g.indptr[f + 1]):
            base += x[g.scope[j]] * g.stride[j]
        shift = (label - old) * g.stride[slot]
        for j in range(g.indptr[f], g.indptr[f + 1]):
            if j != slot:
                u = g.scope[j]
                row = base - x[u] * g.stride[j]
                for b in range(g.offsets[u + 1] - g.offsets[u]):
                    cost[g.offsets[u] + b] += g.scale[f] * (
                        g.values[row + shift + b * g.stride[j]] - g.values[row + b * g.stride[j]]
                    )
    x[v] = label


@njit(cache=True, nogil=True)
def best_move(search, g, energy, best, clock):
    """(variable, label, change of the energy) of the best move that is not tabu, or that beats the
    best energy known; ties at random, variable -1 if there is none.
    """
    chosen = -1
    label = 0
    low = np.inf
    ties = 0
    for v in range(len(search.x)):
        own = search.cost[g.offsets[v] + search.x[v]]
        for a in range(g.offsets[v + 1] - g.offsets[v]):
            d = g.offsets[v] + a
            if a == search.x[v] or not search.allowed[d]:
                continue
            change = search.cost[d] - own
            if search.tabu[d] > clock and energy + change >= best - 1e-9:
                continue
            if change < low - 1e-12:
                chosen, label, low, ties = v, a, change, 1
            elif change <= low + 1e-12:
                ties += 1
                if uniform(search.random) * ties < 1.0:
                    chosen, label, low = v, a, change
    return chosen, label, low


@njit(cache=True, nogil=True)
def kick(search, g):
    """Go back to the best labelling and give some variables random labels; returns its energy."""
    n = len(search.x)
    search.x[:] = search.best_x
    for _ in range(3 + np.int64(uniform(search.random) * (0.1 * n))):
        v = np.int64(uniform(search.random) * n)
        a = np.int64(uniform(search.random) * (g.offsets[v + 1] - g.offsets[v]))
        if search.allowed[g.offsets[v] + a]:
            search.x[v] = a
    conditionals(search.x, g, search.cost)
    return energy_of(search.x, g)


@njit(cache=True, nogil=True)
def tabu_steps(search, g, energy, best, clock, steps, patience):
    """`steps` moves, each the best that is not tabu (or beats the best known); kicks after
    `patience` moves without gain.

    Returns (energy, best, clock); the arrays of the search are brought along.
    """
    n = len(search.x)
    idle = 0
    for _ in range(steps):
        clock += 1
        chosen, label, change = best_move(search, g, energy, best, clock)
        if chosen >= 0:
            search.tabu[g.offsets[chosen] + search.x[chosen]] = (
                clock + 7 + np.int64(uniform(search.random) * (6 + 0.05 * n))
            )
            move(chosen, label, search.x, g, search.cost)
            energy += change
        idle += 1
        if energy < best - 1e-9:
            best, idle = energy, 0
            search.best_x[:] = search.x
        if idle > patience or chosen < 0:
            idle = 0
            energy = kick(search, g)
    return energy, best, clock

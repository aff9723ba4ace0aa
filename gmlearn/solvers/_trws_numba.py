"""Compiled TRW-S (Kolmogorov, PAMI 2006; the schedule of 2015) on general pairwise graphs.

One message per edge is alive, in the direction of the last pass, so that the messages are a
reparametrisation of the energy at any moment. Each lies with the variable that it was sent to, side
by side with all others of that variable: a pass reads memory in order and only writes to distant
places. A pass from node to node returns the bound: the sum of what normalisation takes off.
"""

import numpy as np
from numba import njit

from gmlearn._utils._sorting_numba import longest
from gmlearn.potentials.form import POTTS
from gmlearn.slaves._forest_numba import send


@njit(cache=True, nogil=True)
def lay_out_ends(edges, n_states):
    """Where the two ends of each edge lie: those of a variable side by side, first those of edges
    from lower variables, then the others.

    Returns the fields ptr ... target of `Graph`, the place of each edge's lower and higher end
    (E, 2), and the edge of each end.
    """
    n = len(n_states)
    ptr, middle = np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    for e in range(len(edges)):
        ptr[edges[e, 0] + 1] += 1
        ptr[edges[e, 1] + 1] += 1
        middle[max(edges[e, 0], edges[e, 1])] += 1
    home = np.zeros(n + 1, np.int64)
    for v in range(n):
        home[v + 1] = home[v] + ptr[v + 1] * n_states[v]
        ptr[v + 1] += ptr[v]
        middle[v] += ptr[v]
    below, above = ptr[:-1].copy(), middle.copy()
    place = np.empty((len(edges), 2), np.int64)
    edge, other = np.empty(2 * len(edges), np.int32), np.empty(2 * len(edges), np.int32)
    target = np.empty(2 * len(edges), np.int64)
    for e in range(len(edges)):
        low, high = min(edges[e, 0], edges[e, 1]), max(edges[e, 0], edges[e, 1])
        i, j = above[low], below[high]
        above[low] += 1
        below[high] += 1
        place[e, 0], place[e, 1] = i, j
        edge[i], edge[j], other[i], other[j] = e, e, high, low
        target[i] = home[high] + (j - ptr[high]) * n_states[high]
        target[j] = home[low] + (i - ptr[low]) * n_states[low]
    return (ptr, middle, other, home, target), place, edge


@njit(cache=True, nogil=True, inline="always")
def add_pairwise(edges, i, first, x, belief, size):
    """belief[a] += T(a, x), x the label of the other end; is `a` the edge's first end?"""
    begin = edges.start[i] + (x if first else x * edges.stride[i])
    step = edges.stride[i] if first else 1
    for a in range(size):
        belief[a] += edges.scale[i] * edges.values[begin + a * step]


@njit(cache=True, nogil=True)
def pass_general(g, unary, edges, message, forward, labels):
    """One pass over all variables, in their order or backwards. Returns the bound.

    g : the `Graph`.   unary : costs (n_coords,).   edges : `EdgeCosts` of both ends of every edge.
    message : those sent by the last pass count, the others are written.
    labels : sequential decoding, fixed as variables are passed.
    """
    n = len(g.middle)
    largest = longest(g.offsets)
    s, h, out, belief = np.empty(largest), np.empty(largest), np.empty(largest), np.empty(largest)
    bound = 0.0
    for step in range(n):
        v = step if forward else n - 1 - step
        size = g.offsets[v + 1] - g.offsets[v]
        begin, middle, end = g.ptr[v], g.middle[v], g.ptr[v + 1]
        ahead, until = (middle, end) if forward else (begin, middle)
        passed, last = (begin, middle) if forward else (middle, end)
        for a in range(size):
            s[a] = unary[g.offsets[v] + a]
        for i in range(ahead, until):
            at = g.home[v] + (i - begin) * size
            for a in range(size):
                s[a] += message[at + a]
        for a in range(size):
            belief[a] = s[a]
        for i in range(passed, last):
            at = g.home[v] + (i - begin) * size
            for a in range(size):
                s[a] += message[at + a]
            x = labels[g.other[i]]
            if edges.kind[i] == POTTS and edges.scale[i] < np.inf:  # up to a constant
                if x < size:
                    belief[x] -= edges.scale[i]
            else:
                add_pairwise(edges, i, g.first[i], x, belief, size)
        best, low = 0, np.inf
        for a in range(size):
            if belief[a] < belief[best]:
                best = a
            low = min(low, s[a])
        labels[v] = best
        bound += low
        if low == np.inf:
            return np.inf
        for i in range(ahead, until):
            at, to, u = g.home[v] + (i - begin) * size, g.target[i], g.other[i]
            opposite = g.offsets[u + 1] - g.offsets[u]
            floor = np.inf
            for a in range(size):
                # a forbidden label stays forbidden: inf - inf must be inf
                h[a] = g.gamma[v] * (s[a] - low) - message[at + a] if s[a] < np.inf else np.inf
                floor = min(floor, h[a])
            if floor == np.inf:
                return np.inf
            if edges.kind[i] == POTTS and edges.scale[i] >= 0.0 and size == opposite:
                for b in range(size):  # `send` in fewer steps
                    message[to + b] = min(h[b] - floor, edges.scale[i])
            else:
                send(h[:size], opposite, edges, i, g.first[i], out)
                floor = np.inf
                for b in range(opposite):
                    floor = min(floor, out[b])
                if floor == np.inf:
                    return np.inf
                for b in range(opposite):
                    message[to + b] = out[b] - floor
            bound += floor
    return bound

"""Compiled TRW-S (Kolmogorov, PAMI 2006; the schedule of 2015) on general pairwise graphs.

One message per edge is stored, in the direction of the last pass, so that the messages are a
reparametrisation of the energy at any moment. A pass from node to node returns the bound: the sum
of what normalisation takes off.
"""

import numpy as np
from numba import njit

from gmlearn._utils._sorting_numba import longest
from gmlearn.slaves._forest_numba import send


@njit(cache=True, nogil=True, inline="always")
def add_pairwise(edges, e, first, x, belief, size):
    """belief[a] += T_e(a, x), x the label of the other end; is `a` the edge's first end?"""
    begin = edges.start[e] + (x if first else x * edges.stride[e])
    step = edges.stride[e] if first else 1
    for a in range(size):
        belief[a] += edges.scale[e] * edges.values[begin + a * step]


@njit(cache=True, nogil=True)
def pass_general(g, unary, edges, message, forward, labels):
    """One pass over all nodes, in their order or backwards. Returns the bound.

    g : the `Graph`.   unary : costs (n_coords,).   edges : `EdgeCosts`.
    message : one for each edge, by the labels of the end that is ahead before it is passed.
    labels : sequential decoding, fixed as nodes are passed.
    """
    n = len(g.ptr) - 1
    largest = longest(g.ptr)
    s, h, out, belief = np.empty(largest), np.empty(largest), np.empty(largest), np.empty(largest)
    bound = 0.0
    for step in range(n):
        v = step if forward else n - 1 - step
        size = g.ptr[v + 1] - g.ptr[v]
        for a in range(size):
            s[a] = unary[g.ptr[v] + a]
            belief[a] = s[a]
        for i in range(g.adj_ptr[v], g.adj_ptr[v + 1]):
            e = g.adj_edge[i]
            first = g.ends[e, 0] == v
            u = g.ends[e, 1] if first else g.ends[e, 0]
            for a in range(size):
                s[a] += message[g.first[e] + a]
            if (u < v) if forward else (u > v):
                add_pairwise(edges, e, first, labels[u], belief, size)
            else:
                for a in range(size):
                    belief[a] += message[g.first[e] + a]
        best, low = 0, np.inf
        for a in range(size):
            if belief[a] < belief[best]:
                best = a
            if s[a] < low:
                low = s[a]
        labels[v] = best
        bound += low
        if low == np.inf:
            return np.inf
        for i in range(g.adj_ptr[v], g.adj_ptr[v + 1]):
            e = g.adj_edge[i]
            first = g.ends[e, 0] == v
            u = g.ends[e, 1] if first else g.ends[e, 0]
            if (u > v) if forward else (u < v):
                for a in range(size):
                    # a forbidden label stays forbidden: inf - inf must be inf
                    h[a] = (
                        g.gamma[v] * (s[a] - low) - message[g.first[e] + a]
                        if s[a] < np.inf
                        else np.inf
                    )
                other = g.ptr[u + 1] - g.ptr[u]
                send(h[:size], other, edges, e, first, out)
                floor = np.inf
                for b in range(other):
                    if out[b] < floor:
                        floor = out[b]
                bound += floor
                if floor == np.inf:
                    return np.inf
                for b in range(other):
                    message[g.first[e] + b] = out[b] - floor
    return bound

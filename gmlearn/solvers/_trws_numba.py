"""Compiled TRW-S (Kolmogorov, PAMI 2006; the schedule of 2015) on general pairwise graphs.

One message per edge is stored, in the direction of the last pass, so that the messages are a
reparametrisation of the energy at any moment. A pass from node to node returns the bound: the sum
of what normalisation takes off.
"""

import numpy as np
from numba import njit

from gmlearn.slaves._forest_numba import send


@njit(cache=True, nogil=True)
def pass_general(
    unary,
    ptr,
    order,
    adj_ptr,
    adj_edge,
    rank,
    edges,
    gamma,
    message,
    mptr,
    values,
    start,
    stride,
    scale,
    kind,
    cut,
    forward,
    labels,
):
    """One pass over all nodes in `order` (reversed if not `forward`). Returns the bound.

    unary, ptr : costs (n_coords,) and their offsets.   adj_ptr, adj_edge : edges at each node.
        rank : position of each node.
    message, mptr : one message per edge, indexed by the labels of the end that is ahead before it
        is passed.
    labels : sequential decoding, fixed as nodes are passed.
    """
    n = len(order)
    largest = 0
    for v in range(n):
        largest = max(largest, ptr[v + 1] - ptr[v])
    s, h, out, belief = np.empty(largest), np.empty(largest), np.empty(largest), np.empty(largest)
    bound = 0.0
    for step in range(n):
        v = order[step] if forward else order[n - 1 - step]
        lo, size = ptr[v], ptr[v + 1] - ptr[v]
        for a in range(size):
            s[a] = unary[lo + a]
            belief[a] = s[a]
        for i in range(adj_ptr[v], adj_ptr[v + 1]):
            e = adj_edge[i]
            first = edges[e, 0] == v
            u = edges[e, 1] if first else edges[e, 0]
            for a in range(size):
                s[a] += message[mptr[e] + a]
            passed = rank[u] < rank[v] if forward else rank[u] > rank[v]
            if passed:
                x = labels[u]
                for a in range(size):
                    position = (
                        start[e] + a * stride[e] + x if first else start[e] + x * stride[e] + a
                    )
                    belief[a] += scale[e] * values[position]
            else:
                for a in range(size):
                    belief[a] += message[mptr[e] + a]
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
        for i in range(adj_ptr[v], adj_ptr[v + 1]):
            e = adj_edge[i]
            first = edges[e, 0] == v
            u = edges[e, 1] if first else edges[e, 0]
            if (rank[u] > rank[v]) if forward else (rank[u] < rank[v]):
                for a in range(size):
                    # a forbidden label stays forbidden: inf - inf must be inf
                    h[a] = (
                        gamma[v] * (s[a] - low) - message[mptr[e] + a] if s[a] < np.inf else np.inf
                    )
                other = ptr[u + 1] - ptr[u]
                send(
                    h[:size],
                    other,
                    values,
                    start[e],
                    stride[e],
                    scale[e],
                    kind[e],
                    cut[e],
                    first,
                    out,
                )
                floor = np.inf
                for b in range(other):
                    if out[b] < floor:
                        floor = out[b]
                bound += floor
                if floor == np.inf:
                    return np.inf
                for b in range(other):
                    message[mptr[e] + b] = out[b] - floor
    return bound

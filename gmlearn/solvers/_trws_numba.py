"""Compiled TRW-S (Kolmogorov, PAMI 2006; the schedule of 2015): general pairwise graphs, and 4-connected grids.

One message per edge is stored, in the direction of the last pass, so that the messages are a reparametrisation of the
energy at any moment. A pass from node to node returns the bound: the sum of what normalisation takes off.
"""

import numpy as np
from numba import njit

from gmlearn.slaves._forest_numba import send

#: NaN never appears in these kernels (inputs are finite), which is what lets the minima be vectorised; inf may.
FAST = {"nnan", "nsz"}


@njit(cache=True, nogil=True)
def pass_general(unary, ptr, order, adj_ptr, adj_edge, rank, edges, gamma, message, mptr, values, start, stride, scale, kind, cut,
                 forward, labels):
    """One pass over all nodes in `order` (reversed if not `forward`). Returns the bound.

    unary, ptr : costs (n_coords,) and their offsets.   adj_ptr, adj_edge : edges at each node.   rank : position of each node.
    message, mptr : one message per edge, indexed by the labels of the end that is ahead before it is passed.
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
                    position = start[e] + a * stride[e] + x if first else start[e] + x * stride[e] + a
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
                    h[a] = gamma[v] * (s[a] - low) - message[mptr[e] + a] if s[a] < np.inf else np.inf
                other = ptr[u + 1] - ptr[u]
                send(h[:size], other, values, start[e], stride[e], scale[e], kind[e], cut[e], first, out)
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


@njit(cache=True, nogil=True, fastmath=FAST)
def potts_message(s, low, gamma, message, scale, size):
    """Replace `message` by the Potts message of reduced costs gamma (s - low) - message; returns what was taken off."""
    floor = np.inf
    for a in range(size):
        message[a] = gamma * (s[a] - low) - message[a]
        floor = min(floor, message[a])
    if scale >= 0.0:
        for a in range(size):
            message[a] = min(message[a] - floor, scale)
        return floor
    # a reward for different labels: every label may take the best of the others
    best, second, where = np.inf, np.inf, 0
    for a in range(size):
        if message[a] < best:
            best, second, where = message[a], best, a
        elif message[a] < second:
            second = message[a]
    floor = np.inf
    for a in range(size):
        message[a] = min(message[a], (second if a == where else best) + scale)
        floor = min(floor, message[a])
    for a in range(size):
        message[a] -= floor
    return floor


@njit(cache=True, nogil=True, fastmath=FAST)
def linear_message(s, low, gamma, message, scale, cut, size):
    """The same for truncated linear costs scale * min(|a - b|, cut): lower envelope in two sweeps."""
    floor = np.inf
    for a in range(size):
        message[a] = gamma * (s[a] - low) - message[a]
        floor = min(floor, message[a])
    at = np.inf
    for a in range(size):
        at = min(message[a], at + scale)
        message[a] = at
    at, top = np.inf, floor + scale * cut
    for a in range(size - 1, -1, -1):
        at = min(message[a], at + scale)
        message[a] = min(at, top) - floor
    return floor


@njit(cache=True, nogil=True, fastmath=FAST)
def linear_pair(s, low, gamma, first, second, scale_1, scale_2, cut, size):
    """Two truncated linear messages at once: their sweeps are chains of dependent steps that overlap in time."""
    floor_1, floor_2 = np.inf, np.inf
    for a in range(size):
        first[a] = gamma * (s[a] - low) - first[a]
        floor_1 = min(floor_1, first[a])
    for a in range(size):
        second[a] = gamma * (s[a] - low) - second[a]
        floor_2 = min(floor_2, second[a])
    at_1, at_2 = np.inf, np.inf
    for a in range(size):
        at_1, at_2 = min(first[a], at_1 + scale_1), min(second[a], at_2 + scale_2)
        first[a], second[a] = at_1, at_2
    at_1, at_2 = np.inf, np.inf
    top_1, top_2 = floor_1 + scale_1 * cut, floor_2 + scale_2 * cut
    for a in range(size - 1, -1, -1):
        at_1, at_2 = min(first[a], at_1 + scale_1), min(second[a], at_2 + scale_2)
        first[a], second[a] = min(at_1, top_1) - floor_1, min(at_2, top_2) - floor_2
    return floor_1 + floor_2


@njit(cache=True, nogil=True, fastmath=FAST)
def dense_message(s, low, gamma, message, table, scale, size, h, out):
    """The same for a table (child label, parent label)."""
    for a in range(size):
        h[a] = gamma * (s[a] - low) - message[a]
        out[a] = np.inf
    for a in range(size):
        own = h[a]
        for b in range(size):
            out[b] = min(out[b], own + scale * table[a, b])
    floor = np.inf
    for b in range(size):
        floor = min(floor, out[b])
    for b in range(size):
        message[b] = out[b] - floor
    return floor


@njit(cache=True, nogil=True, fastmath=FAST)
def pass_grid(unary, across, down, scale_across, scale_down, table, table_t, kind, cut, forward):
    """One pass over a grid with one shared table and a strength per edge. Returns the bound.

    unary (H, W, L).   across (H, W + 1, L), down (H + 1, W, L) : messages; [y, x] is the edge that ends at (y, x), so that
    the first and last are zero and need no test.   scale_* : strengths (H, W + 1), (H + 1, W), >= 0.
    """
    height, width, size = unary.shape
    s, h, out = np.empty(size), np.empty(size), np.empty(size)
    t = table if forward else table_t
    bound = 0.0
    for i in range(height):
        y = i if forward else height - 1 - i
        for j in range(width):
            x = j if forward else width - 1 - j
            u, west, east, north, south = unary[y, x], across[y, x], across[y, x + 1], down[y, x], down[y + 1, x]
            low = np.inf
            # short loops over two arrays each: with more, the run-time test for overlap costs more than the sum
            for a in range(size):
                s[a] = u[a] + west[a]
            for a in range(size):
                s[a] += east[a]
            for a in range(size):
                s[a] += north[a]
            for a in range(size):
                s[a] += south[a]
                low = min(low, s[a])
            bound += low
            inner = 0 < x < width - 1 and 0 < y < height - 1
            gamma = 0.5 if inner else 1.0 / max((x > 0) + (y > 0), (x + 1 < width) + (y + 1 < height), 1)
            ex = x + 1 if forward else x
            ey = y + 1 if forward else y
            if kind == 2 and 0 < ex < width and 0 < ey < height:
                bound += linear_pair(s, low, gamma, across[y, ex], down[ey, x], scale_across[y, ex], scale_down[ey, x], cut, size)
                continue
            if 0 < ex < width:
                m, scale = across[y, ex], scale_across[y, ex]
                if kind == 1:
                    bound += potts_message(s, low, gamma, m, scale, size)
                elif kind == 2:
                    bound += linear_message(s, low, gamma, m, scale, cut, size)
                else:
                    bound += dense_message(s, low, gamma, m, t, scale, size, h, out)
            if 0 < ey < height:
                m, scale = down[ey, x], scale_down[ey, x]
                if kind == 1:
                    bound += potts_message(s, low, gamma, m, scale, size)
                elif kind == 2:
                    bound += linear_message(s, low, gamma, m, scale, cut, size)
                else:
                    bound += dense_message(s, low, gamma, m, t, scale, size, h, out)
    return bound


@njit(cache=True, nogil=True)
def decode_grid(unary, across, down, scale_across, scale_down, table, labels):
    """Sequential decoding in raster order, to be run when messages point backwards (after a backward pass)."""
    height, width, size = unary.shape
    for y in range(height):
        for x in range(width):
            best, low = 0, np.inf
            for a in range(size):
                cost = unary[y, x, a] + across[y, x + 1, a] + down[y + 1, x, a]
                if x > 0:
                    cost += scale_across[y, x] * table[labels[y, x - 1], a]
                if y > 0:
                    cost += scale_down[y, x] * table[labels[y - 1, x], a]
                if cost < low:
                    best, low = a, cost
            labels[y, x] = best

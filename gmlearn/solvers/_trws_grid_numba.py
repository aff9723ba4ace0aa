"""Compiled TRW-S on 4-connected grids: all nodes of an anti-diagonal at once, one SIMD lane each.

A node needs only its two neighbours of the anti-diagonal before, so that this order gives the same
messages as the order row by row, and the lanes are full whatever the number of labels. Node (d, i)
is the i-th lane of anti-diagonal d. The edge that ends at (d, i) is `straight` if it comes from (d
- 1, i) and `slanted` if it comes from (d - 1, i - 1). Edges beyond the border have strength 0, and
their messages stay 0: the kernel needs no test for them.

Anti-diagonal d is stored in row d modulo (width + 1) of all arrays, `width` being the nodes of a
lane: the lanes of the first anti-diagonals are those that the last ones lack, so that arrays are as
large as the grid, with its border.
"""

import numpy as np
from numba import njit

#: NaN never appears in these kernels (inputs are finite), which is what lets the minima be
#: vectorised; inf may.
FAST = {"nnan", "nsz"}
#: nodes that are treated together; their messages stay in the first-level cache
CHUNK = 64
#: kinds of message beyond those of `PairwiseForm`: Potts edges of which some reward different
#: labels
DENSE, POTTS, LINEAR, SIGNED_POTTS = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def lay_out(unary, lane_step, other_step, out):
    """Costs (V, L) of nodes i * lane_step + j * other_step as out (R, L, lanes), anti-diagonal
    by anti-diagonal.
    """
    rows, size, lanes = out.shape
    for i in range(lanes):
        for j in range(rows - 1):
            node = i * lane_step + j * other_step
            for a in range(size):
                out[(i + j) % rows, a, i] = unary[node, a]


@njit(cache=True, nogil=True, fastmath=FAST)
def send_potts(s, message, begin, n, scale, floor):
    """Replace `message` by the Potts message of the costs s - message, strength >= 0; `floor` is
    what was taken off.
    """
    for a in range(len(s)):
        own, m = s[a], message[a, begin : begin + n]
        for i in range(n):
            m[i] = own[i] - m[i]
        for i in range(n):
            floor[i] = min(floor[i], m[i])
    for a in range(len(s)):
        m = message[a, begin : begin + n]
        for i in range(n):
            m[i] = min(m[i] - floor[i], scale[i])


@njit(cache=True, nogil=True, fastmath=FAST)
def send_signed_potts(s, message, begin, n, scale, floor, best, second):
    """The same for strengths of either sign: every label may take the best of the others."""
    best[:n], second[:n] = np.inf, np.inf
    for a in range(len(s)):
        own, m = s[a], message[a, begin : begin + n]
        for i in range(n):
            m[i] = own[i] - m[i]
            second[i] = min(second[i], max(best[i], m[i]))
            best[i] = min(best[i], m[i])
    for a in range(len(s)):
        m = message[a, begin : begin + n]
        for i in range(n):
            other = second[i] if m[i] == best[i] else best[i]
            m[i] = min(m[i], other + scale[i])
            floor[i] = min(floor[i], m[i])
    for a in range(len(s)):
        m = message[a, begin : begin + n]
        for i in range(n):
            m[i] -= floor[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def send_linear(s, message, begin, n, scale, cut, floor, at, cap):
    """The same for truncated linear costs scale * min(|a - b|, cut): lower envelope in two
    sweeps.
    """
    for a in range(len(s)):
        own, m = s[a], message[a, begin : begin + n]
        for i in range(n):
            m[i] = own[i] - m[i]
            floor[i] = min(floor[i], m[i])
    at[:n] = np.inf
    for a in range(len(s)):
        m = message[a, begin : begin + n]
        for i in range(n):
            at[i] = min(m[i], at[i] + scale[i])
            m[i] = at[i]
    for i in range(n):
        cap[i] = scale[i] * cut if scale[i] > 0.0 else 0.0  # 0 * inf
    at[:n] = np.inf
    for a in range(len(s) - 1, -1, -1):
        m = message[a, begin : begin + n]
        for i in range(n):
            at[i] = min(m[i], at[i] + scale[i])
            m[i] = min(at[i] - floor[i], cap[i])


@njit(cache=True, nogil=True, fastmath=FAST)
def send_dense(s, message, begin, n, scale, table, floor, h):
    """The same for a table (label of the sender, label of the receiver)."""
    size = len(s)
    for a in range(size):
        own, m, to = s[a], message[a, begin : begin + n], h[a]
        for i in range(n):
            to[i] = own[i] - m[i]
    for b in range(size):
        m = message[b, begin : begin + n]
        m[:] = np.inf
        for a in range(0, size - 3, 4):
            h0, h1, h2, h3 = h[a], h[a + 1], h[a + 2], h[a + 3]
            t0, t1, t2, t3 = table[a, b], table[a + 1, b], table[a + 2, b], table[a + 3, b]
            for i in range(n):
                left = min(h0[i] + scale[i] * t0, h1[i] + scale[i] * t1)
                right = min(h2[i] + scale[i] * t2, h3[i] + scale[i] * t3)
                m[i] = min(m[i], min(left, right))
        for a in range(size - size % 4, size):
            own, t = h[a], table[a, b]
            for i in range(n):
                m[i] = min(m[i], own[i] + scale[i] * t)
        for i in range(n):
            floor[i] = min(floor[i], m[i])
    for b in range(size):
        m = message[b, begin : begin + n]
        for i in range(n):
            m[i] -= floor[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def pass_diagonals(
    unary, straight, slanted, scale_straight, scale_slanted, gamma, table, kind, cut, forward
):
    """One pass over a grid with one shared table and a strength per edge. Returns the bound.

    unary (R, L, lanes).   straight, slanted (R, L, lanes + 1) : messages of the edges that end at
    (d, i), with strengths (R, lanes + 1).   gamma (R, lanes) : 1 / the larger number of neighbours
    before or after a node.   table : (label of the sender, label of the receiver).
    """
    rows, size, lanes = unary.shape
    s, h = np.empty((size, CHUNK)), np.empty((size, CHUNK))
    low = np.empty(CHUNK)
    floor = np.empty(CHUNK)
    work = np.empty(CHUNK)
    more = np.empty(CHUNK)
    total = np.zeros(CHUNK)
    width = rows - 1
    n_diagonals = width + lanes - 1
    for k in range(n_diagonals):
        d = k if forward else n_diagonals - 1 - k
        here, after = d % rows, (d + 1) % rows
        ahead = after if forward else here
        first, last = max(0, d - width + 1), min(lanes, d + 1)
        for begin in range(first, last, CHUNK):
            n = min(CHUNK, last - begin)
            low[:n] = np.inf
            for a in range(size):
                to, u = s[a], unary[here, a, begin : begin + n]
                m0 = straight[here, a, begin : begin + n]
                m1 = straight[after, a, begin : begin + n]
                m2 = slanted[here, a, begin : begin + n]
                m3 = slanted[after, a, begin + 1 : begin + 1 + n]
                for i in range(n):
                    to[i] = u[i] + m0[i] + m1[i] + m2[i] + m3[i]
                for i in range(n):
                    low[i] = min(low[i], to[i])
            g = gamma[here, begin : begin + n]
            for a in range(size):
                to = s[a]
                for i in range(n):
                    to[i] = g[i] * (to[i] - low[i])
            for i in range(n):
                total[i] += low[i]
            for way in range(2):
                message = straight[ahead] if way == 0 else slanted[ahead]
                shift = begin + (way == 1 and forward)
                scale = (scale_straight if way == 0 else scale_slanted)[ahead, shift : shift + n]
                floor[:n] = np.inf
                if kind == POTTS:
                    send_potts(s, message, shift, n, scale, floor)
                elif kind == SIGNED_POTTS:
                    send_signed_potts(s, message, shift, n, scale, floor, work, more)
                elif kind == LINEAR:
                    send_linear(s, message, shift, n, scale, cut, floor, work, more)
                else:
                    send_dense(s, message, shift, n, scale, table, floor, h)
                for i in range(n):
                    total[i] += floor[i]
    return total.sum()


@njit(cache=True, nogil=True)
def decode_diagonals(unary, straight, slanted, scale_straight, scale_slanted, table, labels):
    """Sequential decoding (lanes, width), to be run when messages point backwards (after a
    backward pass).
    """
    rows, size, lanes = unary.shape
    for i in range(lanes):
        for j in range(labels.shape[1]):
            d, after = (i + j) % rows, (i + j + 1) % rows
            best, low = 0, np.inf
            for a in range(size):
                cost = unary[d, a, i] + straight[after, a, i] + slanted[after, a, i + 1]
                if j > 0:
                    cost += scale_straight[d, i] * table[labels[i, j - 1], a]
                if i > 0:
                    cost += scale_slanted[d, i] * table[labels[i - 1, j], a]
                if cost < low:
                    best, low = a, cost
            labels[i, j] = best


@njit(cache=True, nogil=True)
def improve_diagonals(unary, scale_straight, scale_slanted, table, labels):
    """Two sweeps of ICM over labels (lanes, width), in place; the second one over the nodes next
    to a change.
    """
    (rows, size), (lanes, width) = unary.shape[:2], labels.shape
    dirty = np.ones(labels.shape, np.bool_)
    for _ in range(2):
        for i in range(lanes):
            for j in range(width):
                if not dirty[i, j]:
                    continue
                # beyond the border the strength is 0, whatever the label
                d, after, own = (i + j) % rows, (i + j + 1) % rows, labels[i, j]
                up, left = max(i - 1, 0), max(j - 1, 0)
                down, right = min(i + 1, lanes - 1), min(j + 1, width - 1)
                s0, s1 = scale_straight[d, i], scale_slanted[d, i]
                s2, s3 = scale_straight[after, i], scale_slanted[after, i + 1]
                t0, t1 = table[labels[i, left]], table[labels[up, j]]
                t2, t3 = table[:, labels[i, right]], table[:, labels[down, j]]
                best, low = own, np.inf
                for a in range(size):
                    cost = unary[d, a, i] + s0 * t0[a] + s1 * t1[a] + s2 * t2[a] + s3 * t3[a]
                    if cost < low or (cost == low and a == own):
                        best, low = a, cost
                labels[i, j] = best
                moved = best != own
                dirty[i, j] = False
                if moved:
                    dirty[i, left] = dirty[i, right] = dirty[up, j] = dirty[down, j] = True


@njit(cache=True, nogil=True, fastmath=FAST)
def pass_binary(unary, straight, slanted, scale_straight, scale_slanted, gamma, table, forward):
    """`pass_diagonals` for two labels: costs (R, lanes) and messages are those of label 1 minus
    those of label 0.
    """
    rows, lanes = unary.shape
    s, total = np.empty(lanes), np.zeros(lanes)
    width = rows - 1
    n_diagonals = width + lanes - 1
    t00, t01, t10, t11 = table[0, 0], table[0, 1], table[1, 0], table[1, 1]
    for k in range(n_diagonals):
        d = k if forward else n_diagonals - 1 - k
        here, after = d % rows, (d + 1) % rows
        ahead, shift = (after, 1) if forward else (here, 0)
        first, last = max(0, d - width + 1), min(lanes, d + 1)
        n = last - first
        u, g = unary[here, first:last], gamma[here, first:last]
        m0, m1 = straight[here, first:last], straight[after, first:last]
        m2, m3 = slanted[here, first:last], slanted[after, first + 1 : last + 1]
        for i in range(n):
            s[i] = u[i] + m0[i] + m1[i] + m2[i] + m3[i]
        m0, scale_0 = straight[ahead, first:last], scale_straight[ahead, first:last]
        m1 = slanted[ahead, first + shift : last + shift]
        scale_1 = scale_slanted[ahead, first + shift : last + shift]
        for i in range(n):
            low = min(s[i], 0.0)
            zero, own = -g[i] * low, g[i] * (s[i] - low)
            one = own - m0[i]
            to_0 = min(zero + scale_0[i] * t00, one + scale_0[i] * t10)
            m0[i] = min(zero + scale_0[i] * t01, one + scale_0[i] * t11) - to_0
            one = own - m1[i]
            more = min(zero + scale_1[i] * t00, one + scale_1[i] * t10)
            m1[i] = min(zero + scale_1[i] * t01, one + scale_1[i] * t11) - more
            total[i] += low + to_0 + more
    return total.sum()


@njit(cache=True, nogil=True)
def sweep_binary(unary, straight, slanted, scale_straight, scale_slanted, gamma, table, table_t):
    """Forth and back in one call, which on small grids costs as much as a pass.

    Returns the bound.
    """
    pass_binary(unary, straight, slanted, scale_straight, scale_slanted, gamma, table, True)
    return pass_binary(
        unary, straight, slanted, scale_straight, scale_slanted, gamma, table_t, False
    )

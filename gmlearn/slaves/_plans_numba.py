"""Compiled plans of elimination: orders on the graph alone, and the steps that the kernels follow.

Hypergraphs come flat: the variables of clique f are ``scope[indptr[f]:indptr[f + 1]]``.
"""

import heapq

import numpy as np
from numba import njit

from gmlearn._utils._sorting_numba import counting_order

#: how an input of a step lies along the inner entries: one after the other, all the same one, or
#: at a list of places
CONTIGUOUS, CONSTANT, LISTED = 0, 1, 2


@njit(cache=True, nogil=True)
def neighbours(indptr, scope, states):
    """(ptr, near): the variables that share a clique with each; none of those with one state."""
    n = len(states)
    slot_ptr, slots = counting_order(scope, n)
    owner = np.empty(len(scope), np.int64)
    for f in range(len(indptr) - 1):
        owner[indptr[f] : indptr[f + 1]] = f
    seen = np.full(n, -1)
    ptr = np.zeros(n + 1, np.int64)
    near = np.empty(4 * n + 16, np.int64)
    used = 0
    for v in range(n):
        seen[v] = v
        for j in range(slot_ptr[v], slot_ptr[v + 1]):
            f = owner[slots[j]]
            for u in scope[indptr[f] : indptr[f + 1]]:
                if states[v] > 1 and states[u] > 1 and seen[u] != v:
                    seen[u] = v
                    near = with_room(near, used, 1)
                    near[used] = u
                    used += 1
        ptr[v + 1] = used
    return ptr, near[:used]


@njit(cache=True, nogil=True)
def with_room(a, used, more):
    """`a`, or a longer copy of it that has room for `more` numbers beyond the first `used`."""
    if used + more <= len(a):
        return a
    longer = np.empty(2 * (used + more), a.dtype)
    # in a loop: a slice would compile numba's error messages, which takes seconds
    for i in range(used):
        longer[i] = a[i]
    return longer


@njit(cache=True, nogil=True)
def simulate(ptr, near, states, max_table, max_total, greedy):
    """Eliminate on the graph alone: smallest joined table first, or in the order of the variables.

    Returns (order (V,), entries of all tables, of the largest one, width); width -1 if a limit is
    passed.
    """
    n = len(states)
    log = np.log(states.astype(np.float64))
    begin = ptr[:-1].copy()
    count = ptr[1:] - begin
    room, pool, used = count.copy(), near.copy(), len(near)
    current = log.copy()
    for v in range(n):
        for u in pool[begin[v] : begin[v] + count[v]]:
            current[v] += log[u]
    heap = [(current[v] if greedy else float(v), v) for v in range(n)]
    heapq.heapify(heap)
    # seen[x] = u stays true: x leaves the neighbours of u only when it is eliminated
    order, step, seen = np.empty(n, np.int64), 0, np.full(n, -1)
    total, largest, width = 0.0, 0.0, 0
    done = np.zeros(n, np.bool_)
    while step < n:
        weight, v = heapq.heappop(heap)
        if done[v] or (greedy and weight != current[v]):
            continue
        size = np.exp(current[v])
        total += size
        largest, width = max(largest, size), max(width, count[v])
        if size > max_table * 1.000001 or total > max_total:
            return order, total, largest, -1
        done[v] = True
        order[step] = v
        step += 1
        around = pool[begin[v] : begin[v] + count[v]].copy()
        for u in around:
            if room[u] < count[u] + len(around):  # a longer list, at the end
                pool = with_room(pool, used, 2 * (count[u] + len(around)))
                pool[used : used + count[u]] = pool[begin[u] : begin[u] + count[u]]
                begin[u], room[u] = used, 2 * (count[u] + len(around))
                used += room[u]
            kept, current[u], seen[u] = 0, log[u], u
            for x in pool[begin[u] : begin[u] + count[u]]:
                if x != v:
                    pool[begin[u] + kept] = x
                    kept += 1
                    seen[x] = u
                    current[u] += log[x]
            for x in around:
                if seen[x] != u:
                    pool[begin[u] + kept] = x
                    kept += 1
                    seen[x] = u
                    current[u] += log[x]
            count[u] = kept
            if greedy:
                heapq.heappush(heap, (current[u], u))
    return order, total, largest, width


@njit(cache=True, nogil=True)
def bucket_steps(order, indptr, slots):
    """(in_ptr, inputs, scope_ptr, scope): what each step joins, and the variables of its message,
    first eliminated first. Inputs are cliques f, and F + s for the message of step s.
    """
    n, n_cliques = len(order), len(indptr) - 1
    rank = np.empty(n, np.int64)
    for s in range(n):
        rank[order[s]] = s
    head, tail, after = np.full(n, -1), np.full(n, -1), np.full(n_cliques + n, -1)
    in_ptr, inputs = np.zeros(n + 1, np.int64), np.empty(n_cliques + n, np.int64)
    scope_ptr, scope = np.zeros(n + 1, np.int64), np.empty(4 * n + 16, np.int64)
    seen = np.full(n, -1)
    for f in range(n_cliques):
        first = n
        for j in range(indptr[f], indptr[f + 1]):
            first = min(first, rank[slots[j]])
        file_under(first, f, head, tail, after)
    for s in range(n):
        used, end, f = scope_ptr[s], in_ptr[s], head[s]
        while f >= 0:
            inputs[end] = f
            end += 1
            if f < n_cliques:
                ranks = rank[slots[indptr[f] : indptr[f + 1]]]
            else:
                ranks = scope[scope_ptr[f - n_cliques] : scope_ptr[f - n_cliques + 1]]
            scope = with_room(scope, used, len(ranks))
            for r in ranks:
                if r != s and seen[r] != s:
                    seen[r] = s
                    scope[used] = r
                    used += 1
            f = after[f]
        in_ptr[s + 1], scope_ptr[s + 1] = end, used
        if used > scope_ptr[s]:
            sort_few(scope, scope_ptr[s], used)
            file_under(scope[scope_ptr[s]], n_cliques + s, head, tail, after)
    return in_ptr, inputs[: in_ptr[n]], scope_ptr, order[scope[: scope_ptr[n]]]


@njit(cache=True, nogil=True)
def sort_few(a, begin, end):
    """Sort a[begin:end] in place by insertion: scopes are as short as the tables allow."""
    for i in range(begin + 1, end):
        value = a[i]
        j = i
        while j > begin and a[j - 1] > value:
            a[j] = a[j - 1]
            j -= 1
        a[j] = value


@njit(cache=True, nogil=True)
def file_under(bucket, item, head, tail, after):
    """Append an item to the list of a bucket."""
    if head[bucket] < 0:
        head[bucket] = item
    else:
        after[tail[bucket]] = item
    tail[bucket] = item


@njit(cache=True, nogil=True)
def joined_sizes(states, indptr, slots, in_ptr, inputs, scope_ptr, scope):
    """(entries of each message (steps,), of all inputs of a step at most), as floats."""
    n, n_cliques = len(in_ptr) - 1, len(indptr) - 1
    message, most = np.ones(n), 0.0
    for s in range(n):
        for u in scope[scope_ptr[s] : scope_ptr[s + 1]]:
            message[s] *= states[u]
        total = 0.0
        for f in inputs[in_ptr[s] : in_ptr[s + 1]]:
            size = 1.0
            if f < n_cliques:
                for u in slots[indptr[f] : indptr[f + 1]]:
                    size *= states[u]
            else:
                size = message[f - n_cliques]
            total += size
        most = max(most, total)
    return message, most


@njit(cache=True, nogil=True)
def inner_axes(shape, n, buffer):
    """(outer axes, entries of the others): as many of the last axes as fit beside a variable with
    n states, and at least one.
    """
    outer, inner = len(shape), 1
    while outer > 0 and (inner == 1 or inner * shape[outer - 1] * n <= buffer):
        outer -= 1
        inner *= shape[outer]
    return outer, inner


@njit(cache=True, nogil=True)
def places(row, shape, outer, offset):
    """offset = where an input with the strides `row` has the entries of the inner axes; returns
    how they lie.
    """
    size = 1
    offset[0] = 0
    for d in range(len(shape) - 1, outer - 1, -1):
        for a in range(1, shape[d]):
            for e in range(size):
                offset[a * size + e] = offset[e] + a * row[d]
        size *= shape[d]
    contiguous, constant = True, True
    for e in range(size):
        contiguous &= offset[e] == e
        constant &= offset[e] == 0
    return CONTIGUOUS if contiguous else CONSTANT if constant else LISTED


@njit(cache=True, nogil=True)
def write(order, states, indptr, slots, at, strides, begin, steps, buffer):
    """The columns of a `Program` with one structure, from `states` to `offset`, in their order.

    at : int (F,), where the table of each clique begins.   strides : like slots.   begin : where
        the messages begin.   steps : of `bucket_steps`.
    """
    in_ptr, inputs, scope_ptr, scope = steps
    n, n_cliques = len(order), len(indptr) - 1
    own, rest = states[order], np.ones(n, np.int64)
    outer, inner = np.empty(n, np.int64), np.empty(n, np.int64)
    message, along = np.empty(n, np.int64), np.empty(len(scope), np.int64)
    stride_ptr, offset_ptr = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    shapes = states[scope]
    for s in range(n):
        lo, hi, k = scope_ptr[s], scope_ptr[s + 1], in_ptr[s + 1] - in_ptr[s]
        outer[s], inner[s] = inner_axes(shapes[lo:hi], own[s], buffer)
        for d in range(hi - 1, lo - 1, -1):
            along[d] = rest[s]
            rest[s] *= shapes[d]
        message[s] = begin
        begin += rest[s]
        stride_ptr[s + 1] = stride_ptr[s] + k * outer[s]
        offset_ptr[s + 1] = offset_ptr[s] + k * inner[s]
    first, span = np.empty(len(inputs), np.int64), np.empty(len(inputs), np.int64)
    step, kind = np.empty(len(inputs), np.int64), np.empty(len(inputs), np.int64)
    stride, offset = np.empty(stride_ptr[n], np.int64), np.empty(offset_ptr[n], np.int32)
    axis = np.empty(len(states), np.int64)
    for s in range(n):
        lo, hi = scope_ptr[s], scope_ptr[s + 1]
        axis[order[s]] = hi - lo
        for d in range(lo, hi):
            axis[scope[d]] = d - lo
        for i in range(in_ptr[s], in_ptr[s + 1]):
            f, k = inputs[i], i - in_ptr[s]
            row = np.zeros(hi - lo + 1, np.int64)
            if f < n_cliques:
                names, moves = slots[indptr[f] : indptr[f + 1]], strides[indptr[f] : indptr[f + 1]]
                first[i] = at[f]
            else:
                a, b = scope_ptr[f - n_cliques], scope_ptr[f - n_cliques + 1]
                names, moves = scope[a:b], along[a:b]
                first[i] = message[f - n_cliques]
            span[i] = 1
            for u, move in zip(names, moves):
                row[axis[u]] += move
                span[i] += (states[u] - 1) * move
            step[i] = row[hi - lo]
            stride[stride_ptr[s] + k * outer[s] : stride_ptr[s] + (k + 1) * outer[s]] = row[
                : outer[s]
            ]
            where = offset[offset_ptr[s] + k * inner[s] : offset_ptr[s] + (k + 1) * inner[s]]
            kind[i] = places(row, shapes[lo:hi], outer[s], where)
    return (
        own, message, rest, outer, inner, scope_ptr, scope, shapes, in_ptr, first, span, step,
        kind, stride_ptr, stride, offset_ptr, offset, begin,
    )  # fmt: skip

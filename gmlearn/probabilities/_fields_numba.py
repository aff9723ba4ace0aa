"""Compiled mean field and loopy belief propagation on tables.

A graph comes as the NamedTuple `Tables` of its arrays; costs are divided by the temperature.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def first_state(g, f, digits):
    """The first joint label of clique f; returns where its cost stands."""
    for i in range(g.indptr[f + 1] - g.indptr[f]):
        digits[i] = 0
    return g.start[f]


@njit(cache=True, nogil=True)
def next_state(g, f, digits, at):
    """The next joint label of clique f, the last variable fastest; -1 after the last one."""
    for i in range(g.indptr[f + 1] - g.indptr[f] - 1, -1, -1):
        slot = g.indptr[f] + i
        v = g.scope[slot]
        if digits[i] + 1 < g.offsets[v + 1] - g.offsets[v]:
            digits[i] += 1
            return at + g.stride[slot]
        at -= digits[i] * g.stride[slot]
        digits[i] = 0
    return -1


@njit(cache=True, nogil=True)
def add_field(g, f, member, q, field, digits):
    """field[l] += expected cost of clique f if its member has label l and the others follow q."""
    at = first_state(g, f, digits)
    k = g.indptr[f + 1] - g.indptr[f]
    while at >= 0:
        weight = 1.0
        for i in range(k):
            if i != member:
                weight *= q[g.offsets[g.scope[g.indptr[f] + i]] + digits[i]]
        if weight > 0.0:
            field[digits[member]] += weight * (g.scale[f] * g.values[at])
        at = next_state(g, f, digits, at)


@njit(cache=True, nogil=True)
def field_of(g, v, used, q, field, digits):
    """Costs of the labels of v, and what the cliques that are `used` cost on average."""
    n = g.offsets[v + 1] - g.offsets[v]
    for label in range(n):
        field[label] = g.unary[g.offsets[v] + label]
    for j in range(g.ptr[v], g.ptr[v + 1]):
        slot = g.slots[j]
        f = g.owner[slot]
        if used[f]:
            add_field(g, f, slot - g.indptr[f], q, field, digits)
    return n


@njit(cache=True, nogil=True)
def all_fields(g, used, q, out, digits):
    """The same for all variables, out (n_coords,)."""
    for v in range(len(g.offsets) - 1):
        field_of(g, v, used, q, out[g.offsets[v] : g.offsets[v + 1]], digits)


@njit(cache=True, nogil=True)
def expected_costs(g, used, q, digits):
    """The expected cost of the cliques that are `used`, under a product q."""
    total = 0.0
    for f in range(len(g.start)):
        if not used[f]:
            continue
        at = first_state(g, f, digits)
        k = g.indptr[f + 1] - g.indptr[f]
        while at >= 0:
            weight = 1.0
            for i in range(k):
                weight *= q[g.offsets[g.scope[g.indptr[f] + i]] + digits[i]]
            if weight > 0.0:
                total += weight * (g.scale[f] * g.values[at])
            at = next_state(g, f, digits, at)
    return total


@njit(cache=True, nogil=True)
def sweep(g, used, q, field, digits):
    """One pass of coordinate ascent over all variables, in place; returns the largest change."""
    change = 0.0
    for v in range(len(g.offsets) - 1):
        n = field_of(g, v, used, q, field, digits)
        first = g.offsets[v]
        low = np.inf
        for label in range(n):
            low = min(low, field[label])
        if low == np.inf:
            continue
        total = 0.0
        for label in range(n):
            field[label] = np.exp(low - field[label])
            total += field[label]
        for label in range(n):
            p = field[label] / total
            change = max(change, abs(p - q[first + label]))
            q[first + label] = p
    return change


@njit(cache=True, nogil=True)
def induced_trees(g, tree):
    """Sets of variables, `tree` (V,), whose cliques inside a set are the edges of one tree."""
    n = len(g.offsets) - 1
    links, blocked = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for v in range(n):
        tree[v] = v
        for j in range(g.ptr[v], g.ptr[v + 1]):
            f = g.owner[g.slots[j]]
            for slot in range(g.indptr[f], g.indptr[f + 1]):
                u = g.scope[slot]
                if u < v:
                    links[tree[u]] += 1
                    if g.indptr[f + 1] - g.indptr[f] > 2:
                        blocked[tree[u]] = True
        for j in range(g.ptr[v], g.ptr[v + 1]):
            f = g.owner[g.slots[j]]
            for slot in range(g.indptr[f], g.indptr[f + 1]):
                u = g.scope[slot]
                if u < v and tree[v] == v and links[tree[u]] == 1 and not blocked[tree[u]]:
                    tree[v] = tree[u]
        for j in range(g.ptr[v], g.ptr[v + 1]):
            f = g.owner[g.slots[j]]
            for slot in range(g.indptr[f], g.indptr[f + 1]):
                u = g.scope[slot]
                if u < v:
                    links[tree[u]] = 0
                    blocked[tree[u]] = False


@njit(cache=True, nogil=True)
def cavity(g, message_ptr, message, slot, out):
    """out[l] = what all but clique f say about label l of its member at `slot`."""
    v = g.scope[slot]
    n = g.offsets[v + 1] - g.offsets[v]
    for label in range(n):
        out[label] = g.unary[g.offsets[v] + label]
    for j in range(g.ptr[v], g.ptr[v + 1]):
        other = g.slots[j]
        if other != slot:
            for label in range(n):
                out[label] += message[message_ptr[other] + label]
    return n


@njit(cache=True, nogil=True)
def joint_costs(g, f, room, room_ptr, digits, out):
    """out[x] = cost of joint label x of clique f, with what the others say; returns the entries."""
    at, e = first_state(g, f, digits), 0
    while at >= 0:
        total = g.scale[f] * g.values[at]
        for i in range(g.indptr[f + 1] - g.indptr[f]):
            total += room[room_ptr[i] + digits[i]]
        out[e] = total
        e += 1
        at = next_state(g, f, digits, at)
    return e


@njit(cache=True, nogil=True)
def propagate(g, message_ptr, message, damping, room, room_ptr, digits, joint, fresh, low):
    """One pass of sum-product messages from all cliques, in place; returns the largest change."""
    change = 0.0
    for f in range(len(g.start)):
        k = g.indptr[f + 1] - g.indptr[f]
        room_ptr[0] = 0
        for i in range(k):
            n = cavity(g, message_ptr, message, g.indptr[f] + i, room[room_ptr[i] :])
            room_ptr[i + 1] = room_ptr[i] + n
        joint_costs(g, f, room, room_ptr, digits, joint)
        for i in range(k):
            n, own = room_ptr[i + 1] - room_ptr[i], room[room_ptr[i] :]
            for label in range(n):
                low[label] = np.inf
                fresh[label] = 0.0
            for pass_ in range(2):
                at, e = first_state(g, f, digits), 0
                while at >= 0:
                    label = digits[i]
                    # inf - inf: a label that the others forbid sends no news
                    cost = joint[e] - own[label] if own[label] < np.inf else np.inf
                    if pass_ == 0:
                        low[label] = min(low[label], cost)
                    elif cost < np.inf:
                        fresh[label] += np.exp(low[label] - cost)
                    e += 1
                    at = next_state(g, f, digits, at)
            least = np.inf
            for label in range(n):
                if low[label] < np.inf:
                    low[label] -= np.log(fresh[label])
                    least = min(least, low[label])
            for label in range(n):
                slot = message_ptr[g.indptr[f] + i] + label
                value = low[label] - least if low[label] < np.inf else np.inf
                if value < np.inf and message[slot] < np.inf:
                    change = max(change, abs(value - message[slot]))
                    value = damping * message[slot] + (1.0 - damping) * value
                elif own[label] == np.inf:
                    value = message[slot]
                message[slot] = value
    return change


@njit(cache=True, nogil=True)
def log_sum(costs, n):
    """log sum exp(-costs[:n])."""
    low, total = np.inf, 0.0
    for e in range(n):
        low = min(low, costs[e])
    if low == np.inf:
        return -np.inf
    for e in range(n):
        total += np.exp(low - costs[e])
    return np.log(total) - low


@njit(cache=True, nogil=True)
def bethe(g, message_ptr, message, room, room_ptr, digits, joint, node):
    """The Bethe estimate of log Z; node (n_coords,) gets the beliefs of the labels."""
    total = 0.0
    own = np.empty(len(g.offsets) - 1)
    for v in range(len(own)):
        n, first = g.offsets[v + 1] - g.offsets[v], g.offsets[v]
        for label in range(n):
            room[label] = g.unary[first + label]
            for j in range(g.ptr[v], g.ptr[v + 1]):
                room[label] += message[message_ptr[g.slots[j]] + label]
        own[v] = log_sum(room, n)
        total += own[v]
        for label in range(n):
            node[first + label] = np.exp(-room[label] - own[v]) if own[v] > -np.inf else 0.0
    if total == -np.inf:  # the messages forbid all labels of a variable
        return total
    for f in range(len(g.start)):
        room_ptr[0] = 0
        for i in range(g.indptr[f + 1] - g.indptr[f]):
            n = cavity(g, message_ptr, message, g.indptr[f] + i, room[room_ptr[i] :])
            room_ptr[i + 1] = room_ptr[i] + n
            total -= own[g.scope[g.indptr[f] + i]]
        total += log_sum(joint, joint_costs(g, f, room, room_ptr, digits, joint))
    return total

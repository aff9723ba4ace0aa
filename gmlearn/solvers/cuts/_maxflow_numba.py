"""Compiled max-flow by Boykov and Kolmogorov (PAMI 2004): two search trees grow from the source
and the sink, a path is augmented where they meet, and orphaned nodes look for a new parent.

Arcs are in CSR order: node i has the arcs ptr[i]:ptr[i + 1]; head, sister (2E,) are the end of an
arc and the reverse arc, capacity (2E,) is what is left of it, and terminal (n,) what is left from
the source (> 0) or to the sink (< 0). One row of `node` (n, 4) holds what is known of a node.
Active nodes wait in a ring, orphans in another one; `at` (5,) has the first place and the number of
entries of both rings, and the time.
"""

import numpy as np
from numba import njit

#: columns of `node`: FREE, SOURCE or SINK; the arc to the parent, TERMINAL or ORPHAN; when the
#: distance to the terminal was last known, and what it was
TREE, PARENT, STAMP, DISTANCE = 0, 1, 2, 3
FREE, SOURCE, SINK = 0, 1, 2
TERMINAL, ORPHAN = -1, -2
FAR = 2**30


@njit(cache=True, nogil=True)
def enter(ring, at, which, i):
    """Put node i at the end of a ring: 0 of active nodes, 2 of orphans."""
    last = at[which] + at[which + 1]
    if last >= len(ring):
        last -= len(ring)
    ring[last] = i
    at[which + 1] += 1


@njit(cache=True, nogil=True)
def leave(ring, at, which):
    """Take the first node out of a ring."""
    i = ring[at[which]]
    at[which] += 1
    if at[which] == len(ring):
        at[which] = 0
    at[which + 1] -= 1
    return i


@njit(cache=True, nogil=True)
def plant(ptr, head, sister, capacity, terminal, node, active, queued, at):
    """Saturate all paths source - i - j - sink, then start both trees; returns the flow."""
    flow = 0.0
    n = len(terminal)
    for i in range(n):
        left = terminal[i]
        if left > 0.0:
            for a in range(ptr[i], ptr[i + 1]):
                j = head[a]
                if terminal[j] < 0.0 and capacity[a] > 0.0:
                    sent = min(min(left, capacity[a]), -terminal[j])
                    capacity[a] -= sent
                    capacity[sister[a]] += sent
                    terminal[j] += sent
                    left -= sent
                    flow += sent
                    if left <= 0.0:
                        break
            terminal[i] = left
    for i in range(n):
        node[i, TREE] = FREE
        node[i, STAMP] = 0
        if terminal[i] != 0.0:
            node[i, TREE] = SOURCE if terminal[i] > 0.0 else SINK
            node[i, PARENT] = TERMINAL
            node[i, DISTANCE] = 1
            queued[i] = 1
            enter(active, at, 0, i)
    return flow


@njit(cache=True, nogil=True)
def grow(i, ptr, head, sister, capacity, node, active, queued, at):
    """Grow a tree from node i; the arc from the source's tree to the sink's where they meet, -1 if
    they do not.
    """
    own = node[i, TREE]
    if own == FREE:
        return -1
    for a in range(ptr[i], ptr[i + 1]):
        outward = a if own == SOURCE else sister[a]
        if capacity[outward] > 0.0:
            j = head[a]
            other = node[j, TREE]
            if other == FREE:
                node[j, TREE] = own
                if queued[j] == 0:
                    queued[j] = 1
                    enter(active, at, 0, j)
            elif other != own:
                return outward
            elif node[j, STAMP] > node[i, STAMP] or node[j, DISTANCE] <= node[i, DISTANCE]:
                continue
            # new in the tree, or nearer to the terminal by way of i
            node[j, PARENT] = sister[a]
            node[j, STAMP] = node[i, STAMP]
            node[j, DISTANCE] = node[i, DISTANCE] + 1
    return -1


@njit(cache=True, nogil=True)
def augment(middle, head, sister, capacity, terminal, node, orphans, at):
    """Send flow along the path through the arc `middle`; nodes that lose their way to a terminal
    become orphans.
    """
    sent = capacity[middle]
    for own in (SOURCE, SINK):
        i = head[middle] if own == SINK else head[sister[middle]]
        a = node[i, PARENT]
        while a >= 0:
            sent = min(sent, capacity[a] if own == SINK else capacity[sister[a]])
            i = head[a]
            a = node[i, PARENT]
        sent = min(sent, abs(terminal[i]))
    capacity[middle] -= sent
    capacity[sister[middle]] += sent
    for own in (SOURCE, SINK):
        i = head[middle] if own == SINK else head[sister[middle]]
        a = node[i, PARENT]
        while a >= 0:
            forward = a if own == SINK else sister[a]
            capacity[forward] -= sent
            capacity[sister[forward]] += sent
            if capacity[forward] <= 0.0:
                node[i, PARENT] = ORPHAN
                enter(orphans, at, 2, i)
            i = head[a]
            a = node[i, PARENT]
        terminal[i] += sent if own == SINK else -sent
        if terminal[i] == 0.0:
            node[i, PARENT] = ORPHAN
            enter(orphans, at, 2, i)
    return sent


@njit(cache=True, nogil=True)
def reach(j, head, node, now):
    """The distance of node j to its terminal, FAR if an orphan lies between; remembers it."""
    length = 0
    k = j
    while node[k, STAMP] != now:
        a = node[k, PARENT]
        if a == TERMINAL:
            node[k, STAMP] = now
            node[k, DISTANCE] = 1
            break
        if a == ORPHAN:
            return FAR
        length += 1
        k = head[a]
    length += node[k, DISTANCE]
    k = j
    left = length
    while node[k, STAMP] != now:
        node[k, STAMP] = now
        node[k, DISTANCE] = left
        left -= 1
        k = head[node[k, PARENT]]
    return length


@njit(cache=True, nogil=True)
def adopt(ptr, head, sister, capacity, node, active, queued, orphans, at):
    """Give every orphan its nearest possible parent, or set it free."""
    now = at[4]
    while at[3] > 0:
        i = leave(orphans, at, 2)
        own = node[i, TREE]
        best = -1
        least = FAR
        for a in range(ptr[i], ptr[i + 1]):
            if capacity[sister[a] if own == SOURCE else a] > 0.0:
                j = head[a]
                if node[j, TREE] == own and node[j, PARENT] != ORPHAN:
                    length = reach(j, head, node, now)
                    if length < least:
                        least = length
                        best = a
        if best >= 0:
            node[i, PARENT] = best
            node[i, STAMP] = now
            node[i, DISTANCE] = least + 1
            continue
        node[i, TREE] = FREE
        for a in range(ptr[i], ptr[i + 1]):
            j = head[a]
            if node[j, TREE] == own:
                if queued[j] == 0 and capacity[sister[a] if own == SOURCE else a] > 0.0:
                    queued[j] = 1
                    enter(active, at, 0, j)
                if node[j, PARENT] == sister[a]:
                    node[j, PARENT] = ORPHAN
                    enter(orphans, at, 2, j)


@njit(cache=True, nogil=True)
def max_flow(ptr, head, sister, capacity, terminal, node):
    """Send as much as possible from the source to the sink, on top of what flows; returns it.

    At the end the SOURCE tree is the smallest source side of a minimum cut, the SINK tree the
    smallest sink side.
    """
    n = len(terminal)
    active = np.empty(n, np.int32)
    orphans = np.empty(n, np.int32)
    queued = np.zeros(n, np.uint8)
    at = np.zeros(5, np.int64)
    flow = plant(ptr, head, sister, capacity, terminal, node, active, queued, at)
    while at[1] > 0:
        i = leave(active, at, 0)
        queued[i] = 0
        while True:
            middle = grow(i, ptr, head, sister, capacity, node, active, queued, at)
            if middle < 0:
                break
            at[4] += 1
            flow += augment(middle, head, sister, capacity, terminal, node, orphans, at)
            adopt(ptr, head, sister, capacity, node, active, queued, orphans, at)
    return flow


@njit(cache=True, nogil=True)
def link(first, second, forward, backward, ptr, head, sister, capacity):
    """Fill CSR arcs of the edges first - second (E,) with capacities either way; returns the arc
    of each edge (E,), whose sister is the way back.
    """
    n = len(ptr) - 1
    for e in range(len(first)):
        ptr[first[e] + 1] += 1
        ptr[second[e] + 1] += 1
    for i in range(n):
        ptr[i + 1] += ptr[i]
    free = ptr[:-1].copy()
    place = np.empty(len(first), np.int32)
    for e in range(len(first)):
        i = first[e]
        j = second[e]
        a = free[i]
        free[i] += 1
        b = free[j]
        free[j] += 1
        head[a] = j
        head[b] = i
        sister[a] = b
        sister[b] = a
        capacity[a] = forward[e]
        capacity[b] = backward[e]
        place[e] = a
    return place

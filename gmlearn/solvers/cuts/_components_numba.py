"""Compiled strongly connected components (Tarjan), in reverse topological order."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def strong_components(ptr, head, open_, inside):
    """int (n,): the component of each node with `inside`, over arcs with `open_`; -1 elsewhere.

    Components are numbered so that an arc never leads to a higher number.
    """
    n = len(ptr) - 1
    component = np.full(n, -1, np.int32)
    low = np.zeros(n, np.int32)
    order = np.zeros(n, np.int32)
    place = ptr[:-1].copy()
    path = np.empty(n, np.int32)
    waiting = np.empty(n, np.int32)
    n_waiting = 0
    seen = 0
    count = 0
    for root in range(n):
        if not inside[root] or order[root] > 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            i = path[depth]
            if order[i] == 0:
                seen += 1
                order[i] = seen
                low[i] = seen
                waiting[n_waiting] = i
                n_waiting += 1
            deeper = False
            while place[i] < ptr[i + 1]:
                a = place[i]
                j = head[a]
                if open_[a] and inside[j] and component[j] < 0:
                    if order[j] == 0:
                        depth += 1
                        path[depth] = j
                        deeper = True
                        break
                    low[i] = min(low[i], low[j])
                place[i] += 1
            if deeper:
                continue
            if low[i] == order[i]:
                while True:
                    n_waiting -= 1
                    component[waiting[n_waiting]] = count
                    if waiting[n_waiting] == i:
                        break
                count += 1
            depth -= 1
    return component

"""A hash of memory at the speed of memory."""

import numpy as np
from numba import njit

LEFT = np.uint64(23)
RIGHT = np.uint64(17)


@njit(cache=True, nogil=True)
def hash_words(words, lanes):
    """Fold 64-bit words (n,) into `lanes` (m,), word i into lane i mod m.

    A step, h <- g(h + word) with g(x) = x' ^ (x' >> 17), x' = x ^ (x << 23), can be undone, so a
    change of one word always changes its lane. It has no product of 64 bits, which would keep
    compilers from working on several lanes at once; unsigned places do the same.
    """
    size = np.uint64(len(words))
    width = np.uint64(len(lanes))
    first = np.uint64(0)
    while first < size:
        for k in range(min(width, size - first)):
            x = lanes[k] + words[first + k]
            x ^= x << LEFT
            lanes[k] = x ^ (x >> RIGHT)
        first += width

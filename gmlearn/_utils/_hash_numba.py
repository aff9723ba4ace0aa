"""A hash of memory at the speed of memory."""

import numpy as np
from numba import njit

#: an odd number without structure: the digits of the golden ratio
FACTOR = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)


@njit(cache=True, nogil=True)
def hash_words(words, found):
    """Fold 64-bit words (8 n,) into `found` (8,), word i into lane i mod 8.

    A step, h <- g((h ^ word) FACTOR) with g(x) = x ^ (x >> 32), can be undone, so a change of one
    word always changes its lane. The lanes wait for nobody, so a processor works on several.
    """
    a, b, c, d, e, f, g, h = found
    for i in range(0, len(words), 8):
        a = (a ^ words[i]) * FACTOR
        b = (b ^ words[i + 1]) * FACTOR
        c = (c ^ words[i + 2]) * FACTOR
        d = (d ^ words[i + 3]) * FACTOR
        e = (e ^ words[i + 4]) * FACTOR
        f = (f ^ words[i + 5]) * FACTOR
        g = (g ^ words[i + 6]) * FACTOR
        h = (h ^ words[i + 7]) * FACTOR
        a ^= a >> HALF
        b ^= b >> HALF
        c ^= c >> HALF
        d ^= d >> HALF
        e ^= e >> HALF
        f ^= f >> HALF
        g ^= g >> HALF
        h ^= h >> HALF
    for k, lane in enumerate((a, b, c, d, e, f, g, h)):
        found[k] = lane

"""Exponentials and logarithms of whole arrays, written so that compilers can use vector units.

Sums and products in one order only, so the result is the same on every processor; the relative
error is below 1e-15. Arrays must be contiguous.
"""

import numpy as np
from numba import njit

#: adding it rounds to a whole number, which then stands in the lowest bits
ROUND = 6755399441055744.0  # 1.5 * 2**52
#: below this the exponential is 0; the logarithm of anything smaller than TINY is -inf
LEAST, TINY = -708.0, 2.2250738585072014e-308
LOG2_HIGH, LOG2_LOW = 0.6931471803691238, 1.9082149292705877e-10
ONE, FRACTION, EXPONENT = 0x3FF0000000000000, 0x000FFFFFFFFFFFFF, 0x4330000000000000


@njit(cache=True, nogil=True)
def exp_all(x, room):
    """x = exp(x) in place, for numbers up to 700 or -inf.   room : int64, as long as x."""
    power = room.view(np.float64)
    for i in range(len(x)):
        used = x[i] > LEAST
        v = x[i] if used else 0.0
        shifted = v * 1.4426950408889634 + ROUND
        k = shifted - ROUND
        r = (v - k * LOG2_HIGH) - k * LOG2_LOW
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        power[i] = shifted if used else ROUND
        x[i] = p if used else 0.0
    bits = x.view(np.int64)
    for i in range(len(x)):
        bits[i] += room[i] << 52


@njit(cache=True, nogil=True, error_model="numpy")  # divisions without a branch
def log_all(x, room):
    """x = log(x) in place, for numbers from 0 to 1e300.   room : int64, as long as x."""
    bits, power = x.view(np.int64), room.view(np.float64)
    for i in range(len(x)):
        room[i] = (bits[i] >> 52) | EXPONENT
        bits[i] = (bits[i] & FRACTION) | ONE
    for i in range(len(x)):
        # 2**52 + 1023 are in the exponent; fractions lie between sqrt(1/2) and sqrt(2)
        large = x[i] > 1.4142135623730951
        k = power[i] - 4503599627371519.0
        m = x[i] * 0.5 if large else x[i]
        k = k + 1.0 if large else k
        s = (m - 1.0) / (m + 1.0)
        z = s * s
        p = 1.0 / 19.0
        p = p * z + 1.0 / 17.0
        p = p * z + 1.0 / 15.0
        p = p * z + 1.0 / 13.0
        p = p * z + 1.0 / 11.0
        p = p * z + 1.0 / 9.0
        p = p * z + 1.0 / 7.0
        p = p * z + 1.0 / 5.0
        p = p * z + 1.0 / 3.0
        p = p * z + 1.0
        value = k * LOG2_HIGH + (k * LOG2_LOW + 2.0 * s * p)
        # zero and what is not normal have the lowest exponent
        x[i] = value if power[i] > 4503599627370496.0 else -np.inf

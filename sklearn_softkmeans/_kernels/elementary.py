"""Elementary functions that compile to vector instructions."""

import numpy as np

from .._jit import by_type, exact

# exp(x) = 2^n exp(r), with n the integer nearest to x / log 2 and |r| <= log(2) / 2. Adding
# 1.5 * 2^52 (1.5 * 2^23 in single precision) rounds x / log 2 to that integer and leaves n in the
# low bits of the sum: no conversion from float to integer, which few processors can vectorise.


def _exp64(x):
    # Degree 12: relative error 2.3e-16 (1.1e-15 near the ends of the range).
    y = max(x, -707.0)
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = (y - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    exponent = np.float64(shifted).view(np.int64) << 52
    value = np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)
    return value if x >= -707.0 else 0.0


def _exp32(x):
    # Degree 7: relative error 1e-7.
    y = max(x, np.float32(-87.0))
    shifted = y * np.float32(1.44269504) + np.float32(12582912.0)
    n = shifted - np.float32(12582912.0)
    r = (y - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
    p = np.float32(1.0 / 5040.0)
    p = p * r + np.float32(1.0 / 720.0)
    p = p * r + np.float32(1.0 / 120.0)
    p = p * r + np.float32(1.0 / 24.0)
    p = p * r + np.float32(1.0 / 6.0)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    exponent = np.int32(np.float32(shifted).view(np.int32) << np.int32(23))
    value = np.int32(np.float32(p).view(np.int32) + exponent).view(np.float32)
    return value if x >= np.float32(-87.0) else np.float32(0.0)


@by_type({np.float32: _exp32, np.float64: _exp64}, strict=True)
def exp(x):
    """exp(x) for x <= 0; exactly 0 where the result would be subnormal."""
    return np.exp(x)


# log(x) = n log(2) + log(m), with m = x / 2^n between sqrt(1/2) and sqrt(2), and log(m) the odd
# series of (m - 1) / (m + 1). The first constant is the bit pattern of sqrt(1/2), the second that
# of 2^52, beside which an integer is a float's low bits, and the last two are log(2) in two parts.


@exact
def log(x):
    """log(x) for float64 1 <= x < 2^52, to rounding."""
    bits = np.float64(x).view(np.int64)
    n = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = np.int64(bits - (n << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = 2.0 / 21.0
    p = p * q + 2.0 / 19.0
    p = p * q + 2.0 / 17.0
    p = p * q + 2.0 / 15.0
    p = p * q + 2.0 / 13.0
    p = p * q + 2.0 / 11.0
    p = p * q + 2.0 / 9.0
    p = p * q + 2.0 / 7.0
    p = p * q + 2.0 / 5.0
    p = p * q + 2.0 / 3.0
    p = p * q + 2.0
    power = np.int64(n + 0x4330000000000000).view(np.float64) - 4503599627370496.0
    return power * 6.93147180369123816490e-01 + (power * 1.90821492927058770002e-10 + s * p)

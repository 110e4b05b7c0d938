"""Ranges and accuracy of the numbers in a frame."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

# Allowed rounding error of a score, of which a responsibility has half at most, and a quarter of
# that of a distance^2, relative to it, for each working precision.
_TOLERANCE = {np.dtype(np.float64): 5e-13, np.dtype(np.float32): 1e-6}

# The first of them where only sums over rows are wanted. In single precision it is of the size that
# rounding the rows to it causes anyway; such errors are random, and those of sums are far smaller.
_IN_SUMS = {np.dtype(np.float64): 5e-13, np.dtype(np.float32): 1e-3}

# sigma is kept within these factors of the unit of the frame. Above, all scores are equal to
# rounding. Below, responsibilities are those of the smallest sigma: hard but for centres that are
# closer than 1e-139 units.
SMALLEST_SIGMA = 1e-140
_LARGEST_SIGMA = 1e150


def frame_size(size, sigma):
    """At least so large that sigma is in range; squares of lengths of 1e-150 still are."""
    return max(size, sigma / _LARGEST_SIGMA)


def precision_of(sigma):
    """1 / sigma^2 in the frame, for sigma > 0, in the range of float64."""
    return float(min(max(sigma, SMALLEST_SIGMA), _LARGEST_SIGMA) ** -2.0)


class Accuracy(NamedTuple):
    """What is known of rounding errors, and allowed."""

    rounding: float  # of a matrix product, relative to |x| |c|
    largest_error: float  # beyond it, scores may have overflowed
    tolerance: float  # of a score
    relative_tolerance: float  # a quarter of that of a distance^2


@cache
def accuracy(dtype, n_features, by_row):
    """For results of single rows, or for sums.

    The rounding is no worst case but several times what is observed: errors add up at random.
    """
    kind = np.finfo(dtype)
    rounding = float(kind.eps) * (1.0 + math.sqrt(n_features) / 16.0)
    tolerance = (_TOLERANCE if by_row else _IN_SUMS)[dtype]
    return Accuracy(rounding, 0.25 * rounding * float(kind.max), tolerance, _TOLERANCE[dtype])


def error_in_single(radius, reach, precision, n_features, by_row):
    """Error of scores in single precision, relative to what is allowed for most rows.

    Of centres up to `radius`, and rows about as far as `reach`; rows further out are few.
    """
    limits = accuracy(np.dtype(np.float32), n_features, by_row)
    error = limits.rounding * precision * radius * (reach + 0.5 * radius)
    return 2.0 * error / limits.tolerance


def underflows_in_single(radius, precision):
    """Whether scores of centres that are close together against sigma or the rows underflow."""
    return precision * min(radius, radius * radius) < float(np.finfo(np.float32).tiny)


def margin_of(alpha, n_clusters, dtype):
    """Lag of a score beyond which its cluster has no share, or all such are below rounding.

    Together they are less than a rounding error of the row's other shares. Where `dtype` is None,
    that is no reason, but no share is below the smallest number.
    """
    margin = 745.0 if dtype is None else math.log(2.0 * n_clusters / float(np.finfo(dtype).eps))
    return min(margin, 1.0 / (alpha - 1.0)) if alpha > 1.0 else margin


def power_of_two(size):
    return 2.0 ** min(max(math.frexp(size)[1], -1000), 1000)


def unit_of_weights(largest):
    """A power of two near the largest weight: weights of any size leave sums in range."""
    return 0.5 * power_of_two(largest)


def check_overflow(outputs):
    if outputs.totals[:, 2].any():
        raise ValueError(
            "The squared distances between X and the cluster centers overflow "
            f"{np.dtype(np.float64)}. Scale X down, for example with StandardScaler."
        )

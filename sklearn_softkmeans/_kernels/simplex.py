"""Maps from scores to the probability simplex, column by column of a block.

A block holds scores as (n_clusters, width): the innermost loop runs over *rows of X*, which
vectorises for any number of clusters. All maps are shift invariant, and work on z - max(z) <= 0.

Each map also returns the conjugate ``value = max_p <p, z - max(z)> - Omega(p)``, of which the
free energy is made. With the alpha-exponential exp_a(t) = [1 + (a - 1) t]_+^(1/(a - 1)), every map
reads p_j = exp_a(z_j - max(z) - tau) with sum_j p_j = 1, and value = ((a - 1) <p, z - max(z)> +
tau) / a.

The threshold comes from Newton's method on log_a(sum_j p_j) = 0, which is convex in tau for
a <= 2, linear where all scores in the support are equal, and solved in 2-5 passes.
"""

import math
from typing import NamedTuple

import numpy as np

from .._jit import by_type, exact, kernel, take, threaded
from .elementary import exp, log

_MAX_PASSES = 100

# Clusters that are added up in the working precision, before the sum in double precision.
_BLOCK = 8


class Softmax(NamedTuple):
    alpha: float  # 1


class Entmax15(NamedTuple):
    alpha: float  # 3 / 2


class Sparsemax(NamedTuple):
    alpha: float  # 2


class Entmax(NamedTuple):
    alpha: float  # any other number above 1


def map_of(alpha):
    """The map that belongs to `alpha`."""
    alpha = float(alpha)
    return {1.0: Softmax, 1.5: Entmax15, 2.0: Sparsemax}.get(alpha, Entmax)(alpha)


def _softmax_chunk(projection, z, width, peak, value, work, total):
    # 3 passes over the block, one exponential for each element.
    partial = work[0]
    zero = z.dtype.type(0.0)
    n_clusters = z.shape[0]
    for i in range(width):
        total[i] = 0.0
    for start in range(0, n_clusters, _BLOCK):
        for i in range(width):
            partial[i] = zero
        for j in range(start, min(start + _BLOCK, n_clusters)):
            for i in range(width):
                z[j, i] = exp(z[j, i] - peak[i])
                partial[i] += z[j, i]
        for i in range(width):
            total[i] += partial[i]
    for i in range(width):
        value[i] = log(total[i])
    _normalise_chunk(z, width, total, work[0])


@kernel
def _normalise_chunk(z, width, total, factor):
    # The sum is in double precision: single precision would lose digits over many clusters.
    for i in range(width):
        factor[i] = 1.0 / total[i]
    for j in range(z.shape[0]):
        for i in range(width):
            z[j, i] *= factor[i]


def _entmax15_chunk(projection, z, width, peak, value, work, total):
    # p = y^2 with y = [1 + (z - max) / 2 - t]_+ and t = tau / 2; sum p = 1 is |y|_2 = 1.
    threshold, first, second, moving = work[0], work[1], work[2], work[3]
    zero, one = z.dtype.type(0.0), z.dtype.type(1.0)
    n_clusters = z.dtype.type(z.shape[0])
    _start_threshold(0.5, 1.0 / math.sqrt(z.shape[0]), z, width, peak, threshold)
    rounding = z.dtype.type(2.0 * (2.0**-52 if z.itemsize == 8 else 2.0**-23))
    for i in range(width):
        moving[i] = one
    for _ in range(_MAX_PASSES):
        for i in range(width):
            y = max(z[0, i] - threshold[i], zero) if z.shape[0] % 2 == 1 else zero
            first[i] = y
            second[i] = y * y
        for j in range(z.shape[0] % 2, z.shape[0], 2):  # by pairs: half the traffic of the sums
            for i in range(width):
                y = max(z[j, i] - threshold[i], zero)
                x = max(z[j + 1, i] - threshold[i], zero)
                first[i] += y + x
                second[i] += y * y + x * x
        moved = zero
        for i in range(width):
            # (|y| - 1) |y| / sum y, with all but the difference in single precision: a step needs
            # few digits. Roots and divisions in double would take half of the time.
            norm = np.sqrt(np.float32(second[i]))
            factor = norm / ((norm + np.float32(1.0)) * np.float32(first[i]))
            step = (second[i] - one) * factor * moving[i]
            threshold[i] += step
            # The error that is left is at most n_clusters / 2 * step^2, and 1e-7 of the step. A
            # column whose threshold has converged is left alone: it must not depend on others.
            moving[i] = one if n_clusters * step * step > rounding else zero
            moved = max(moved, moving[i])
        if moved == zero:
            break
    cubes = first
    for i in range(width):
        cubes[i] = zero
        total[i] = 0.0
    for j in range(z.shape[0]):
        for i in range(width):
            y = max(z[j, i] - threshold[i], zero)
            p = y * y
            cubes[i] += p * y
            total[i] += p
            z[j, i] = p
    two_thirds, three = z.dtype.type(2.0 / 3.0), z.dtype.type(3.0)
    for i in range(width):
        # ((a - 1) <p, z - max> + tau) / a at a = 3/2, where tau = 2 t, and in the support
        # (z - max) / 2 = y + t - 1, so that <p, z - max> = 2 (sum y^3 + t - 1).
        value[i] = (cubes[i] - one + threshold[i] * three) * two_thirds
    _normalise_chunk(z, width, total, work[0])


@exact
def _start_threshold(scale, uniform, z, width, peak, threshold):
    """Turn z into y = 1 + scale (z - max) and start Newton's method from the left.

    The sum of powers of [y - t]_+ is at least n_clusters times the power of the mean of y - t. So
    the threshold is at least mean(y) - `uniform`, with the number that belongs to equal scores.

    In this order: 1 - scale max would lose the 1 where the scores are large.
    """
    one, zero = z.dtype.type(1.0), z.dtype.type(0.0)
    factor = z.dtype.type(scale)
    for i in range(width):
        threshold[i] = zero
    for j in range(z.shape[0]):
        for i in range(width):
            y = factor * (z[j, i] - peak[i]) + one
            z[j, i] = y
            threshold[i] += y
    share = z.dtype.type(1.0 / z.shape[0])
    # A little to the left, for the rounding of the mean.
    start = z.dtype.type(uniform + 2 * z.shape[0] * (2.0**-52 if z.itemsize == 8 else 2.0**-23))
    for i in range(width):
        threshold[i] = max(threshold[i] * share - start, zero)


def _sparsemax_chunk(projection, z, width, peak, value, work, total):
    # p = y = [1 + (z - max) - tau]_+: piecewise linear, so that Newton's method is exact.
    threshold, mass, count = work[0], work[1], work[2]
    zero, half, one = z.dtype.type(0.0), z.dtype.type(0.5), z.dtype.type(1.0)
    _start_threshold(1.0, 1.0 / z.shape[0], z, width, peak, threshold)
    rounding = z.dtype.type(2.0 * (2.0**-52 if z.itemsize == 8 else 2.0**-23))
    for _ in range(_MAX_PASSES):
        for i in range(width):
            mass[i] = zero
            count[i] = zero
        for j in range(z.shape[0]):
            for i in range(width):
                y = z[j, i] - threshold[i]
                mass[i] += max(y, zero)
                count[i] += one if y > zero else zero
        moved = zero
        for i in range(width):
            step = (mass[i] - one) / count[i]
            step = step if step > rounding else zero
            threshold[i] += step
            moved = max(moved, step)
        if moved == zero:
            break
    inner = count
    for i in range(width):
        inner[i] = zero
        total[i] = 0.0
    for j in range(z.shape[0]):
        for i in range(width):
            p = max(z[j, i] - threshold[i], zero)
            inner[i] += p * (max(z[j, i], -one) - one)
            total[i] += p
            z[j, i] = p
    for i in range(width):
        value[i] = (inner[i] + threshold[i]) * half
    _normalise_chunk(z, width, total, work[0])


def _entmax_chunk(projection, z, width, peak, value, work, total):
    # In double precision: 2 transcendental functions for each element and pass.
    alpha = projection.alpha
    a = alpha - 1.0
    for i in range(width):
        for j in range(z.shape[0]):
            z[j, i] -= peak[i]
        tau = _entmax_threshold(alpha, z, i)
        edge, lowest = -np.inf, 0.0
        if alpha > 2.0:
            edge, lowest = _entmax_edge(a, z, i, tau)
            tau = edge + (1.0 - lowest**a) / a
        inner = 0.0
        total[i] = 0.0
        for j in range(z.shape[0]):
            p = 0.0
            if z[j, i] == edge:
                p = lowest
            elif z[j, i] > edge and alpha > 2.0:
                p = math.exp(math.log(lowest**a + a * (z[j, i] - edge)) / a)
            elif alpha <= 2.0 and a * (z[j, i] - tau) > -1.0:
                p = math.exp(math.log1p(a * (z[j, i] - tau)) / a)
            if p > 0.0:
                inner += p * z[j, i]
            total[i] += p
            z[j, i] = p
        value[i] = (a * inner / total[i] + tau) / alpha
    _normalise_chunk(z, width, total, work[0])


@kernel
def _entmax_threshold(alpha, z, i):
    """Solve sum_j exp_a(z_j - tau) = 1 for tau by Newton's method inside a bracket.

    Its ends are the one-hot and the uniform solution. For alpha <= 2 Newton's steps from the left
    stay inside; beyond, where p jumps at the edge of the support, bisection steps in.
    """
    a = alpha - 1.0
    low = 0.0
    high = -math.expm1(-a * math.log(z.shape[0])) / a
    tau = 0.0
    for _ in range(_MAX_PASSES):
        total = 0.0
        slope = 0.0
        for j in range(z.shape[0]):
            distance = a * (z[j, i] - tau)
            if distance > -1.0:
                log_p = math.log1p(distance) / a
                total += math.exp(log_p)
                slope += math.exp((1.0 - a) * log_p)
        if total > 1.0:
            low = tau
        else:
            high = tau
        proposal = 0.5 * (low + high)
        if alpha <= 2.0 and total > 0.0:
            log_total = math.log(total)
            step = math.expm1(a * log_total) / a * math.exp((1.0 - a) * log_total) / slope
            if low < tau + step < high:
                proposal = tau + step
        if abs(proposal - tau) <= 2e-16 * high or not low < proposal < high:
            break
        tau = proposal
    return tau


@kernel
def _entmax_edge(a, z, i, tau):
    """The smallest score z_e in the support, and its responsibility p_e, for alpha > 2.

    There p = [1 + a (z - tau)]^(1 / a) rises vertically from the edge of the support, so that no
    threshold in floating point makes the sum one. Written by the smallest responsibility,
    p_j = [p_e^a + a (z_j - z_e)]^(1 / a), the same equation is well conditioned and convex in p_e.
    """
    below = tau - 1.0 / a - 1e-9 * (1.0 + tau)
    while True:
        edge = np.inf
        for j in range(z.shape[0]):
            if z[j, i] > below:
                edge = min(edge, np.float64(z[j, i]))
        count = 0
        support = 0
        others = 0.0
        for j in range(z.shape[0]):
            if z[j, i] > edge:
                others += math.exp(math.log(a * (z[j, i] - edge)) / a)
            count += z[j, i] == edge
            support += z[j, i] >= edge
        if others < 1.0:
            break
        below = edge  # the scores above fill the simplex alone
    p = 1.0 / support
    for _ in range(_MAX_PASSES):
        total = count * p - 1.0
        slope = np.float64(count)
        for j in range(z.shape[0]):
            if z[j, i] > edge:
                power = p**a + a * (z[j, i] - edge)
                total += power ** (1.0 / a)
                slope += p ** (a - 1.0) * power ** (1.0 / a - 1.0)
        step = total / slope
        if step <= 1e-16 * p:
            break
        p = max(p - step, 0.5 * p)
    return edge, p


@by_type(
    {
        Softmax: _softmax_chunk,
        Entmax15: _entmax15_chunk,
        Sparsemax: _sparsemax_chunk,
        Entmax: _entmax_chunk,
    }
)
def project_chunk(
    projection,  # IN     one of the four maps
    z,  # INOUT  (n_clusters, capacity) scores -> responsibilities
    width,  # IN     number of columns in use
    peak,  # IN     (capacity,) maximum of each column
    value,  # OUT    (capacity,) conjugate of each column, less its maximum
    work,  # OUT    (4, capacity) scratch
    total,  # OUT    (capacity,) float64, scratch
):
    """Map the columns of a block to the simplex."""


# ------------------------------------------------------------------- arrays of scores, by rows

# Rows in a block, and how far its columns lie apart: no power of two, which would map all of them
# to the same few places of the cache.
_WIDTH = 256
_STRIDE = _WIDTH + 16
_SQUARE = 16  # rows whose elements are moved together: a line of the cache
_LONG = 32  # scores of a row from which on a vector of them is used better than one of rows


@threaded
def project_rows(
    tasks,  # IN   Tasks, each of them one of the slices of rows
    projection,  # IN   one of the four maps
    scores,  # IN   (n_rows, n_clusters)
    responsibilities,  # OUT  (n_rows, n_clusters)
    faults,  # INOUT  (n_tasks, 2) numbers of scores that are NaN or inf, of rows of -inf alone
):
    # One read and one write of memory beside the map: scores are checked on the way.
    n_rows, n_clusters = scores.shape
    n_chunks = (n_rows + _WIDTH - 1) // _WIDTH
    z = np.empty((n_clusters, _STRIDE), scores.dtype)
    peak = np.empty(_WIDTH, scores.dtype)
    value = np.empty(_WIDTH, scores.dtype)
    work = np.empty((4, _WIDTH), scores.dtype)
    total = np.empty(_WIDTH, np.float64)
    n_done = 0
    while True:
        task = take(tasks, n_done)
        if task < 0:
            break
        n_done = 1
        for chunk in range(task * n_chunks // tasks.count, (task + 1) * n_chunks // tasks.count):
            start = chunk * _WIDTH
            width = min(_WIDTH, n_rows - start)
            block = scores[start : start + width]
            if n_clusters >= _LONG:
                result = responsibilities[start : start + width]
                if _project_long_rows(projection, block, result, peak, faults[task]):
                    continue
            for square in range(0, width, _SQUARE):
                for j in range(n_clusters):
                    for i in range(square, min(square + _SQUARE, width)):
                        z[j, i] = block[i, j]
            not_numbers, empty = _find_peaks(z, width, peak)
            faults[task, 0] += not_numbers
            faults[task, 1] += empty
            if not_numbers + empty > 0:  # the maps would not end, or return NaN
                continue
            project_chunk(projection, z, width, peak, value, work, total)
            for square in range(0, width, _SQUARE):
                for j in range(n_clusters):
                    for i in range(square, min(square + _SQUARE, width)):
                        responsibilities[start + i, j] = z[j, i]


_LANES = 16  # of a vector
_PART = 256  # scores that are added up in the working precision


def _softmax_long_rows(projection, scores, responsibilities, lanes, faults):
    # 3 passes over each row, which stays in cache: vectorised without moving it into a column.
    n_clusters = scores.shape[1]
    zero, lowest = scores.dtype.type(0.0), scores.dtype.type(-np.inf)
    for i in range(scores.shape[0]):
        numbers = 0
        for j in range(n_clusters):
            numbers += scores[i, j] < np.inf
        # One largest score is a chain of comparisons; those of several lanes are not.
        for lane in range(_LANES):
            lanes[lane] = lowest
        for start in range(0, n_clusters - _LANES + 1, _LANES):
            for lane in range(_LANES):
                lanes[lane] = max(lanes[lane], scores[i, start + lane])
        for j in range(n_clusters // _LANES * _LANES, n_clusters):
            lanes[0] = max(lanes[0], scores[i, j])
        peak = lowest
        for lane in range(_LANES):
            peak = max(peak, lanes[lane])
        faults[0] += n_clusters - numbers
        faults[1] += not peak > lowest
        total = 0.0
        for start in range(0, n_clusters, _PART):
            partial = zero
            for j in range(start, min(start + _PART, n_clusters)):
                p = exp(scores[i, j] - peak)
                responsibilities[i, j] = p
                partial += p
            total += partial
        factor = scores.dtype.type(1.0 / total)
        for j in range(n_clusters):
            responsibilities[i, j] *= factor
    return True


def _not_by_rows(projection, scores, responsibilities, lanes, faults):
    return False


@by_type(
    {
        Softmax: _softmax_long_rows,
        Entmax15: _not_by_rows,
        Sparsemax: _not_by_rows,
        Entmax: _not_by_rows,
    }
)
def _project_long_rows(projection, scores, responsibilities, lanes, faults):
    """Map rows of many scores one by one, where the map has a way to; returns whether it has."""


@kernel
def _find_peaks(z, width, peak):
    """Largest score of each column, and how many scores and columns no map is defined for."""
    numbers = 0
    full = 0
    for i in range(width):
        peak[i] = -np.inf
    for j in range(z.shape[0]):
        for i in range(width):
            numbers += z[j, i] < np.inf
            peak[i] = max(peak[i], z[j, i])
    for i in range(width):
        full += peak[i] > -np.inf
    return z.shape[0] * width - numbers, width - full

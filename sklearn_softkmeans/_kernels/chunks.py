"""The rows of a chunk: which are soft, and which scores have to be computed again.

Here as elsewhere loops take arrays out of tuples before, and elements of arrays out of conditions:
otherwise they are not vectorised.
"""

import math
from typing import NamedTuple

import numpy as np

from .._jit import kernel
from .distances import refine_scores
from .rows import sq_distance


class Chunk(NamedTuple):
    """The rows at hand. Few fields: each of them is an argument of every kernel it is passed to."""

    z: np.ndarray  # (n_clusters, width) scores, then responsibilities, of the soft rows at least
    best: np.ndarray  # (width,) best score of each row, later of each mapped column
    second: np.ndarray  # (width,) second best score, later the conjugate of each mapped column
    nearest: np.ndarray  # (width,) int32, as many in a vector as scores in single precision
    error: np.ndarray  # (width,) float64, bound of the rounding error of each row's scores
    lead: np.ndarray  # (width,) float64, best score less the second
    objective: np.ndarray  # (width,) float64, squared distance to the nearest, then free energy
    weights: np.ndarray  # (width,) float64, 0 beyond the last row
    soft: np.ndarray  # (width,) intp, the soft rows


@kernel
def measure_rows(weights, start, count, norms, model, chunk):
    """What is to be known of each row.

    Returns how many are soft, if all scores will do, and a distance^2 that the error of a row's own
    may be relative to.
    """
    own, best, second = chunk.weights, chunk.best, chunk.second
    errors, leads, sq_distances = chunk.error, chunk.lead, chunk.objective
    factor = model.rounding * model.precision * model.radius
    constant = 0.5 * factor * model.radius
    largest_error = model.largest_error
    twice = 2.0 / model.precision
    for i in range(norms.shape[0]):
        own[i] = i < count
    if weights.shape[0] > 0:
        for i in range(count):
            own[i] = weights[start + i]
    total = 0.0
    total_weight = 0.0
    total_square = 0.0
    for i in range(norms.shape[0]):
        norm, score, weight = np.float64(norms[i]), np.float64(best[i]), own[i]
        error = factor * math.sqrt(norm) + constant
        error = error if error < largest_error else np.inf
        sq_distance_i = norm - twice * score
        counted = (weight > 0.0) & (error < np.inf)
        total += weight * sq_distance_i if counted else 0.0
        total_weight += weight if counted else 0.0
        total_square += weight * weight if counted else 0.0
        errors[i] = error
        leads[i] = score - np.float64(second[i])
        sq_distances[i] = sq_distance_i
    # Where only sums are wanted, errors may be relative to the mean, and average out over as many
    # rows as the weights come to.
    mean = 0.0
    if total > 0.0 and total_square > 0.0 and not model.by_row:
        mean = total / total_weight * max(0.25 * total_weight / math.sqrt(total_square), 1.0)
    relative = 0.5 / (model.precision * model.relative_tolerance)
    margin, tolerance, hard, by_row = model.margin, model.tolerance, model.hard, model.by_row
    n_soft = 0
    n_sure = 0
    for i in range(norms.shape[0]):
        error, lead = errors[i], leads[i]
        inside = i < count
        clear = is_clear(margin, lead, error)
        soft = (not clear) & (not hard)
        sure = clear | (error <= tolerance) & (not (by_row & (lead <= 2.0 * error)))
        close = relative * error <= max(sq_distances[i], mean)
        sure &= (soft & (not by_row)) | close
        n_soft += inside & soft
        n_sure += inside & sure
    return n_soft, n_sure == count, mean


@kernel
def is_clear(margin, lead, error):
    """Whether a row belongs to its nearest centre alone; false where a score is NaN."""
    return (lead >= margin + 2.0 * error) & (lead > 0.0) & (error < np.inf)


@kernel
def mend_rows(rows, start, count, model, chunk, mean, candidates):
    """Compute again from differences what scores that may be inexact leave uncertain."""
    relative = 0.5 / (model.precision * model.relative_tolerance)
    for i in range(count):
        error, lead, sq_distance_i = chunk.error[i], chunk.lead[i], chunk.objective[i]
        clear = is_clear(model.margin, lead, error)
        if not clear and _needs_exact_scores(model, lead, error, sq_distance_i, chunk.z.shape[0]):
            j, chunk.objective[i] = refine_scores(
                rows, start + i, model, chunk.z, i, chunk.best[i], error, candidates
            )
            chunk.nearest[i] = j
            chunk.best[i] = 0.0
            if model.hard:
                chunk.lead[i] = -_second(chunk.z, i)
        elif (clear or model.hard or model.by_row) and not (
            relative * error <= max(sq_distance_i, mean)
        ):
            j = np.intp(chunk.nearest[i])
            chunk.objective[i] = sq_distance(rows, start + i, model.points, model.norms, j)


@kernel
def _needs_exact_scores(model, lead, error, sq_distance_i, n_clusters):
    """Whether the bound of the scores' error leaves responsibilities or free energy uncertain."""
    if model.by_row and lead <= 2.0 * error:
        return True
    if error <= model.tolerance:
        return False
    if model.hard or not lead < np.inf or not error < 1.0:
        return True
    if not error <= 2.0 * model.relative_tolerance * (1.0 + model.precision * sq_distance_i):
        return True
    # An error of the scores changes no responsibility by more than the second best times it.
    return lead < 2.0 * error + math.log(n_clusters * error / model.tolerance)


@kernel
def _second(z, c):
    """Second largest value of a column."""
    best = -np.inf
    second = -np.inf
    for j in range(z.shape[0]):
        second = max(second, min(best, z[j, c]))
        best = max(best, np.float64(z[j, c]))
    return second

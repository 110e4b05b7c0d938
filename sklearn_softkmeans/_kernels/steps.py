"""One pass over the rows: scores -> responsibilities -> additive statistics or outputs.

Rows are taken in chunks that stay in cache. A chunk costs one matrix product for the scores, one
pass to find each row's two best scores, and then depends on how many of its rows are soft:

- hard rows (the best score leads by more than the map's margin) are added to their cluster alone;
- if few rows are soft, their scores are gathered and mapped, and each is added to its support;
- if many are, the whole block is mapped and a second matrix product adds all rows at once.

Chunks are grouped into tasks whose number depends on the shapes alone. Each task has its own sums
and they are added in order, so that results are bitwise equal for any number of threads.
"""

import math
from typing import NamedTuple

import numpy as np

from .._jit import by_type, kernel, threaded
from .distances import load_chunk, refine_scores, scan_scores, score_chunk
from .rows import DenseRows, SparseRows, sq_distance
from .simplex import project_chunk

# One soft row in so many makes it cheaper to treat all rows of the chunk as soft.
_FEW = 4


class Outputs(NamedTuple):
    """What a pass is to fill; an array of size 0 is not wanted. Distances are in the frame."""

    responsibilities: np.ndarray  # (n_samples, n_clusters)
    labels: np.ndarray  # (n_samples,) int32
    objective: np.ndarray  # (n_samples,) free energy of each row, not weighted
    gaps: np.ndarray  # (n_samples,) d_(2)^2 - d_(1)^2, where sigma = 0
    sums: np.ndarray  # (n_tasks, n_clusters, n_features) weighted sums of rows in the frame
    mass: np.ndarray  # (n_tasks, n_clusters) sums of weighted responsibilities
    totals: np.ndarray  # (n_tasks, 3) objective, inertia, number of rows that overflow


class Chunk(NamedTuple):
    """The rows at hand. Few fields: each of them is an argument of every kernel it is passed to."""

    z: np.ndarray  # (n_clusters, width) scores, then responsibilities, of the soft rows at least
    best: np.ndarray  # (width,) best score; that of each mapped column, once the rows are split
    second: np.ndarray  # (width,) second best score, then the conjugate of each mapped column
    nearest: np.ndarray  # (width,) intp
    error: np.ndarray  # (width,) float64, bound of the rounding error of each row's scores
    lead: np.ndarray  # (width,) float64, best score less the second
    objective: np.ndarray  # (width,) float64, free energy of each row in the frame
    weights: np.ndarray  # (width,) float64, 0 beyond the last row
    soft: np.ndarray  # (width,) intp, the soft rows


# ------------------------------------------------------------ what differs for dense and sparse


def _dense_count(rows):
    return rows.X.shape[0], 1


def _sparse_count(rows):
    return rows.indptr.shape[0] - 1, 0


@by_type({DenseRows: _dense_count, SparseRows: _sparse_count})
def _count(rows):
    """Number of rows, and 1 where they are dense."""


def _dense_block(rows, start, count, block, norms):
    if rows.blocks.shape[0] > 0:
        end = start + norms.shape[0]
        return rows.blocks[start:end], rows.norms[start:end]
    load_chunk(rows, start, count, block, norms)
    return block, norms


def _sparse_block(rows, start, count, block, norms):
    return block, norms


@by_type({DenseRows: _dense_block, SparseRows: _sparse_block})
def _block(rows, start, count, block, norms):
    """The rows of a chunk in the frame, and their squared norms."""


def _add_dense_row(rows, i, block, local, weight, sums):
    for f in range(sums.shape[0]):
        sums[f] += weight * block[local, f]


def _add_sparse_row(rows, i, block, local, weight, sums):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        sums[rows.indices[p]] += weight * (rows.data[p] * rows.scale)


@by_type({DenseRows: _add_dense_row, SparseRows: _add_sparse_row})
def _add_row(rows, i, block, local, weight, sums):
    """Add a weighted row to the sums of one cluster, in double precision."""


def _add_dense_block(rows, block, z, weights, product, sums, mass):
    # A matrix product in the working precision, 2 n k d operations; chunks add up in double.
    n_clusters, width = z.shape
    for j in range(n_clusters):
        total = 0.0
        for i in range(width):
            # A row without weight may lie anywhere, where even its scores are NaN.
            z[j, i] = z[j, i] * weights[i] if weights[i] > 0.0 else 0.0
            total += z[j, i]
        mass[j] += total
    np.dot(z, block, product)
    for j in range(n_clusters):
        for f in range(sums.shape[1]):
            sums[j, f] += product[j, f]
    return True


def _add_sparse_block(rows, block, z, weights, product, sums, mass):
    return False


@by_type({DenseRows: _add_dense_block, SparseRows: _add_sparse_block})
def _add_block(rows, block, z, weights, product, sums, mass):
    """Add all rows of a chunk at once, where that is possible."""


# ------------------------------------------------------------------------------------- the pass


@threaded
def pass_over_rows(
    first,  # IN   tasks first .. last - 1 of n_tasks are run
    last,
    n_tasks,  # IN   number of groups of chunks
    width,  # IN   rows in a chunk
    rows,  # IN   Rows
    weights,  # IN   (n_samples,) or empty for unit weights
    model,  # IN   Model
    projection,  # IN   one of the maps of simplex.py
    outputs,  # OUT  Outputs
):
    n_samples, n_dense = _count(rows)
    n_chunks = (n_samples + width - 1) // width
    n_clusters, n_features = model.points.shape
    real, double = model.bias.dtype, model.norms.dtype
    chunk = Chunk(
        z=np.empty((n_clusters, width), real),
        best=np.empty(width, real),
        second=np.empty(width, real),
        nearest=np.empty(width, np.intp),
        error=np.empty(width, double),
        lead=np.empty(width, double),
        objective=np.empty(width, double),
        weights=np.empty(width, double),
        soft=np.empty(width, np.intp),
    )
    work = np.empty((3, width), real)
    total = np.empty(width, double)
    column = np.empty(n_clusters, double)
    own_block = np.empty((n_dense * width, n_features), real)
    own_norms = np.empty(width, real)
    product = np.empty((n_dense * n_clusters, n_features), real)
    for task in range(first, last):
        for number in range(task * n_chunks // n_tasks, (task + 1) * n_chunks // n_tasks):
            start = number * width
            count = min(width, n_samples - start)
            block, norms = _block(rows, start, count, own_block, own_norms)
            score_chunk(rows, start, count, model, block, norms, chunk.z, column)
            scan_scores(chunk.z, model.bias, chunk.best, chunk.second, chunk.nearest)
            _measure_rows(weights, start, count, norms, model, chunk)
            n_soft = _split_rows(rows, start, count, model, chunk, column)
            all_soft = n_soft * _FEW > count
            if n_soft > 0:
                _prepare_soft_rows(rows, start, n_soft, all_soft, model, norms, chunk, column)
                n_mapped = width if all_soft else n_soft
                project_chunk(projection, chunk.z, n_mapped, chunk.best, chunk.second, work, total)
            _write_rows(rows, start, count, n_soft, all_soft, model, chunk, outputs, task)
            if outputs.sums.shape[0] > 0:
                sums, mass = outputs.sums[task], outputs.mass[task]
                if not all_soft or not _add_block(
                    rows, block, chunk.z, chunk.weights, product, sums, mass
                ):
                    _add_rows(rows, start, count, n_soft, all_soft, block, chunk, sums, mass)


@kernel
def _measure_rows(weights, start, count, norms, model, chunk):
    # What is to be known of each row, as if it were hard: vectorised, no branches.
    factor = model.rounding * model.precision * model.radius
    constant = 0.5 * factor * model.radius
    twice = 2.0 / model.precision
    for i in range(norms.shape[0]):
        norm = np.float64(norms[i])
        best = np.float64(chunk.best[i])
        chunk.error[i] = factor * math.sqrt(norm) + constant
        chunk.lead[i] = best - np.float64(chunk.second[i])
        chunk.objective[i] = norm - twice * best
        chunk.weights[i] = 1.0 if i < count else 0.0
    if weights.shape[0] > 0:
        for i in range(count):
            chunk.weights[i] = weights[start + i]


@kernel
def _split_rows(rows, start, count, model, chunk, column):
    """List the soft rows; the free energy of a hard row is its squared distance."""
    n_soft = 0
    relative = 4.0 / (model.precision * model.tolerance)
    for i in range(count):
        error = chunk.error[i]
        lead = chunk.lead[i]
        clear = lead >= model.margin + 2.0 * error and lead > 0.0  # false where a score is NaN
        if not clear and not model.hard:
            chunk.soft[n_soft] = i
            n_soft += 1
        elif not clear and _needs_exact_scores(model, lead, error, 0.0, chunk.z.shape[0]):
            j = refine_scores(rows, start + i, model, chunk.z, i, chunk.best[i], error, column)
            chunk.nearest[i] = j
            chunk.objective[i] = column[j]
            chunk.lead[i] = -_second(chunk.z, i)
        elif not relative * error <= 8.0 * chunk.objective[i]:
            j = chunk.nearest[i]
            chunk.objective[i] = sq_distance(rows, start + i, model.points, model.norms, j)
    return n_soft


@kernel
def _needs_exact_scores(model, lead, error, nearest, n_clusters):
    """Whether the bound of the scores' error leaves responsibilities or free energy uncertain."""
    if model.break_ties and lead <= 2.0 * error:
        return True
    if error <= model.tolerance:
        return False
    if model.hard or not lead < np.inf or not error < 1.0:
        return True
    if not error <= 2.0 * model.tolerance * (1.0 + model.precision * nearest):
        return True
    # An error of the scores changes no responsibility by more than the second best times it.
    return lead < 2.0 * error + math.log(n_clusters * error / model.tolerance)


@kernel
def _prepare_soft_rows(rows, start, n_soft, all_soft, model, norms, chunk, column):
    """Gather the scores of the soft rows in the first columns, and mend those that need it."""
    z = chunk.z
    if not all_soft:
        for s in range(n_soft):
            chunk.best[s] = chunk.best[chunk.soft[s]]
        for j in range(z.shape[0]):
            for s in range(n_soft):
                z[j, s] = z[j, chunk.soft[s]]
    for s in range(n_soft):
        i = chunk.soft[s]
        c = i if all_soft else s
        error = chunk.error[i]
        nearest = chunk.objective[i]  # squared distance, as if the row were hard
        chunk.objective[i] = norms[i]
        if _needs_exact_scores(model, chunk.lead[i], error, nearest, z.shape[0]):
            j = refine_scores(rows, start + i, model, z, c, chunk.best[c], error, column)
            chunk.nearest[i] = j
            chunk.objective[i] = column[j]
            chunk.best[c] = 0.0


@kernel
def _second(z, c):
    """Second largest value of a column."""
    best = -np.inf
    second = -np.inf
    for j in range(z.shape[0]):
        second = max(second, min(best, z[j, c]))
        best = max(best, np.float64(z[j, c]))
    return second


@kernel
def _write_rows(rows, start, count, n_soft, all_soft, model, chunk, outputs, task):
    """Everything that is wanted for single rows, and the sums of their objectives."""
    z = chunk.z
    twice = 2.0 / model.precision
    for s in range(n_soft):
        i = chunk.soft[s]
        chunk.objective[i] -= twice * chunk.second[i if all_soft else s]
    objective = 0.0
    finite = 0
    for i in range(count):
        if chunk.weights[i] > 0.0:  # rows without weight may be anywhere
            objective += chunk.weights[i] * chunk.objective[i]
            finite += chunk.objective[i] < np.inf
        else:
            finite += 1
    outputs.totals[task, 0] += objective
    outputs.totals[task, 2] += count - finite
    for i in range(count):
        nearest = chunk.nearest[i]
        if outputs.objective.shape[0] > 0:
            outputs.objective[start + i] = chunk.objective[i]
        if outputs.gaps.shape[0] > 0:
            outputs.gaps[start + i] = twice * chunk.lead[i]
        if outputs.responsibilities.shape[0] > 0:
            for j in range(z.shape[0]):
                outputs.responsibilities[start + i, j] = j == nearest
        if outputs.labels.shape[0] > 0:
            outputs.labels[start + i] = nearest
            if outputs.sums.shape[0] > 0 and chunk.weights[i] > 0.0:
                distance = sq_distance(rows, start + i, model.points, model.norms, nearest)
                outputs.totals[task, 1] += chunk.weights[i] * distance
    for s in range(n_soft):
        i = chunk.soft[s]
        c = i if all_soft else s
        if outputs.responsibilities.shape[0] > 0:
            for j in range(z.shape[0]):
                outputs.responsibilities[start + i, j] = z[j, c]
        if outputs.labels.shape[0] > 0:
            outputs.labels[start + i] = _argmax(z, c, outputs.responsibilities.dtype)


@kernel
def _argmax(z, c, dtype):
    """First of the largest responsibilities of a column as they are written, in X's precision."""
    label = 0
    for j in range(1, z.shape[0]):
        if dtype.type(z[j, c]) > dtype.type(z[label, c]):
            label = j
    return label


@kernel
def _add_rows(rows, start, count, n_soft, all_soft, block, chunk, sums, mass):
    """Add the rows of a chunk to the sums and the mass of their clusters."""
    z = chunk.z
    if not all_soft:
        following = 0  # the hard rows are those that are not in the list of soft ones
        for i in range(count):
            if following < n_soft and chunk.soft[following] == i:
                following += 1
            elif chunk.weights[i] > 0.0:
                j = chunk.nearest[i]
                mass[j] += chunk.weights[i]
                _add_row(rows, start + i, block, i, chunk.weights[i], sums[j])
    for c in range(count if all_soft else n_soft):
        i = c if all_soft else chunk.soft[c]
        for j in range(z.shape[0]):
            weight = z[j, c] * chunk.weights[i]
            if z[j, c] > 1e-22:  # exp(-NEGLIGIBLE)
                mass[j] += weight
                _add_row(rows, start + i, block, i, weight, sums[j])

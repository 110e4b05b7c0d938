"""One pass over the rows: scores -> responsibilities -> additive statistics or outputs.

Rows are taken in chunks that stay in cache. A chunk costs one matrix product for the scores, one
pass to find each row's two best scores, and then depends on how many of its rows are soft:

- hard rows (the best score leads by more than the map's margin) are added to their cluster alone;
- where the soft rows have few clusters each, these are listed, mapped, and added one by one;
- otherwise the whole block is mapped and a second matrix product adds all rows at once.

Where results of single rows are wanted, which must not depend on the rows beside them to the last
bit, soft rows are mapped over all clusters instead, alone if they are few.

What is done to every row is done in vectorised loops; rows whose scores may be too inexact, and the
few soft rows among hard ones, are dealt with one by one.

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

# Numbers of features up to which it costs less to add a row without a share than to ask.
_SHORT = 8

# Shares are listed from so many clusters on, where they are no more than one in so many, and up to
# so many of a single row.
_MANY = 64
_RARE = 8
_DEPTH = 64


class Outputs(NamedTuple):
    """What a pass is to fill; an array of size 0 is not wanted. Distances are in the frame."""

    responsibilities: np.ndarray  # (n_samples, n_clusters)
    labels: np.ndarray  # (n_samples,) int32
    objective: np.ndarray  # (n_samples,) free energy of each row, not weighted
    gaps: np.ndarray  # (n_samples,) d_(2)^2 - d_(1)^2, or -1 where the row is mapped as a soft one
    sums: np.ndarray  # (n_tasks, n_clusters, n_features) weighted sums of rows in the frame
    mass: np.ndarray  # (n_tasks, n_clusters) sums of weighted responsibilities
    totals: np.ndarray  # (n_tasks, 3) objective, inertia, number of rows that overflow


class Chunk(NamedTuple):
    """The rows at hand. Few fields: each of them is an argument of every kernel it is passed to."""

    z: np.ndarray  # (n_clusters, width) scores, then responsibilities, of the soft rows at least
    best: np.ndarray  # (width,) best score of each row, later of each mapped column
    second: np.ndarray  # (width,) second best score, later the conjugate of each mapped column
    nearest: np.ndarray  # (width,) intp
    error: np.ndarray  # (width,) float64, bound of the rounding error of each row's scores
    lead: np.ndarray  # (width,) float64, best score less the second
    objective: np.ndarray  # (width,) float64, squared distance to the nearest, then free energy
    weights: np.ndarray  # (width,) float64, 0 beyond the last row
    soft: np.ndarray  # (width,) intp, the soft rows


class Support(NamedTuple):
    """The clusters that soft rows have a share of, listed by column: fewer than there are."""

    z: np.ndarray  # (depth, width) scores, then responsibilities
    clusters: np.ndarray  # (depth, width) int32
    sizes: np.ndarray  # (width,) intp
    columns: np.ndarray  # (width,) intp, the column of each row
    limits: np.ndarray  # (width,) score above which a row has a share
    flags: np.ndarray  # (width,) uint8, 1 where one has
    words: np.ndarray  # (width / 8,) uint64, eight flags at once
    found: np.ndarray  # (width + 1,) intp


# How the soft rows of a chunk were mapped: with all others, alone, or over listed clusters alone.
ALL, GATHERED, LISTED = 0, 1, 2


@kernel
def new_support(n_clusters, width, real):
    depth = min(n_clusters, _DEPTH)
    flags = np.empty(width, np.uint8)
    return Support(
        z=np.empty((depth, width), real),
        clusters=np.empty((depth, width), np.int32),
        sizes=np.empty(width, np.intp),
        columns=np.empty(width, np.intp),
        limits=np.empty(width, real),
        flags=flags,
        words=flags.view(np.uint64),
        found=np.empty(width + 1, np.intp),
    )


# ------------------------------------------------------------ what differs for dense and sparse


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
    # Blocks are finite, and nothing is added without weight.
    for f in range(sums.shape[0]):
        sums[f] += weight * block[local, f]


def _add_sparse_row(rows, i, block, local, weight, sums):
    if weight > 0.0:
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            sums[rows.indices[p]] += weight * (rows.data[p] * rows.scale)


@by_type({DenseRows: _add_dense_row, SparseRows: _add_sparse_row})
def _add_row(rows, i, block, local, weight, sums):
    """Add a weighted row to the sums of one cluster, in double precision."""


def _add_dense_block(rows, block, z, weights, equal, product, sums, mass):
    # A matrix product in the working precision, 2 n k d operations; chunks add up in double.
    n_clusters, width = z.shape
    for j in range(n_clusters):
        total = 0.0
        if not equal:
            for i in range(width):
                # A row without weight may lie anywhere, where even its scores are NaN.
                z[j, i] = z[j, i] * weights[i] if weights[i] > 0.0 else 0.0
        for i in range(width):
            total += z[j, i]
        mass[j] += total
    np.dot(z, block, product)
    for j in range(n_clusters):
        for f in range(sums.shape[1]):
            sums[j, f] += product[j, f]
    return True


def _add_sparse_block(rows, block, z, weights, equal, product, sums, mass):
    return False


@by_type({DenseRows: _add_dense_block, SparseRows: _add_sparse_block})
def _add_block(rows, block, z, weights, equal, product, sums, mass):
    """Add all rows of a chunk at once, where that is possible; `equal` if all weights are 1."""


# ------------------------------------------------------------------------------------- the pass


@threaded
def pass_over_rows(
    first,  # IN   tasks first .. last - 1 of n_tasks are run
    last,
    n_tasks,  # IN   number of groups of chunks
    n_samples,  # IN   number of rows
    n_dense,  # IN   1 if they are dense, else 0
    width,  # IN   rows in a chunk
    rows,  # IN   Rows
    weights,  # IN   (n_samples,) or empty for unit weights
    model,  # IN   Model
    projection,  # IN   one of the maps of simplex.py
    outputs,  # OUT  Outputs
):
    n_chunks = (n_samples + width - 1) // width
    n_clusters, n_features = model.points.shape
    real, double = model.bias.dtype, model.norms.dtype  # of one type where both are double
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
    work = np.empty((4, width), real)
    total = np.empty(width, double)
    column = np.empty(n_clusters, double)
    candidates = np.empty(n_clusters, np.intp)
    own_block = np.empty((n_dense * width, n_features), real)
    own_norms = np.empty(width, real)
    product = np.empty((n_dense * n_clusters, n_features), real)
    support = new_support(n_clusters, width, real)
    sums_only = not wants_rows(outputs)
    for task in range(first, last):
        for number in range(task * n_chunks // n_tasks, (task + 1) * n_chunks // n_tasks):
            start = number * width
            count = width if start + width < n_samples else n_samples - start
            block, norms = _block(rows, start, count, own_block, own_norms)
            score_chunk(rows, start, count, model, block, norms, chunk.z, column)
            scan_scores(chunk.z, model.bias, chunk.best, chunk.second, chunk.nearest)
            n_soft, all_sure, mean = measure_rows(weights, start, count, norms, model, chunk)
            if not all_sure:
                mend_rows(rows, start, count, model, chunk, mean, candidates)
            n_soft, route = map_soft_rows(
                count, n_soft, sums_only, model, projection, chunk, support, work, total
            )
            write_rows(start, count, n_soft, route, model.precision, chunk, outputs, task)
            if outputs.sums.shape[0] > 0:
                sums, mass = outputs.sums[task], outputs.mass[task]
                equal = weights.shape[0] == 0 and count == width
                add_rows(
                    rows,
                    start,
                    count,
                    n_soft,
                    route,
                    equal,
                    block,
                    chunk,
                    support,
                    product,
                    sums,
                    mass,
                )


@kernel
def map_soft_rows(count, n_soft, sums_only, model, projection, chunk, support, work, total):
    """Map what is to be mapped; returns the number of soft rows and which way was taken."""
    if n_soft == 0:
        return 0, GATHERED
    if sums_only and chunk.z.shape[0] >= _MANY:
        n_soft, depth = list_support(count, model, chunk, support)
        if depth >= 0:
            z = support.z[:depth]
            project_chunk(projection, z, n_soft, chunk.best, chunk.second, work, total)
            return n_soft, LISTED
    if n_soft * _FEW > count:
        width = chunk.z.shape[1]
        project_chunk(projection, chunk.z, width, chunk.best, chunk.second, work, total)
        return n_soft, ALL
    gather_soft_rows(count, model, chunk)
    project_chunk(projection, chunk.z, n_soft, chunk.best, chunk.second, work, total)
    return n_soft, GATHERED


@kernel
def measure_rows(weights, start, count, norms, model, chunk):
    """What is to be known of each row.

    Returns how many are soft, if all scores will do, and a distance^2 that the error of a row's own
    may be relative to.
    """
    factor = model.rounding * model.precision * model.radius
    constant = 0.5 * factor * model.radius
    twice = 2.0 / model.precision
    for i in range(norms.shape[0]):
        chunk.weights[i] = i < count
    if weights.shape[0] > 0:
        for i in range(count):
            chunk.weights[i] = weights[start + i]
    total = 0.0
    total_weight = 0.0
    total_square = 0.0
    for i in range(norms.shape[0]):
        norm = np.float64(norms[i])
        best = np.float64(chunk.best[i])
        error = factor * math.sqrt(norm) + constant
        error = error if error < model.largest_error else np.inf
        sq_distance_i = norm - twice * best
        counted = (chunk.weights[i] > 0.0) & (error < np.inf)
        total += chunk.weights[i] * sq_distance_i if counted else 0.0
        total_weight += chunk.weights[i] if counted else 0.0
        total_square += chunk.weights[i] * chunk.weights[i] if counted else 0.0
        chunk.error[i] = error
        chunk.lead[i] = best - np.float64(chunk.second[i])
        chunk.objective[i] = sq_distance_i
    # Where only sums are wanted, errors may be relative to the mean, and average out over as many
    # rows as the weights come to.
    mean = 0.0
    if total > 0.0 and total_square > 0.0 and not model.by_row:
        mean = total / total_weight * max(0.25 * total_weight / math.sqrt(total_square), 1.0)
    relative = 0.5 / (model.precision * model.relative_tolerance)
    n_soft = 0
    n_sure = 0
    for i in range(norms.shape[0]):
        error, lead = chunk.error[i], chunk.lead[i]
        inside = i < count
        clear = _is_clear(model, lead, error)
        soft = (not clear) & (not model.hard)
        sure = clear | (error <= model.tolerance) & (not (model.by_row & (lead <= 2.0 * error)))
        close = relative * error <= max(chunk.objective[i], mean)
        sure &= (soft & (not model.by_row)) | close
        n_soft += inside & soft
        n_sure += inside & sure
    return n_soft, n_sure == count, mean


@kernel
def _is_clear(model, lead, error):
    """Whether a row belongs to its nearest centre alone; false where a score is NaN."""
    return (lead >= model.margin + 2.0 * error) & (lead > 0.0) & (error < np.inf)


@kernel
def mend_rows(rows, start, count, model, chunk, mean, candidates):
    """Compute again from differences what scores that may be inexact leave uncertain."""
    relative = 0.5 / (model.precision * model.relative_tolerance)
    for i in range(count):
        error, lead, sq_distance_i = chunk.error[i], chunk.lead[i], chunk.objective[i]
        clear = _is_clear(model, lead, error)
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
            j = chunk.nearest[i]
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
def gather_soft_rows(count, model, chunk):
    """List the soft rows, and move their scores to the first columns."""
    z = chunk.z
    n_soft = 0
    for i in range(count):
        chunk.soft[n_soft] = i
        n_soft += not _is_clear(model, chunk.lead[i], chunk.error[i])
    for s in range(n_soft):
        chunk.best[s] = chunk.best[chunk.soft[s]]
    for j in range(z.shape[0]):
        for s in range(n_soft):
            z[j, s] = z[j, chunk.soft[s]]


@kernel
def list_support(count, model, chunk, support):
    """List what the soft rows have a share of, and gather their best scores.

    Returns how many rows are soft, and the largest number of clusters of one, or -1 where there are
    too many. 1 comparison for each score; of the flags it leaves, most are 0 and read by eights.
    """
    n_soft = 0
    for i in range(chunk.z.shape[1]):
        error = chunk.error[i]
        soft = (i < count) & (not _is_clear(model, chunk.lead[i], error))
        limit = np.float64(chunk.best[i]) - model.margin - 2.0 * error
        support.limits[i] = limit if soft else np.inf
        support.columns[i] = n_soft
        chunk.soft[n_soft] = i
        support.sizes[n_soft] = 0
        n_soft += soft
    if not _list_shares(
        chunk.z,
        support.limits,
        support.columns,
        support.flags,
        support.words,
        support.found,
        support.z,
        support.clusters,
        support.sizes,
    ):
        return n_soft, -1
    depth = 0
    for s in range(n_soft):
        chunk.best[s] = chunk.best[chunk.soft[s]]
        depth = max(depth, support.sizes[s])
    for s in range(n_soft):
        for c in range(support.sizes[s], depth):
            support.z[c, s] = chunk.best[s] - 2.0 * model.margin  # no share
    return n_soft, depth


@kernel
def _list_shares(z, limits, columns, flags, words, found, listed, clusters, sizes):
    """List the scores above the limits of their rows, until they turn out to be many."""
    n_clusters, width = z.shape
    n_listed = 0
    for j in range(n_clusters):
        for i in range(width):
            flags[i] = z[j, i] > limits[i]
        n_found = 0
        for word in range(width // 8):
            if words[word] != 0:
                for i in range(8 * word, 8 * word + 8):
                    found[n_found] = i
                    n_found += np.intp(flags[i])
        n_listed += n_found
        # A few clusters tell whether there will be too many.
        if n_listed * _RARE > width * min(n_clusters, 2 * j + 16):
            return False
        for place in range(n_found):
            i = found[place]
            s = columns[i]
            c = sizes[s]
            if c == listed.shape[0]:
                return False
            listed[c, s] = z[j, i]
            clusters[c, s] = j
            sizes[s] = c + 1
    return True


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
def wants_rows(outputs):
    """Whether anything but sums is wanted."""
    by_row = outputs.labels.shape[0] + outputs.responsibilities.shape[0]
    return by_row + outputs.objective.shape[0] + outputs.gaps.shape[0] > 0


@kernel
def write_rows(start, count, n_soft, route, precision, chunk, outputs, task):
    """Everything that is wanted for single rows, and the sums over rows."""
    z, all_soft = chunk.z, route == ALL
    twice = 2.0 / precision
    inertia = 0.0
    finite = 0
    for i in range(count):
        # Rows without weight may be anywhere.
        counted = chunk.weights[i] > 0.0
        inertia += chunk.weights[i] * chunk.objective[i] if counted else 0.0
        finite += (chunk.objective[i] < np.inf) | (not counted)
    objective = inertia
    for s in range(count if all_soft else n_soft):
        i = s if all_soft else chunk.soft[s]
        gain = twice * chunk.second[s]
        chunk.objective[i] -= gain
        objective -= chunk.weights[i] * gain if chunk.weights[i] > 0.0 else 0.0
    outputs.totals[task, 0] += objective
    outputs.totals[task, 1] += inertia
    outputs.totals[task, 2] += count - finite
    if not wants_rows(outputs):
        return
    s = 0
    for i in range(count):
        soft = all_soft or (s < n_soft and chunk.soft[s] == i)
        c = i if all_soft else s
        s += soft
        nearest = chunk.nearest[i]
        if outputs.objective.shape[0] > 0:
            outputs.objective[start + i] = chunk.objective[i]
        if outputs.gaps.shape[0] > 0:
            outputs.gaps[start + i] = -1.0 if soft else twice * chunk.lead[i]
        if outputs.responsibilities.shape[0] > 0:
            for j in range(z.shape[0]):
                outputs.responsibilities[start + i, j] = z[j, c] if soft else j == nearest
        if outputs.labels.shape[0] > 0:
            label = _argmax(z, c, outputs.responsibilities.dtype) if soft else nearest
            outputs.labels[start + i] = label


@kernel
def _argmax(z, c, dtype):
    """First of the largest responsibilities of a column as they are written, in X's precision."""
    label = 0
    for j in range(1, z.shape[0]):
        if dtype.type(z[j, c]) > dtype.type(z[label, c]):
            label = j
    return label


@kernel
def add_rows(rows, start, count, n_soft, route, equal, block, chunk, support, product, sums, mass):
    """Add the rows of a chunk to the sums and the mass of their clusters."""
    if route == ALL:
        if not _add_block(rows, block, chunk.z, chunk.weights, equal, product, sums, mass):
            _add_soft_rows(rows, start, count, route, block, chunk, sums, mass)
        return
    if route == GATHERED:
        _add_soft_rows(rows, start, n_soft, route, block, chunk, sums, mass)
    else:
        _add_listed(rows, start, n_soft, block, chunk, support, sums, mass)
    # What is left are the hard rows. A branch for each row would cost more than to add nothing.
    for s in range(n_soft):
        chunk.weights[chunk.soft[s]] = 0.0
    for i in range(count):
        j = chunk.nearest[i]
        mass[j] += chunk.weights[i]
        _add_row(rows, start + i, block, i, chunk.weights[i], sums[j])


@kernel
def _add_listed(rows, start, n_soft, block, chunk, support, sums, mass):
    for s in range(n_soft):
        i = chunk.soft[s]
        for c in range(support.sizes[s]):
            if support.z[c, s] > 0.0 and chunk.weights[i] > 0.0:
                j = support.clusters[c, s]
                weight = support.z[c, s] * chunk.weights[i]
                mass[j] += weight
                _add_row(rows, start + i, block, i, weight, sums[j])


@kernel
def _add_soft_rows(rows, start, n_mapped, route, block, chunk, sums, mass):
    """Add rows that are mapped to all clusters one by one, where that is best or no product is."""
    z = chunk.z
    least = -1.0 if sums.shape[1] <= _SHORT else 1e-22  # exp(-NEGLIGIBLE)
    for c in range(n_mapped):
        i = c if route == ALL else chunk.soft[c]
        if chunk.weights[i] > 0.0:
            for j in range(z.shape[0]):
                if z[j, c] > least:
                    weight = z[j, c] * chunk.weights[i]
                    mass[j] += weight
                    _add_row(rows, start + i, block, i, weight, sums[j])

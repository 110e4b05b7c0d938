"""One pass over the rows: scores -> responsibilities -> additive statistics or outputs.

Rows are taken in chunks that stay in cache. A chunk costs one matrix product for the scores, one
pass to find each row's two best scores, and then depends on its soft rows: those in which the best
score does not lead by more than the map's margin. They are mapped; hard rows belong to one cluster.

What is done to every row is done in vectorised loops; rows whose scores may be too inexact, and the
few soft rows among hard ones, are dealt with one by one.

Chunks are grouped into tasks whose number depends on the shapes alone. Each task has its own sums
and they are added in order, so that results are bitwise equal for any number of threads.
"""

from typing import NamedTuple

import numpy as np

from .._jit import by_type, kernel, take, threaded
from .chunks import Chunk, measure_rows, mend_rows
from .distances import load_chunk, scan_scores, score_chunk, view_block
from .rows import ColumnRows, DenseRows, SparseRows
from .shares import ALL, add_rows, map_soft_rows, new_support


class Outputs(NamedTuple):
    """What a pass is to fill; an array of size 0 is not wanted. Distances are in the frame."""

    responsibilities: np.ndarray  # (n_samples, n_clusters)
    labels: np.ndarray  # (n_samples,) int32
    objective: np.ndarray  # (n_samples,) free energy of each row, not weighted
    gaps: np.ndarray  # (n_samples,) d_(2)^2 - d_(1)^2, or -1 where the row is mapped as a soft one
    sums: np.ndarray  # (n_tasks, n_clusters, n_features) weighted sums of rows in the frame
    mass: np.ndarray  # (n_tasks, n_clusters) sums of weighted responsibilities
    totals: np.ndarray  # (n_tasks, 3) objective, inertia, above 0 where one overflows


# ------------------------------------------------------------ what differs for dense and sparse


def _dense_block(rows, start, count, buffer, norms):
    end = start + norms.shape[0]
    if rows.blocks.shape[0] > 0:
        return view_block(rows, rows.blocks, start, end), rows.norms[start:end]
    block = view_block(rows, buffer, 0, norms.shape[0])
    load_chunk(rows, start, count, block, norms)
    return block, norms


def _sparse_block(rows, start, count, buffer, norms):
    return buffer, norms


@by_type({DenseRows: _dense_block, ColumnRows: _dense_block, SparseRows: _sparse_block})
def _block(rows, start, count, buffer, norms):
    """The rows of a chunk in the frame, and their squared norms."""


# ------------------------------------------------------------------------------------- the pass


@threaded
def pass_over_rows(
    tasks,  # IN   Tasks, each of them one of the groups of chunks
    n_samples,  # IN   number of rows
    n_dense,  # IN   1 if they are dense, else 0
    width,  # IN   rows in a chunk
    rows,  # IN   Rows
    weights,  # IN   (n_samples,) or empty for unit weights
    model,  # IN   Model
    projection,  # IN   one of the maps of simplex.py
    listing,  # IN   Listed or NotListed, which it is where results of rows are wanted
    outputs,  # OUT  Outputs
):
    n_chunks = (n_samples + width - 1) // width
    n_clusters, n_features = model.points.shape
    real, double = model.bias.dtype, model.norms.dtype  # of one type where both are double
    chunk = Chunk(
        z=np.empty((n_clusters, width), real),
        best=np.empty(width, real),
        second=np.empty(width, real),
        nearest=np.empty(width, np.int32),
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
    buffer = np.empty(n_dense * width * n_features, real)
    own_norms = np.empty(width, real)
    product = np.empty((n_dense * n_clusters, n_features), real)
    support = new_support(listing, width, real)
    n_done = 0
    while True:
        task = take(tasks, n_done)
        if task < 0:
            break
        n_done = 1
        for number in range(task * n_chunks // tasks.count, (task + 1) * n_chunks // tasks.count):
            start = number * width
            count = width if start + width < n_samples else n_samples - start
            block, norms = _block(rows, start, count, buffer, own_norms)
            score_chunk(rows, start, count, model, block, norms, chunk.z, column)
            scan_scores(chunk.z, model.bias, chunk.best, chunk.second, chunk.nearest)
            n_soft, all_sure, mean = measure_rows(weights, start, count, norms, model, chunk)
            if not all_sure:
                mend_rows(rows, start, count, model, chunk, mean, candidates)
            n_soft, route = map_soft_rows(
                support, count, n_soft, model, projection, chunk, work, total
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
def wants_rows(outputs):
    """Whether anything but sums is wanted."""
    by_row = outputs.labels.shape[0] + outputs.responsibilities.shape[0]
    return by_row + outputs.objective.shape[0] + outputs.gaps.shape[0] > 0


@kernel
def write_rows(start, count, n_soft, route, precision, chunk, outputs, task):
    """Everything that is wanted for single rows, and the sums over rows."""
    z, all_soft = chunk.z, route == ALL
    weights, objectives, soft_rows, value = chunk.weights, chunk.objective, chunk.soft, chunk.second
    twice = 2.0 / precision
    inertia = 0.0
    infinite = 0.0
    for i in range(count):
        # Rows without weight may be anywhere.
        weight, sq_distance = weights[i], objectives[i]
        counted = weight > 0.0
        inertia += weight * sq_distance if counted else 0.0
        infinite += 1.0 if counted & (not (sq_distance < np.inf)) else 0.0
    objective = inertia
    if all_soft:
        for i in range(count):
            gain, weight = twice * np.float64(value[i]), weights[i]
            objectives[i] -= gain
            objective -= weight * gain if weight > 0.0 else 0.0
    else:
        for s in range(n_soft):
            i = soft_rows[s]
            gain = twice * np.float64(value[s])
            objectives[i] -= gain
            objective -= weights[i] * gain if weights[i] > 0.0 else 0.0
    outputs.totals[task, 0] += objective
    outputs.totals[task, 1] += inertia
    outputs.totals[task, 2] += infinite
    if not wants_rows(outputs):
        return
    s = 0
    for i in range(count):
        soft = all_soft or (s < n_soft and soft_rows[s] == i)
        c = i if all_soft else s
        s += soft
        nearest = chunk.nearest[i]
        if outputs.objective.shape[0] > 0:
            outputs.objective[start + i] = objectives[i]
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

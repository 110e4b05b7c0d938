"""Scores of a chunk of rows against all centres, dense or CSR, and the accuracy guard.

With precision g = 1 / sigma^2, in the frame of the rows,

    z_ij = g (x_i . c_j - |c_j|^2 / 2)        the term g |x_i|^2 / 2, common to a row, is dropped.

The product is a matrix product, n k d multiplications at the speed of BLAS, but it cancels where
|x| |c| is large against the differences that matter. The guard bounds its rounding error for
each row; where the bound is not small enough, the row's scores are computed again from the
differences x - c in double precision.
"""

import math
from typing import NamedTuple

import numpy as np

from .._jit import by_type, kernel, take, threaded
from .rows import ColumnRows, DenseRows, SparseRows, sq_distance, sq_distance_lag

# Beyond this difference of scores a responsibility is far below the rounding of the row's sum.
NEGLIGIBLE = 50.0


class Model(NamedTuple):
    """Centres in the frame of the rows, and what is to be known of the map from their scores."""

    points: np.ndarray  # (n_clusters, n_features) float64, the centres relative to the anchor
    norms: np.ndarray  # (n_clusters,) their squared norms
    factors: np.ndarray  # g * centres in the working precision; transposed where X is sparse
    bias: np.ndarray  # (n_clusters,) -g |c|^2 / 2
    precision: float  # g = 1 / sigma^2 in the frame; 1 where sigma = 0
    radius: float  # largest |c|
    hard: bool  # sigma = 0: the map is not used
    margin: float  # a row is hard where the two best scores differ by so much
    rounding: float  # error of a score is at most rounding * g * (|x| radius + radius^2 / 2)
    largest_error: float  # where the bound is larger, scores may have overflowed
    by_row: bool  # results of single rows are wanted: near ties and each distance are exact
    tolerance: float  # error that is allowed in a score
    relative_tolerance: float  # a quarter of what is allowed in d^2


def _load_dense(rows, start, count, block, norms):
    # One pass: 2 operations for each element to move it into the frame, 2 for its square.
    X, origin, scale = rows.X, rows.origin, rows.scale
    n_features = X.shape[1]
    zero = block.dtype.type(0.0)
    for i in range(count):
        total = zero
        for f in range(n_features):
            # In double precision first: single precision X may sit on an offset, or be subnormal.
            x = block.dtype.type((X[start + i, f] - origin[f]) * scale)
            # A row without weight may overflow here: its norm tells, and 0 * 0 adds nothing.
            block[i, f] = x if abs(x) < np.inf else zero
            total += x * x
        norms[i] = total
    for i in range(count, norms.shape[0]):
        norms[i] = zero
        for f in range(n_features):
            block[i, f] = zero


def _load_columns(rows, start, count, block, norms):
    # As for dense rows; equal rows are added up in the same order.
    X, scale = rows.X, rows.scale
    zero = block.dtype.type(0.0)
    for i in range(norms.shape[0]):
        norms[i] = zero
    for f in range(block.shape[1]):
        origin = rows.origin[f]
        for i in range(count):
            x = block.dtype.type((X[start + i, f] - origin) * scale)
            block[i, f] = x if abs(x) < np.inf else zero
            norms[i] += x * x
        for i in range(count, norms.shape[0]):
            block[i, f] = zero


@by_type({DenseRows: _load_dense, ColumnRows: _load_columns})
def load_chunk(rows, start, count, block, norms):
    """Move the rows of a chunk into the frame."""


def _dense_view(rows, blocks, start, end):
    n_features = rows.X.shape[1]
    return blocks[start * n_features : end * n_features].reshape((end - start, n_features))


def _columns_view(rows, blocks, start, end):
    n_features = rows.X.shape[1]
    return blocks[start * n_features : end * n_features].reshape((n_features, end - start)).T


@by_type({DenseRows: _dense_view, ColumnRows: _columns_view})
def view_block(rows, blocks, start, end):
    """The padded rows start .. end - 1 of a flat array, which has chunks by rows or by columns."""


@threaded
def load_rows(
    tasks,  # IN   Tasks, each of them one of the slices of chunks
    width,  # IN   rows in a chunk
    rows,  # INOUT  of which the blocks and norms are filled
):
    """Move all rows into the frame once, for many passes."""
    n_done = 0
    while True:
        task = take(tasks, n_done)
        if task < 0:
            break
        n_done = 1
        n_chunks = rows.norms.shape[0] // width
        for number in range(task * n_chunks // tasks.count, (task + 1) * n_chunks // tasks.count):
            start = number * width
            end = start + width
            count = min(width, rows.X.shape[0] - start)
            block = view_block(rows, rows.blocks, start, end)
            load_chunk(rows, start, count, block, rows.norms[start:end])


# Multiplications up to which OpenBLAS takes the matrices as they are, without copying them first.
_SMALL_PRODUCT = 1_000_000


@kernel
def multiply_in_parts(first, second, product):
    """Matrix product of C-contiguous arrays, so many lines at a time as are a small product."""
    n_lines = first.shape[0]
    n_parts = 1 + first.size * second.shape[1] // _SMALL_PRODUCT
    for part in range(n_parts):
        start, end = part * n_lines // n_parts, (part + 1) * n_lines // n_parts
        np.dot(first[start:end], second, product[start:end])


def _dense_scores(rows, start, count, model, block, norms, z, column):
    # 2 n k d operations in BLAS, on rows that are in the frame.
    np.dot(model.factors, block.T, z)


def _column_scores(rows, start, count, model, block, norms, z, column):
    multiply_in_parts(model.factors, block.T, z)


def _sparse_scores(rows, start, count, model, block, norms, z, column):
    # 2 nnz k operations, contiguous in the clusters; then one strided write of each score.
    data, indices, indptr, scale = rows.data, rows.indices, rows.indptr, rows.scale
    factors = model.factors
    n_clusters = z.shape[0]
    for i in range(z.shape[1]):
        for j in range(n_clusters):
            column[j] = 0.0
        total = 0.0
        if i < count:
            for p in range(indptr[start + i], indptr[start + i + 1]):
                x = data[p] * scale
                f = indices[p]
                total += x * x
                for j in range(n_clusters):
                    column[j] += x * factors[f, j]
        norms[i] = total
        for j in range(n_clusters):
            z[j, i] = column[j]


@by_type({DenseRows: _dense_scores, ColumnRows: _column_scores, SparseRows: _sparse_scores})
def score_chunk(
    rows,  # IN
    start,  # IN   first row of the chunk
    count,  # IN   number of its rows
    model,  # IN
    block,  # IN   the rows in the frame, where they are dense: as `view_block` has them
    norms,  # OUT  (width,) squared norms, where the rows are sparse
    z,  # OUT  (n_clusters, width) scores without their bias, 0 beyond the last row
    column,  # OUT  (n_clusters,) scratch
):
    """Products of the rows of a chunk with all centres."""


@kernel
def scan_scores(z, bias, best, second, nearest):
    # Add the bias and find each row's two best scores, in one pass over the block.
    n_clusters, width = z.shape
    lowest = z.dtype.type(-np.inf)
    for i in range(width):
        best[i] = lowest
        second[i] = lowest
        nearest[i] = 0
    for j in range(n_clusters):
        for i in range(width):
            score = z[j, i] + bias[j]
            z[j, i] = score
            old = best[i]
            second[i] = max(second[i], min(score, old))
            nearest[i] = j if score > old else nearest[i]
            best[i] = max(old, score)


@kernel
def refine_scores(
    rows,  # IN
    i,  # IN     index of the row
    model,  # IN
    z,  # INOUT  (n_clusters, width) scores of several rows, of which column c is refined
    c,  # IN
    best,  # IN     the row's best score in z
    error,  # IN     bound of the error of its scores
    candidates,  # OUT  (n_clusters,) scratch
):
    """Make a row's scores relative to the best, and exact where they are not far behind.

    Returns the nearest centre and the squared distance to it. Scores that are left as they are
    have an error that changes no responsibility by more than the tolerance.
    """
    reach = 2.0 * error + math.log(max(z.shape[0] * error / model.tolerance, 1.0))
    reach = min(reach, min(model.margin, NEGLIGIBLE) + 2.0 * error)
    n_candidates = 0
    nearest = 0
    closest = np.inf
    for j in range(z.shape[0]):
        if z[j, c] < best - reach:  # false where a score is NaN
            z[j, c] = min(z[j, c] - best, -reach)
        else:
            candidates[n_candidates] = j
            n_candidates += 1
            sq_distance_j = sq_distance(rows, i, model.points, model.norms, j)
            if sq_distance_j < closest:
                closest = sq_distance_j
                nearest = j
    reference = nearest
    for _ in range(n_candidates):  # again if squares were equal to rounding, or the row is tied
        lowest = 0.0
        for s in range(n_candidates):
            j = candidates[s]
            lag = sq_distance_lag(rows, i, model.points, j, reference) if j != reference else 0.0
            z[j, c] = -0.5 * model.precision * max(lag, 0.0)
            if lag < lowest or (lag == lowest and j < nearest):  # among equals, the first
                lowest = lag
                nearest = j
        if nearest == reference:
            break
        reference = nearest  # differences to the former one might have overflowed
    return reference, closest

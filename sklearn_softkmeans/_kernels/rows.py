"""Rows of X, dense or CSR, and what is done to a single one of them.

Kernels work in a *frame*: x is replaced by (x - origin) * scale, with an origin near the data and
a scale that is a power of two, so that neither an offset nor the unit of X costs a digit. Sparse
rows keep their zeros: their origin is 0.
"""

from typing import NamedTuple

import numpy as np

from .._jit import by_type, take, threaded


class DenseRows(NamedTuple):
    X: np.ndarray  # (n_samples, n_features)
    origin: np.ndarray  # (n_features,) float64, of the frame
    anchor: np.ndarray  # (n_features,) float64, origin of exact distances: see `Model.points`
    scale: float
    blocks: np.ndarray  # (n_padded * n_features,) rows already in the frame, or empty
    norms: np.ndarray  # (n_padded,) their squared norms


class ColumnRows(NamedTuple):
    """The same, for rows of few features, whose chunks in the frame are stored by columns.

    Each chunk of the blocks is (n_features, width), with the width that it was loaded for. Matrix
    products of small centres then take half the time, and less, but to add a single row takes a
    step from line to line.
    """

    X: np.ndarray
    origin: np.ndarray
    anchor: np.ndarray
    scale: float
    blocks: np.ndarray
    norms: np.ndarray


# Features up to which that pays.
FEW_FEATURES = 32


class SparseRows(NamedTuple):
    data: np.ndarray  # CSR with sorted indices and without duplicates
    indices: np.ndarray
    indptr: np.ndarray
    scale: float


def _by_density(dense, sparse, **options):
    return by_type({DenseRows: dense, ColumnRows: dense, SparseRows: sparse}, **options)


def _dense_sq_distance(rows, i, points, norms, j):
    # 4 operations for each element.
    X, anchor, scale = rows.X, rows.anchor, rows.scale
    total = 0.0
    for f in range(points.shape[1]):
        difference = (X[i, f] - anchor[f]) * scale - points[j, f]
        total += difference * difference
    return total


def _sparse_sq_distance(rows, i, points, norms, j):
    # 4 operations for each non-zero element, where |x|^2 - 2 x.c + |c|^2 does not cancel.
    data, indices, scale = rows.data, rows.indices, rows.scale
    start = rows.indptr[i]
    end = rows.indptr[i + 1]
    size = norms[j]
    total = norms[j]
    for p in range(start, end):
        x = data[p] * scale
        size += x * x
        total += x * (x - 2.0 * points[j, indices[p]])
    if total > 1e-3 * size:
        return total
    p = start
    total = 0.0
    for f in range(points.shape[1]):
        x = 0.0
        if p < end and indices[p] == f:
            x = data[p] * scale
            p += 1
        difference = x - points[j, f]
        total += difference * difference
    return total


@_by_density(_dense_sq_distance, _sparse_sq_distance)
def sq_distance(rows, i, points, norms, j):
    """Squared distance of row i to point j, of squared norm norms[j], in float64."""


def _dense_lag(rows, i, points, j, nearest):
    X, anchor, scale = rows.X, rows.anchor, rows.scale
    total = 0.0
    for f in range(points.shape[1]):
        x = (X[i, f] - anchor[f]) * scale
        c = points[j, f]
        n = points[nearest, f]
        total += (n - c) * ((x - c) + (x - n))
    return total


def _sparse_lag(rows, i, points, j, nearest):
    data, indices, scale = rows.data, rows.indices, rows.scale
    p = rows.indptr[i]
    end = rows.indptr[i + 1]
    total = 0.0
    for f in range(points.shape[1]):
        x = 0.0
        if p < end and indices[p] == f:
            x = data[p] * scale
            p += 1
        c = points[j, f]
        n = points[nearest, f]
        total += (n - c) * ((x - c) + (x - n))
    return total


@_by_density(_dense_lag, _sparse_lag, strict=True)
def sq_distance_lag(rows, i, points, j, nearest):
    """How much further point j is than another, as |x - c|^2 - |x - n|^2 = (n - c).(2x - c - n).

    For a row that is far from both, the difference of the squares would have lost its digits.
    """


@threaded
def sq_distances_to(
    tasks,  # IN   Tasks, each of them one of the slices of rows
    rows,  # IN
    points,  # IN   (n_points, n_features) relative to the anchor
    norms,  # IN   (n_points,) their squared norms
    closest,  # IN   (n_samples,) upper bound for the result
    sq_distances,  # OUT  (n_points, n_samples)
):
    """min(closest, squared distance) of all rows to a few points."""
    n_done = 0
    while True:
        task = take(tasks, n_done)
        if task < 0:
            break
        n_done = 1
        n_samples = closest.shape[0]
        for i in range(task * n_samples // tasks.count, (task + 1) * n_samples // tasks.count):
            for j in range(points.shape[0]):
                sq_distances[j, i] = min(closest[i], sq_distance(rows, i, points, norms, j))


def _dense_product(rows, i, vectors, j):
    X, anchor, scale = rows.X, rows.anchor, rows.scale
    total = 0.0
    for f in range(vectors.shape[1]):
        total += (X[i, f] - anchor[f]) * scale * vectors[j, f]
    return total


def _sparse_product(rows, i, vectors, j):
    data, indices, scale = rows.data, rows.indices, rows.scale
    total = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        total += data[p] * scale * vectors[j, indices[p]]
    return total


@_by_density(_dense_product, _sparse_product)
def _product(rows, i, vectors, j):
    """Product of row i with vector j, in float64."""


def _add_dense(rows, i, weight, sums):
    X, anchor, scale = rows.X, rows.anchor, rows.scale
    for f in range(sums.shape[0]):
        sums[f] += weight * ((X[i, f] - anchor[f]) * scale)


def _add_sparse(rows, i, weight, sums):
    data, indices, scale = rows.data, rows.indices, rows.scale
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        sums[indices[p]] += weight * (data[p] * scale)


@_by_density(_add_dense, _add_sparse)
def _add(rows, i, weight, sums):
    """Add row i with a weight to sums, in float64."""


@threaded
def add_along(
    tasks,  # IN   Tasks, each of them one of the slices of rows
    rows,  # IN
    weights,  # IN   (n_samples,) or empty for unit weights
    labels,  # IN   (n_samples,) cluster of each row
    directions,  # IN   (n_clusters, n_features) one for each cluster
    shifts,  # IN   (n_clusters,) product of each direction with its cluster's middle
    sums,  # INOUT  (n_tasks, n_clusters, n_features) rows times their place along the direction
    totals,  # INOUT  (n_tasks, n_clusters) places
):
    """Step of a power iteration in all clusters: 4 operations for each element of X."""
    n_done = 0
    while True:
        task = take(tasks, n_done)
        if task < 0:
            break
        n_done = 1
        n_samples = labels.shape[0]
        for i in range(task * n_samples // tasks.count, (task + 1) * n_samples // tasks.count):
            weight = weights[i] if weights.shape[0] > 0 else 1.0
            if weight > 0.0:  # a row without weight may lie anywhere
                j = labels[i]
                place = weight * (_product(rows, i, directions, j) - shifts[j])
                totals[task, j] += place
                _add(rows, i, place, sums[task, j])

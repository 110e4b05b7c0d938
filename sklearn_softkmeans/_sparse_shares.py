"""Responsibilities as CSR, for a map that gives most rows one cluster."""

import numpy as np
from scipy import sparse

from ._arrays import blocks_of
from ._assignment import Problem

# Dense responsibilities of the shared rows exist for so many bytes of them at a time.
_BLOCK_BYTES = 2**23


def sparse_responsibilities(problem, centers, sigma):
    """What `Problem.responsibilities` returns, as a CSR array without stored zeros.

    One pass finds the rows that belong to one cluster alone. The others are mapped block by block.
    """
    labels, gaps = problem.labels_and_gaps(centers, sigma)
    shared = gaps < 0.0
    del gaps
    counts = np.ones(problem.n_samples, dtype=np.int64)
    ids = np.flatnonzero(shared)
    columns, values = [], []
    for block in blocks_of(len(ids), max(_BLOCK_BYTES // (8 * len(centers)), 1)):
        resp = _of_rows(problem, ids[block]).responsibilities(centers, sigma)
        positive = resp > 0.0
        counts[ids[block]] = positive.sum(axis=1)
        places = np.flatnonzero(positive)
        columns.append((places % len(centers)).astype(np.int32))
        values.append(resp.ravel()[places])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    dtype = index_dtype(max(indptr[-1], len(centers)))
    data = np.ones(indptr[-1], dtype=problem.X.dtype)
    indices = np.empty(indptr[-1], dtype=dtype)
    indices[indptr[:-1][~shared]] = labels[~shared]
    if len(ids) > 0:
        places = np.repeat(shared, counts)
        indices[places], data[places] = np.concatenate(columns), np.concatenate(values)
    shape = problem.n_samples, len(centers)
    return sparse.csr_array((data, indices, indptr.astype(dtype)), shape=shape)


def _of_rows(problem, ids):
    return Problem(problem.X[ids], **problem.frame, given_centers=problem.given_centers)


def index_dtype(largest):
    """Type of the indices of a sparse array whose largest index or pointer is given."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64

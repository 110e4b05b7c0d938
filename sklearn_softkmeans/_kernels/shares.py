"""The shares of the soft rows of a chunk: scores -> responsibilities -> sums over rows.

- Where they have few clusters each, these are listed, mapped, and added one by one.
- Where few rows are soft, their scores are gathered and mapped. All rows are added one by one, or
  at once where features and clusters are few.
- Otherwise the whole block is mapped, and a matrix product adds all rows at once.
"""

from typing import NamedTuple

import numpy as np

from .._jit import by_type, kernel
from .chunks import is_clear
from .distances import multiply_in_parts
from .rows import ColumnRows, DenseRows, SparseRows
from .simplex import project_chunk

# Clusters from which on shares are listed where that pays.
_MANY = 64

# One soft row in so many makes it cheaper to treat all rows of the chunk as soft.
_FEW = 4

# Bytes of a row's scores up to which rows of few features are added all at once, though they are
# hard and in double precision; twice as many where some are soft.
_FEW_BYTES = 64

# Numbers of all centres up to which it costs less to add a row without a share than to ask.
_SHORT = 32

# Shares are listed where they are no more than one in so many, and up to so many of a single row.
_RARE = 8
_DEPTH = 64

# How the soft rows of a chunk were mapped: with all others, alone, or over listed clusters alone.
ALL, GATHERED, LISTED = 0, 1, 2


class NotListed(NamedTuple):
    """Stands for a `Support` where no shares are listed: code for that is not even compiled."""

    depth: int  # 0


class Listed(NamedTuple):
    """Asks for a `Support`."""

    depth: int  # shares of a single row


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


def listing(n_clusters):
    """What to pass to a pass that wants nothing but sums."""
    return Listed(min(n_clusters, _DEPTH)) if n_clusters >= _MANY else NotListed(0)


def _no_support(wanted, width, real):
    return wanted


def _empty_support(wanted, width, real):
    flags = np.empty(width, np.uint8)
    return Support(
        z=np.empty((wanted.depth, width), real),
        clusters=np.empty((wanted.depth, width), np.int32),
        sizes=np.empty(width, np.intp),
        columns=np.empty(width, np.intp),
        limits=np.empty(width, real),
        flags=flags,
        words=flags.view(np.uint64),
        found=np.empty(width + 1, np.intp),
    )


@by_type({NotListed: _no_support, Listed: _empty_support})
def new_support(wanted, width, real):
    """Buffers for chunks of so many rows."""


# ----------------------------------------------------------------------------- the maps


def _map_unlisted(support, count, n_soft, model, projection, chunk, work, total):
    if n_soft == 0:
        return 0, GATHERED
    n_columns, route = chunk.z.shape[1], ALL
    if n_soft * _FEW <= count:
        gather_soft_rows(count, model, chunk)
        n_columns, route = n_soft, GATHERED
    project_chunk(projection, chunk.z, n_columns, chunk.best, chunk.second, work, total)
    return n_soft, route


def _map_listed(support, count, n_soft, model, projection, chunk, work, total):
    depth = -1
    if n_soft > 0:
        n_soft, depth = list_support(count, model, chunk, support)
    if depth < 0:
        unlisted = NotListed(0)
        return map_soft_rows(unlisted, count, n_soft, model, projection, chunk, work, total)
    z = support.z[:depth]
    project_chunk(projection, z, n_soft, chunk.best, chunk.second, work, total)
    return n_soft, LISTED


@by_type({NotListed: _map_unlisted, Support: _map_listed})
def map_soft_rows(support, count, n_soft, model, projection, chunk, work, total):
    """Map the soft rows at least; returns their number and which way was taken."""


@kernel
def gather_soft_rows(count, model, chunk):
    """List the soft rows, and move their scores to the first columns."""
    z, soft, best, margin = chunk.z, chunk.soft, chunk.best, model.margin
    leads, errors = chunk.lead, chunk.error
    n_soft = 0
    for i in range(count):
        soft[n_soft] = i
        n_soft += not is_clear(margin, leads[i], errors[i])
    for s in range(n_soft):
        best[s] = best[soft[s]]
    for j in range(z.shape[0]):
        for s in range(n_soft):
            z[j, s] = z[j, soft[s]]


@kernel
def list_support(count, model, chunk, support):
    """List what the soft rows have a share of, and gather their best scores.

    Returns how many rows are soft, and the largest number of clusters of one, or -1 where there are
    too many. 1 comparison for each score; of the flags it leaves, most are 0 and read by eights.
    """
    best, leads, errors, soft_rows = chunk.best, chunk.lead, chunk.error, chunk.soft
    z, limits, columns, sizes = support.z, support.limits, support.columns, support.sizes
    margin = model.margin
    n_soft = 0
    for i in range(chunk.z.shape[1]):
        error = errors[i]
        soft = (i < count) & (not is_clear(margin, leads[i], error))
        limit = np.float64(best[i]) - margin - 2.0 * error
        limits[i] = limit if soft else np.inf
        columns[i] = n_soft
        soft_rows[n_soft] = i
        sizes[n_soft] = 0
        n_soft += soft
    if not _list_shares(
        chunk.z,
        limits,
        columns,
        support.flags,
        support.words,
        support.found,
        z,
        support.clusters,
        sizes,
    ):
        return n_soft, -1
    depth = 0
    for s in range(n_soft):
        best[s] = best[soft_rows[s]]
        depth = max(depth, sizes[s])
    for s in range(n_soft):
        for c in range(sizes[s], depth):
            z[c, s] = best[s] - 2.0 * margin  # no share
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


# ----------------------------------------------------------------------------- the sums


def _add_dense_row(rows, i, block, local, weight, sums):
    # Blocks are finite, and nothing is added without weight.
    for f in range(sums.shape[0]):
        sums[f] += weight * block[local, f]


def _add_sparse_row(rows, i, block, local, weight, sums):
    data, indices, scale = rows.data, rows.indices, rows.scale
    if weight > 0.0:
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            sums[indices[p]] += weight * (data[p] * scale)


@by_type({DenseRows: _add_dense_row, ColumnRows: _add_dense_row, SparseRows: _add_sparse_row})
def _add_row(rows, i, block, local, weight, sums):
    """Add a weighted row to the sums of one cluster, in double precision."""


@kernel
def _add_mass(z, weights, equal, mass):
    """Multiply responsibilities by the weights of the rows, and add them to the mass."""
    n_clusters, width = z.shape
    zero = z.dtype.type(0.0)
    # Products of smaller shares may be subnormal, with which processors take their time. They are
    # near enough to the smallest numbers that there are.
    least = z.dtype.type(1e-30 if z.itemsize == 4 else 1e-290)
    for j in range(n_clusters):
        total = 0.0
        for i in range(width):
            share = z[j, i]
            z[j, i] = share if share > least else zero
        if not equal:
            for i in range(width):
                # A row without weight may lie anywhere, where even its scores are NaN.
                share, weight = z[j, i], weights[i]
                z[j, i] = share * weight if weight > 0.0 else 0.0
        for i in range(width):
            total += z[j, i]
        mass[j] += total


def _dense_product(rows, z, block, product):
    multiply_in_parts(z, block, product)


def _column_product(rows, z, block, product):
    np.dot(z, block, product)


def _no_product(rows, z, block, product):
    pass


@by_type({DenseRows: _dense_product, ColumnRows: _column_product, SparseRows: _no_product})
def _multiply(rows, z, block, product):
    """Sums of all rows of a chunk, in the working precision: 2 n k d operations."""


@kernel
def _add_block(rows, block, z, weights, equal, product, sums, mass):
    """Add all rows of a dense chunk at once; `equal` if all weights are 1."""
    _add_mass(z, weights, equal, mass)
    _multiply(rows, z, block, product)
    for j in range(sums.shape[0]):  # chunks add up in double precision
        for f in range(sums.shape[1]):
            sums[j, f] += product[j, f]


def _stay(rows, n_soft, chunk):
    return False


def _spread_columns(rows, n_soft, chunk):
    z, nearest, soft = chunk.z, chunk.nearest, chunk.soft
    n_bytes = z.shape[0] * z.itemsize
    if n_bytes > 2 * _FEW_BYTES or (n_soft == 0 and n_bytes > _FEW_BYTES):
        return False
    # Sums of hard rows alone are exact, as they would not be in single precision.
    if z.itemsize < 8 and n_soft == 0:
        return False
    zero, one = z.dtype.type(0.0), z.dtype.type(1.0)
    for s in range(n_soft):
        nearest[soft[s]] = -1
    for j in range(z.shape[0]):
        for s in range(n_soft - 1, -1, -1):  # they move to the right
            z[j, soft[s]] = z[j, s]
        for i in range(z.shape[1]):
            share, cluster = z[j, i], nearest[i]
            own = one if cluster == j else zero
            z[j, i] = share if cluster < 0 else own
    return True


@by_type({DenseRows: _stay, ColumnRows: _spread_columns, SparseRows: _stay})
def _spread_rows(rows, n_soft, chunk):
    """Make columns of all rows again, if to add all at once costs less than hard ones one by one.

    The mapped columns move back to their rows, and hard rows get the whole share of their clusters.
    They are then added in the working precision, as the soft ones are.
    """


@kernel
def add_rows(rows, start, count, n_soft, route, equal, block, chunk, support, product, sums, mass):
    """Add the rows of a chunk to the sums and the mass of their clusters."""
    if route == GATHERED and _spread_rows(rows, n_soft, chunk):
        route = ALL
    if route == ALL:
        if product.shape[0] > 0:
            _add_block(rows, block, chunk.z, chunk.weights, equal, product, sums, mass)
        else:
            _add_soft_rows(rows, start, count, route, block, chunk, sums, mass)
        return
    if route == GATHERED:
        _add_soft_rows(rows, start, n_soft, route, block, chunk, sums, mass)
    else:
        _add_listed(support, rows, start, n_soft, block, chunk, sums, mass)
    # What is left are the hard rows. A branch for each row would cost more than to add nothing.
    weights, nearest, soft = chunk.weights, chunk.nearest, chunk.soft
    for s in range(n_soft):
        weights[soft[s]] = 0.0
    for i in range(count):
        j = nearest[i]
        mass[j] += weights[i]
        _add_row(rows, start + i, block, i, weights[i], sums[j])


def _add_nothing(support, rows, start, n_soft, block, chunk, sums, mass):
    pass


def _add_support(support, rows, start, n_soft, block, chunk, sums, mass):
    z, clusters, sizes, soft, weights = (
        support.z,
        support.clusters,
        support.sizes,
        chunk.soft,
        chunk.weights,
    )
    for s in range(n_soft):
        i = soft[s]
        for c in range(sizes[s]):
            if z[c, s] > 0.0 and weights[i] > 0.0:
                j = clusters[c, s]
                weight = z[c, s] * weights[i]
                mass[j] += weight
                _add_row(rows, start + i, block, i, weight, sums[j])


@by_type({NotListed: _add_nothing, Support: _add_support})
def _add_listed(support, rows, start, n_soft, block, chunk, sums, mass):
    """Add soft rows to the clusters that are listed for them."""


@kernel
def _add_soft_rows(rows, start, n_mapped, route, block, chunk, sums, mass):
    """Add rows that are mapped to all clusters one by one, where that is best or no product is."""
    z, soft, weights = chunk.z, chunk.soft, chunk.weights
    least = -1.0 if sums.size <= _SHORT else 1e-22  # exp(-NEGLIGIBLE)
    for c in range(n_mapped):
        i = c if route == ALL else soft[c]
        if weights[i] > 0.0:
            for j in range(z.shape[0]):
                if z[j, c] > least:
                    weight = z[j, c] * weights[i]
                    mass[j] += weight
                    _add_row(rows, start + i, block, i, weight, sums[j])

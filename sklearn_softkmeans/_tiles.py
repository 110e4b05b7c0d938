"""Rows in tiles, so that a pass can leave out the centres that are far from a whole tile.

With many clusters most of the work of a pass goes into pairs of a row and a centre that have
nothing to do with each other. Here rows are put once in the order of their clusters, and in each
by their distance to its middle. A pass computes only the pairs that the triangle inequality leaves.
That is exact for any tiles and any centres; how much it saves is measured, and where that is too
little passes are full ones.
"""

from itertools import pairwise

import numpy as np

from ._arrays import blocks_of, sq_norms
from ._assignment import LANES, SERIAL_WORK, Problem, statistics_of
from ._cells import cells_of
from ._compiled import kernels, one_blas_thread
from ._ranges import check_overflow

# With fewer clusters, pairs of a row and a cluster, or rows for a cluster, the order costs more
# than it saves.
_FEW_CLUSTERS = 64
_FEW_PAIRS = 2**20
_FEW_ROWS = 2 * LANES

# Rows that tell whether the order pays, and the share of pairs above which it does not.
_SAMPLE = 4096
_LARGE_SHARE = 0.4

_MAX_WIDTH = 128


def tiled(problem, centers):
    """The problem with its rows in tiles around `centers`, or as it is where that is faster."""
    if not problem.resident:
        return problem
    n_clusters = len(centers)
    weights = problem.sample_weight
    # Rows without weight may lie anywhere, and count for nothing.
    ids = np.arange(problem.n_samples) if weights is None else np.flatnonzero(problem.weights)
    too_few = n_clusters < _FEW_CLUSTERS or len(ids) < max(
        _FEW_PAIRS // n_clusters, _FEW_ROWS * n_clusters
    )
    if too_few:
        return problem
    sample = TiledProblem(problem, ids[:: max(len(ids) // _SAMPLE, 1)], centers)
    sample.statistics(centers, 0.0)
    return TiledProblem(problem, ids, centers) if sample.worthwhile else problem


class TiledProblem(Problem):
    """Some rows of a dense problem in tiles around given centres, for many passes."""

    def __init__(self, problem, ids, centers):
        some = problem
        if len(ids) < problem.n_samples:
            some = Problem(problem.X[ids], **problem.frame)
        cells = cells_of(some, centers)
        some._blocks.clear()  # the tiles have their own copy of the rows
        middles = cells.sums / np.where(cells.mass > 0.0, cells.mass, 1.0)[:, None]
        distances = _distances_from(middles, cells.labels, some)
        order = _order(cells.labels, distances)
        weights = problem.sample_weight
        super().__init__(
            some.X.take(order, axis=0),
            None if weights is None else weights[ids[order]],
            **problem.frame,
            resident=True,
        )
        self.weight_unit = problem.weight_unit
        self.worthwhile = True  # until a pass finds otherwise
        # Operations of the last pass. So sums are grouped by what went before, the same for any
        # number of threads.
        self._work = np.inf
        self._tile_blocks = {}
        starts, groups = _split(np.bincount(cells.labels, minlength=len(centers)))
        self._tiles = kernels().tiles.Tiles(
            starts=starts,
            offsets=np.concatenate([[0], np.cumsum(-(-np.diff(starts) // LANES) * LANES)]),
            groups=groups,
            middles=middles,
            radii=distances[order[starts[:-1]]] * (1.0 + 1e-9),
            **_moments(self, starts),
        )

    def statistics(self, centers, sigma):
        if not self.worthwhile:
            return super().statistics(centers, sigma)
        model = self._model(centers, sigma, {})
        n_groups = len(self._tiles.middles)
        n_tasks = 1 if self._work < SERIAL_WORK else self._n_summed(n_groups, len(centers))
        outputs = self._outputs(n_tasks, centers.shape, {})
        n_kept = np.zeros(n_tasks, dtype=np.intp)
        with one_blas_thread():
            kernels().tiles.pass_over_tiles(
                n_tasks,
                _MAX_WIDTH,
                self._tiles,
                self._rows_in_tiles(model.bias.dtype),
                self._read_only_weights,
                model,
                np.ascontiguousarray(centers.T),
                self._map,
                outputs,
                n_kept,
            )
        check_overflow(outputs)
        n_pairs = n_kept.sum()
        self._work = n_pairs * (self.n_features + 8) + n_groups * centers.size
        self.worthwhile = n_pairs <= _LARGE_SHARE * self.n_samples * len(centers)
        return statistics_of(outputs)

    def _rows_in_tiles(self, dtype):
        if dtype not in self._tile_blocks:
            starts, offsets = self._tiles.starts, self._tiles.offsets
            blocks = np.zeros((offsets[-1], self.n_features), dtype)
            places = np.arange(self.n_samples) + np.repeat((offsets - starts)[:-1], np.diff(starts))
            norms = np.zeros(offsets[-1], dtype)
            for part in blocks_of(self.n_samples):
                with np.errstate(over="ignore"):  # as in `load_chunk`: the norm tells
                    rows = self.rows_in_frame(part).astype(dtype)
                norms[places[part]] = sq_norms(rows)
                blocks[places[part]] = np.where(np.abs(rows) < np.inf, rows, 0.0)
            if self._row_kind is kernels().rows.ColumnRows:
                for start, end in pairwise(offsets):
                    blocks[start:end] = blocks[start:end].T.reshape(-1, self.n_features)
            self._tile_blocks = {dtype: (blocks.ravel(), norms)}
        blocks, norms = self._tile_blocks[dtype]
        return self._rows()._replace(blocks=blocks, norms=norms)

    def _rows(self, dtype=np.float64, width=None):
        # Single passes between those over tiles are not worth another copy.
        return super()._rows(dtype, None if self.worthwhile else width)


def _distances_from(middles, labels, problem):
    """How far each row is from the middle of its group."""
    distances = np.empty(problem.n_samples)
    for part in blocks_of(problem.n_samples):
        difference = problem.rows_in_frame(part) - middles[labels[part]]
        distances[part] = np.sqrt(sq_norms(difference))
    return distances


def _order(labels, distances):
    """Rows by their label, and in each from the furthest to the nearest."""
    order = np.argsort(-distances)
    # Small integers are sorted by their digits, several times faster.
    small = np.min_scalar_type(labels.max())
    return order[np.argsort(labels[order].astype(small), kind="stable")]


def _moments(problem, starts):
    """Mean, weight and inertia of each tile: enough where its rows belong to one centre."""
    n_tiles = len(starts) - 1
    means, inertia = np.empty((n_tiles, problem.n_features)), np.empty(n_tiles)
    mass = np.add.reduceat(problem.weights, starts[:-1])
    for part in blocks_of(n_tiles, 16):
        first, end = starts[part.start], starts[part.stop]
        rows, weights = problem.rows_in_frame(slice(first, end)), problem.weights[first:end, None]
        places = starts[part] - first
        # What is not finite is an error if it is used; weights may underflow beside others.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            means[part] = np.add.reduceat(rows * weights, places) / mass[part, None]
            rows -= np.repeat(means[part], np.diff(places, append=end - first), axis=0)
            inertia[part] = np.add.reduceat((rows * rows * weights).sum(axis=1), places)
    return {"means": means, "mass": mass, "inertia": inertia}


def _split(counts):
    """Where tiles start, of at most the largest width and equal sizes in a group, and groups."""
    parts = -(-counts // _MAX_WIDTH)
    group = np.repeat(np.arange(len(counts)), parts)
    position = np.arange(len(group)) - np.repeat(np.cumsum(parts) - parts, parts)
    first = np.cumsum(counts) - counts
    starts = first[group] + position * counts[group] // parts[group]
    return np.concatenate([starts, [counts.sum()]]), np.concatenate([[0], np.cumsum(parts)])

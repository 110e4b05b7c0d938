"""Rows in tiles, so that a pass can leave out the centres that are far from a whole tile.

With many clusters most of the work of a pass goes into pairs of a row and a centre that have
nothing to do with each other. Here rows are put once in the order of their clusters, and in each
by their distance to its middle. A pass computes only the pairs that the triangle inequality leaves.
That is exact for any tiles and any centres; how much it saves is measured, and where that is too
little passes are full ones.
"""

from itertools import pairwise

import numpy as np

from ._arrays import blocks_of
from ._assignment import LANES, Problem, statistics_of
from ._compiled import kernels, one_blas_thread
from ._ranges import check_overflow

# With fewer clusters, pairs of a row and a cluster, or rows for a cluster, the order costs more
# than it saves.
_FEW_CLUSTERS = 64
_FEW_PAIRS = 2**22
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
    ids = np.arange(problem.n_samples) if weights is None else np.flatnonzero(weights > 0.0)
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
        some = Problem(problem.X[ids], **problem.frame)
        labels = some.labels(centers, 0.0)
        middles, distances = _middles(some, labels, len(centers))
        order = np.lexsort([-distances, labels])
        weights = problem.sample_weight
        super().__init__(
            some.X[order],
            None if weights is None else weights[ids[order]],
            **problem.frame,
            resident=True,
        )
        self.weight_unit = problem.weight_unit
        self.worthwhile = True  # until a pass finds otherwise
        self._tile_blocks = {}
        starts, groups = _split(np.bincount(labels, minlength=len(centers)))
        self._tiles = kernels().tiles.Tiles(
            starts=starts,
            offsets=np.concatenate([[0], np.cumsum(-(-np.diff(starts) // LANES) * LANES)]),
            groups=groups,
            middles=middles,
            radii=distances[order[starts[:-1]]] * (1.0 + 1e-9),
        )

    def statistics(self, centers, sigma):
        if not self.worthwhile:
            return super().statistics(centers, sigma)
        model = self._model(centers, sigma, {})
        n_tasks = self._n_summed(len(self._tiles.middles), len(centers))
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
        self.worthwhile = n_kept.sum() <= _LARGE_SHARE * self.n_samples * len(centers)
        return statistics_of(outputs)

    def _rows_in_tiles(self, dtype):
        if dtype not in self._tile_blocks:
            starts, offsets = self._tiles.starts, self._tiles.offsets
            blocks = np.zeros((offsets[-1], self.n_features), dtype)
            places = np.arange(self.n_samples) + np.repeat((offsets - starts)[:-1], np.diff(starts))
            for part in blocks_of(self.n_samples):
                blocks[places[part]] = self.rows_in_frame(part)
            norms = np.einsum("ij,ij->i", blocks, blocks)
            if self._row_kind is kernels().rows.ColumnRows:
                for start, end in pairwise(offsets):
                    blocks[start:end] = blocks[start:end].T.reshape(-1, self.n_features)
            self._tile_blocks = {dtype: (blocks.ravel(), norms)}
        blocks, norms = self._tile_blocks[dtype]
        return self._rows()._replace(blocks=blocks, norms=norms)

    def _rows(self, dtype=np.float64, width=None):
        # Single passes between those over tiles are not worth another copy.
        return super()._rows(dtype, None if self.worthwhile else width)


def _middles(problem, labels, n_groups):
    """Mean of the rows of each group, and how far each row is from it."""
    sums = np.zeros((n_groups, problem.n_features))
    for part in blocks_of(problem.n_samples):
        np.add.at(sums, labels[part], problem.rows_in_frame(part))
    middles = sums / np.maximum(np.bincount(labels, minlength=n_groups), 1)[:, None]
    distances = np.empty(problem.n_samples)
    for part in blocks_of(problem.n_samples):
        difference = problem.rows_in_frame(part) - middles[labels[part]]
        distances[part] = np.sqrt((difference * difference).sum(axis=1))
    return middles, distances


def _split(counts):
    """Where tiles start, of at most the largest width and equal sizes in a group, and groups."""
    parts = -(-counts // _MAX_WIDTH)
    group = np.repeat(np.arange(len(counts)), parts)
    position = np.arange(len(group)) - np.repeat(np.cumsum(parts) - parts, parts)
    first = np.cumsum(counts) - counts
    starts = first[group] + position * counts[group] // parts[group]
    return np.concatenate([starts, [counts.sum()]]), np.concatenate([[0], np.cumsum(parts)])

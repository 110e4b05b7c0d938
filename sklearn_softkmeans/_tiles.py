"""Rows grouped so that a pass can leave out the centres that are far from a whole group.

With many clusters most of the work of a pass goes into pairs of a row and a centre that have
nothing to do with each other. Here rows are put in the order of their clusters once, in tiles with
a middle and a radius, and a pass computes only the pairs that the triangle inequality leaves. That
is exact for any tiles and any centres; how much it saves is measured, and where that is too little
passes are full ones.
"""

import numpy as np

from ._assignment import LANES, Problem, check_overflow, kernels, statistics_of

# With fewer clusters, or pairs of a row and a cluster, the order costs more than it saves.
_FEW_CLUSTERS = 64
_FEW_PAIRS = 2**22

# Rows that tell whether the order pays, and the share of pairs above which it does not.
_SAMPLE = 4096
_LARGE_SHARE = 0.4

_MAX_WIDTH = 256


def tiled(problem, centers):
    """The problem with its rows in tiles around `centers`, or as it is where that is faster."""
    n_pairs = problem.n_samples * len(centers)
    if not problem.resident or len(centers) < _FEW_CLUSTERS or n_pairs < _FEW_PAIRS:
        return problem
    every = max(problem.n_samples // _SAMPLE, 1)
    sample = TiledProblem(problem, np.arange(0, problem.n_samples, every), centers)
    sample.statistics(centers, 0.0)
    if not sample.worthwhile:
        return problem
    return TiledProblem(problem, np.arange(problem.n_samples), centers)


class TiledProblem(Problem):
    """Some rows of a dense problem in tiles around given centres, for many passes.

    Rows without weight are left out: they may lie anywhere, and count for nothing.
    """

    def __init__(self, problem, ids, centers):
        weights = problem.sample_weight
        if weights is not None:
            ids = ids[weights[ids] > 0.0]
        super().__init__(problem.X[ids], None, **problem.frame, resident=True)
        labels = self.labels(centers, 0.0)
        order = np.argsort(labels, kind="stable")
        self.X = self.X[order]
        self._blocks = {}  # those of the former order
        self.sample_weight = None if weights is None else weights[ids[order]]
        self.weight_unit = problem.weight_unit
        self.worthwhile = True
        self._starts = _split(np.bincount(labels, minlength=len(centers)))
        sizes = np.diff(self._starts)
        self._offsets = np.concatenate([[0], np.cumsum(-(-sizes // LANES) * LANES)])
        self._middles = np.empty((len(sizes), self.n_features))
        self._radii = np.empty(len(sizes))
        for t, part in enumerate(self._slices()):
            rows = self.rows_in_frame(part)
            self._middles[t] = rows.mean(axis=0)
            sq_distances = ((rows - self._middles[t]) ** 2).sum(axis=1)
            self._radii[t] = np.sqrt(sq_distances.max()) * (1.0 + 1e-9)

    def statistics(self, centers, sigma):
        if not self.worthwhile:
            return super().statistics(centers, sigma)
        model = self._model(centers, sigma, {})
        n_tasks = self._n_summed(len(self._radii), len(centers))
        outputs = self._outputs(n_tasks, centers.shape, {})
        tiles = kernels().tiles.Tiles(self._starts, self._offsets, self._middles, self._radii)
        n_kept = np.zeros(n_tasks, dtype=np.intp)
        kernels().tiles.pass_over_tiles(
            n_tasks,
            _MAX_WIDTH,
            tiles,
            self._rows_in_tiles(model.bias.dtype),
            self._read_only_weights(),
            model,
            np.ascontiguousarray(centers.T),
            self._map,
            outputs,
            n_kept,
        )
        check_overflow(outputs)
        self.worthwhile = n_kept.sum() <= _LARGE_SHARE * self.n_samples * len(centers)
        return statistics_of(outputs)

    def _slices(self):
        return map(slice, self._starts[:-1], self._starts[1:])

    def _rows_in_tiles(self, dtype):
        if dtype not in self._blocks:
            blocks = np.zeros((self._offsets[-1], self.n_features), dtype)
            for offset, rows in zip(self._offsets[:-1], self._slices(), strict=True):
                blocks[offset : offset + rows.stop - rows.start] = self.rows_in_frame(rows)
            self._blocks = {dtype: (blocks, np.einsum("ij,ij->i", blocks, blocks))}
        blocks, norms = self._blocks[dtype]
        return self._rows()._replace(blocks=blocks, norms=norms)


def _split(counts):
    """Starts of tiles of at most the largest width, of about equal sizes in each group."""
    parts = -(-counts // _MAX_WIDTH)
    group = np.repeat(np.arange(len(counts)), parts)
    position = np.arange(len(group)) - np.repeat(np.cumsum(parts) - parts, parts)
    first = np.cumsum(counts) - counts
    starts = first[group] + position * counts[group] // parts[group]
    return np.concatenate([starts, [counts.sum()]])

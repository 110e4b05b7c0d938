"""A `Problem` whose rows come in blocks, one after the other: all that a fit needs is additive.

Blocks are any object whose `reduce(function, combine)` applies a function to the rows and the
weights of each block, and combines the results in the order of the blocks.
"""

import mmap
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ._assignment import Assignment, Problem, Statistics, for_prediction
from ._centers import problem_for_fit
from ._ranges import frame_size, unit_of_weights

# Memory maps up to this size are read into memory, and larger ones in blocks of the second size.
_SMALL_MAP_BYTES = 2**26
_BLOCK_BYTES = 2**25
_BLOCK_ROWS = 512  # blocks have a multiple of it, that chunks of rows are those of one block


class Blocks:
    """Blocks of an iterator that can be started again, for one pass over the data after another.

    Parameters
    ----------
    start : callable
        Returns an iterator over (X, weights), weights being None for unit weights. Blocks have at
        least one row.
    """

    def __init__(self, start):
        self._start = start
        self._n_samples = None

    def reduce(self, function, combine):
        result, n_samples = None, 0
        for X, weights in self._start():
            value = function(X, weights)
            result = value if n_samples == 0 else combine(result, value)
            n_samples += X.shape[0]
        if n_samples == 0 and self._n_samples is None:
            raise ValueError("Found no rows in any block: at least one is required.")
        if self._n_samples not in (None, n_samples):
            raise ValueError(
                f"The first pass over the blocks found {self._n_samples} rows, a later one "
                f"{n_samples}. Each call of `blocks` must return a new iterator over all of them."
            )
        self._n_samples = n_samples
        return result


class BlockProblem(Problem):
    """Rows in blocks, in one frame, with what a fit asks of a `Problem`.

    Parameters
    ----------
    blocks : object
        Has `reduce`, as :class:`Blocks`.
    alpha : float
        Order of the map from scores to responsibilities.
    sigma : float
        Temperature in the unit of X, which must be in range of the frame.
    labelled : bool
        Let `assigned` return the labels of all rows.
    """

    in_blocks = True

    def __init__(self, blocks, *, alpha, sigma=0.0, labelled=False):
        known = blocks.reduce(_survey, _add_surveys)
        _check_weights(known)
        empty = np.empty((0, known.n_features), dtype=known.dtype)
        super().__init__(
            sparse.csr_array(empty) if known.is_sparse else empty,
            alpha=alpha,
            origin=known.mean,
            size=frame_size(known.spread or known.size, sigma),
            spread=known.spread,
        )
        self.n_samples = known.n_samples
        self.weight_unit = unit_of_weights(known.largest_weight)
        self._total_weight = known.total_weight / self.weight_unit
        self._blocks = blocks
        self._labelled = labelled

    @property
    def total_weight(self):
        return self._total_weight

    def reduce(self, function, combine):
        settings = {"frame": self.frame, "weight_unit": self.weight_unit, "dtype": self.dtype}
        return self._blocks.reduce(partial(_of_block, function=function, **settings), combine)

    def statistics(self, centers, sigma):
        return self.reduce(partial(_statistics, centers=centers, sigma=sigma), _add_statistics)

    def assigned(self, centers, sigma):
        settings = {"alpha": self.alpha, "dtype": self.dtype, "labelled": self._labelled}
        found = self._blocks.reduce(
            partial(_assigned, centers=centers, sigma=sigma, **settings), _add_assignments
        )
        return found._replace(labels=np.concatenate(found.labels) if self._labelled else None)


# ---------------------------------------------------------------- functions of a single block


def _of_block(X, weights, *, function, frame, weight_unit, dtype):
    problem = Problem(X.astype(dtype, copy=False), _filled(X, weights, weight_unit), **frame)
    problem.weight_unit = weight_unit
    return function(problem)


def _filled(X, weights, weight_unit):
    """Weights of a block that has none beside others that have some."""
    return np.ones(X.shape[0]) if weights is None and weight_unit != 1.0 else weights


def _statistics(problem, centers, sigma):
    return problem.statistics(centers, sigma)


def _add_statistics(first, second):
    return Statistics(*(a + b for a, b in zip(first, second, strict=True)))


def _assigned(X, weights, *, centers, sigma, alpha, dtype, labelled):
    problem = for_prediction(X.astype(dtype, copy=False), centers, sigma, alpha, weights)
    found = problem.assign(problem.into_frame(centers), sigma / problem.unit)
    return found._replace(labels=(found.labels,) if labelled else ())


def _add_assignments(first, second):
    return Assignment(*(a + b for a, b in zip(first, second, strict=True)))


# ----------------------------------------------------------------------------- the first pass


class _Survey(NamedTuple):
    """What is to be known of the rows before the first iteration, in the unit of X."""

    n_samples: int
    n_features: int
    is_sparse: bool
    dtype: np.dtype
    largest_weight: float
    total_weight: float
    mean: np.ndarray  # (n_features,)
    spread: float  # square root of the weighted total variance
    size: float  # a length of the order of the distances, also where the spread is 0


def _survey(X, weights):
    kind = X.shape[0], X.shape[1], sparse.issparse(X), X.dtype
    if weights is not None and not weights.any():
        return _Survey(*kind, 0.0, 0.0, np.zeros(X.shape[1]), 0.0, 0.0)
    problem = problem_for_fit(X, weights, 1.0, resident=False)
    found = problem.statistics(np.zeros((1, X.shape[1])), 0.0)
    mean = problem.out_of_frame(found.sums / found.mass[:, None])[0]
    largest = 1.0 if weights is None else float(weights.max())
    with np.errstate(over="ignore"):  # reported for all rows together
        total = float(X.shape[0]) if weights is None else float(weights.sum())
    return _Survey(*kind, largest, total, mean, problem.spread * problem.unit, problem.size)


def _add_surveys(first, second):
    """Mean and variance of both parts, from their own (Chan, Golub & LeVeque 1979)."""
    _check_same_kind(first, second)
    with np.errstate(over="ignore"):
        total = first.total_weight + second.total_weight
    if first.total_weight == 0.0 or second.total_weight == 0.0:
        counted = first if second.total_weight == 0.0 else second
        mean, spread = counted.mean, counted.spread
    else:
        share = second.total_weight / total
        step = second.mean - first.mean
        mean = first.mean + share * step
        between = share * (1.0 - share) * (step @ step)
        spread = (1.0 - share) * first.spread**2 + share * second.spread**2 + between
        spread = float(np.sqrt(spread))
    return _Survey(
        first.n_samples + second.n_samples,
        first.n_features,
        first.is_sparse,
        np.result_type(first.dtype, second.dtype),
        max(first.largest_weight, second.largest_weight),
        total,
        mean,
        spread,
        max(first.size, second.size),
    )


def _check_same_kind(first, second):
    if first.n_features != second.n_features:
        raise ValueError(
            f"All blocks must have the same features: one has {first.n_features}, another "
            f"{second.n_features}."
        )
    if first.is_sparse != second.is_sparse:
        raise ValueError("Some blocks are sparse and others dense. Convert all to one kind.")


def _check_weights(known):
    if known.total_weight == 0.0:
        raise ValueError("Sample weights are all zero: a block needs a row of positive weight.")
    if not np.isfinite(known.total_weight):
        raise ValueError("Sample weights must be finite, and their sum too. Scale them down.")


# -------------------------------------------------------------------------------- memory maps


def is_large_map(X):
    """Whether X is a memory map of more rows than should be copied into memory."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > _SMALL_MAP_BYTES


def slices_of_map(X):
    """Blocks of rows of a memory map, whose pages are given back after use."""
    n_rows = max(_BLOCK_BYTES // max(X.strides[0], X.nbytes // len(X)) // _BLOCK_ROWS, 1)
    n_rows *= _BLOCK_ROWS
    for start in range(0, len(X), n_rows):
        yield slice(start, start + n_rows)
        release(X)


def release(X):
    """Let the system take back the memory of the pages that were read, if it can be told to."""
    mapped = X._mmap
    # Pages of a private map hold what was written to them.
    if hasattr(mapped, "madvise") and X.mode in ("r", "r+"):
        mapped.madvise(mmap.MADV_DONTNEED)

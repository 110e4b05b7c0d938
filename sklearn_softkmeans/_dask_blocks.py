"""Rows on dask as delayed blocks: what they are, and one computation for each pass over them."""

from contextlib import contextmanager
from functools import partial, reduce

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils.validation import validate_data

from ._compat import check_raw_weights, n_rows_of
from ._compiled import kernels, one_blas_thread
from ._validation import check_block

try:
    import dask.array as da
    from dask import delayed
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
except ImportError as error:
    raise ImportError(
        'sklearn_softkmeans.dask needs dask: pip install "sklearn-softkmeans[dask]".'
    ) from error

# Results of so many blocks are added up in one task.
_FAN_IN = 8

# Rows of a block that arrays in memory are cut into.
_BLOCK_ROWS = 2**16


class Rows:
    """Rows as a list of delayed blocks, and what is known of them without computing any."""

    def __init__(self, X):
        self.is_local = False
        self.dtype = None
        self.like = None  # has the columns of X, where those are known
        if isinstance(X, Delayed):
            raise ValueError("X is a single delayed object: pass a list of delayed blocks of rows.")
        if isinstance(X, da.Array):
            if X.ndim != 2:
                raise ValueError(f"X must be two-dimensional, got a dask array of shape {X.shape}.")
            X = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
            self.blocks, self.sizes = list(X.to_delayed()[:, 0]), X.chunks[0]
            self.dtype = X.dtype
            self.like = None if np.isnan(X.shape[1]) else np.empty((0, X.shape[1]))
        elif hasattr(X, "to_delayed") and hasattr(X, "columns"):
            if X.ndim != 2:
                raise ValueError(f"X must be two-dimensional, got a dask {type(X).__name__}.")
            self.blocks = list(X.to_delayed())
            self.sizes = (np.nan,) * len(self.blocks)
            self.dtype, self.like = _common_type(X.dtypes), X._meta
        elif _are_delayed(X):
            self.blocks, self.sizes = list(X), (np.nan,) * len(X)
        else:
            self.is_local = True
        if self.dtype is not None and self.dtype != np.float32:
            self.dtype = np.dtype(np.float64)

    def check_features(self, estimator, *, reset):
        if self.like is not None:
            validate_data(estimator, self.like, reset=reset, skip_check_array=True)
        elif reset:
            vars(estimator).pop("feature_names_in_", None)

    def cut(self, X):
        """Take rows in memory, as they were validated."""
        starts = range(0, X.shape[0], _BLOCK_ROWS)
        self.blocks = [delayed(X[i : i + _BLOCK_ROWS], traverse=False) for i in starts]
        self.sizes = tuple(min(_BLOCK_ROWS, X.shape[0] - i) for i in starts)

    def weights(self, sample_weight):
        """A delayed block of weights, or None, for each block of rows."""
        if sample_weight is None:
            return [None] * len(self.blocks)
        known = not np.isnan(self.sizes).any()
        if isinstance(sample_weight, da.Array):
            if known and sample_weight.shape == (sum(self.sizes),):
                sample_weight = sample_weight.rechunk((self.sizes,))
            blocks = list(sample_weight.to_delayed().ravel())
        elif hasattr(sample_weight, "to_delayed"):
            blocks = list(sample_weight.to_delayed())
        elif _are_delayed(sample_weight):
            blocks = list(sample_weight)
        elif known:
            return self._slices(np.asarray(sample_weight))
        else:
            raise ValueError(
                "sample_weight must be a dask collection in the blocks of X where their sizes are "
                "unknown, or call X.compute_chunk_sizes() before."
            )
        if len(blocks) != len(self.blocks):
            raise ValueError(
                f"sample_weight has {len(blocks)} blocks, X has {len(self.blocks)}. Rechunk "
                "sample_weight to the blocks of X."
            )
        return blocks

    def _slices(self, sample_weight):
        if sample_weight.shape != (sum(self.sizes),):
            raise ValueError(
                f"sample_weight.shape == {sample_weight.shape}, expected {(sum(self.sizes),)}."
            )
        bounds = np.cumsum(self.sizes)[:-1]
        return [delayed(part, traverse=False) for part in np.split(sample_weight, bounds)]

    def map(self, function, dtype, n_columns=None):
        """Lazy array of what `function` returns for each block."""
        shape = () if n_columns is None else (n_columns,)
        function = partial(_mapped, function=function, dtype=dtype, shape=shape)
        function = delayed(function, pure=False)
        parts = [function(block) for block in self.blocks]
        # Not `da.concatenate`, which leaves out empty chunks.
        name = f"rows-{function.key}"
        keys = {(name, i, *(0 for _ in shape)): part.key for i, part in enumerate(parts)}
        graph = HighLevelGraph.from_collections(name, keys, dependencies=parts)
        chunks = (tuple(self.sizes), *((size,) for size in shape))
        return da.Array(graph, name, chunks, dtype=dtype)


def _are_delayed(blocks):
    return isinstance(blocks, list | tuple) and len(blocks) > 0 and isinstance(blocks[0], Delayed)


def _common_type(dtypes):
    """Type of the columns together; types that only pandas has become float64."""
    try:
        return np.result_type(*dtypes)
    except TypeError:
        return np.dtype(np.float64)


class DaskBlocks:
    """What :class:`._blocks.Blocks` is, computed by dask: one computation for each pass."""

    def __init__(self, blocks, weights):
        self._parts = list(zip(blocks, weights, strict=True))
        self._finite = get_config()["assume_finite"]

    def reduce(self, function, combine):
        # One task has what the function holds, as centers, and not one for each block.
        function = delayed(partial(_value, function=function, finite=self._finite), pure=False)
        combine = delayed(partial(_combined, combine=combine), pure=False)
        values = [function(X, weights) for X, weights in self._parts]
        while len(values) > 1:
            values = [combine(values[i : i + _FAN_IN]) for i in range(0, len(values), _FAN_IN)]
        result = values[0].compute()
        if result is None:
            raise ValueError("Found no rows in any block: at least one is required.")
        self._finite = True
        return result


def _value(X, weights, *, function, finite):
    """Value of a function for a block, None if it has no rows."""
    if n_rows_of(X) == 0:
        return None
    with _as_worker(finite):
        X = check_block(X)
        if weights is not None:
            weights = check_raw_weights(np.asarray(weights), X)
        return function(X, weights)


def _combined(values, *, combine):
    found = [value for value in values if value is not None]
    return reduce(combine, found) if found else None


def _mapped(X, *, function, dtype, shape):
    if n_rows_of(X) == 0:
        return np.empty((0, *shape), dtype)
    with _as_worker():
        return function(check_block(X)).astype(dtype, copy=False)


@contextmanager
def _as_worker(finite=False):
    """Kernels and BLAS in one thread each: dask has a task for every core."""
    checked = finite or get_config()["assume_finite"]
    with kernels().one_thread(), one_blas_thread(), config_context(assume_finite=checked):
        with np.errstate(under="ignore"):
            yield


def mean_score(blocks, model):
    """Weighted mean of the model's `score_samples` over all rows."""
    mean, weight = blocks.reduce(partial(_score, model=model), _add_means)
    if weight == 0.0:
        raise ValueError("Sample weights are all zero: sample_weight needs a positive entry.")
    if not np.isfinite(weight):
        raise ValueError("sample_weight must be finite, and its sum too. Scale it down.")
    return float(mean)


def _score(X, weights, *, model):
    """(mean, weight) of the rows that count."""
    weights = np.ones(X.shape[0]) if weights is None else weights
    counted = weights > 0.0
    if not counted.any():
        return 0.0, 0.0
    scores = model.score_samples(X[counted])
    with np.errstate(over="ignore"):  # reported for all rows together
        total = weights.sum()
    return np.average(scores, weights=weights[counted] / weights.max()), total


def _add_means(first, second):
    """Mean of both parts; one without weight has no mean."""
    if first[1] == 0.0 or second[1] == 0.0:
        return first if second[1] == 0.0 else second
    with np.errstate(over="ignore", invalid="ignore"):  # of the weights, see above
        total = first[1] + second[1]
        return first[0] * (first[1] / total) + second[0] * (second[1] / total), total


def check_lazy_output(container):
    """Raise where `set_output` asks for a data frame of lazy rows."""
    if container != "default":
        raise ValueError(
            f"Responsibilities are a lazy array, which set_output(transform={container!r}) would "
            "read into memory. Call set_output(transform='default')."
        )

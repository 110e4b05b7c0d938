"""Fits to rows that do not lie in memory: blocks of an iterator, and memory maps."""

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils.validation import validate_data

from ._blocks import Blocks, slices_of_map
from ._compat import check_raw_weights, fit_context, n_rows_of
from ._compiled import one_blas_thread
from ._progress import callbacks_of
from ._validation import check_perplexity, check_rows, check_sample_weight


class StreamMixin:
    """Part of the estimators: fits that never see all rows at once."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Callable[[], Iterable[Any]]) -> Self:
        """Compute the cluster centers of rows that come in blocks, in the memory of one block.

        That is the iteration of `fit`, not an approximation: its sums are added up block by block.
        It takes one pass over the blocks for each iteration, and a few before the first and after
        the last. So blocks may be read from files as they are needed.

        Parameters
        ----------
        blocks : callable
            Called without arguments once for each pass. It returns a new iterator over the blocks,
            always the same ones: arrays or sparse matrices of shape (n_rows, n_features), or
            tuples ``(X, sample_weight)``. Blocks may have any number of rows, also none.

        Returns
        -------
        self : object
            Fitted estimator, without `labels_`: they would take memory for every row. `predict`
            gives those of a block.

        Raises
        ------
        TypeError
            If `blocks` is not callable: a generator can be read only once.
        ValueError
            If a later pass finds another number of rows than the first, if `init` is a callable,
            which would need all rows, or if `batch_size` is not None.

        Notes
        -----
        Initial centers are those of k-means|| (Bahmani et al. 2012) where `init` is "k-means++":
        a few passes, not one for each cluster. They depend neither on the order of the rows nor
        on the blocks. From the same initial centers the result is that of `fit` to rounding.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_softkmeans import SoftKMeans
        >>> X = np.repeat([[-1.0], [1.0]], 500, axis=0)
        >>> soft = SoftKMeans(n_clusters=2, sigma=0.5, init=[[-2.0], [2.0]])
        >>> soft.fit_blocks(lambda: iter([X[:300], X[300:]])).cluster_centers_.round(2)
        array([[-1.],
               [ 1.]])
        """
        check_perplexity(self.perplexity, self.sigma, self.n_clusters)
        if not callable(blocks):
            raise TypeError(
                "blocks must be a callable that returns a new iterator for each pass, such as "
                f"`lambda: iter(list_of_arrays)`, got {type(blocks).__name__}."
            )
        if callable(self.init):
            raise ValueError(
                "init must be an array, 'k-means++' or 'random' where rows come in blocks, got a "
                "callable: it would need all rows."
            )
        if self.batch_size is not None:
            raise ValueError(
                f"fit_blocks makes full passes, so that batch_size={self.batch_size} must be None. "
                "For stochastic EM call partial_fit with each block."
            )
        with callbacks_of(self), one_blas_thread(), np.errstate(under="ignore"):
            around = self._fit_over(Blocks(_Validated(self, blocks)), self._n_runs())
        self._warn(around)
        return self

    def _fit_map(self, X, sample_weight, n_runs):
        """`fit` of a memory map, of which a block at a time is in memory."""
        validate_data(self, X, skip_check_array=True)
        weights = check_sample_weight(sample_weight, X)

        def blocks():
            for part in slices_of_map(X):
                yield np.asarray(X[part]), None if weights is None else weights[part]

        with one_blas_thread(), np.errstate(under="ignore"):
            blocks = Blocks(_Validated(self, blocks, known=True))
            if self._in_batches(X, weights):
                problem = self._problem_over(blocks, labelled=True)
                return self._fit_batches(X, weights, n_runs, problem)
            return self._fit_over(blocks, n_runs, X)


class _Validated:
    """Calls give the blocks as the kernels take them; the first one checks all numbers.

    Where the features are not `known`, those of the first block are.
    """

    def __init__(self, estimator, start, *, known=False):
        self._estimator = estimator
        self._start = start
        self._known = known
        self._finite = get_config()["assume_finite"]

    def __call__(self):
        for block in self._start():
            X, weights = self._split(block)
            if n_rows_of(X) > 0:
                with config_context(assume_finite=self._finite):
                    X = check_rows(self._estimator, X, reset=not self._known)
                self._known = True
                yield X, None if weights is None else check_raw_weights(weights, X)
        self._finite = True

    @staticmethod
    def _split(block):
        if not isinstance(block, tuple):
            return block, None
        if len(block) != 2:
            raise ValueError(
                f"A block must be X or a tuple (X, sample_weight), got a tuple of {len(block)}."
            )
        return block

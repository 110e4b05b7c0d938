"""Soft K-means on dask: the exact fit, from additive statistics of each block of rows.

Needs the extra "dask": ``pip install "sklearn-softkmeans[dask]"``.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._base import BaseSoftKMeans
from ._compat import Interval, StrOptions, fit_context, output_container
from ._compiled import one_blas_thread
from ._dask_blocks import DaskBlocks, Rows, check_lazy_output, mean_score
from ._entmax_kmeans import EntmaxKMeans
from ._progress import callbacks_of
from ._soft_kmeans import SoftKMeans
from ._validation import check_rows

__all__ = ["DaskEntmaxKMeans", "DaskSoftKMeans"]


class _DaskKMeans(BaseSoftKMeans):
    """Base of the estimators; a subclass has ``__init__``, `_alpha` and `_plain`."""

    perplexity = None  # no parameter here: sigma is given, or read off the data

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "sigma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "init": [StrOptions({"k-means||", "random"}), "array-like"],
        "solver": [StrOptions({"auto", "em", "anderson", "lbfgs"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Compute the cluster centers, with one computation of dask for each pass over X.

        Parameters
        ----------
        X : dask array or DataFrame of shape (n_samples, n_features), list of delayed blocks, \
                or array-like
            Rows to cluster. Sizes of the chunks may be unknown, and chunks may be empty. Call
            ``X.persist()`` before if it fits into the memory of the workers: otherwise it is read
            anew in each pass.
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : dask array or Series, list of delayed blocks, or array-like of shape \
                (n_samples,), default=None
            Non-negative weights, not all zero. In the blocks of X where their sizes are unknown.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        rows, checked = self._rows(X, reset=True)
        with callbacks_of(self, checked, y), one_blas_thread(), np.errstate(under="ignore"):
            around = self._fit_over(DaskBlocks(rows.blocks, rows.weights(sample_weight)), 1)
        self.n_features_in_ = self.cluster_centers_.shape[1]
        self._warn(around)
        self.labels_ = self.predict(X)
        return self

    def _rows(self, X, *, reset):
        """Blocks of rows, and X as it was validated."""
        rows = Rows(X)
        if rows.is_local:
            X = check_rows(self, X, reset=reset)
            rows.cut(X)
            return rows, X
        rows.check_features(self, reset=reset)
        return rows, X

    def _lazily(self, X, method, dtype=None, n_columns=None):
        """What a method of the plain estimator gives, as a lazy array unless X is in memory."""
        check_is_fitted(self, ["cluster_centers_", "sigma_"])
        rows = Rows(X)
        function = getattr(self._plain(), method)
        if rows.is_local:
            return function(check_rows(self, X, reset=False))
        rows.check_features(self, reset=False)
        dtype = dtype or rows.dtype or self.cluster_centers_.dtype
        return rows.map(function, np.dtype(dtype), n_columns)

    def predict(self, X):
        """Index of the cluster with the largest responsibility, the lowest among equals.

        Parameters
        ----------
        X : dask array or DataFrame, list of delayed blocks, or array-like
            Rows to assign, of shape (n_samples, n_features).

        Returns
        -------
        labels : dask array of shape (n_samples,), int32
            Index of the cluster each row belongs to, computed when it is needed, in the chunks of
            X. An ndarray where X is in memory.
        """
        return self._lazily(X, "predict", np.int32)

    def predict_proba(self, X):
        """Responsibilities of the clusters for each row: those of `transform`.

        Parameters
        ----------
        X : dask array or DataFrame, list of delayed blocks, or array-like
            Rows to assign, of shape (n_samples, n_features).

        Returns
        -------
        responsibilities : dask array of shape (n_samples, n_clusters)
            Share of each cluster in each row; rows sum to one. An ndarray where X is in memory.
        """
        check_is_fitted(self)
        return self._lazily(X, "predict_proba", n_columns=len(self.cluster_centers_))

    def transform(self, X):
        """Responsibilities of the clusters for each row.

        Parameters
        ----------
        X : dask array or DataFrame, list of delayed blocks, or array-like
            Rows to assign, of shape (n_samples, n_features).

        Returns
        -------
        responsibilities : dask array of shape (n_samples, n_clusters)
            Share of each cluster in each row; rows sum to one. It is computed when it is needed, in
            the chunks of X and its precision. An ndarray where X is in memory.
        """
        return self._responsibilities(X)

    def _responsibilities(self, X):
        check_is_fitted(self, ["cluster_centers_", "sigma_"])
        if not Rows(X).is_local:
            check_lazy_output(output_container(self))
        return self._lazily(X, "transform", n_columns=len(self.cluster_centers_))

    def score_samples(self, X):
        """Log-likelihood of each row under the Gaussian mixture that belongs to the centers.

        Parameters
        ----------
        X : dask array or DataFrame, list of delayed blocks, or array-like
            Rows to score, of shape (n_samples, n_features).

        Returns
        -------
        log_likelihood : dask array of shape (n_samples,), float64
            Natural logarithm of the density, as :meth:`.SoftKMeans.score_samples` has it. An
            ndarray where X is in memory.
        """
        return self._lazily(X, "score_samples", np.float64)

    def score(self, X, y=None, sample_weight=None):
        """Mean log-likelihood of the rows, see `score_samples`. Higher is better.

        Parameters
        ----------
        X : dask array or DataFrame, list of delayed blocks, or array-like
            Rows to score, of shape (n_samples, n_features).
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : dask array or Series, list of delayed blocks, or array-like, default=None
            Non-negative weights of the rows.

        Returns
        -------
        score : float
            Weighted mean of `score_samples`; -inf where ``sigma_`` is 0.
        """
        check_is_fitted(self, ["cluster_centers_", "sigma_"])
        rows, _ = self._rows(X, reset=False)
        blocks = DaskBlocks(rows.blocks, rows.weights(sample_weight))
        return mean_score(blocks, self._plain())


class DaskSoftKMeans(_DaskKMeans):
    """K-means with softmax responsibilities, on dask.

    The iteration is that of :class:`SoftKMeans`, on all rows: each pass computes the sums of each
    block and adds them up in the order of the blocks. Nothing but centers and sums moves between
    workers.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, at least 1.
    sigma : float or "auto", default="auto"
        Temperature as a length, in the unit of X, at least 0: see :class:`SoftKMeans`.
    init : {"k-means||", "random"} or array-like of shape (n_clusters, n_features), \
            default="k-means||"
        Initial centers. "k-means||" draws as many rows as there are clusters in each of four
        passes, by weight times squared distance to those drawn before, and clusters the drawn rows
        by the weight that is nearest to each. "random" draws different rows by weight. Neither
        depends on the chunks of X or the order of its rows.
    solver : {"auto", "em", "anderson", "lbfgs"}, default="auto"
        See :class:`SoftKMeans`.
    max_iter : int, default=300
        Largest number of iterations, at least 1. Each is one pass over X.
    tol : float, default=1e-4
        The iteration stops when the estimated distance of the centers to the fixed point is at
        most `tol` times the square root of the total (weighted) variance of X. At least 0.
    verbose : int, default=0
        Print a line for each iteration if not 0.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial centers.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Cluster centers, in the precision of X.
    labels_ : dask array of shape (n_samples,), int32
        Cluster of each row, computed when it is needed, in the chunks of X. An ndarray where X was
        in memory.
    inertia_ : float
        Sum of the weighted squared distances of rows to their nearest center, as in K-means.
    objective_ : float
        Free energy at the final centers, in the squared unit of X.
    objective_path_ : ndarray of shape (n_iter_ + 1,)
        Free energy after each pass over X, as in :class:`SoftKMeans`.
    sigma_ : float
        The temperature that was used.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the run ended before `max_iter`.
    stop_reason_ : {"tol", "stagnation", "max_iter"}
        Why the run ended.
    cluster_mass_ : ndarray of shape (n_clusters,)
        Sum of the weighted responsibilities of each cluster.
    n_distinct_clusters_ : int
        Number of centers that hold mass and lie apart from each other.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string column names.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` was reached, or if fewer than `n_clusters` distinct centers were found.

    See Also
    --------
    sklearn_softkmeans.SoftKMeans : The same for rows in memory, in blocks or in a memory map.

    Notes
    -----
    It uses the scheduler that dask does: threads, or the cluster of a ``distributed.Client``. Each
    task runs on one thread. A pass that failed on a lost worker is computed again by dask.

    The first iteration follows seven passes: one for mean and variance, five for "k-means||" and
    one to weight what was drawn; ``sigma="auto"`` takes about six more. Centers that lost all rows
    cost another pass in their iteration.

    References
    ----------
    B. Bahmani, B. Moseley, A. Vattani, R. Kumar and S. Vassilvitskii, "Scalable K-Means++",
    Proceedings of the VLDB Endowment 5, 2012.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from sklearn_softkmeans.dask import DaskSoftKMeans
    >>> X = da.from_array(np.repeat([[-1.0], [1.0]], 500, axis=0), chunks=(300, 1))
    >>> soft = DaskSoftKMeans(n_clusters=2, sigma=0.5, init=[[-2.0], [2.0]]).fit(X)
    >>> soft.cluster_centers_.round(2)
    array([[-1.],
           [ 1.]])
    >>> soft.labels_
    dask.array<rows..., shape=(1000,), dtype=int32, chunksize=(300,), chunktype=numpy.ndarray>
    >>> soft.labels_[:3].compute()
    array([0, 0, 0], dtype=int32)
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        sigma="auto",
        init="k-means||",
        solver="auto",
        max_iter=300,
        tol=1e-4,
        verbose=0,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.sigma = sigma
        self.init = init
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _alpha(self):
        return 1.0

    def _plain(self):
        return SoftKMeans.from_centers(self.cluster_centers_, sigma=self.sigma_)


class DaskEntmaxKMeans(_DaskKMeans):
    """K-means with sparse responsibilities from the entmax family, on dask.

    The iteration is that of :class:`EntmaxKMeans`, on all rows: each pass computes the sums of each
    block and adds them up in the order of the blocks. Nothing but centers and sums moves between
    workers.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, at least 1.
    alpha : float, default=1.5
        Order of the entmax family, at least 1: 1 is softmax, 2 sparsemax.
    sigma : float or "auto", default="auto"
        Temperature as a length, in the unit of X, at least 0: see :class:`EntmaxKMeans`.
    init : {"k-means||", "random"} or array-like of shape (n_clusters, n_features), \
            default="k-means||"
        Initial centers. "k-means||" draws as many rows as there are clusters in each of four
        passes, by weight times squared distance to those drawn before, and clusters the drawn rows
        by the weight that is nearest to each. "random" draws different rows by weight. Neither
        depends on the chunks of X or the order of its rows.
    solver : {"auto", "em", "anderson", "lbfgs"}, default="auto"
        See :class:`EntmaxKMeans`.
    max_iter : int, default=300
        Largest number of iterations, at least 1. Each is one pass over X.
    tol : float, default=1e-4
        The iteration stops when the estimated distance of the centers to the fixed point is at
        most `tol` times the square root of the total (weighted) variance of X. At least 0.
    verbose : int, default=0
        Print a line for each iteration if not 0.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial centers.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Cluster centers, in the precision of X.
    labels_ : dask array of shape (n_samples,), int32
        Cluster of each row, computed when it is needed, in the chunks of X. An ndarray where X was
        in memory.
    inertia_ : float
        Sum of the weighted squared distances of rows to their nearest center, as in K-means.
    objective_ : float
        Free energy at the final centers, in the squared unit of X.
    objective_path_ : ndarray of shape (n_iter_ + 1,)
        Free energy after each pass over X, as in :class:`EntmaxKMeans`.
    sigma_ : float
        The temperature that was used.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the run ended before `max_iter`.
    stop_reason_ : {"tol", "stagnation", "max_iter"}
        Why the run ended.
    cluster_mass_ : ndarray of shape (n_clusters,)
        Sum of the weighted responsibilities of each cluster.
    n_distinct_clusters_ : int
        Number of centers that hold mass and lie apart from each other.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string column names.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` was reached, or if fewer than `n_clusters` distinct centers were found.

    See Also
    --------
    sklearn_softkmeans.EntmaxKMeans : The same for rows in memory, in blocks or in a memory map.

    Notes
    -----
    It uses the scheduler that dask does: threads, or the cluster of a ``distributed.Client``. Each
    task runs on one thread. A pass that failed on a lost worker is computed again by dask.

    The first iteration follows seven passes: one for mean and variance, five for "k-means||" and
    one to weight what was drawn; ``sigma="auto"`` takes about six more. Centers that lost all rows
    cost another pass in their iteration.

    References
    ----------
    B. Bahmani, B. Moseley, A. Vattani, R. Kumar and S. Vassilvitskii, "Scalable K-Means++",
    Proceedings of the VLDB Endowment 5, 2012.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from sklearn_softkmeans.dask import DaskEntmaxKMeans
    >>> X = da.from_array(np.repeat([[-1.0], [1.0]], 500, axis=0), chunks=(300, 1))
    >>> sparse = DaskEntmaxKMeans(n_clusters=2, sigma=0.5, init=[[-2.0], [2.0]]).fit(X)
    >>> sparse.cluster_centers_.round(2)
    array([[-1.],
           [ 1.]])
    >>> sparse.labels_
    dask.array<rows..., shape=(1000,), dtype=int32, chunksize=(300,), chunktype=numpy.ndarray>
    >>> sparse.labels_[:3].compute()
    array([0, 0, 0], dtype=int32)
    """

    _parameter_constraints = {
        **_DaskKMeans._parameter_constraints,
        "alpha": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters=8,
        alpha=1.5,
        *,
        sigma="auto",
        init="k-means||",
        solver="auto",
        max_iter=300,
        tol=1e-4,
        verbose=0,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.sigma = sigma
        self.init = init
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _alpha(self):
        return float(self.alpha)

    def _plain(self):
        settings = {"sigma": self.sigma_, "alpha": self.alpha}
        return EntmaxKMeans.from_centers(self.cluster_centers_, **settings)

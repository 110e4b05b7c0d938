"""Fits by stochastic EM: `batch_size` of `fit`, and `partial_fit`."""

import warnings
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ._assignment import Problem, for_prediction
from ._blocks import is_large_map, release
from ._centers import problem_for_fit
from ._compat import check_raw_weights, fit_context, n_rows_of, validate_parameters
from ._compiled import one_blas_thread
from ._minibatch import Running, Smoothed, drawn_by_weight, start_size, step
from ._progress import Progress
from ._reports import shortcomings_of_stream
from ._solver import Solution
from ._typing import MatrixLike
from ._validation import check_block, check_perplexity, check_rows, refuse_dask

# Fitted attributes that a stream makes wrong.
_OF_FITS = (
    "converged_",
    "inertia_",
    "labels_",
    "n_distinct_clusters_",
    "n_iter_",
    "objective_",
    "objective_path_",
    "stop_reason_",
)


class BatchMixin:
    """Part of the estimators: batches of rows, of the data or of a stream."""

    # --------------------------------------------------------------------------- a stream

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Move the cluster centers by one batch of rows: a step of stochastic EM.

        The first batch is fitted as by `fit`, with "exchange" where `init` is "k-means++"; it
        determines `sigma_` where `sigma` is "auto" or a `perplexity` is given. Every other batch is
        one step. After `fit`, or `from_centers`, the first batch is a step too.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the batch, any number of them. A batch without rows, or without weight, changes
            nothing. Until `n_clusters` rows of positive weight have come they wait in the
            estimator, which is not fitted before.
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows, which may all be zero.

        Returns
        -------
        self : object
            The estimator, with `cluster_centers_` in the precision of its first rows, `sigma_`,
            `n_steps_` and `cluster_mass_`, the weight that each center remembers. Attributes that
            belong to all rows, as `labels_` and `inertia_`, are not set, and those of an earlier
            fit are removed.

        Raises
        ------
        ValueError
            If the number of features is not that of the batches before, if numbers are not finite,
            nor the sum of all weights that are remembered, or if `n_clusters` has changed. The
            estimator stays as it was.

        Warns
        -----
        ConvergenceWarning
            If the first batch cannot have the `perplexity`, or does not give `n_clusters` distinct
            centers.

        Notes
        -----
        Each center is the mean of what it remembers. A row that came when the total weight was t
        counts ``(t / T) ** 3`` at the weight T, so that about a quarter of it is remembered:
        early rows, which were assigned by worse centers, are forgotten. It hardly matters how rows
        are divided into batches, but the first should have many for each cluster, 50 or so. A
        center moves by a step of its own: its mass in the batch over its mass in batch and memory.
        After a fit the memory is the mass of all its rows; after `from_centers` there is none. T is
        taken as four times what is remembered, also after a fit and after the first batch.

        Once a hundred rows for each cluster are remembered, a center whose mass is below 1 % of the
        mean may move to the row of the batch with the largest weighted squared distance to its
        nearest center, and counts 2 % of the mean then. It stays where that row, as one of a
        hundred for each cluster, would add less to the inertia than those of its own would at the
        next center: so small clusters that lie apart are kept.

        `sigma`, where it is a number, and `alpha` of :class:`EntmaxKMeans` are those of each batch,
        so that they may change along the stream. Other parameters belong to the first batch.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_softkmeans import SoftKMeans
        >>> soft = SoftKMeans(n_clusters=2, sigma=0.5, init=[[-2.0], [2.0]])
        >>> for batch in ([[-1.0], [1.0]], [[-1.2], [1.2]], [[1.1]], []):
        ...     soft = soft.partial_fit(np.reshape(batch, (-1, 1)))
        >>> soft.cluster_centers_.round(1)
        array([[-1.1],
               [ 1.1]])
        """
        refuse_dask(X)
        if n_rows_of(X) == 0:
            return self
        check_perplexity(self.perplexity, self.sigma, self.n_clusters)
        begun = hasattr(self, "cluster_centers_") or hasattr(self, "_waiting")
        X = check_rows(self, X, reset=not begun)
        weights = self._check_batch_weights(sample_weight, X)
        X, weights = X[weights > 0.0], weights[weights > 0.0]
        if len(weights) == 0:
            return self
        messages = ()
        with one_blas_thread(), np.errstate(under="ignore"):
            if hasattr(self, "cluster_centers_"):
                self._step(X, weights)
            else:
                messages = self._begin(X, weights, self._n_runs())
        for message in messages:
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return self

    def _check_batch_weights(self, sample_weight, X):
        """Weights that leave the weight of all that is remembered finite."""
        weights = check_raw_weights(sample_weight, X)
        with np.errstate(over="ignore"):
            total = weights.sum() + self._weight_before()
        if not np.isfinite(total):
            raise ValueError(
                "The sum of sample_weight and of what is remembered of batches before must be "
                "finite. Scale the weights of all batches down."
            )
        return weights

    def _weight_before(self):
        """Weight that is remembered, or that waits."""
        if hasattr(self, "_waiting"):
            return self._waiting[1].sum()
        return np.sum(getattr(self, "cluster_mass_", 0.0))

    def _begin(self, X, weights, n_runs):
        """Fit to the first rows, once there are enough; returns what to warn of."""
        X, weights = self._with_waiting(X, weights)
        if len(weights) < self.n_clusters:
            self._waiting = X, weights
            return ()
        first = self._first_fit(X, weights, n_runs)
        sigma = self._sigma_outside(first.problem, first.sigma)
        self._keep(first.problem, first.running, sigma, 1, X.dtype)
        vars(self).pop("_waiting", None)
        return shortcomings_of_stream(self, first.n_distinct, first.around)

    def _step(self, X, weights):
        # scikit-learn leaves out parameters where an estimator is fitted.
        validate_parameters(self, *{"sigma", "alpha"}.intersection(self._parameter_constraints))
        centers = self.cluster_centers_
        if len(centers) != self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters}, but the stream has {len(centers)} centers. Clone "
                "the estimator to begin anew."
            )
        sigma = self.sigma_ if self._given_sigma is None else self._given_sigma
        problem = for_prediction(X, centers, sigma, self._alpha, weights)
        mass = getattr(self, "cluster_mass_", np.zeros(len(centers)))
        running = Running(problem.into_frame(centers), mass)
        n_steps = getattr(self, "n_steps_", 0) + 1
        running, _ = self._reported_step(problem, running, sigma / problem.unit, n_steps)
        self._keep(problem, running, sigma, n_steps, centers.dtype)

    def _with_waiting(self, X, weights):
        """The rows with those that came before, when they were too few."""
        waiting = getattr(self, "_waiting", None)
        if waiting is None:
            return X, weights
        parts = [waiting[0], X]
        if any(map(sparse.issparse, parts)):
            X = sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")
        else:
            X = np.concatenate(parts)
        return X, np.concatenate([waiting[1], weights])

    def _keep(self, problem, running, sigma, n_steps, dtype):
        with np.errstate(over="ignore"):
            centers = problem.out_of_frame(running.centers).astype(dtype)
        if not np.isfinite(centers).all():
            raise ValueError(
                f"Cluster centers overflow {dtype}, the precision of the first rows. Scale X down, "
                "or begin with rows in float64."
            )
        for name in _OF_FITS:
            vars(self).pop(name, None)
        self.cluster_centers_ = centers
        self.cluster_mass_ = running.mass
        self.sigma_ = sigma
        self.n_steps_ = n_steps

    # --------------------------------------------------------------- the first rows, and others

    def _first_fit(self, X, weights, n_runs):
        given = self._given_sigma
        problem = problem_for_fit(X, weights, self._alpha, sigma=given or 0.0, resident=True)
        init = self._validate_init(X)
        # Few rows make it cheap, and no later step mends what it does.
        init = "exchange" if isinstance(init, str) and init == "k-means++" else init
        solution, sigma, around = self._best_solution(problem, init, n_runs)
        mass = problem.statistics(solution.centers, sigma).mass * problem.weight_unit
        running = Running(solution.centers, mass)
        n_distinct = self._n_distinct(problem, solution, mass)
        return _First(problem, running, sigma, solution.stop_reason, n_distinct, around)

    def _reported_step(self, problem, running, sigma, n_steps):
        """A step: the new state, and (objective, inertia, whether to stop) of its batch."""
        moved, statistics = step(problem, running, sigma)
        shift = float(np.linalg.norm(moved.centers - running.centers))
        report = Progress(self, problem, sigma, "batches")
        stop = report(n_steps, statistics, shift, moved.centers)
        square = problem.unit * problem.unit / float(problem.total_weight)
        return moved, (statistics.objective * square, statistics.inertia * square, stop)

    # ------------------------------------------------------------------ batches of the data

    def _in_batches(self, X, sample_weight):
        """Whether there are rows that count beyond the first ones."""
        if self.batch_size is None:
            return False
        n_counted = X.shape[0] if sample_weight is None else np.count_nonzero(sample_weight)
        return n_counted > start_size(self.batch_size, self.n_clusters)

    def _fit_batches(self, X, sample_weight, n_runs, problem=None):
        """Stochastic EM over all rows in random order, and what `fit` stores of them.

        `problem` is that of all rows, if they are not at hand.
        """
        sizes = start_size(self.batch_size, self.n_clusters), self.batch_size
        random_state = check_random_state(self.random_state)
        batches = _batches(X, sample_weight, *sizes, self.max_iter, random_state=random_state)
        n_iter, rows = next(batches)
        first = self._first_fit(rows, None, n_runs)
        running, n_steps, reason = first.running, 1, "max_iter"
        if first.stop_reason == "callback":
            batches, reason = (), "callback"
        smoothed = Smoothed(self.tol)
        for n_iter, rows in batches:
            n_steps += 1
            batch = Problem(rows, **first.problem.frame)
            running, (*totals, stop) = self._reported_step(batch, running, first.sigma, n_steps)
            if stop or smoothed.ends_with(*totals):
                reason = "callback" if stop else "tol"
                break
        if problem is None:
            problem = Problem(X, sample_weight, **first.problem.frame)
        centers = problem.into_frame(first.problem.out_of_frame(running.centers))
        solution = Solution(centers, [], n_iter, reason)
        self._store(problem, solution, self._sigma_outside(first.problem, first.sigma))
        self.n_steps_ = n_steps
        return first.around


class _First(NamedTuple):
    """What the fit to the first rows found, in the frame of its problem."""

    problem: Problem
    running: Running
    sigma: float
    stop_reason: str
    n_distinct: int
    around: list  # trials around a perplexity that could not be reached


def _batches(X, sample_weight, n_first, size, n_epochs, *, random_state):
    """(epoch, rows) of batches in random order, of which the first has its own size.

    Rows are drawn by weight, so that they need none of their own.
    """
    for epoch in range(1, n_epochs + 1):
        order = drawn_by_weight(sample_weight, X.shape[0], random_state)
        if epoch == 1:
            yield epoch, _rows_of(X, order[:n_first])
            order = order[n_first:]
        for start in range(0, len(order), size):
            yield epoch, _rows_of(X, order[start : start + size])


def _rows_of(X, ids):
    rows = X[np.sort(ids)]  # in the order of a file
    if is_large_map(X):
        rows = check_block(np.asarray(rows))
        release(X)
    return rows

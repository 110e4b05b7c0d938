"""What both estimators share: validation, restarts, and scikit-learn's API."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ._annealing import start
from ._assignment import for_prediction, one_blas_thread
from ._centers import auto_sigma, count_distinct, problem_for_fit, resolution
from ._compat import Interval, StrOptions, fit_context, validate_parameters
from ._perplexity import first_sigma, search
from ._ranges import SMALLEST_SIGMA, precision_of
from ._reports import shortcomings
from ._solver import monotone, solve
from ._tiles import tiled
from ._validation import (
    FLOATS,
    check_initial_centers,
    check_perplexity,
    check_rows,
    check_sample_weight,
)
from ._version import VersionedState


class BaseSoftKMeans(
    VersionedState, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Base of the estimators; a subclass has ``__init__`` and the order ``_alpha`` of its map."""

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "sigma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "perplexity": [None, Interval(Real, 1, None, closed="neither")],
        "init": [
            StrOptions({"k-means++", "random", "annealing", "exchange"}),
            callable,
            "array-like",
        ],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "em", "anderson", "lbfgs"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "copy_x": ["boolean"],
    }

    # ------------------------------------------------------------------------------- fit

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Compute the cluster centers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster. float32 and float64 are kept, anything else becomes float64; sparse
            input becomes CSR and is never made dense.
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, not all zero and of a finite sum. A weight counts as so many
            repetitions of its row.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        X = check_rows(self, X, reset=True)
        if X.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_samples={X.shape[0]} should be >= n_clusters={self.n_clusters}. Ask for fewer "
                "clusters."
            )
        sample_weight = check_sample_weight(sample_weight, X)
        init = self._validate_init(X)
        check_perplexity(self.perplexity, self.sigma, self.n_clusters)
        # More threads of BLAS would round differently, and spin between the passes; what underflows
        # is nothing beside the rest.
        with one_blas_thread(), np.errstate(under="ignore"):
            given = None if isinstance(self.sigma, str) else float(self.sigma)
            problem = problem_for_fit(
                X, sample_weight, self._alpha, sigma=given or 0.0, resident=self.copy_x
            )
            solution, sigma = self._best_run(problem, init, self._n_runs(), given)
            jump = None
            if self.perplexity is not None:
                solution, sigma, jump = self._search(problem, solution, sigma)
            self._store(problem, solution, sigma * problem.unit if given is None else given)
        self._warn(jump)
        return self

    def _best_run(self, problem, init, n_runs, given):
        """The run with the lowest objective, and the temperature of all runs in the frame."""
        random_state = check_random_state(self.random_state)
        sigma = None if given is None else given / problem.unit
        best, lowest = None, np.inf
        for run in range(n_runs):
            centers = self._start(problem, init, random_state)
            grouped = tiled(problem, centers)
            if sigma is None:
                sigma = self._first_sigma(grouped, centers)
            solution = self._solve(grouped, centers, sigma, run)
            if n_runs == 1:
                return solution, sigma
            objective = grouped.statistics(solution.centers, sigma).objective
            if best is None or objective < lowest:
                best, lowest = solution, objective
        return best, sigma

    def _first_sigma(self, problem, centers):
        if self.perplexity is None:
            return auto_sigma(problem, centers)
        return first_sigma(problem, centers, self.perplexity)

    def _search(self, problem, solution, sigma):
        """Adapt sigma to the perplexity: (solution, sigma, trials on both sides of a jump)."""

        def fit(centers, sigma):
            return self._solve(problem, centers, sigma, "search")

        trial, other = search(problem, solution, sigma, self.perplexity, fit)
        return trial.solution, trial.sigma, other and (trial, other)

    def _n_runs(self):
        if not isinstance(self.init, str) and not callable(self.init):
            if self.n_init not in ("auto", 1):
                warnings.warn(
                    "Explicit initial center position passed: performing only one run instead of "
                    f"n_init={self.n_init}.",
                    RuntimeWarning,
                    stacklevel=4,
                )
            return 1
        if isinstance(self.init, str) and self.init == "annealing":
            return 1  # another run would be the same
        if self.n_init == "auto":
            return 1 if self.init in ("k-means++", "exchange") else 10
        return self.n_init

    def _start(self, problem, init, random_state):
        if isinstance(init, str):
            return start(problem, self.n_clusters, init, random_state)
        if callable(init):
            init = init(problem.X, self.n_clusters, random_state=random_state)
            init = check_initial_centers(init, self.n_clusters, problem.n_features)
        return problem.into_frame(init)

    def _solve(self, problem, centers, sigma, run):
        def report(n_iter, objective, shift):
            objective *= problem.unit * problem.unit * problem.weight_unit
            step = "discarded" if shift is None else f"center shift {shift * problem.unit:.3g}"
            print(f"run {run}, iteration {n_iter}: objective {objective:.9g}, {step}")

        return solve(
            problem,
            centers,
            solver=self.solver,
            sigma=sigma,
            max_iter=self.max_iter,
            tol=self.tol,
            report=report if self.verbose else None,
        )

    def _store(self, problem, solution, sigma):
        """Set the fitted attributes, all of them at the final centers as they are stored."""
        self.cluster_centers_ = problem.out_of_frame(solution.centers).astype(problem.X.dtype)
        self.sigma_ = float(sigma)
        final, centers, sigma_ = self._in_frame(problem.X, self._alpha, problem.sample_weight)
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            result = final.assign(centers, sigma_)
            path = [*solution.objective_path, result.objective]
            in_frame = sigma / problem.unit
            self.objective_path_ = monotone(problem, in_frame, self.cluster_centers_, path)
        self.labels_ = result.labels
        self.inertia_ = result.inertia
        self.cluster_mass_ = result.mass
        self.objective_ = float(self.objective_path_[-1])
        if not (np.isfinite(self.objective_path_).all() and np.isfinite(self.inertia_)):
            raise ValueError(
                f"The objective overflows float64 with sigma={self.sigma_:.3g}, data of spread "
                f"{problem.spread * problem.unit:.3g} and weights up to {problem.weight_unit:.3g}. "
                "Scale X and sigma, or sample_weight, down."
            )
        self.n_iter_ = solution.n_iter
        self.stop_reason_ = solution.stop_reason
        self.converged_ = solution.stop_reason != "max_iter"
        distance = self.tol * problem.spread if solution.stop_reason == "tol" else 0.0
        self.n_distinct_clusters_ = count_distinct(
            solution.centers, self.cluster_mass_, resolution(problem, distance)
        )

    def _warn(self, jump):
        for message in shortcomings(self, jump):
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    # ------------------------------------------------------------------------ validation

    def _validate_init(self, X):
        if isinstance(self.init, str) or callable(self.init):
            return self.init
        return check_initial_centers(self.init, self.n_clusters, X.shape[1])

    def _validate_fitted(self, X):
        check_is_fitted(self, ["cluster_centers_", "sigma_"])
        return check_rows(self, X, reset=False)

    def _in_frame(self, X, alpha, sample_weight=None):
        """Rows, centers and sigma in a common frame: (problem, centers, sigma)."""
        problem = for_prediction(X, self.cluster_centers_, self.sigma_, alpha, sample_weight)
        return problem, problem.into_frame(self.cluster_centers_), self.sigma_ / problem.unit

    # ---------------------------------------------------------------- what fitted ones do

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, and return the cluster of each row: ``fit(X).labels_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int32
            Index of the cluster each row belongs to.
        """
        return self.fit(X, sample_weight=sample_weight).labels_

    def fit_transform(self, X, y=None, sample_weight=None):
        """Fit, and return the responsibilities: ``fit(X).transform(X)``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_clusters)
            Share of each cluster in each row; rows sum to one.
        """
        self._check_container()
        return self.fit(X, sample_weight=sample_weight)._responsibilities(X)

    def predict(self, X):
        """Index of the cluster with the largest responsibility, the lowest among equals.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to assign.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int32
            Index of the cluster each row belongs to.
        """
        problem, centers, sigma = self._in_frame(self._validate_fitted(X), self._alpha)
        return problem.labels(centers, sigma)

    def predict_proba(self, X):
        """Responsibilities of the clusters for each row, of dense X: see `transform` for sparse X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to assign.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_clusters)
            Share of each cluster in each row, in the precision of X; rows sum to one.

        Raises
        ------
        ValueError
            If X is sparse.
        """
        check_is_fitted(self)
        # scikit-learn's common checks take whatever has this method and admits sparse X for a
        # classifier, and expect as many columns as they have classes.
        if issparse(X):
            raise ValueError(
                "predict_proba takes no sparse X. Use transform, which returns the same values."
            )
        return self._responsibilities(X)

    def transform(self, X):
        """Responsibilities of the clusters for each row; `predict_proba` of dense X is the same.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to assign.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_clusters)
            Share of each cluster in each row, in the precision of X; rows sum to one.
        """
        self._check_container()
        return self._responsibilities(X)

    def _check_container(self):
        """Raise where `transform` cannot return what `set_output` asks for."""

    def _responsibilities(self, X):
        problem, centers, sigma = self._in_frame(self._validate_fitted(X), self._alpha)
        return problem.responsibilities(centers, sigma)

    def score_samples(self, X):
        """Log-likelihood of each row under the Gaussian mixture that belongs to the centers.

        The mixture has equal weights and the covariance ``sigma_**2`` times the identity at each
        of `cluster_centers_`, whatever the map. So the score is comparable over sigma, alpha and
        n_clusters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,), float64
            Natural logarithm of the density, in the unit of X; -inf where ``sigma_`` is 0.

        Raises
        ------
        ValueError
            If a value is beyond float64: ``sigma_`` is too small for these rows, or below 1e-140
            times the size of the centers.
        """
        return self._log_likelihood(self._validate_fitted(X))

    def _log_likelihood(self, X):
        problem, centers, sigma = self._in_frame(X, alpha=1.0)
        if sigma == 0.0:
            return np.full(problem.n_samples, -np.inf)
        # The free energy of softmax is -2 sigma^2 log sum_j exp(-d_j^2 / (2 sigma^2)).
        objective = problem.row_objective(centers, sigma)
        with np.errstate(over="ignore", under="ignore"):
            exponent = -0.5 * objective * precision_of(sigma)
        if sigma < SMALLEST_SIGMA or not np.isfinite(exponent).all():
            raise ValueError(
                f"The log-likelihood overflows float64: sigma={self.sigma_:.3g} is too small for "
                "the distances between X and the cluster centers, or their size. Increase sigma."
            )
        volume = 0.5 * np.log(2.0 * np.pi) + np.log(self.sigma_)
        return exponent - np.log(len(centers)) - problem.n_features * volume

    def score(self, X, y=None, sample_weight=None):
        """Mean log-likelihood of the rows, see `score_samples`. Higher is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to score.
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.

        Returns
        -------
        score : float
            Weighted mean of `score_samples`; -inf where ``sigma_`` is 0.
        """
        X = self._validate_fitted(X)
        weights = check_sample_weight(sample_weight, X)
        if weights is None:
            return float(np.mean(self._log_likelihood(X)))
        counted = weights > 0.0  # a row without weight may lie anywhere
        scores = self._log_likelihood(X if counted.all() else X[counted])
        return float(np.average(scores, weights=weights[counted] / weights.max()))

    @classmethod
    def from_centers(cls, centers, *, sigma, **params):
        """Estimator that assigns rows to given centers, as if it had been fitted to them.

        Parameters
        ----------
        centers : array-like of shape (n_clusters, n_features)
            Cluster centers; float32 is kept, anything else becomes float64. They are copied.
        sigma : float
            Temperature as a length in the unit of X, at least 0.
        **params : dict
            Other parameters of the estimator; `n_clusters` and `init` are those of `centers`.

        Returns
        -------
        estimator : object
            Has `cluster_centers_`, `sigma_` and `n_features_in_`, and the centers as its `init`.

        Raises
        ------
        ValueError
            If `centers` is not a finite 2-D array, or a parameter is out of its range.
        TypeError
            If `n_clusters` or `init` is given.

        Examples
        --------
        >>> from sklearn_softkmeans import SoftKMeans
        >>> soft = SoftKMeans.from_centers([[-1.0], [1.0]], sigma=1.0)
        >>> soft.predict_proba([[0.0], [1.0]]).round(2)
        array([[0.5 , 0.5 ],
               [0.12, 0.88]])
        """
        if not params.keys().isdisjoint(["n_clusters", "init"]):
            raise TypeError("from_centers takes n_clusters and init from centers: leave them out.")
        if isinstance(sigma, str):
            raise ValueError(f"sigma must be a number of at least 0, got {sigma!r}.")
        estimator = cls(sigma=sigma, **params)
        centers = validate_data(estimator, centers, dtype=FLOATS, order="C", copy=True)
        estimator.set_params(n_clusters=len(centers), init=centers.copy())
        validate_parameters(estimator)
        estimator.cluster_centers_ = centers
        estimator.sigma_ = float(sigma)
        return estimator

    # ------------------------------------------------------------------------------ tags

    @property
    def _n_features_out(self):
        return len(self.cluster_centers_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

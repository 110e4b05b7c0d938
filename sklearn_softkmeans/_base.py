"""What both estimators share: validation, restarts, and scikit-learn's API."""

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ._alignment import AlignmentMixin
from ._annealing import start
from ._blocks import BlockProblem, is_large_map
from ._centers import auto_sigma, count_distinct, problem_for_fit, resolution
from ._compat import CallbackSupportMixin, Interval, StrOptions, fit_context, validate_parameters
from ._compiled import one_blas_thread
from ._perplexity import first_sigma, search
from ._prediction import PredictionMixin
from ._progress import Progress, callbacks_of
from ._reports import shortcomings
from ._solver import monotone, solve
from ._tiles import tiled
from ._typing import MatrixLike
from ._validation import (
    FLOATS,
    check_enough_rows,
    check_initial_centers,
    check_perplexity,
    check_rows,
    check_sample_weight,
)
from ._version import VersionedState


class BaseSoftKMeans(
    PredictionMixin,
    AlignmentMixin,
    VersionedState,
    ClusterMixin,
    CallbackSupportMixin,
    BaseEstimator,
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
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "copy_x": ["boolean"],
    }

    # ------------------------------------------------------------------------------- fit

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the cluster centers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster. float32 and float64 are kept, anything else becomes float64; sparse
            input becomes CSR and is never made dense. Of a memory map of more than 64 MiB one
            block after the other is read in each pass, and initial centers are drawn as in
            `fit_blocks`.
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
        with callbacks_of(self, X, y):
            around = self._fit(X, sample_weight, self._n_runs())
        self._warn(around)
        return self

    def _fit(self, X, sample_weight, n_runs):
        check_perplexity(self.perplexity, self.sigma, self.n_clusters)
        if is_large_map(X):
            return self._fit_map(X, sample_weight, n_runs)
        X = check_rows(self, X, reset=True)
        check_enough_rows(X.shape[0], self.n_clusters)
        sample_weight = check_sample_weight(sample_weight, X)
        init = self._validate_init(X)
        # More threads of BLAS would round differently, and spin between the passes; what underflows
        # is nothing beside the rest.
        with one_blas_thread(), np.errstate(under="ignore"):
            if self._in_batches(X, sample_weight):
                return self._fit_batches(X, sample_weight, n_runs)
            sigma = self._given_sigma or 0.0
            problem = problem_for_fit(
                X, sample_weight, self._alpha, sigma=sigma, resident=self.copy_x
            )
            return self._run(problem, init, n_runs)

    @property
    def _given_sigma(self):
        """`sigma` in the unit of X, None for "auto"."""
        return None if isinstance(self.sigma, str) else float(self.sigma)

    def _run(self, problem, init, n_runs):
        """Fit and store; returns the trials around a perplexity that could not be reached."""
        solution, sigma, around = self._best_solution(problem, init, n_runs)
        self._store(problem, solution, self._sigma_outside(problem, sigma))
        return around

    def _sigma_outside(self, problem, sigma):
        """The temperature in the unit of X: the given one itself, without rounding."""
        given = self._given_sigma
        return float(sigma * problem.unit) if given is None else given

    def _best_solution(self, problem, init, n_runs):
        """The best run at the temperature asked for: (solution, sigma in the frame, trials)."""
        solution, sigma = self._best_run(problem, init, n_runs, self._given_sigma)
        if self.perplexity is None:
            return solution, sigma, []
        return self._search(problem, solution, sigma)

    def _fit_over(self, blocks, n_runs, X=None):
        """Fit to blocks, and label the rows if they are those of X."""
        problem = self._problem_over(blocks, labelled=X is not None)
        check_enough_rows(problem.n_samples, self.n_clusters)
        init = self.init
        if callable(init):
            init = partial(_call_with, init, X)
        elif not isinstance(init, str):
            init = check_initial_centers(init, self.n_clusters, problem.n_features)
        return self._run(problem, init, n_runs)

    def _problem_over(self, blocks, *, labelled):
        sigma = self._given_sigma or 0.0
        return BlockProblem(blocks, alpha=self._alpha, sigma=sigma, labelled=labelled)

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
        """Adapt sigma to the perplexity: (solution, sigma, trials around it if none has it)."""

        def fit(centers, sigma):
            return self._solve(problem, centers, sigma, "search")

        trial, around = search(problem, solution, sigma, self.perplexity, fit)
        return trial.solution, trial.sigma, around

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
        return solve(
            problem,
            centers,
            solver=self.solver,
            sigma=sigma,
            max_iter=self.max_iter,
            tol=self.tol,
            report=Progress(self, problem, sigma, run),
        )

    def _store(self, problem, solution, sigma):
        """Set the fitted attributes, all of them at the final centers as they are stored."""
        self.cluster_centers_ = problem.out_of_frame(solution.centers).astype(problem.dtype)
        self.sigma_ = float(sigma)
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            result = problem.assigned(self.cluster_centers_, self.sigma_)
            path = [*solution.objective_path, result.objective]
            in_frame = sigma / problem.unit
            self.objective_path_ = monotone(problem, in_frame, self.cluster_centers_, path)
        for name in ("labels_", "n_steps_", "_waiting"):  # of an earlier fit
            vars(self).pop(name, None)
        if result.labels is not None:
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
        self.converged_ = solution.stop_reason in ("tol", "stagnation")
        self.n_distinct_clusters_ = self._n_distinct(problem, solution, self.cluster_mass_)

    def _n_distinct(self, problem, solution, mass):
        distance = self.tol * problem.spread if solution.stop_reason == "tol" else 0.0
        return count_distinct(solution.centers, mass, resolution(problem, distance))

    def _warn(self, around):
        for message in shortcomings(self, around):
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    # ------------------------------------------------------------------------ validation

    def _validate_init(self, X):
        if isinstance(self.init, str) or callable(self.init):
            return self.init
        return check_initial_centers(self.init, self.n_clusters, X.shape[1])

    # ---------------------------------------------------------------- fits with a result

    def fit_predict(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.int32]:
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

    def fit_transform(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Any:
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

    @classmethod
    def from_centers(cls, centers: ArrayLike, *, sigma: float, **params: Any) -> Self:
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _call_with(init, X, _, n_clusters, random_state):
    """Call `init` with all rows in place of those of a problem, which has none at hand."""
    return init(X, n_clusters, random_state=random_state)

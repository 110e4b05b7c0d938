"""What fitted estimators do with rows: labels, responsibilities and log-likelihoods."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._assignment import for_prediction
from ._ranges import SMALLEST_SIGMA, precision_of
from ._typing import Array, MatrixLike
from ._validation import check_rows, check_sample_weight


class PredictionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Part of the estimators: what needs nothing but `cluster_centers_` and `sigma_`.

    `set_output` works on `transform` where the class that defines it is a `TransformerMixin`.
    """

    def _validate_fitted(self, X):
        check_is_fitted(self, ["cluster_centers_", "sigma_"])
        return check_rows(self, X, reset=False)

    def _in_frame(self, X, alpha):
        """Rows, centers and sigma in a common frame: (problem, centers, sigma)."""
        problem = for_prediction(X, self.cluster_centers_, self.sigma_, alpha)
        return problem, problem.into_frame(self.cluster_centers_), self.sigma_ / problem.unit

    def predict(self, X: MatrixLike) -> NDArray[np.int32]:
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

    def predict_proba(self, X: ArrayLike) -> Array:
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

    def transform(self, X: MatrixLike) -> Any:
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

    def score_samples(self, X: MatrixLike) -> NDArray[np.float64]:
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

    def score(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> float:
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

    @property
    def _n_features_out(self):
        return len(self.cluster_centers_)

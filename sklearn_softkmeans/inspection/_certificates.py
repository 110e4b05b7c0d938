"""Temperatures that are known without a fit."""

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from .._assignment import for_prediction
from .._centers import critical, problem_for_fit
from .._compat import Interval, validate_params
from .._compiled import one_blas_thread
from .._typing import MatrixLike
from .._validation import check_counted_rows, check_given_centers

_FEW = 32


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "centers": ["array-like"],
        "alpha": [Interval(Real, 1, None, closed="left")],
        "sample_weight": ["array-like", None],
    },
    prefer_skip_nested_validation=True,
)
def hard_sigma(
    X: MatrixLike,
    centers: ArrayLike,
    alpha: float = 1.5,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Largest temperature at which every row has one cluster alone.

    Entmax of order :math:`\alpha` gives a row one cluster exactly if its two smallest squared
    distances differ by :math:`2 \sigma^2 / (\alpha - 1)` or more. So with the smallest gap of all
    rows,

    .. math:: \sigma_{hard} = \sqrt{\frac{\alpha - 1}{2} \min_i (d_{i(2)}^2 - d_{i(1)}^2)}.

    At the centers of a K-means solution this is a certificate: below it they are a fixed point of
    :class:`~sklearn_softkmeans.EntmaxKMeans` with the same labels, and the objective is the
    inertia.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows, dense or CSR; CSR is never made dense.
    centers : array-like of shape (n_clusters, n_features)
        Cluster centers.
    alpha : float, default=1.5
        Order of the entmax family, at least 1.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows. Only rows of positive weight count.

    Returns
    -------
    sigma : float
        Temperature as a length in the unit of X. 0 where `alpha` is 1, since softmax is never
        hard, and where a row is equally far from its nearest two centers; infinite for a single
        center.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or an array is not finite or of the wrong shape.

    See Also
    --------
    critical_sigma : Above it all centers merge.

    References
    ----------
    M. Blondel, A. F. T. Martins and V. Niculae, "Learning with Fenchel-Young losses", Journal of
    Machine Learning Research 21, 2020.

    Examples
    --------
    >>> from sklearn_softkmeans.inspection import hard_sigma
    >>> hard_sigma([[-1.0], [0.5], [1.0]], [[-1.0], [1.0]])
    0.707...
    """
    X, _ = check_counted_rows(X, sample_weight)
    centers = check_given_centers(centers, X)
    if len(centers) == 1:
        return np.inf
    with one_blas_thread(), np.errstate(under="ignore"):
        problem = for_prediction(X, centers, 0.0, alpha)
        gap = _smallest_gap(problem, centers)
        return float(np.sqrt(0.5 * (alpha - 1.0) * gap) * problem.unit)


def _smallest_gap(problem, centers):
    """Smallest d_(2)^2 - d_(1)^2 of all rows, in the frame.

    Gaps may lack digits that the squares have lost: the smallest few again, from differences.
    """
    labels, gaps = problem.labels_and_gaps(problem.into_frame(centers))
    ids = np.argsort(gaps, kind="stable")[:_FEW]
    rows = problem.dense_rows(ids).astype(np.float64) / problem.unit
    points = centers / problem.unit
    smallest = np.inf
    for row, nearest in zip(rows, points[labels[ids]], strict=True):
        lags = ((nearest - points) * ((row - points) + (row - nearest))).sum(axis=1)
        first, second = np.partition(lags, 1)[:2]
        smallest = min(smallest, second - first)
    return smallest


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 1, None, closed="left")],
        "sample_weight": ["array-like", None],
    },
    prefer_skip_nested_validation=True,
)
def critical_sigma(
    X: MatrixLike,
    n_clusters: int,
    alpha: float = 1.0,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Temperature above which all centers at the mean of the rows are stable.

    .. math:: \sigma_c = \sqrt{K^{\alpha - 1} \lambda_{max}},

    with K the number of clusters and :math:`\lambda_{max}` the largest eigenvalue of the weighted
    (biased) covariance of X. Below it centers at the mean move apart at the smallest disturbance,
    along the first principal axis. Where the data are skewed, centers that are apart already may
    stay so above it.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows, dense or CSR; CSR is never made dense, and no matrix of features times features is
        formed where there are more than a few.
    n_clusters : int
        Number of clusters, at least 1. With one there is nothing to move apart, and the result is
        the standard deviation along the first principal axis.
    alpha : float, default=1.0
        Order of the map from scores to responsibilities, at least 1: 1 is softmax, 1.5 the default
        of :class:`~sklearn_softkmeans.EntmaxKMeans`, 2 sparsemax.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows, not all zero and of a finite sum.

    Returns
    -------
    sigma : float
        Temperature as a length in the unit of X; 0 where all rows are equal, and infinite where it
        does not fit into float64, with `alpha` in the hundreds.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or an array is not finite or of the wrong shape.

    See Also
    --------
    hard_sigma : Below it every row has one cluster.

    References
    ----------
    K. Rose, "Deterministic annealing for clustering, compression, classification, regression, and
    related optimization problems", Proceedings of the IEEE 86, 1998.

    Examples
    --------
    >>> from sklearn_softkmeans.inspection import critical_sigma
    >>> critical_sigma([[-1.0], [1.0]], n_clusters=4)
    1.0
    >>> critical_sigma([[-1.0], [1.0]], n_clusters=4, alpha=1.5)
    1.414...
    """
    X, weights = check_counted_rows(X, sample_weight)
    with one_blas_thread(), np.errstate(under="ignore"):
        problem = problem_for_fit(X, weights, alpha, resident=False)
        return float(critical(problem, n_clusters) * problem.unit)

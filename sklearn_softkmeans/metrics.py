"""Indices of soft memberships, and scorers made of them for model selection.

An index says how clear or how compact a soft clustering is. None of them sees how well a model fits
rows it was not fitted on; `score` of the estimators does. Indices depend on sigma: compare them at
equal perplexity, or over the number of clusters.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist
from scipy.special import entr
from sklearn.metrics import silhouette_samples
from sklearn.utils import check_array

from ._assignment import for_prediction
from ._compiled import one_blas_thread
from ._typing import MatrixLike
from ._validation import check_counted_rows, check_given_centers, check_sample_weight

__all__ = [
    "fuzzy_silhouette_score",
    "fuzzy_silhouette_scorer",
    "neg_partition_entropy_scorer",
    "neg_xie_beni_scorer",
    "partition_coefficient",
    "partition_coefficient_scorer",
    "partition_entropy",
    "xie_beni_index",
]


# -------------------------------------------------------------------------------- indices


def partition_coefficient(
    responsibilities: MatrixLike, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Mean over rows of the sum of squared responsibilities, :math:`\sum_j r_{ij}^2`.

    Parameters
    ----------
    responsibilities : array-like of shape (n_samples, n_clusters)
        Non-negative, and each row sums to one.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows.

    Returns
    -------
    coefficient : float
        Between ``1 / n_clusters``, all rows equally shared, and 1, all rows hard.

    Raises
    ------
    ValueError
        If the arrays do not fit, or rows do not sum to one.

    References
    ----------
    J. C. Bezdek, "Cluster validity with fuzzy sets", Journal of Cybernetics 3(3), 1973.

    Examples
    --------
    >>> from sklearn_softkmeans.metrics import partition_coefficient
    >>> partition_coefficient([[1.0, 0.0], [0.5, 0.5]])
    0.75
    """
    resp = _check_responsibilities(responsibilities)
    return _mean((resp * resp).sum(axis=1), sample_weight)


def partition_entropy(
    responsibilities: MatrixLike, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Mean over rows of the Shannon entropy :math:`-\sum_j r_{ij} \log r_{ij}`, in nats.

    Parameters
    ----------
    responsibilities : array-like of shape (n_samples, n_clusters)
        Non-negative, and each row sums to one.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows.

    Returns
    -------
    entropy : float
        Between 0, all rows hard, and ``log(n_clusters)``, all rows equally shared.

    Raises
    ------
    ValueError
        If the arrays do not fit, or rows do not sum to one.

    References
    ----------
    J. C. Bezdek, "Pattern Recognition with Fuzzy Objective Function Algorithms", Plenum, 1981.

    Examples
    --------
    >>> from sklearn_softkmeans.metrics import partition_entropy
    >>> round(partition_entropy([[1.0, 0.0], [0.5, 0.5]]), 4)
    0.3466
    """
    resp = _check_responsibilities(responsibilities)
    return _mean(entr(resp).sum(axis=1), sample_weight)


def xie_beni_index(
    X: MatrixLike,
    responsibilities: MatrixLike,
    centers: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compactness over separation: lower is better.

    .. math:: \frac{\sum_{ij} w_i r_{ij}^2 |x_i - c_j|^2}
              {\sum_i w_i \; \min_{j \ne l} |c_j - c_l|^2}

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    responsibilities : array-like of shape (n_samples, n_clusters)
        Non-negative, and each row sums to one.
    centers : array-like of shape (n_clusters, n_features)
        Cluster centers, at least two.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows.

    Returns
    -------
    index : float
        At least 0; infinite where two centers are equal.

    Raises
    ------
    ValueError
        If the arrays do not fit, rows do not sum to one, or there is a single center.

    References
    ----------
    X. L. Xie and G. Beni, "A validity measure for fuzzy clustering", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 13(8), 1991.

    Examples
    --------
    >>> from sklearn_softkmeans.metrics import xie_beni_index
    >>> X = [[0.0], [1.0], [4.0]]
    >>> round(xie_beni_index(X, [[1, 0], [1, 0], [0, 1]], [[0.5], [4.0]]), 4)
    0.0136
    """
    resp = _check_responsibilities(responsibilities)
    X, _ = check_counted_rows(X, None)
    centers = check_given_centers(centers, X)
    if resp.shape != (X.shape[0], len(centers)):
        raise ValueError(
            f"responsibilities have the shape {resp.shape}, but X and centers ask for "
            f"(n_samples, n_clusters)={(X.shape[0], len(centers))}."
        )
    if len(centers) == 1:
        raise ValueError("The index compares centers: it needs at least two, got one.")
    separation = pdist(centers, "sqeuclidean").min()
    if separation == 0.0:
        return np.inf
    with one_blas_thread():
        problem = for_prediction(X, centers, 0.0, 1.0)
        # Distances, like the centers of this problem, are relative to X as it is given.
        sq_distances = problem.sq_distances(centers / problem.unit, np.full(X.shape[0], np.inf))
    scatter = (resp * resp * sq_distances.T).sum(axis=1) * problem.unit**2
    return float(_mean(scatter, sample_weight) / separation)


def fuzzy_silhouette_score(
    X: MatrixLike,
    responsibilities: MatrixLike,
    *,
    exponent: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Mean silhouette of the rows, in which shared ones count less: higher is better.

    A row counts by :math:`(r_{(1)} - r_{(2)})^a`, the lead of its largest responsibility. The
    silhouette is that of the hard labels.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    responsibilities : array-like of shape (n_samples, n_clusters)
        Non-negative, and each row sums to one; at least two clusters are the largest of some row.
    exponent : float, default=1.0
        The power :math:`a` of the lead, at least 0; with 0 all rows count alike.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows in the mean. The silhouettes themselves take no weights.

    Returns
    -------
    score : float
        Between -1 and 1; NaN where no row leads.

    Raises
    ------
    ValueError
        If the arrays do not fit, rows do not sum to one, `exponent` is negative, or the labels are
        fewer than two or as many as there are rows.

    References
    ----------
    R. J. G. B. Campello and E. R. Hruschka, "A fuzzy extension of the silhouette width criterion
    for cluster analysis", Fuzzy Sets and Systems 157(21), 2006.

    Examples
    --------
    >>> from sklearn_softkmeans.metrics import fuzzy_silhouette_score
    >>> X = [[0.0], [0.5], [4.0], [4.5]]
    >>> shares = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.0, 1.0]]
    >>> round(fuzzy_silhouette_score(X, shares), 4)
    0.875
    """
    resp = _check_responsibilities(responsibilities)
    if not exponent >= 0.0:
        raise ValueError(f"exponent={exponent} must be at least 0.")
    if resp.shape[1] < 2:
        raise ValueError("The silhouette compares clusters: it needs at least two, got one.")
    silhouettes = silhouette_samples(X, resp.argmax(axis=1))
    second, first = np.partition(resp, -2, axis=1)[:, -2:].T
    lead = (first - second) ** exponent
    weights = check_sample_weight(sample_weight, resp)
    if weights is not None:
        lead = lead * weights
    return float(lead @ silhouettes / lead.sum()) if lead.any() else np.nan


# -------------------------------------------------------------------------------- scorers


def partition_coefficient_scorer(estimator: Any, X: MatrixLike, y: object = None) -> float:
    """Score a fitted estimator by its :func:`partition_coefficient`, in a search.

    Parameters
    ----------
    estimator : object
        Fitted; its `transform` returns responsibilities.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to score.
    y : Ignored
        Not used, present for API consistency by convention.

    Returns
    -------
    score : float
        Higher is clearer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_softkmeans import SoftKMeans
    >>> from sklearn_softkmeans.metrics import partition_coefficient_scorer
    >>> X = load_iris().data
    >>> model = SoftKMeans(2, random_state=0).fit(X)
    >>> round(partition_coefficient_scorer(model, X), 3)
    0.97
    """
    return partition_coefficient(estimator.transform(X))


def neg_partition_entropy_scorer(estimator: Any, X: MatrixLike, y: object = None) -> float:
    """Score a fitted estimator by its negative :func:`partition_entropy`, in a search.

    Parameters
    ----------
    estimator : object
        Fitted; its `transform` returns responsibilities.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to score.
    y : Ignored
        Not used, present for API consistency by convention.

    Returns
    -------
    score : float
        Higher is clearer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_softkmeans import SoftKMeans
    >>> from sklearn_softkmeans.metrics import neg_partition_entropy_scorer
    >>> X = load_iris().data
    >>> model = SoftKMeans(2, random_state=0).fit(X)
    >>> round(neg_partition_entropy_scorer(model, X), 3)
    -0.053
    """
    return -partition_entropy(estimator.transform(X))


def neg_xie_beni_scorer(estimator: Any, X: MatrixLike, y: object = None) -> float:
    """Score a fitted estimator by its negative :func:`xie_beni_index`, in a search.

    Parameters
    ----------
    estimator : object
        Fitted; with `cluster_centers_`, and a `transform` that returns responsibilities.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to score.
    y : Ignored
        Not used, present for API consistency by convention.

    Returns
    -------
    score : float
        Higher is more compact and better separated.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_softkmeans import SoftKMeans
    >>> from sklearn_softkmeans.metrics import neg_xie_beni_scorer
    >>> X = load_iris().data
    >>> model = SoftKMeans(2, random_state=0).fit(X)
    >>> round(neg_xie_beni_scorer(model, X), 3)
    -0.062
    """
    return -xie_beni_index(X, estimator.transform(X), estimator.cluster_centers_)


def fuzzy_silhouette_scorer(estimator: Any, X: MatrixLike, y: object = None) -> float:
    """Score a fitted estimator by its :func:`fuzzy_silhouette_score`, in a search.

    Parameters
    ----------
    estimator : object
        Fitted; its `transform` returns responsibilities.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to score.
    y : Ignored
        Not used, present for API consistency by convention.

    Returns
    -------
    score : float
        Higher is more compact and better separated.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_softkmeans import SoftKMeans
    >>> from sklearn_softkmeans.metrics import fuzzy_silhouette_scorer
    >>> X = load_iris().data
    >>> model = SoftKMeans(2, random_state=0).fit(X)
    >>> round(fuzzy_silhouette_scorer(model, X), 3)
    0.698
    """
    return fuzzy_silhouette_score(X, estimator.transform(X))


# ------------------------------------------------------------------------------ machinery


def _check_responsibilities(responsibilities):
    resp = check_array(responsibilities, dtype=np.float64, input_name="responsibilities")
    if (resp < 0.0).any() or np.abs(resp.sum(axis=1) - 1.0).max() > 1e-4:
        raise ValueError("responsibilities must be non-negative, and each row must sum to one.")
    return resp


def _mean(values, sample_weight):
    weights = check_sample_weight(sample_weight, values[:, None])
    return float(np.average(values, weights=weights))

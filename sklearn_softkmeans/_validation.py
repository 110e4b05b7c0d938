"""What rows, weights and centers must be: arrays in, arrays out, or an error that says why."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ._compat import check_raw_weights

FLOATS = [np.float64, np.float32]


_ROWS = {"accept_sparse": "csr", "dtype": FLOATS, "order": "C", "accept_large_sparse": True}


def check_rows(estimator, X, *, reset):
    """X as the estimator takes it: in its precision, C-contiguous or canonical CSR."""
    refuse_dask(X)
    return _canonical(validate_data(estimator, X, reset=reset, **_ROWS))


def check_counted_rows(X, sample_weight):
    """The rows that count and their weights, for functions; None stands for unit weights."""
    refuse_dask(X)
    X = check_array(X, input_name="X", **_ROWS)
    weights = check_sample_weight(sample_weight, X)
    if weights is not None and not weights.all():
        X, weights = X[weights > 0.0], weights[weights > 0.0]
    return _canonical(X), weights


def check_block(X):
    """Rows as the kernels take them, of whatever features."""
    return _canonical(check_array(X, input_name="X", **_ROWS))


def _canonical(X):
    if issparse(X) and not (X.has_canonical_format and X.data.all()):
        X = X.copy()  # the caller's matrix stays as it is
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def check_given_centers(centers, X):
    """Centers that a function is given, as a float64 array that fits the rows."""
    centers = check_array(centers, dtype=np.float64, input_name="centers")
    if centers.shape[1] != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but centers have {centers.shape[1]}: pass centers of "
            "shape (n_clusters, n_features)."
        )
    return centers


def refuse_dask(X):
    """Raise for a collection of dask, or several, which would be read into memory as a whole."""
    first = X[0] if isinstance(X, list | tuple) and len(X) > 0 else X
    if hasattr(type(first), "__dask_graph__"):
        raise TypeError(
            f"X is a dask {type(first).__name__}, which would have to be read into memory. Use "
            "DaskSoftKMeans or DaskEntmaxKMeans of sklearn_softkmeans.dask, or X.compute()."
        )


def check_sample_weight(sample_weight, X):
    """Weights of all rows as float64, not all zero and of a finite sum; None for unit weights."""
    if sample_weight is None:
        return None
    weights = check_raw_weights(sample_weight, X)
    if not weights.any():
        raise ValueError("Sample weights are all zero: sample_weight needs a positive entry.")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            raise ValueError("sample_weight must be finite, and its sum too. Scale it down.")
    return weights


def check_enough_rows(n_samples, n_clusters):
    """Raise where there are fewer rows than clusters."""
    if n_samples < n_clusters:
        raise ValueError(
            f"n_samples={n_samples} should be >= n_clusters={n_clusters}. Ask for fewer clusters."
        )


def check_initial_centers(centers, n_clusters, n_features):
    """Initial centers as a float64 array of the right shape."""
    centers = check_array(centers, dtype=np.float64, input_name="init")
    if centers.shape != (n_clusters, n_features):
        raise ValueError(
            f"The shape of the initial centers {centers.shape} does not match "
            f"(n_clusters, n_features)={(n_clusters, n_features)}."
        )
    return centers


def check_perplexity(perplexity, sigma, n_clusters):
    """Whether it is one that n_clusters can have, and the only word on the temperature."""
    if perplexity is None:
        return
    if not isinstance(sigma, str):
        raise ValueError(
            f"Both sigma={sigma} and perplexity={perplexity} were given. Leave sigma at "
            '"auto" to have it solved for, or perplexity at None.'
        )
    if perplexity >= n_clusters:
        raise ValueError(
            f"perplexity={perplexity} must be below n_clusters={n_clusters}, the number of "
            "clusters a row can belong to."
        )

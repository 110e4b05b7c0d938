"""Rows, starts and temperatures, all reproducible."""

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import entr
from sklearn.cluster import KMeans

from sklearn_softkmeans.projections import entmax

# Rows from which a perplexity is found; they are in no order, so the first ones will do.
SAMPLE = 1000


def overlapping_blobs(n_samples, n_features, n_clusters, dtype, seed=0):
    """Gaussian clusters of unit variance whose centres are typically 4 apart.

    Neighbours overlap, more so with many clusters in few dimensions. So labels go on changing
    for dozens of iterations, as on real data, where separate blobs would be found in a few.
    """
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=4.0 / np.sqrt(2.0 * n_features), size=(n_clusters, n_features))
    X = rng.normal(size=(n_samples, n_features))
    X += centers[rng.integers(n_clusters, size=n_samples)]
    return X.astype(dtype)


def early_centers(X, n_clusters, seed=0):
    """Centres as they are early in a fit: random rows, after two iterations of K-means."""
    rows = np.random.default_rng(seed).choice(len(X), n_clusters, replace=False)
    start = KMeans(n_clusters, init=X[rows], n_init=1, max_iter=2, tol=0.0, algorithm="lloyd")
    return start.fit(X).cluster_centers_


def hot_sigma(X, centers, alpha):
    """Temperature at which the mean perplexity at these centres is half their number.

    Perplexity is exp(Shannon entropy) of a row of responsibilities, the number of clusters that
    share it. It is scale-free, means the same for softmax and entmax, and rises further as the
    centres of a hot model move towards each other.
    """
    sq_distances = cdist(X[:SAMPLE], centers, "sqeuclidean")
    low, high = 1e-3 * X.std(), 1e3 * X.std()
    for _ in range(25):
        sigma = np.sqrt(low * high)
        if mean_perplexity(entmax(sq_distances / (-2.0 * sigma**2), alpha)) < len(centers) / 2.0:
            low = sigma
        else:
            high = sigma
    return float(sigma)


def mean_perplexity(resp):
    return float(np.exp(entr(resp).sum(axis=1)).mean())

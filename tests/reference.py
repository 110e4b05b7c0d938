"""Plain references for the tests: the definitions, written out in float64.

Nothing here is fast, and nothing here is shared with the package.
Notation: rows x_i with weights w_i, centres mu_j, d_ij the distance between
them, T = 2 sigma^2, and r_ij the share of row i that centre j gets.

    scores                z_ij = -d_ij^2 / T
    responsibilities      r_i = alpha-entmax of z_i (softmax at alpha = 1)
    free energy           F = sum_i w_i ( sum_j r_ij d_ij^2 + T Omega(r_i) )
    distortion            J = sum_i w_i min_j d_ij^2
    weighted distortion   L = sum_ij w_i r_ij d_ij^2
"""

from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp, xlogy
from scipy.special import softmax as scipy_softmax
from sklearn import datasets
from sklearn.cluster import kmeans_plusplus
from sklearn.preprocessing import StandardScaler

# ---------------------------------------------------------------- projections


def softmax(scores):
    return scipy_softmax(np.asarray(scores, dtype=np.float64), axis=-1)


def sparsemax_row(scores):
    """Euclidean projection on the simplex: the threshold found by sorting."""
    shifted = scores - scores.max()
    ordered = np.sort(shifted)[::-1]
    sizes = np.arange(1, len(ordered) + 1)
    with np.errstate(invalid="ignore"):
        thresholds = (np.cumsum(ordered) - 1.0) / sizes
    support = ordered > thresholds
    return np.maximum(shifted - thresholds[support][-1], 0.0)


def entmax15_row(scores):
    """p_j = [z_j / 2 - tau]_+^2: the threshold found by sorting.

    With the largest half score at 0, tau >= -1, so scores below -1 cannot
    have mass. For the m largest, sum (z - tau)^2 = 1 is a quadratic equation.
    """
    shifted = (scores - scores.max()) / 2.0
    ordered = np.sort(shifted[shifted > -1.0])[::-1]
    tau = None
    for size in range(1, len(ordered) + 1):
        mean = ordered[:size].mean()
        spread = ((ordered[:size] - mean) ** 2).sum()
        if spread > 1.0:
            break
        candidate = mean - np.sqrt((1.0 - spread) / size)
        if ordered[size - 1] > candidate:
            tau = candidate
    return np.maximum(shifted - tau, 0.0) ** 2


def entmax_exact_row(scores, alpha, digits=35):
    """Any alpha > 1: bisection on the threshold in decimal arithmetic.

    Written as p_j = (1 + (alpha - 1) (z_j - lam))^(1 / (alpha - 1)), the
    threshold lam has a limit (the log-sum-exp) as alpha falls to 1.
    """
    finite = np.isfinite(scores)
    with localcontext(prec=digits):
        step = Decimal(float(alpha)) - 1
        top = Decimal(float(scores.max()))
        gaps = [Decimal(float(z)) - top for z in scores[finite]]

        def masses(lam):
            bases = [1 + step * (gap - lam) for gap in gaps]
            return [base ** (1 / step) if base > 0 else Decimal(0) for base in bases]

        low = Decimal(0)
        high = (1 - Decimal(len(gaps)) ** (-step)) / step
        for _ in range(3 * digits):
            middle = (low + high) / 2
            if sum(masses(middle)) > 1:
                low = middle
            else:
                high = middle
        found = [float(mass) for mass in masses((low + high) / 2)]
    result = np.zeros(len(scores))
    result[finite] = found
    return result


def entmax_bisection(scores, alpha):
    """The same bisection in float64, all rows at once: alpha well above 1."""
    step = alpha - 1.0
    shifted = scores - scores.max(axis=-1, keepdims=True)

    def masses(lam):
        return np.maximum(1.0 + step * (shifted - lam), 0.0) ** (1.0 / step)

    low = np.zeros_like(shifted[..., :1])
    high = low + (1.0 - scores.shape[-1] ** -step) / step
    for _ in range(80):
        middle = (low + high) / 2.0
        above = masses(middle).sum(axis=-1, keepdims=True) > 1.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return masses((low + high) / 2.0)


def entmax(scores, alpha):
    """alpha-entmax along the last axis."""
    scores = np.asarray(scores, dtype=np.float64)
    if alpha == 1:
        return softmax(scores)
    if alpha == 1.5:
        return np.apply_along_axis(entmax15_row, -1, scores)
    if alpha == 2:
        return np.apply_along_axis(sparsemax_row, -1, scores)
    return entmax_bisection(scores, alpha)


# ------------------------------------------------------ functions of the centres


def sq_distances(X, centers):
    X, centers = _dense(X), _dense(centers)
    return np.array([((X - center) ** 2).sum(axis=1) for center in centers]).T


def scores(X, centers, sigma):
    return -sq_distances(X, centers) / (2.0 * sigma**2)


def one_hot(labels, n_clusters):
    return np.eye(n_clusters)[labels]


def responsibilities(X, centers, sigma, alpha=1.0):
    if sigma == 0:
        return one_hot(sq_distances(X, centers).argmin(axis=1), len(centers))
    return entmax(scores(X, centers, sigma), alpha)


def negative_entropy(resp, alpha):
    """Omega_alpha of every row; its limit sum p log p at alpha = 1."""
    if alpha == 1:
        return xlogy(resp, resp).sum(axis=-1)
    return ((resp**alpha).sum(axis=-1) - 1.0) / (alpha * (alpha - 1.0))


def max_entropy(n_clusters, alpha):
    return -negative_entropy(np.full(n_clusters, 1.0 / n_clusters), alpha)


def free_energy(X, centers, sigma, alpha=1.0, sample_weight=None):
    resp = responsibilities(X, centers, sigma, alpha)
    rows = (resp * sq_distances(X, centers)).sum(axis=1)
    rows += 2.0 * sigma**2 * negative_entropy(resp, alpha)
    return float(_weights(X, sample_weight) @ rows)


def distortion(X, centers, sample_weight=None):
    return float(_weights(X, sample_weight) @ sq_distances(X, centers).min(axis=1))


def mixture_log_likelihood(X, centers, sigma):
    """Log-density per row of the equal-weight mixture of N(mu_j, sigma^2 I)."""
    n_clusters, n_features = centers.shape
    log_norm = -0.5 * n_features * np.log(2.0 * np.pi * sigma**2)
    logs = scores(X, centers, sigma) + log_norm
    return logsumexp(logs, axis=1) - np.log(n_clusters)


def gaps(X, centers):
    """Per row: squared distance to the second nearest centre minus the nearest."""
    nearest = np.sort(sq_distances(X, centers), axis=1)
    return nearest[:, 1] - nearest[:, 0]


# ---------------------------------------------------------------------- steps


def em_step(X, centers, sigma, alpha=1.0, sample_weight=None):
    """Every centre moves to the mean of its rows; softmax shares in logs."""
    weight = _weights(X, sample_weight)
    if alpha == 1 and sigma > 0:
        log_shares = log_softmax(scores(X, centers, sigma), axis=1)
        with np.errstate(divide="ignore"):
            log_shares += np.log(weight)[:, None]
        shares = scipy_softmax(log_shares, axis=0)
    else:
        shares = responsibilities(X, centers, sigma, alpha) * weight[:, None]
        mass = shares.sum(axis=0)
        assert (mass > 0).all(), "the reference does not treat empty clusters"
        shares /= mass
    return shares.T @ _dense(X)


def lloyd_step(X, centers, sample_weight=None):
    return em_step(X, centers, 0.0, 2.0, sample_weight)


class LloydRun(NamedTuple):
    centers: np.ndarray
    labels: np.ndarray
    smallest_gap: float


def lloyd_run(X, centers, sample_weight=None, max_iter=300):
    """Lloyd's algorithm to its fixed point, and the smallest gap met on the way."""
    smallest_gap = np.inf
    for _ in range(max_iter):
        smallest_gap = min(smallest_gap, gaps(X, centers).min())
        moved = lloyd_step(X, centers, sample_weight)
        if np.array_equal(moved, centers):
            break
        centers = moved
    labels = sq_distances(X, centers).argmin(axis=1)
    return LloydRun(centers, labels, float(smallest_gap))


def hard_sigma(gap, alpha):
    """The sigma below which a score gap makes alpha-entmax one-hot."""
    return np.sqrt(gap * (alpha - 1.0) / 2.0)


def auto_sigma(X, centers, sample_weight=None):
    """The three lengths of which sigma="auto" is the smallest, for a start at `centers`."""
    X, weight = _dense(X), _weights(X, sample_weight)
    covariance = np.cov(X, rowvar=False, bias=True, aweights=weight)
    by_variance = 0.5 * np.sqrt(np.linalg.eigvalsh(np.atleast_2d(covariance))[-1])
    if len(centers) == 1:
        return AutoSigma(np.inf, np.inf, by_variance)
    centers = lloyd_step(X, centers, sample_weight)
    found = gaps(X, centers)
    nearest = sq_distances(X, centers).argmin(axis=1)
    medians = [
        weighted_quantile(found[nearest == j], weight[nearest == j], 0.5)
        for j in np.unique(nearest)
    ]
    by_decile = 0.5 * np.sqrt(weighted_quantile(found, weight, 0.1))
    return AutoSigma(by_decile, 0.25 * np.sqrt(min(medians)), by_variance)


class AutoSigma(NamedTuple):
    by_decile: float  # half the root of the lower decile of all gaps after a Lloyd step
    by_median: float  # a quarter of the root of the smallest median gap of a cluster
    by_variance: float  # half the standard deviation of the first principal axis


def weighted_quantile(values, weight, share):
    """The smallest value up to which there is this share of the weight."""
    order = np.argsort(values)
    mass = np.cumsum(weight[order])
    return values[order][np.searchsorted(mass, share * mass[-1])]


def _weights(X, sample_weight):
    if sample_weight is None:
        return np.ones(X.shape[0])
    return np.asarray(sample_weight, dtype=np.float64)


def _dense(X):
    X = X.toarray() if hasattr(X, "toarray") else X
    return np.asarray(X, dtype=np.float64)


# ------------------------------------------------------------------ data sets


@lru_cache
def _load(name):
    if name == "iris":
        return datasets.load_iris().data
    if name == "wine":
        return StandardScaler().fit_transform(datasets.load_wine().data)
    if name == "digits":
        return datasets.load_digits().data
    if name == "cancer":
        return StandardScaler().fit_transform(datasets.load_breast_cancer().data)
    if name == "25 blobs":
        return blobs(25, n_samples=5000, n_features=8, std=2.0, box=100.0, seed=0)
    if name == "50 blobs":
        return blobs(50, n_samples=1500, n_features=3, std=0.5, box=20.0, seed=4)
    raise KeyError(name)


def data(name):
    """A copy of a named data set: iris, wine, digits, cancer, 25 or 50 blobs."""
    return _load(name).copy()


def blobs(n_clusters, *, n_samples=300, n_features=2, std=0.5, box=10.0, seed=0):
    return datasets.make_blobs(
        n_samples=n_samples,
        n_features=n_features,
        centers=n_clusters,
        cluster_std=std,
        center_box=(-box, box),
        random_state=seed,
    )[0]


def weights(n_samples, seed=0):
    return np.random.RandomState(seed).uniform(0.2, 3.0, size=n_samples)


def spread_start(X, n_clusters, seed=0):
    """k-means++ rows moved a little, so that no distance is tied."""
    centers, _ = kmeans_plusplus(X, n_clusters, random_state=seed)
    noise = np.random.RandomState(seed).normal(size=centers.shape)
    return centers + 0.02 * X.std() * noise

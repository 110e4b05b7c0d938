"""Where soft K-means is K-means: sigma = 0, sigma under the certificate, tiny sigma."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import reference
from models import at_centers, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

PROBLEMS = [
    ("iris", 3),
    ("iris", 8),
    ("wine", 3),
    ("digits", 10),
    ("cancer", 5),
    ("50 blobs", 50),
]
problems = pytest.mark.parametrize("name, n_clusters", PROBLEMS)
weightings = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array])


class Setting(NamedTuple):
    X: np.ndarray
    weight: np.ndarray | None
    start: np.ndarray
    expected: KMeans
    smallest_gap: float


@lru_cache
def setting(name, n_clusters, weighted=False):
    """A start, and what scikit-learn makes of it."""
    X = reference.data(name)
    weight = reference.weights(len(X)) if weighted else None
    start = reference.spread_start(X, n_clusters)
    return Setting(X, weight, start, *kmeans(X, start, weight))


def kmeans(X, start, weight=None):
    run = reference.lloyd_run(X, start, weight)
    assert run.smallest_gap > 1e-6  # no ties: the answer does not hang on rounding
    fitted = KMeans(len(start), init=start, n_init=1, algorithm="lloyd", tol=0, max_iter=300)
    fitted.fit(X, sample_weight=weight)
    np.testing.assert_array_equal(fitted.labels_, run.labels)
    return fitted, run.smallest_gap


def assert_same(fitted, expected):
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    np.testing.assert_allclose(
        fitted.cluster_centers_, expected.cluster_centers_, rtol=1e-9, atol=1e-9
    )
    assert fitted.inertia_ == pytest.approx(expected.inertia_, rel=1e-9)
    assert fitted.converged_


@problems
@weightings
@containers
@pytest.mark.parametrize("Estimator", [SoftKMeans, EntmaxKMeans])
def test_sigma_zero_is_kmeans(Estimator, container, weighted, name, n_clusters):
    X, weight, start, expected, _ = setting(name, n_clusters, weighted)
    fitted = Estimator(n_clusters, sigma=0, init=start, tol=0)
    assert_same(fitted.fit(container(X), sample_weight=weight), expected)
    assert fitted.sigma_ == 0
    assert fitted.objective_ == pytest.approx(expected.inertia_, rel=1e-9)
    counts = np.ones(len(X)) if weight is None else weight
    mass = np.bincount(expected.labels_, weights=counts, minlength=n_clusters)
    np.testing.assert_allclose(fitted.cluster_mass_, mass, rtol=1e-12)


@problems
@weightings
@containers
@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_entmax_under_the_hardness_certificate_is_kmeans(
    alpha, container, weighted, name, n_clusters
):
    """The sigma stays below the hard one at every step, so every step is Lloyd's."""
    X, weight, start, expected, gap = setting(name, n_clusters, weighted)
    sigma = 0.99 * reference.hard_sigma(gap, alpha)
    fitted = EntmaxKMeans(n_clusters, alpha, sigma=sigma, init=start, tol=0)
    assert_same(fitted.fit(container(X), sample_weight=weight), expected)
    assert fitted.objective_ == pytest.approx(fitted.inertia_, rel=1e-12)


@problems
@weightings
@pytest.mark.parametrize("alpha", [1.0, 1.3])
def test_a_small_positive_sigma_is_kmeans(alpha, weighted, name, n_clusters):
    """exp(-60) of the smallest gap is far below one rounding of the largest share."""
    X, weight, start, expected, gap = setting(name, n_clusters, weighted)
    fitted = model(alpha, n_clusters, sigma=np.sqrt(gap / 120), init=start, tol=0)
    assert_same(fitted.fit(X, sample_weight=weight), expected)


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
@pytest.mark.parametrize("sigma", [1e-2, 1e-5, 1e-8, 1e-12, 1e-100, 1e-160, 1e-300])
def test_a_sigma_whose_square_underflows_is_kmeans(alpha, sigma):
    X = reference.blobs(np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]), n_samples=90, std=0.3)
    start = np.array([[0.1, 0.0], [5.0, 0.1], [0.0, 5.1]])
    expected, _ = kmeans(X, start)
    fitted = model(alpha, 3, sigma=sigma, init=start)
    assert_same(fitted.fit(X), expected)
    np.testing.assert_array_equal(fitted.transform(X), reference.one_hot(expected.labels_, 3))
    assert np.isfinite(fitted.objective_path_).all()


@problems
def test_float32_sigma_zero_is_kmeans_to_float32_rounding(name, n_clusters):
    X, _, start, *_ = setting(name, n_clusters)
    X, start = X.astype(np.float32), start.astype(np.float32)
    run = reference.lloyd_run(X, start)
    fitted = SoftKMeans(n_clusters, sigma=0, init=start, tol=0).fit(X)
    assert (fitted.labels_ != run.labels).mean() < 0.002
    np.testing.assert_allclose(fitted.cluster_centers_, run.centers, rtol=1e-3, atol=1e-3 * X.std())


@pytest.mark.parametrize("seed", range(5))
def test_sigma_zero_relocates_empty_clusters_like_kmeans(seed):
    """Starts with centres far outside the data, which own no row at first."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(80, 2)) * [3.0, 1.0]
    start = np.vstack([X[:3] + 0.01, [[60.0, 60.0], [-70.0, 50.0]]])
    expected = KMeans(5, init=start, n_init=1, tol=0).fit(X)
    for Estimator in (SoftKMeans, EntmaxKMeans):
        fitted = Estimator(5, sigma=0, init=start, tol=0).fit(X)
        np.testing.assert_array_equal(fitted.labels_, expected.labels_)
        np.testing.assert_allclose(
            fitted.cluster_centers_, expected.cluster_centers_, rtol=0, atol=1e-9
        )


@problems
@pytest.mark.parametrize("softness", [0.1, 0.5, 2.0])
def test_responsibilities_are_those_of_a_tied_spherical_gaussian_mixture(
    softness, name, n_clusters
):
    X, _, centers, *_ = setting(name, n_clusters)
    sigma = softness * np.sqrt(np.median(reference.gaps(X, centers)))
    mixture = GaussianMixture(n_clusters, covariance_type="spherical")
    mixture.weights_ = np.full(n_clusters, 1 / n_clusters)
    mixture.means_ = centers
    mixture.covariances_ = np.full(n_clusters, sigma**2)
    mixture.precisions_cholesky_ = 1 / np.sqrt(mixture.covariances_)
    ours = at_centers(1.0, centers, sigma)
    np.testing.assert_allclose(ours.predict_proba(X), mixture.predict_proba(X), rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.score_samples(X), mixture.score_samples(X), rtol=1e-9)
    assert ours.score(X) == pytest.approx(mixture.score(X), rel=1e-9)

"""Certificates: where rows are hard, and where centres merge."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans

import reference
from models import at_centers, fit_quietly, model
from sklearn_softkmeans.inspection import critical_sigma, hard_sigma

PROBLEMS = [("iris", 3), ("wine", 3), ("digits", 10), ("cancer", 5)]
problems = pytest.mark.parametrize("name, n_clusters", PROBLEMS)


# ------------------------------------------------------------------------------ hard_sigma


@problems
@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0, 4.0])
def test_hard_sigma_separates_kmeans_from_shared_rows(name, n_clusters, alpha):
    X = reference.data(name)
    solution = KMeans(n_clusters, n_init=3, random_state=0, tol=0).fit(X)
    centers = solution.cluster_centers_
    sigma = hard_sigma(X, centers, alpha)
    gap = reference.gaps(X, centers).min()
    assert sigma == pytest.approx(reference.hard_sigma(gap, alpha), rel=1e-9)
    hard = model(alpha, n_clusters, sigma=0.999 * sigma, init=centers).fit(X)
    np.testing.assert_array_equal(hard.labels_, solution.labels_)
    np.testing.assert_allclose(hard.cluster_centers_, centers, rtol=0, atol=1e-12 * X.max())
    assert hard.objective_ == pytest.approx(solution.inertia_, rel=1e-12)
    assert hard.objective_ == pytest.approx(hard.inertia_, rel=1e-14)
    assert (at_centers(alpha, centers, 0.999 * sigma).transform(X).max(axis=1) == 1.0).all()
    assert at_centers(alpha, centers, 1.05 * sigma).transform(X).max(axis=1).min() < 1.0


def test_hard_sigma_where_the_answer_is_known():
    X, centers = [[-1.0], [0.5], [1.0]], [[-1.0], [1.0]]
    assert hard_sigma(X, centers, 1.5) == pytest.approx(np.sqrt(2.0 / 4))  # 4 sigma^2 = 2
    assert hard_sigma(X, centers, 2.0) == pytest.approx(1.0)  # 2 sigma^2 = 2
    assert hard_sigma(X, centers, 1.0) == 0.0  # softmax is never hard
    assert hard_sigma([[0.0], [1.0]], centers) == 0.0  # a row halfway between
    assert hard_sigma(X, [[0.0], [0.0]]) == 0.0  # equal centres
    assert hard_sigma(X, [[0.0]]) == np.inf


def test_hard_sigma_counts_rows_of_positive_weight_only():
    X, centers = [[-1.0], [0.1], [1.0]], [[-1.0], [1.0]]
    assert hard_sigma(X, centers, sample_weight=[1, 0, 1]) == hard_sigma([[1.0]], centers)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_hard_sigma_of_sparse_and_of_far_data(container, offset):
    X = reference.blobs(3, seed=1)
    centers = X[:3]
    expected = reference.hard_sigma(reference.gaps(X, centers).min(), 1.5)
    found = hard_sigma(container(X + offset), centers + offset)
    assert found == pytest.approx(expected, rel=1e-7 if offset else 1e-12)


def test_a_gap_far_below_the_distances_keeps_its_digits():
    rng = np.random.RandomState(0)
    X, centers = rng.normal(size=(50, 20)), rng.normal(size=(4, 20))
    along = centers[1] - centers[0]
    X[0] = centers[:2].mean(axis=0) + 1e-10 * along
    exact = 2.0 * 1e-10 * (along @ along)
    found = hard_sigma(X[:1], centers, 1.5)
    assert found == pytest.approx(reference.hard_sigma(exact, 1.5), rel=1e-5)


# -------------------------------------------------------------------------- critical_sigma


def covariance_of(X, weight=None):
    return np.atleast_2d(np.cov(X.T, bias=True, aweights=weight))


@problems
@pytest.mark.parametrize("alpha", [1.0, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_critical_sigma_is_that_of_the_covariance(name, n_clusters, alpha, weighted):
    X = reference.data(name)
    weight = reference.weights(len(X)) if weighted else None
    largest = np.linalg.eigvalsh(covariance_of(X, weight))[-1]
    found = critical_sigma(X, n_clusters, alpha, sample_weight=weight)
    assert found == pytest.approx(np.sqrt(n_clusters ** (alpha - 1.0) * largest), rel=1e-12)


@pytest.mark.parametrize("shape", [(40, 300), (500, 5), (30, 1), (1, 4), (5, 40)])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_critical_sigma_of_any_shape_dense_or_sparse(container, shape):
    X = np.random.RandomState(0).normal(size=shape)
    X[np.abs(X) < 0.7] = 0.0
    largest = np.linalg.eigvalsh(covariance_of(X))[-1] if len(X) > 1 else 0.0
    assert critical_sigma(container(X), 3) == pytest.approx(np.sqrt(largest), rel=1e-10)


def test_critical_sigma_keeps_its_digits_under_an_offset():
    X = np.random.RandomState(1).normal(size=(200, 30))
    assert critical_sigma(X + 1e7, 4) == pytest.approx(critical_sigma(X, 4), rel=1e-8)
    assert critical_sigma(1e100 * X, 4) == pytest.approx(1e100 * critical_sigma(X, 4), rel=1e-12)
    single = critical_sigma((X + 100).astype(np.float32), 4)
    assert single == pytest.approx(critical_sigma(X, 4), rel=1e-5)


def test_critical_sigma_takes_weights_for_repetitions():
    X = np.random.RandomState(2).normal(size=(60, 4))
    counts = np.arange(60) % 4
    found = critical_sigma(X, 3, sample_weight=counts)
    assert found == pytest.approx(critical_sigma(np.repeat(X, counts, axis=0), 3), rel=1e-12)
    far = np.where(counts[:, None] > 0, X, 1e200)
    assert critical_sigma(far, 3, sample_weight=counts) == pytest.approx(found, rel=1e-12)


def test_critical_sigma_of_a_very_large_alpha():
    X = [[-1.0], [1.0]]
    assert critical_sigma(X, 10, 401.0) == pytest.approx(1e200, rel=1e-12)
    assert critical_sigma(X, 10, 801.0) == np.inf
    assert critical_sigma(X, 1, 801.0) == 1.0


def test_equal_rows_have_no_transition():
    assert critical_sigma(np.full((5, 40), 3.0), 2) == 0.0
    assert critical_sigma(np.full((5, 2), 0.1), 2) == 0.0


@pytest.mark.parametrize("alpha", [1.0, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("n_clusters", [2, 3, 8])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_merged_centres_stay_above_and_split_below_the_critical_sigma(alpha, n_clusters, weighted):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3)) * [2.0, 0.7, 0.3] + 5.0
    weight = rng.uniform(0.2, 2.0, 300) if weighted else None
    mean = np.average(X, axis=0, weights=weight)
    start = mean + 1e-3 * rng.normal(size=(n_clusters, 3))
    sigma = critical_sigma(X, n_clusters, alpha, sample_weight=weight)
    away = {}
    for factor in (0.95, 1.05):
        estimator = model(
            alpha, n_clusters, sigma=factor * sigma, init=start, tol=1e-9, max_iter=1000
        )
        away[factor] = np.abs(fit_quietly(estimator, X, weight).cluster_centers_ - mean).max()
    assert away[1.05] < 1e-6
    assert away[0.95] > 0.1


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("call, message", [
    (lambda: hard_sigma([[0.0]], [[0.0, 1.0]]), "X has 1 features, but centers have 2"),
    (lambda: hard_sigma([[0.0]], [[0.0], [1.0]], 0.5), "'alpha' parameter of hard_sigma"),
    (lambda: hard_sigma([[np.nan]], [[0.0], [1.0]]), "Input X contains NaN"),
    (lambda: hard_sigma([[1e160]], [[0.0], [1.0]]), "overflow"),
    (lambda: critical_sigma([[0.0]], 0), "'n_clusters' parameter of critical_sigma"),
    (lambda: critical_sigma([[0.0]], 2, np.inf), "'alpha' parameter of critical_sigma"),
    (lambda: critical_sigma([[0.0]], 2, sample_weight=[-1.0]), "Negative values"),
])  # fmt: skip
def test_bad_input_is_an_error_that_says_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()

"""Starts by annealing and by exchange."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.preprocessing import scale

import reference
from models import fit_quietly, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from sklearn_softkmeans._annealing import (
    _merge,
    _remove,
    anneal,
    annealing_stages,
    exchange,
    principal_axes,
)
from sklearn_softkmeans._cells import cells_of
from sklearn_softkmeans._centers import problem_for_fit

IRIS = load_iris().data
BLOBS = make_blobs(600, 2, centers=20, cluster_std=0.5, random_state=0)[0]
inits = pytest.mark.parametrize("init", ["annealing", "exchange"])


def in_order(centers):
    return centers[np.lexsort(centers.T[::-1])]


def annealed(X, n_clusters, sample_weight=None):
    problem = problem_for_fit(X, sample_weight, 1.0, resident=True)
    return in_order(problem.out_of_frame(anneal(problem, n_clusters)))


def hard(X, n_clusters, init, **params):
    return SoftKMeans(n_clusters, sigma=0, init=init, random_state=0, **params).fit(X)


# -------------------------------------------------------------------------------- quality


@inits
@pytest.mark.parametrize(
    ("X", "n_clusters"),
    [(IRIS, 3), (scale(load_wine().data), 3), (BLOBS, 20)],
    ids=["iris", "wine", "blobs"],
)
def test_one_run_is_as_good_as_ten_of_kmeans(X, n_clusters, init):
    ten = [KMeans(n_clusters, n_init=10, random_state=s).fit(X).inertia_ for s in range(3)]
    assert hard(X, n_clusters, init).inertia_ <= 1.005 * np.median(ten)


def test_unequal_clusters_are_found():
    """k-means++ alone splits the large ones."""
    random = np.random.RandomState(0)
    middles = np.array([[0, 0], [20, 0], [0, 20], [20, 20], [40, 0], [40, 20]])
    X = np.repeat(middles, [2000, 2000, 30, 30, 30, 30], axis=0) + random.normal(size=(4120, 2))
    distances = np.sqrt(reference.sq_distances(middles, annealed(X, 6)))
    np.testing.assert_array_equal(np.sort(distances.argmin(axis=1)), np.arange(6))
    assert distances.min(axis=1).max() < 0.7


@pytest.mark.parametrize("alpha", [1, 1.5, 2])
def test_both_maps_start_from_it(alpha):
    estimator = model(alpha, 3, init="annealing").fit(IRIS)
    reference_run = KMeans(3, n_init=10, random_state=0).fit(IRIS)
    assert estimator.n_distinct_clusters_ == 3
    assert estimator.inertia_ <= 1.01 * reference_run.inertia_


# ------------------------------------------------------------------------------- promises


def test_annealing_needs_no_random_numbers():
    first, second = (
        SoftKMeans(5, init="annealing", n_init=7, random_state=seed).fit(IRIS) for seed in [0, 1]
    )
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    assert first.n_iter_ == second.n_iter_


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_order_of_rows_does_not_matter(container):
    order = np.random.RandomState(0).permutation(len(BLOBS))
    first, second = annealed(container(BLOBS), 20), annealed(container(BLOBS[order]), 20)
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-9)


def test_dense_and_sparse_agree():
    np.testing.assert_allclose(annealed(BLOBS, 20), annealed(sparse.csr_array(BLOBS), 20))


def test_weights_equal_repetition():
    weights = np.random.RandomState(0).randint(1, 4, len(BLOBS))
    weights[:3] = 0
    repeated = annealed(np.repeat(BLOBS, weights, axis=0), 20)
    np.testing.assert_allclose(annealed(BLOBS, 20, weights.astype(float)), repeated, atol=1e-9)


def test_rows_without_weight_may_lie_anywhere():
    X = np.vstack([IRIS, np.full((1, 4), 1e200)])
    weights = np.r_[np.ones(len(IRIS)), 0.0]
    np.testing.assert_allclose(annealed(X, 5, weights), annealed(IRIS, 5), rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_single_precision(offset):
    X = (BLOBS + offset).astype(np.float32)
    estimator = hard(X, 20, "annealing")
    assert estimator.cluster_centers_.dtype == np.float32
    expected = hard(X.astype(np.float64), 20, "annealing")
    np.testing.assert_allclose(estimator.inertia_, expected.inertia_, rtol=1e-3)


def test_scaling_and_translation_move_the_centres_alike():
    expected = 2.0**30 * annealed(BLOBS, 20) + 2.0**33
    np.testing.assert_allclose(annealed(2.0**30 * BLOBS + 2.0**33, 20), expected, rtol=1e-9)


@inits
def test_many_features(init):
    X = reference.blobs(4, n_samples=200, n_features=500, seed=0)
    assert hard(X, 4, init).n_distinct_clusters_ == 4


# ---------------------------------------------------------------------------------- edges


@inits
@pytest.mark.parametrize("n_clusters", [1, 2, 6])
def test_as_many_clusters_as_rows(n_clusters, init):
    X = np.array([[0.0, 0], [1, 5], [2, 3], [7, 1], [3, 8], [9, 9]])[:n_clusters]
    estimator = hard(X, n_clusters, init)
    np.testing.assert_allclose(in_order(estimator.cluster_centers_), in_order(X))


@inits
def test_fewer_different_rows_than_clusters_warn_as_ever(init):
    X = np.repeat([[0.0, 0], [1, 0], [0, 3]], 10, axis=0)
    with pytest.warns(UserWarning, match="distinct cluster centers found: 3"):
        estimator = SoftKMeans(5, sigma=0, init=init).fit(X)
    np.testing.assert_allclose(estimator.inertia_, 0.0, atol=1e-25)


@inits
def test_equal_rows(init):
    estimator = fit_quietly(SoftKMeans(3, init=init), np.full((20, 2), 7.0))
    np.testing.assert_array_equal(estimator.cluster_centers_, 7.0)


def test_points_at_very_different_distances_are_told_apart():
    X = np.array([0.0, 1e-2, 1.0, 100.0, 100.1, 1e4])[:, None]
    estimator = hard(X, 6, "annealing", tol=0.0)
    np.testing.assert_allclose(in_order(estimator.cluster_centers_), X, rtol=0, atol=1e-10)


@pytest.mark.parametrize("estimator", [SoftKMeans(init="anneal"), EntmaxKMeans(init="swap")])
def test_other_names_are_refused(estimator):
    with pytest.raises(ValueError, match="'init' parameter"):
        estimator.fit(IRIS)


# ---------------------------------------------------------------------------------- parts


def test_stages_cool_and_end_with_a_surplus():
    stages = annealing_stages(IRIS, 3)
    sigmas = np.array([stage.sigma for stage in stages])
    counts = [len(stage.centers) for stage in stages]
    assert (np.diff(sigmas) < 0).all()
    assert counts[:2] == [1, 2]
    assert counts[-1] == 6
    largest = np.linalg.eigvalsh(np.cov(IRIS.T, ddof=0))[-1]
    np.testing.assert_allclose(sigmas[:2] ** 2, [largest, 0.5 * largest], rtol=1e-2)
    np.testing.assert_allclose(stages[0].centers, [IRIS.mean(axis=0)], rtol=1e-12)
    for stage in stages[::4]:
        expected = reference.free_energy(IRIS, stage.centers, stage.sigma, 1.0)
        np.testing.assert_allclose(stage.objective, expected, rtol=1e-10)


def test_principal_axes_equal_the_eigenvectors_of_each_cell():
    problem = problem_for_fit(BLOBS * [1.0, 3.0], None, 1.0, resident=True)
    cells = cells_of(problem, problem.rows_in_frame(np.arange(3)))
    variances, directions = principal_axes(problem, cells)
    rows = problem.rows_in_frame(np.arange(len(BLOBS)))
    for j in range(3):
        covariance = np.cov(rows[cells.labels == j].T, ddof=0)
        values, vectors = np.linalg.eigh(covariance)
        np.testing.assert_allclose(variances[j], values[-1], rtol=1e-2)
        assert abs(directions[j] @ vectors[:, -1]) > 0.99


def test_close_centres_become_their_mean():
    centers = np.array([[0.0, 0], [5, 5], [0.1, 0], [9, 9]])
    np.testing.assert_allclose(in_order(_merge(centers, 0.2)), [[0.05, 0], [5, 5], [9, 9]])


def test_the_least_useful_centres_go_and_not_two_neighbours():
    X = np.array([0.0, 0.2, 0.4, 5, 5.3, 50, 90])[:, None]
    problem = problem_for_fit(X, None, 1.0, resident=True)
    centers = problem.into_frame(np.array([0.0, 0.2, 0.4, 5, 5.3, 50])[:, None])
    kept = problem.out_of_frame(_remove(problem, centers, 2))
    np.testing.assert_allclose(kept.ravel(), [0.0, 0.4, 5.3, 50], atol=1e-12)
    assert len(_remove(problem, centers, 5)) == 1


def test_exchange_never_makes_it_worse():
    problem = problem_for_fit(BLOBS, None, 1.0, resident=True)
    for seed in range(5):
        rows = np.random.RandomState(seed).permutation(len(BLOBS))[:20]
        centers = problem.rows_in_frame(rows)
        lloyd = hard(BLOBS, 20, BLOBS[rows]).inertia_
        better = exchange(problem, centers)
        found = hard(BLOBS, 20, problem.out_of_frame(better)).inertia_
        assert found <= (1.0 + 1e-3) * lloyd


@inits
@pytest.mark.parametrize("size", [1.0, 1e-300])
def test_rows_of_next_to_no_weight_raise_no_warning(init, size):
    weights = np.r_[1e200, np.ones(len(BLOBS) - 1)]
    estimator = SoftKMeans(3, sigma=0, init=init, random_state=0)
    estimator = fit_quietly(estimator, size * BLOBS, weights)
    distances = np.linalg.norm(estimator.cluster_centers_ / size - BLOBS[0], axis=1)
    assert np.isclose(distances.min(), 0.0)

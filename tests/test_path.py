"""soft_kmeans_path: what it finds at each temperature, and which way it goes."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import reference
from models import fit_quietly, model
from sklearn_softkmeans import soft_kmeans_path
from sklearn_softkmeans.inspection import critical_sigma, hard_sigma

IRIS = reference.data("iris")
every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])


def weighted_distortion(X, centers, sigma, alpha, weight):
    resp = reference.responsibilities(X, centers, sigma, alpha)
    return weight @ (resp * reference.sq_distances(X, centers)).sum(axis=1)


# ------------------------------------------------------------------------- what it returns


@every_alpha
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_every_entry_is_a_solution_with_the_sums_that_belong_to_it(alpha, weighted):
    weight = reference.weights(len(IRIS)) if weighted else np.ones(len(IRIS))
    path = soft_kmeans_path(IRIS, 3, alpha=alpha, n_sigmas=12, eps=0.05, sample_weight=weight)
    assert path.centers.shape == (12, 3, 4)
    assert path.mass.shape == (12, 3)
    assert path.alpha == alpha
    np.testing.assert_allclose(path.mass.sum(axis=1), weight.sum(), rtol=1e-12)
    for i, sigma in enumerate(path.sigmas):
        centers = path.centers[i]
        moved = reference.em_step(IRIS, centers, sigma, alpha, weight)
        np.testing.assert_allclose(moved, centers, rtol=0, atol=1e-5)
        free = reference.free_energy(IRIS, centers, sigma, alpha, weight)
        hard = reference.distortion(IRIS, centers, weight)
        soft = weighted_distortion(IRIS, centers, sigma, alpha, weight)
        assert path.objective[i] == pytest.approx(free, rel=1e-11)
        assert path.inertia[i] == pytest.approx(hard, rel=1e-12)
        assert path.weighted_distortion[i] == pytest.approx(soft, rel=1e-11)
        assert free <= hard * (1 + 1e-12) <= soft * (1 + 2e-12)


@every_alpha
def test_an_entry_is_what_the_estimator_makes_of_it(alpha):
    path = soft_kmeans_path(IRIS, 3, alpha=alpha, n_sigmas=6, eps=0.1)
    for i, sigma in enumerate(path.sigmas):
        fitted = model(alpha, 3, sigma=sigma, init=path.centers[i], tol=1e-5)
        fit_quietly(fitted, IRIS)
        assert fitted.objective_ == pytest.approx(path.objective[i], rel=1e-9)
        assert fitted.inertia_ == pytest.approx(path.inertia[i], rel=1e-5)
        assert fitted.n_distinct_clusters_ == path.n_distinct[i]


@every_alpha
def test_the_default_grid_goes_from_one_centre_to_kmeans(alpha):
    path = soft_kmeans_path(IRIS, 3, alpha=alpha)
    assert path.sigmas.shape == (50,)
    assert path.sigmas[0] == pytest.approx(1.05 * critical_sigma(IRIS, 3, alpha), rel=1e-12)
    assert path.sigmas[-1] == pytest.approx(0.01 * path.sigmas[0], rel=1e-12)
    np.testing.assert_allclose(np.diff(np.log(path.sigmas)), np.log(0.01) / 49)
    assert path.n_distinct[0] == 1
    assert path.n_distinct[-1] == 3
    np.testing.assert_allclose(path.centers[0], np.tile(IRIS.mean(axis=0), (3, 1)), atol=1e-4)
    best = KMeans(3, n_init=10, random_state=0).fit(IRIS).inertia_
    assert path.inertia[-1] == pytest.approx(best, rel=1e-4)
    if alpha > 1:
        assert path.sigmas[-1] < hard_sigma(IRIS, path.centers[-1], alpha)
        assert path.objective[-1] == pytest.approx(path.weighted_distortion[-1], rel=1e-13)


@every_alpha
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_cooling_parts_merged_centres_right_below_the_critical_sigma(alpha, n_clusters):
    X = np.random.RandomState(0).normal(size=(300, 3)) * [2.0, 0.7, 0.3]
    critical = critical_sigma(X, n_clusters, alpha)
    path = soft_kmeans_path(X, n_clusters, alpha=alpha, sigmas=critical * np.array([1.05, 0.98]))
    assert path.n_distinct[0] == 1
    assert path.n_distinct[1] > 1


@every_alpha
def test_heating_starts_at_kmeans_and_ends_at_one_centre(alpha):
    start = reference.spread_start(IRIS, 3)
    kmeans = KMeans(3, init=start, n_init=1, tol=0).fit(IRIS)
    path = soft_kmeans_path(
        IRIS, 3, alpha=alpha, direction="heating", init=start, sigmas=[0.0, 0.1, 0.4, 1.0, 10.0]
    )
    np.testing.assert_array_equal(path.sigmas, [10.0, 1.0, 0.4, 0.1, 0.0])
    np.testing.assert_allclose(path.centers[-1], kmeans.cluster_centers_, rtol=1e-12)
    assert path.inertia[-1] == pytest.approx(kmeans.inertia_, rel=1e-12)
    assert path.objective[-1] == pytest.approx(path.inertia[-1], rel=1e-14)
    assert path.weighted_distortion[-1] == pytest.approx(path.inertia[-1], rel=1e-14)
    assert path.n_distinct[0] == 1
    away = np.abs(path.centers - path.centers[-1]).max(axis=(1, 2))
    assert (np.diff(away) <= 0).all()  # entmax: exactly K-means below the certificate
    assert away[2] > 1e-3


def test_heating_draws_its_start_from_the_random_state():
    options = {"direction": "heating", "sigmas": [0.0, 0.3]}
    first = soft_kmeans_path(IRIS, 6, random_state=0, **options)
    again = soft_kmeans_path(IRIS, 6, random_state=0, **options)
    other = soft_kmeans_path(IRIS, 6, random_state=1, **options)
    np.testing.assert_array_equal(first.centers, again.centers)
    assert np.abs(first.centers - other.centers).max() > 0.1
    lowest = soft_kmeans_path(IRIS, 6, init="random", random_state=0, **options)
    assert np.abs(first.centers - lowest.centers).max() > 0.1


def test_cooling_from_a_given_start_follows_it():
    start = reference.spread_start(IRIS, 3)
    path = soft_kmeans_path(IRIS, 3, sigmas=[0.2], init=start, tol=1e-9)
    fitted = model(1.0, 3, sigma=0.2, init=start, tol=1e-9).fit(IRIS)
    np.testing.assert_allclose(path.centers[0], fitted.cluster_centers_, rtol=1e-9)
    assert path.n_iter[0] == fitted.n_iter_


def test_warm_starts_take_fewer_iterations():
    sigmas = np.linspace(0.5, 0.3, 10)
    start = reference.spread_start(IRIS, 3)
    warm = soft_kmeans_path(IRIS, 3, sigmas=sigmas, init=start)
    cold = [soft_kmeans_path(IRIS, 3, sigmas=[s], init=start).n_iter[0] for s in sigmas]
    assert warm.n_iter.sum() < 0.8 * np.sum(cold)


def test_one_cluster_stays_at_the_mean():
    path = soft_kmeans_path(IRIS, 1, n_sigmas=3)
    np.testing.assert_allclose(path.centers, np.tile(IRIS.mean(axis=0), (3, 1, 1)), rtol=1e-13)
    np.testing.assert_array_equal(path.n_distinct, 1)
    np.testing.assert_allclose(path.objective, path.inertia, rtol=1e-12)


# ------------------------------------------------------------------- what it is invariant to


@every_alpha
def test_it_is_deterministic_and_blind_to_the_order_of_rows(alpha):
    order = np.random.RandomState(0).permutation(len(IRIS))
    path = soft_kmeans_path(IRIS, 3, alpha=alpha, n_sigmas=10)
    again = soft_kmeans_path(IRIS, 3, alpha=alpha, n_sigmas=10)
    np.testing.assert_array_equal(path.centers, again.centers)
    mixed = soft_kmeans_path(IRIS[order], 3, alpha=alpha, n_sigmas=10)
    np.testing.assert_allclose(mixed.centers, path.centers, rtol=0, atol=1e-4)


def test_weights_are_repetitions_and_zero_is_removal():
    counts = np.arange(len(IRIS)) % 3
    path = soft_kmeans_path(np.repeat(IRIS, counts, axis=0), 3, n_sigmas=10)
    far = np.where(counts[:, None] > 0, IRIS, 1e200)
    of_weights = soft_kmeans_path(far, 3, n_sigmas=10, sample_weight=counts)
    np.testing.assert_allclose(of_weights.sigmas, path.sigmas, rtol=1e-12)
    np.testing.assert_allclose(of_weights.centers, path.centers, rtol=0, atol=1e-4)
    np.testing.assert_allclose(of_weights.objective, path.objective, rtol=1e-8)


@pytest.mark.parametrize("init", ["mean", "array"])
def test_sparse_data_give_the_same_path(init):
    X = np.where(np.abs(IRIS - 3.0) < 1.0, 0.0, IRIS)
    init = "mean" if init == "mean" else X[[0, 60, 120]]
    path = soft_kmeans_path(X, 3, alpha=1.5, n_sigmas=10, init=init)
    of_sparse = soft_kmeans_path(sparse.csr_array(X), 3, alpha=1.5, n_sigmas=10, init=init)
    np.testing.assert_allclose(of_sparse.centers, path.centers, rtol=0, atol=1e-4)
    np.testing.assert_allclose(of_sparse.weighted_distortion, path.weighted_distortion, rtol=1e-6)


def test_unit_and_offset_of_the_data_do_not_matter():
    path = soft_kmeans_path(IRIS, 3, n_sigmas=10)
    moved = soft_kmeans_path(1e5 + 1e3 * IRIS, 3, n_sigmas=10)
    np.testing.assert_allclose(moved.sigmas, 1e3 * path.sigmas, rtol=1e-9)
    np.testing.assert_allclose((moved.centers - 1e5) / 1e3, path.centers, rtol=0, atol=1e-4)


def test_single_precision_stays_single():
    path = soft_kmeans_path(IRIS.astype(np.float32), 3, n_sigmas=10)
    assert path.centers.dtype == np.float32
    assert path.objective.dtype == path.sigmas.dtype == np.float64
    double = soft_kmeans_path(IRIS, 3, n_sigmas=10)
    np.testing.assert_allclose(path.centers, double.centers, rtol=0, atol=1e-3)


# ------------------------------------------------------------------- warnings and bad input


def test_unfinished_fits_warn_once_with_their_temperatures():
    with pytest.warns(ConvergenceWarning) as caught:
        path = soft_kmeans_path(IRIS, 3, sigmas=[1.0, 0.8, 0.6, 0.5, 100.0], max_iter=4)
    (warning,) = caught
    text = str(warning.message)
    assert "max_iter=4 iterations at 4 of 5 temperatures (sigma=1, 0.8, 0.6, ...)" in text
    assert "Increase max_iter or tol" in text
    assert warning.filename == __file__
    assert path.n_iter.max() == 4


def test_a_finished_path_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        soft_kmeans_path(IRIS, 3, n_sigmas=5)


@pytest.mark.parametrize("change, message", [
    ({"n_clusters": 0}, "'n_clusters' parameter of soft_kmeans_path"),
    ({"n_clusters": 151}, "n_samples=150 should be >= n_clusters=151"),
    ({"alpha": 0.5}, "'alpha' parameter of soft_kmeans_path"),
    ({"alpha": 800.0}, "critical sigma overflows float64 with alpha=800"),
    ({"eps": 1.0}, "'eps' parameter of soft_kmeans_path"),
    ({"direction": "up"}, "'direction' parameter of soft_kmeans_path"),
    ({"sigmas": [1.0, -1.0]}, "sigmas must be numbers of at least 0 in one dimension"),
    ({"sigmas": [[1.0], [2.0]]}, "got 2 dimensions"),
    ({"sigmas": [np.nan]}, "Input sigmas contains NaN"),
    ({"init": IRIS[:2]}, "does not match"),
    ({"X": np.ones((5, 2))}, "All rows of X are equal"),
    ({"X": np.full((5, 2), np.nan)}, "Input X contains NaN"),
    ({"sample_weight": np.full(150, 1e306)}, "overflows float64 with sigma=1"),
])  # fmt: skip
def test_bad_input_is_an_error_that_says_why(change, message):
    given = {"X": 1e2 * IRIS, "n_clusters": 3, **change}
    if "sample_weight" in change:
        given["sigmas"] = [1.0]
    with pytest.raises(ValueError, match=message):
        soft_kmeans_path(given.pop("X"), given.pop("n_clusters"), **given)

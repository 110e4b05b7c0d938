"""Weights: like repetition, in the starts as in the means, and of no unit."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import reference
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

HARD = {
    "softmax-0": partial(SoftKMeans, sigma=0),
    "entmax-0": partial(EntmaxKMeans, sigma=0),
    "softmax-small": partial(SoftKMeans, sigma=1e-3),
    "entmax-small": partial(EntmaxKMeans, sigma=1e-3),
}
hard = pytest.mark.parametrize("make", HARD.values(), ids=HARD)
every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array, sparse.csr_matrix])
X = reference.blobs(3, n_samples=120, n_features=5, std=0.8, box=5.0, seed=3)
WEIGHT = reference.weights(len(X))
START = X[:3].copy()


@hard
@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("seed", range(5))
def test_starts_are_drawn_by_weight(make, init, seed):
    """Three far rows hold nearly all weight: they are the start, F is about 0."""
    rows = np.vstack([np.random.RandomState(seed).normal(size=(50, 2)), 40 * np.eye(3)[:, :2]])
    weight = np.r_[np.full(50, 1e-9), np.full(3, 1e9)]
    fitted = make(3, init=init, random_state=seed, n_init=1).fit(rows, sample_weight=weight)
    assert fitted.objective_path_[0] < 1e-3


@every
@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_zero_weight_are_as_good_as_removed(make, init, seed):
    outside = 1e4 * (1 + np.random.RandomState(seed).uniform(size=(30, 5)))
    rows = np.vstack([outside, X, outside])
    weight = np.r_[np.zeros(30), WEIGHT, np.zeros(30)]
    with_them = make(4, init=init, random_state=seed).fit(rows, sample_weight=weight)
    without = make(4, init=init, random_state=seed).fit(X, sample_weight=WEIGHT)
    np.testing.assert_array_equal(with_them.labels_[30:150], without.labels_)
    np.testing.assert_allclose(with_them.cluster_centers_, without.cluster_centers_, rtol=1e-7)
    np.testing.assert_allclose(with_them.objective_path_, without.objective_path_, rtol=1e-7)
    assert with_them.sigma_ == pytest.approx(without.sigma_, rel=1e-7)


@every
@containers
@pytest.mark.parametrize("sigma", [0, 1.0, "auto"])
def test_rows_of_zero_weight_may_lie_anywhere(make, container, sigma):
    """Their squares overflow float64."""
    rows = container(np.vstack([np.full((2, 5), 1e200), X, np.full((1, 5), -1e200)]))
    weight = np.r_[0.0, 0.0, WEIGHT, 0.0]
    estimator = make(3, sigma=sigma, random_state=0)
    with_them = clone(estimator).fit(rows, sample_weight=weight)
    without = clone(estimator).fit(container(X), sample_weight=WEIGHT)
    np.testing.assert_array_equal(with_them.labels_[2:-1], without.labels_)
    np.testing.assert_allclose(with_them.cluster_centers_, without.cluster_centers_, rtol=1e-9)
    np.testing.assert_allclose(with_them.objective_path_, without.objective_path_, rtol=1e-9)
    assert with_them.inertia_ == pytest.approx(without.inertia_, rel=1e-9)
    assert with_them.sigma_ == pytest.approx(without.sigma_, rel=1e-9)
    score = without.score(container(X), sample_weight=WEIGHT)
    assert without.score(rows, sample_weight=weight) == pytest.approx(score, rel=1e-12)


@every
@pytest.mark.parametrize("sigma", [0, "auto"])
@pytest.mark.parametrize(
    "init", ["k-means++", "random", START], ids=["k-means++", "random", "array"]
)
def test_a_weight_of_n_equals_n_copies(make, sigma, init):
    times = np.random.RandomState(0).randint(0, 5, size=len(X))
    estimator = make(3, sigma=sigma, init=init, random_state=1)
    weighted = clone(estimator).fit(X, sample_weight=times)
    repeated = clone(estimator).fit(np.repeat(X, times, axis=0))
    np.testing.assert_array_equal(repeated.labels_, np.repeat(weighted.labels_, times))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, rtol=1e-8)
    np.testing.assert_allclose(weighted.cluster_mass_, repeated.cluster_mass_, rtol=1e-8)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-8)
    assert weighted.sigma_ == pytest.approx(repeated.sigma_, rel=1e-9)


@every
@containers
def test_unit_weights_equal_no_weights(make, container):
    rows = container(X)
    none = make(3, random_state=0).fit(rows)
    ones = make(3, random_state=0).fit(rows, sample_weight=np.ones(len(X)))
    np.testing.assert_array_equal(none.labels_, ones.labels_)
    np.testing.assert_allclose(none.cluster_centers_, ones.cluster_centers_, rtol=1e-12)
    assert none.objective_ == pytest.approx(ones.objective_, rel=1e-12)


@every
@containers
@pytest.mark.parametrize("factor", [0.5, 3e5, 1e-7])
def test_scaling_all_weights_changes_only_masses_and_sums(make, container, factor):
    rows = container(X)
    one = make(3, random_state=0).fit(rows, sample_weight=WEIGHT)
    scaled = make(3, random_state=0).fit(rows, sample_weight=factor * WEIGHT)
    np.testing.assert_array_equal(one.labels_, scaled.labels_)
    np.testing.assert_allclose(one.cluster_centers_, scaled.cluster_centers_, rtol=1e-9)
    np.testing.assert_allclose(scaled.cluster_mass_, factor * one.cluster_mass_, rtol=1e-9)
    assert scaled.inertia_ == pytest.approx(factor * one.inertia_, rel=1e-9)
    assert scaled.n_iter_ == one.n_iter_


@every
@containers
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [0, 3.0, "auto"])
@pytest.mark.parametrize("factor", [1e-46, 1e40, 1e-250, 1e250])
def test_weights_of_any_size_are_weights(make, container, dtype, sigma, factor):
    """Beyond the range of float32, whatever the precision of X."""
    rows = container(X.astype(dtype))
    one = make(3, sigma=sigma, random_state=0).fit(rows, sample_weight=WEIGHT)
    scaled = make(3, sigma=sigma, random_state=0).fit(rows, sample_weight=factor * WEIGHT)
    np.testing.assert_array_equal(one.labels_, scaled.labels_)
    error = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(scaled.cluster_centers_, one.cluster_centers_, rtol=0, atol=error)
    np.testing.assert_allclose(scaled.cluster_mass_, factor * one.cluster_mass_, rtol=1e-6)
    assert scaled.inertia_ == pytest.approx(factor * one.inertia_, rel=1e-6)


@pytest.mark.parametrize("size", [1e-323, 1e-300, 1e300, 1e307])
def test_the_mean_score_does_not_depend_on_the_size_of_the_weights(size):
    fitted = SoftKMeans.from_centers([[-1.0], [1.0]], sigma=1.0)
    rows = [[0.0], [1.0], [3.0]]
    expected = np.mean(fitted.score_samples(rows))
    assert fitted.score(rows, sample_weight=np.full(3, size)) == pytest.approx(expected)

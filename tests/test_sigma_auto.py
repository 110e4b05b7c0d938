"""What sigma="auto" promises: the data's unit, no merged centres, near K-means."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

import reference
from models import model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
IRIS = reference.data("iris")


def standardised(name):
    return StandardScaler().fit_transform(reference.data(name))


DATA = [("iris", 3), ("wine", 3), ("digits", 10), ("25 blobs", 25), ("50 blobs", 50)]
data = pytest.mark.parametrize("name, n_clusters", DATA)


@every_alpha
@data
@pytest.mark.parametrize("seed", range(3))
def test_no_centres_merge(alpha, name, n_clusters, seed):
    """A merged pair would be a ConvergenceWarning, hence an error here."""
    X = standardised(name)
    fitted = model(alpha, n_clusters, random_state=seed).fit(X)
    assert fitted.n_distinct_clusters_ == n_clusters
    assert len(np.unique(fitted.labels_)) == n_clusters
    centers = fitted.cluster_centers_
    apart = reference.sq_distances(centers, centers)[np.triu_indices(n_clusters, 1)]
    assert apart.min() > 1e-2 * X.var(axis=0).sum() / n_clusters


@every
@data
def test_the_distortion_is_that_of_kmeans_from_the_same_start(make, name, n_clusters):
    X = standardised(name)
    start = reference.spread_start(X, n_clusters)
    hard = KMeans(n_clusters, init=start, n_init=1, tol=0).fit(X)
    soft = make(n_clusters, init=start).fit(X)
    assert soft.inertia_ <= 1.002 * hard.inertia_


@every
@pytest.mark.parametrize("name, n_clusters", [("iris", 3), ("wine", 3), ("digits", 10)])
def test_some_rows_are_shared_and_most_are_not(make, name, n_clusters):
    X = standardised(name)
    fitted = make(n_clusters, random_state=0).fit(X)
    shared = fitted.transform(X).max(axis=1) < 0.99
    assert 0 < shared.mean() < 0.35


@every
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name, n_clusters", [*DATA, ("iris", 1)])
def test_the_value_is_the_smallest_of_three_lengths(make, weighted, name, n_clusters):
    X = standardised(name)
    weight = reference.weights(len(X)) if weighted else None
    start = reference.spread_start(X, n_clusters, seed=1)
    fitted = make(n_clusters, init=start).fit(X, sample_weight=weight)
    expected = min(reference.auto_sigma(X, start, weight))
    assert fitted.sigma_ == pytest.approx(expected, rel=1e-6)
    assert fitted.sigma == "auto"


@every
def test_the_lower_decile_of_the_gaps_rules_where_rows_are_spread_evenly(make):
    """Between centres at -1/2 and 1/2 the gap is 2 |x|: its decile 1/5, its medians 1."""
    rows = np.linspace(-1.0, 1.0, 2000)[:, None]
    fitted = make(2, init=[[-0.5], [0.5]]).fit(rows)
    assert fitted.sigma_ == pytest.approx(0.5 * np.sqrt(0.2), rel=1e-2)


@every
def test_the_value_never_exceeds_half_the_largest_standard_deviation(make):
    rows = np.r_[np.full(50, -1.0), np.full(50, 1.0)][:, None]
    fitted = make(2, init=[[-1.0], [1.0]]).fit(rows)
    assert 0 < fitted.sigma_ <= 0.5 * (1 + 1e-9)  # half the root of the gap is 1


@every
@pytest.mark.parametrize("factor", [1e-3, 1e3, 1e6])
def test_the_value_scales_with_the_data(make, factor):
    one = make(3, random_state=0).fit(IRIS)
    other = make(3, random_state=0).fit(factor * IRIS)
    assert other.sigma_ == pytest.approx(factor * one.sigma_, rel=1e-9)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert one.n_iter_ == other.n_iter_
    np.testing.assert_allclose(
        one.transform(IRIS), other.transform(factor * IRIS), rtol=0, atol=1e-9
    )


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_without_spread_get_a_finite_value(make, dtype):
    rows = np.full((6, 2), 7.25, dtype=dtype)
    fitted = make(1).fit(rows)
    assert np.isfinite(fitted.sigma_)
    assert fitted.sigma_ >= 0
    np.testing.assert_array_equal(fitted.cluster_centers_, [[7.25, 7.25]])
    np.testing.assert_array_equal(fitted.transform(rows), 1)

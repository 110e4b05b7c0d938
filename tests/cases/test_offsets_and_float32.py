"""Small differences between large numbers, and sums in single precision.

Sources: https://github.com/scikit-learn/scikit-learn/issues/9354,
https://github.com/ClickHouse/ClickHouse/issues/119117,
https://github.com/spotify/annoy/issues/314,
https://github.com/uxlfoundation/scikit-learn-intelex/issues/25,
https://github.com/scikit-learn/scikit-learn/issues/30382
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import reference
from models import at_centers, fit_quietly, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])


# ------------------------------------------------ distances by expanded squares


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_long_float32_rows_at_a_small_distance(container):
    rows = np.array([[1.0] * 1000, [1.001] * 1000], dtype=np.float32)
    resp = at_centers(1.0, rows, np.sqrt(5e-4)).transform(container(rows))
    expected = [[0.731077, 0.268923], [0.268923, 0.731077]]
    np.testing.assert_allclose(resp, expected, rtol=0, atol=1e-4)


@every_alpha
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("level, step, length", [(-7.0, 0.003, 300), (1e5, 0.125, 40)])
def test_other_levels_and_lengths_equal_exact_differences(alpha, container, level, step, length):
    rows = np.full((3, length), level, dtype=np.float32)
    rows[1] += np.float32(step)
    rows[2, ::2] += np.float32(step)
    sigma = np.sqrt(reference.sq_distances(rows, rows).max() / 2)
    resp = at_centers(alpha, rows, sigma).transform(container(rows))
    expected = reference.responsibilities(rows, rows.astype(np.float64), sigma, alpha)
    np.testing.assert_allclose(resp, expected, rtol=0, atol=2e-5)


# ------------------------------------------------------------- common offsets


@every_alpha
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("offset", [1e5, -1e5, 3e6])
def test_float32_rows_between_two_far_neighbours_get_the_right_label(alpha, container, offset):
    rows = np.linspace(offset, offset + 1, 100).astype(np.float32)[:, None]
    centers = np.array([[offset], [offset + 1]], dtype=np.float32)
    labels = at_centers(alpha, centers, 0.1).predict(container(rows))
    expected = reference.sq_distances(rows, centers).argmin(axis=1)
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6, 1e8, -1e8])
def test_a_fit_on_shifted_rows_is_the_shifted_fit(offset):
    rows = np.array([[0.0], [1], [10], [11]]) + offset
    fitted = SoftKMeans(2, sigma=1.0, init=np.array([[0.25], [10.25]]) + offset).fit(rows)
    centers = fitted.cluster_centers_ - offset
    np.testing.assert_allclose(centers, [[0.5], [10.5]], rtol=0, atol=2e-8)
    resp = fitted.transform(rows)
    assert resp[1, 0] == pytest.approx(1.0, abs=1e-12)
    assert resp[1, 1] <= 2.8625185805e-20 * (1 + 1e-5)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e6])
def test_four_blobs_stay_four_blobs_far_from_the_origin(make, dtype, offset):
    corners = np.array([[0.0, 0], [10, 0], [0, 10], [10, 10]])
    rng = np.random.RandomState(0)
    rows = np.repeat(corners, 50, axis=0) + 0.5 * rng.normal(size=(200, 2))
    rows = (rows + offset).astype(dtype)
    fitted = make(4, n_init=5, random_state=0).fit(rows)
    assert adjusted_rand_score(fitted.labels_, np.repeat(np.arange(4), 50)) == 1.0


@every_alpha
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("offset", [1e5, 1e6])
def test_the_objective_of_float32_rows_far_from_the_origin_never_rises(alpha, container, offset):
    for seed in range(4):
        rows = reference.blobs(4, n_samples=150, n_features=3, std=0.8, box=5.0, seed=seed)
        rows = container((rows + offset).astype(np.float32))
        for sigma in (0, 0.7, "auto"):
            fitted = fit_quietly(model(alpha, 4, sigma=sigma, tol=1e-6, random_state=seed), rows)
            assert (np.diff(fitted.objective_path_) <= 0).all()


# -------------------------------------------------- distinct rows at distance zero


@every_alpha
@pytest.mark.parametrize("pair", [(0.7125930, 0.7123166), (-3.25, -3.2501), (4096.0, 4096.001)])
def test_close_float32_rows_are_told_apart(alpha, pair):
    rows = np.array(pair, dtype=np.float32)[:, None]
    distance = abs(float(rows[0, 0]) - float(rows[1, 0]))
    resp = at_centers(alpha, rows, distance / np.sqrt(2)).transform(rows)
    expected = reference.entmax([[0.0, -1.0], [-1.0, 0.0]], alpha)
    np.testing.assert_allclose(resp, expected, rtol=0, atol=1e-4)


# --------------------------------------------------------------- small inertias


@every
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("sigma", [0, 0.01])
def test_a_tiny_inertia_is_not_zero(make, container, sigma):
    rows = np.array([[-1.0001], [-0.9999], [0.9999], [1.0001]], dtype=np.float32)
    fitted = make(2, sigma=sigma, init=[[-1.0], [1.0]]).fit(container(rows))
    np.testing.assert_allclose(fitted.cluster_centers_, [[-1], [1]], rtol=0, atol=1e-6)
    assert fitted.inertia_ == pytest.approx(4.0013276e-08, rel=0.01)


@every
@pytest.mark.parametrize("scale, center", [(1e-4, 3.0), (1e-2, 300.0)])
def test_inertia_of_tight_pairs_equals_exact_differences(make, scale, center):
    rows = np.array([[-center - scale], [-center], [center], [center + scale]], dtype=np.float32)
    fitted = make(2, sigma=0, init=[[-center], [center]]).fit(rows)
    expected = reference.distortion(rows, fitted.cluster_centers_)
    assert expected > 0
    assert fitted.inertia_ == pytest.approx(expected, rel=0.01)


# --------------------------------------------------------------- the data's scale


@every_alpha
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("sigma", [0, 0.03])
def test_subnormal_float32_rows_are_clustered(alpha, container, sigma):
    """The smallest float32 is 1.4e-45: these rows have five digits."""
    unit = reference.blobs(3, n_samples=60, std=0.2, box=9.0, seed=1)
    rows = container((3e-40 * unit).astype(np.float32))
    start = 3e-40 * unit[:3]
    fitted = fit_quietly(model(alpha, 3, sigma=3e-40 * sigma, init=start), rows)
    expected = fit_quietly(model(alpha, 3, sigma=sigma, init=unit[:3]), unit)
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    np.testing.assert_allclose(
        fitted.cluster_centers_ / 3e-40, expected.cluster_centers_, rtol=0, atol=1e-4
    )
    np.testing.assert_allclose(fitted.transform(rows).sum(axis=1), 1, rtol=0, atol=1e-6)


@every
@pytest.mark.parametrize(
    "values, variance",
    [([9999.0, 0.0], 24995000.25), ([1e6, 1e6 + 1], 0.25), ([9999.0, 9999.0], 0.0)],
)
def test_the_spread_of_float32_rows_is_neither_negative_nor_rounded_away(make, values, variance):
    rows = np.array(values, dtype=np.float32)[:, None]
    fitted = make(1).fit(rows)
    assert fitted.sigma_ == pytest.approx(0.5 * np.sqrt(variance), rel=1e-5, abs=1e-3)
    assert np.isfinite(fitted.objective_)
    np.testing.assert_allclose(fitted.cluster_centers_, [[np.mean(values)]], rtol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_a_single_precision_sum_over_many_rows_is_accumulated_in_double(alpha):
    rows = np.full((200_000, 1), 0.1, dtype=np.float32)
    rows[::2] = 1000.1
    fitted = model(alpha, 2, sigma=1.0, init=[[0.0], [1000.0]]).fit(rows)
    expected = rows[:2][::-1].astype(np.float64)
    np.testing.assert_allclose(fitted.cluster_centers_, expected, rtol=1e-6)
    np.testing.assert_array_equal(fitted.cluster_mass_, [100_000, 100_000])

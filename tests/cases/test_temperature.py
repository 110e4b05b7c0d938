"""Far rows, extreme temperatures, units and merged centres.

Sources: https://github.com/pmelchior/pygmmis/issues/8,
https://github.com/scikit-fuzzy/scikit-fuzzy/pull/154,
https://github.com/scikit-fuzzy/scikit-fuzzy/issues/94,
https://github.com/kornia/kornia/issues/2498,
https://github.com/jokofa/torch_kmeans/issues/14,
https://github.com/scikit-learn-contrib/hdbscan/issues/568
"""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import reference
from models import at_centers, fit_quietly, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
LINE = np.array([[0.0], [1.0]])


# ------------------------------------------------------------------------ far rows


@every_alpha
@pytest.mark.parametrize(
    "sigma, x, expected",
    [
        (1.0, 100.0, [6.1e-44, 1.0]),
        (1e-3, 1e6, [0.0, 1.0]),
        (1e-3, -1e6, [1.0, 0.0]),
        (1e-3, 0.5, [0.5, 0.5]),
        (1.0, 1e7, [0.0, 1.0]),
    ],
)
def test_rows_far_from_all_centres_have_an_answer(alpha, sigma, x, expected):
    resp = at_centers(alpha, LINE, sigma).transform([[x]])
    np.testing.assert_allclose(resp, [expected], rtol=0, atol=1e-40)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_on_another_scale_are_predicted(make, dtype):
    rng = np.random.RandomState(0)
    fitted = make(10, random_state=0, tol=1e-2).fit(rng.uniform(size=(500, 10)).astype(dtype))
    far = (50 * rng.uniform(size=(100, 10))).astype(dtype)
    resp = fitted.transform(far)
    np.testing.assert_allclose(
        resp.sum(axis=1), 1, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-6
    )
    np.testing.assert_array_equal(fitted.predict(far), resp.argmax(axis=1))
    assert np.isfinite(fitted.score_samples(far)).all()


# ------------------------------------------------------------- very low temperature


@pytest.mark.parametrize("alpha", [1.0, 1.0001, 1.5, 2.0, 5.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [1e-2, 1e-8, 1e-25, 1e-160])
def test_low_temperatures_are_hard_without_a_nan(alpha, dtype, sigma):
    places = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    rows = reference.blobs(places, n_samples=90, std=0.3, seed=2).astype(dtype)
    fitted = model(alpha, 3, sigma=sigma, init=places).fit(rows)
    expected = reference.lloyd_run(rows, places)
    np.testing.assert_allclose(fitted.cluster_centers_, expected.centers, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(fitted.transform(rows), reference.one_hot(expected.labels, 3))


def test_a_centre_without_rows_finds_one_at_any_low_temperature():
    """Here 1 / sigma^2 and the scores overflow float64."""
    rows = np.array([[0.0], [0.1], [1.0], [1.1]])
    fitted = SoftKMeans(3, sigma=1e-165, init=[[0.0], [1.0], [50.0]]).fit(rows)
    np.testing.assert_allclose(fitted.cluster_centers_, [[0.05], [1.0], [1.1]], rtol=1e-12)
    assert np.isfinite(fitted.objective_path_).all()


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_a_very_high_temperature_gives_equal_shares(alpha):
    rows = reference.blobs(3, n_samples=60)
    resp = at_centers(alpha, rows[:4].copy(), 1e150).transform(rows)
    np.testing.assert_allclose(resp, 0.25, rtol=0, atol=1e-12)


# -------------------------------------------------------------------- merged centres


@pytest.mark.parametrize("sigma, place", [(0.5, 0.9993257), (0.9, 0.6956580), (2.0, 0.0)])
def test_two_rows_have_the_known_solution(sigma, place):
    rows = np.array([[-1.0], [1.0]])
    estimator = SoftKMeans(2, sigma=sigma, init=0.5 * rows, tol=1e-10, max_iter=5000)
    fitted = fit_quietly(estimator, rows)
    np.testing.assert_allclose(fitted.cluster_centers_, place * rows, rtol=0, atol=1e-6)
    assert fitted.n_distinct_clusters_ == (1 if place == 0 else 2)


@pytest.mark.parametrize(
    "sigma, expected",
    [(0.3, [[1, 1, 1], [2, 2.05, 2]]), (1.0, [[5 / 3, 1.7, 5 / 3], [5 / 3, 1.7, 5 / 3]])],
)
def test_three_rows_split_or_merge_by_temperature(sigma, expected):
    rows = np.array([[1.0, 1, 1], [2, 2, 2], [2, 2.1, 2]])
    estimator = SoftKMeans(2, sigma=sigma, init=rows[[0, 1]], tol=1e-10, max_iter=5000)
    fitted = fit_quietly(estimator, rows)
    np.testing.assert_allclose(fitted.cluster_centers_, expected, rtol=0, atol=1e-3)
    if sigma == 0.3:
        np.testing.assert_array_equal(fitted.labels_, [0, 1, 1])


@pytest.mark.parametrize(
    "name, n_clusters, sigma, least, most",
    [("iris", 3, 2.0, 1, 1), ("wine", 3, 3.0, 1, 1), ("normal", 8, 1.0, 1, 7)],
)
def test_too_high_a_temperature_is_told(name, n_clusters, sigma, least, most):
    if name == "normal":
        rows = np.random.RandomState(0).normal(size=(1000, 5))
    else:
        rows = StandardScaler().fit_transform(reference.data(name))
    estimator = SoftKMeans(n_clusters, sigma=sigma, tol=1e-9, max_iter=5000, random_state=0)
    with pytest.warns(ConvergenceWarning, match="sigma"):
        estimator.fit(rows)
    assert least <= estimator.n_distinct_clusters_ <= most


@every
@pytest.mark.parametrize("name", ["iris", "wine", "digits", "25 blobs"])
def test_the_default_constructor_keeps_its_eight_centres_apart(make, name):
    rows = reference.data(name)
    if name != "25 blobs":
        rows = StandardScaler().fit_transform(rows)
    fitted = fit_quietly(make(random_state=0), rows)
    assert fitted.n_distinct_clusters_ == 8
    assert len(np.unique(fitted.labels_)) == 8


# ------------------------------------------------------------------------- the unit


@every_alpha
@pytest.mark.parametrize("factor", [2.54, 1000.0, 1e-3, 1e-20])
def test_inches_and_centimetres_give_the_same_clusters(alpha, factor):
    rows = reference.data("wine")
    start = reference.spread_start(rows, 3)
    inches = model(alpha, 3, sigma=1.1, init=start).fit(rows)
    other = model(alpha, 3, sigma=1.1 * factor, init=start * factor).fit(rows * factor)
    np.testing.assert_allclose(
        other.transform(rows * factor), inches.transform(rows), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(
        other.cluster_centers_, factor * inches.cluster_centers_, rtol=1e-8, atol=1e-9 * factor
    )
    assert other.n_iter_ == inches.n_iter_


# ------------------------------------------------------------------- repeated rows


@every
@pytest.mark.parametrize("times", [1, 7])
def test_repeated_rows_have_bitwise_equal_memberships(make, times):
    rows = np.array(
        [
            [1, 4, 4], [2, 4, 4], [2, 4.1, 4], [2, 4, 4.1],
            [5, 1, 1], [5, 1.1, 1.1], [5, 1.1, 1], [5, 1, 1], [5, 1, 1],
        ]
    )  # fmt: skip
    rows = np.tile(rows, (times, 1))
    fitted = make(2, sigma=0.5, init=rows[[0, 4]]).fit(rows)
    expected = [[1.75, 4.025, 4.025], [5, 1.04, 1.02]]
    np.testing.assert_allclose(fitted.cluster_centers_, expected, rtol=0, atol=1e-6)
    resp = fitted.transform(rows)
    np.testing.assert_allclose(resp.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(fitted.labels_, np.tile([0] * 4 + [1] * 5, times))
    for row in (4, 7, 8):
        np.testing.assert_array_equal(resp[row::9], np.tile(resp[4], (times, 1)))

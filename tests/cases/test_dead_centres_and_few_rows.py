"""Unused centres, repeated rows, and starts drawn from awkward data.

Sources: https://github.com/subhadarship/kmeans_pytorch/issues/41,
https://github.com/jokofa/torch_kmeans/pull/13,
https://github.com/scikit-learn/scikit-learn/issues/10059,
https://github.com/facebookresearch/faiss/issues/842,
https://github.com/annoviko/pyclustering/issues/368,
https://github.com/facebookresearch/faiss/issues/436,
https://github.com/scikit-learn/scikit-learn/issues/7705,
https://github.com/scipy/scipy/issues/11462
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import reference
from models import fit_quietly, model, one_step
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
starts = pytest.mark.parametrize("init", ["k-means++", "random"])


# ------------------------------------------------------------------- unused centres

ROWS = np.array([[0.0], [1.0], [2.0]])


@pytest.mark.parametrize("far", [1000.0, 1e6, 50.0])
def test_softmax_sends_an_underflowed_centre_to_its_nearest_row(far):
    start = np.array([[0.0], [1.0], [far]])
    step = one_step(1.0, ROWS, start, 0.1).cluster_centers_
    np.testing.assert_allclose(step, [[0], [1.5], [2]], rtol=0, atol=1e-9)
    fitted = SoftKMeans(3, sigma=0.1, init=start, tol=1e-10).fit(ROWS)
    np.testing.assert_allclose(fitted.cluster_centers_, ROWS, rtol=0, atol=1e-9)


@every_alpha
@pytest.mark.parametrize("sigma", [0.01, 0.1])
@pytest.mark.parametrize(
    "start", [[0.0, 1.0, 1000.0], [-1000.0, 1.0, 2.0], [0.9, 1e5, -1e5], [1e4, 1e5, 1e6]]
)
def test_every_row_ends_with_a_centre_of_its_own(alpha, sigma, start):
    if alpha == 1 and start[0] == 1e4:
        # Two underflowed centres on one side have the same mean, and stay together.
        with pytest.warns(ConvergenceWarning, match=r"\b2\b.*\b3\b"):
            model(1, 3, sigma=sigma, init=np.array(start)[:, None]).fit(ROWS)
        return
    fitted = model(alpha, 3, sigma=sigma, init=np.array(start)[:, None]).fit(ROWS)
    np.testing.assert_allclose(np.sort(fitted.cluster_centers_, axis=0), ROWS, rtol=0, atol=1e-6)
    assert (fitted.cluster_mass_ > 0).all()
    path = fitted.objective_path_
    assert (np.diff(path) <= 1e-10 * np.abs(path[:-1]).max()).all()


@every_alpha
def test_unused_centres_are_not_dragged_to_the_origin(alpha):
    rows = ROWS + 500.0
    fitted = model(alpha, 3, sigma=0.1, init=[[500.0], [501.0], [9e5]]).fit(rows)
    np.testing.assert_allclose(np.sort(fitted.cluster_centers_, axis=0), rows, rtol=0, atol=1e-6)


# -------------------------------------------------------- more centres than rows

SEVENTEEN = np.repeat(
    [
        [1086.0, 348], [1087, 347], [1190, 244], [1185, 249], [1193, 241],
        [1188, 247], [1187, 233], [26, 111], [26, 110],
    ],
    [2, 2, 2, 2, 1, 1, 1, 2, 4],
    axis=0,
)  # fmt: skip


@every
@pytest.mark.parametrize("sigma", [0.2, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_more_centres_than_distinct_rows_is_told_with_the_number_found(make, sigma, seed):
    assert SEVENTEEN.shape == (17, 2)
    estimator = make(10, sigma=sigma, random_state=seed, tol=1e-9, max_iter=3000)
    with pytest.warns(ConvergenceWarning, match=r"\b[1-9]\b.*\b10\b"):
        estimator.fit(SEVENTEEN)
    assert estimator.n_distinct_clusters_ < 10
    assert np.isfinite(estimator.cluster_centers_).all()
    resp = estimator.transform(SEVENTEEN)
    np.testing.assert_allclose(resp.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(estimator.labels_, resp.argmax(axis=1))


@every
def test_as_many_centres_as_distinct_rows_fit_them_all(make):
    fitted = make(9, sigma=0.05, n_init=10, random_state=0).fit(SEVENTEEN)
    assert fitted.inertia_ < 1e-6
    assert fitted.n_distinct_clusters_ == 9


@every
def test_equal_centres_share_equally(make):
    fitted = fit_quietly(make(3, sigma=0.5, init=[[0.0], [0.0], [9.0]]), [[0.0], [0.1], [9.0]])
    resp = fitted.transform([[0.05], [9.0]])
    assert resp[0, 0] == resp[0, 1] == pytest.approx(0.5, abs=1e-12)
    assert resp[1, 2] == pytest.approx(1.0, abs=1e-12)


# --------------------------------------------------------------------- constant data


@every
@starts
@pytest.mark.parametrize("sigma", [1.0, 0, "auto"])
@pytest.mark.parametrize("value", [0.0, -3.5, 1e6])
def test_constant_data_have_one_cluster(make, init, sigma, value):
    rows = np.full((5, 10), value)
    estimator = make(5, sigma=sigma, init=init, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"\b1\b.*\b5\b"):
        estimator.fit(rows)
    np.testing.assert_array_equal(estimator.cluster_centers_, rows)
    np.testing.assert_array_equal(estimator.labels_, 0)
    resp = estimator.transform(rows)
    np.testing.assert_allclose(resp.sum(axis=1), 1, rtol=0, atol=1e-12)
    if sigma == 1.0:
        np.testing.assert_allclose(resp, 0.2, rtol=1e-12)
    assert estimator.n_distinct_clusters_ == 1
    assert np.isfinite(estimator.sigma_)


@every
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("n_clusters", [1, 2])
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_constant_data_of_many_columns_have_a_temperature(make, container, n_clusters, value):
    rows = container(np.full((40, 30), value))
    fitted = fit_quietly(make(n_clusters, random_state=0), rows)
    np.testing.assert_allclose(fitted.cluster_centers_, value, rtol=1e-14)
    np.testing.assert_allclose(fitted.transform(rows), 1 / n_clusters, rtol=1e-12)
    for number in (fitted.sigma_, fitted.objective_, fitted.inertia_, fitted.score(rows)):
        assert np.isfinite(number)


@every
@pytest.mark.parametrize("sigma", [0, 0.1, "auto"])
def test_fewer_distinct_rows_than_centres_are_told_as_such(make, sigma):
    rows = np.repeat([[0.0, 0.0], [3.0, 1.0], [1.0, 4.0]], 4, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"(duplicate|different|distinct) rows"):
        make(5, sigma=sigma, random_state=0).fit(rows)


@every
@starts
@pytest.mark.parametrize("sigma", [0.05, "auto"])
@pytest.mark.parametrize("n_clusters", [3, 5, 10])
def test_a_few_repeated_points_are_all_found(make, init, sigma, n_clusters):
    points = np.array([[1.3454, 1.2345], [3.4601, 2.1853], [4.4566, 4.6642]])
    rows = np.repeat(points, 5, axis=0)
    fitted = make(n_clusters, sigma=sigma, init=init, random_state=0, n_init=10)
    fit_quietly(fitted, rows)
    assert np.isfinite(fitted.cluster_centers_).all()
    assert len(np.unique(fitted.labels_)) == 3
    assert fitted.inertia_ < 0.05


@every
@pytest.mark.parametrize("sizes", [(200, 49), (248, 1), (2, 2)])
def test_two_distinct_values_are_two_clusters_for_every_seed(make, sizes):
    rows = np.repeat([[0.0, 0.0], [1.0, 1.0]], sizes, axis=0)
    for seed in range(20):
        fitted = make(2, sigma=0.1, random_state=seed).fit(rows)
        order = np.argsort(fitted.cluster_centers_[:, 0])
        np.testing.assert_allclose(
            fitted.cluster_centers_[order], [[0, 0], [1, 1]], rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(fitted.cluster_mass_[order], sizes, rtol=1e-12)


# ---------------------------------------------------------------- drawing the starts


@every
@starts
@pytest.mark.parametrize("spread", [2.0, 4.0])
def test_heavy_tails_in_single_precision_never_leave_the_data(make, init, spread):
    rows = 3e4 * np.random.RandomState(0).lognormal(sigma=spread, size=(1500, 3))
    rows = rows.astype(np.float32)
    for seed in range(10):
        estimator = make(32, sigma=0, init=init, n_init=1, random_state=seed, max_iter=1)
        fitted = fit_quietly(estimator, rows)
        assert np.isfinite(fitted.cluster_centers_).all()
        assert (fitted.cluster_centers_ <= rows.max(axis=0)).all()
        assert (fitted.cluster_centers_ >= rows.min(axis=0)).all()


class Extreme(np.random.RandomState):
    """Draws the largest number below one, or zero, wherever it is asked."""

    def __init__(self, value):
        super().__init__(0)
        self.value = value

    def uniform(self, low=0.0, high=1.0, size=None):
        low, high = np.asarray(low), np.asarray(high)
        drawn = low + (high - low) * np.full(() if size is None else size, self.value)
        return float(drawn) if drawn.ndim == 0 else drawn

    def random_sample(self, size=None):
        return self.uniform(size=size)

    random = random_sample


@every
@starts
@pytest.mark.parametrize("value", [0.0, np.nextafter(1.0, 0.0)])
def test_draws_at_the_ends_choose_rows_with_weight_and_distance(make, init, value):
    """Zero weight surrounds the others in any order; no draw may fall on it."""
    rows = np.r_[-9e4, 0.1 * np.arange(1, 8), 9e4][:, None]
    weight = np.r_[0.0, np.ones(7), 0.0]
    estimator = make(5, sigma=0, init=init, n_init=1, random_state=Extreme(value))
    fitted = estimator.fit(rows, sample_weight=weight)
    assert np.abs(fitted.cluster_centers_).max() < 1
    assert fitted.objective_path_[0] < 1
    assert fitted.n_distinct_clusters_ == 5


@every
@starts
@pytest.mark.parametrize("shape", [(5, 1000), (2, 300), (20, 1)])
def test_more_features_than_rows(make, init, shape):
    rows = np.random.RandomState(0).normal(size=shape)
    for seed in range(8):
        fitted = fit_quietly(make(2, init=init, n_init=1, random_state=seed), rows)
        assert fitted.cluster_centers_.shape == (2, shape[1])
        assert np.isfinite(fitted.objective_)


@every_alpha
def test_as_many_centres_as_rows(alpha):
    rows = reference.blobs(4, n_samples=12)
    fitted = model(alpha, 12, sigma=1e-3, random_state=0).fit(rows)
    assert fitted.inertia_ == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(np.sort(fitted.labels_), np.arange(12))

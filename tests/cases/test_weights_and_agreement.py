"""Weights that matter, inputs left alone, and methods that agree.

Sources: https://github.com/scikit-learn/scikit-learn/issues/25527,
https://github.com/scikit-learn/scikit-learn/issues/17203,
https://github.com/scikit-learn/scikit-learn/issues/6156,
https://github.com/scikit-learn/scikit-learn/issues/17209,
https://github.com/scikit-learn-contrib/hdbscan/issues/363
"""

import numpy as np
import pytest

import reference
from models import at_centers, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])


# --------------------------------------------------------------------- the weights


@every
@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("light", [1e-8, 0.0])
def test_light_far_rows_do_not_become_clusters(make, init, light):
    rows = np.array([1.0, 1, 5, 5, 100, 100])[:, None]
    weight = [1e8] * 4 + [light] * 2
    for seed in range(15):
        fitted = make(2, sigma=0.1, init=init, random_state=seed)
        fitted.fit(rows, sample_weight=weight)
        np.testing.assert_allclose(
            np.sort(fitted.cluster_centers_, axis=0), [[1], [5]], rtol=0, atol=1e-6
        )


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("copy_x", [True, False])
def test_the_callers_arrays_stay_byte_for_byte(make, dtype, order, copy_x):
    rows = np.array(reference.data("wine"), dtype=dtype, order=order)
    weight = reference.weights(len(rows)).astype(dtype)
    start = np.array(rows[:3], order=order)
    before = [array.tobytes() for array in (rows, weight, start)]
    estimator = make(3, init=start, copy_x=copy_x)
    estimator.fit(rows, sample_weight=weight)
    estimator.fit_predict(rows, sample_weight=weight)
    estimator.fit_transform(rows, sample_weight=weight)
    estimator.score(rows, sample_weight=weight)
    after = [array.tobytes() for array in (rows, weight, start)]
    assert after[1:] == before[1:]
    if copy_x:
        assert after[0] == before[0]


# ------------------------------------------------------------------------- the ties


@every_alpha
@pytest.mark.parametrize(
    "centers",
    [
        [[-1.0, 0], [1, 0]],
        [[0.0, 1], [0, 1]],
        [[1.0, 0], [0, 1], [-1, 0], [0, -1]],
        [[3.0, 4], [5, 0], [-4, 3], [0, -5], [-3, -4]],
    ],
)
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_exact_ties_are_shared_equally_and_labelled_lowest(alpha, centers, sigma):
    centers = np.array(centers)
    fitted = at_centers(alpha, centers, sigma)
    rows = np.zeros((37, 2))
    resp = fitted.transform(rows)
    assert (resp == resp[0, 0]).all()
    np.testing.assert_allclose(resp, 1 / len(centers), rtol=1e-14)
    np.testing.assert_array_equal(fitted.predict(rows), 0)


@every_alpha
@pytest.mark.parametrize("sigma", [0, 0.5])
def test_repeated_centres_leave_the_label_to_the_first(alpha, sigma):
    centers = np.array([[9.0], [0.0], [0.0], [0.0]])
    fitted = at_centers(alpha, centers, sigma)
    np.testing.assert_array_equal(fitted.predict([[0.1], [8.0], [-3.0]]), [1, 0, 1])


# --------------------------------------------------------------- sums of many rows


@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_and_score_tell_the_same_over_many_rows(dtype, rtol, weighted):
    rows = np.random.RandomState(42).uniform(size=(200_000, 1)).astype(dtype)
    weight = reference.weights(len(rows)) if weighted else None
    total = len(rows) if weight is None else weight.sum()
    fitted = SoftKMeans(2, sigma=0.05, init=[[0.2], [0.7]]).fit(rows, sample_weight=weight)
    mean = -fitted.score(rows, sample_weight=weight)
    constant = np.log(2) + 0.5 * np.log(2 * np.pi * 0.05**2)
    expected = 2 * 0.05**2 * total * (mean - constant)
    assert fitted.objective_ == pytest.approx(expected, rel=rtol)
    expected = reference.distortion(rows, fitted.cluster_centers_, weight)
    assert fitted.inertia_ == pytest.approx(expected, rel=rtol)


# ------------------------------------------------------------------- saved centres


@every_alpha
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saved_centres_answer_like_the_model_they_came_from(alpha, dtype):
    rows = reference.data("iris").astype(dtype)
    fitted = model(alpha, 3, random_state=0).fit(rows)
    again = at_centers(alpha, fitted.cluster_centers_, fitted.sigma_)
    np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))
    np.testing.assert_array_equal(again.predict(rows), fitted.labels_)
    assert again.score(rows) == fitted.score(rows)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_centres_may_be_replaced_after_the_fit(make, dtype):
    rows = reference.data("iris")
    fitted = make(3, sigma=0.5, random_state=0).fit(rows)
    expected = fitted.transform(rows)
    order = [2, 0, 1]
    fitted.cluster_centers_ = np.asfortranarray(fitted.cluster_centers_[order].astype(dtype))
    np.testing.assert_allclose(fitted.transform(rows), expected[:, order], rtol=0, atol=1e-5)
    assert np.isfinite(fitted.score(rows))

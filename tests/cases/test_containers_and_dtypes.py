"""What may be passed as data and as initial centres, and what comes back.

Sources: https://github.com/scipy/scipy/issues/1773,
https://github.com/scikit-learn/scikit-learn/issues/14314,
https://github.com/NVIDIA/cuml/issues/26,
https://github.com/scikit-learn/scikit-learn/pull/6846,
https://github.com/scikit-learn/scikit-learn/pull/26657,
https://github.com/src-d/kmcuda/issues/41
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import reference
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])


@every
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float16, object])
def test_the_mean_of_one_and_two_is_one_and_a_half(make, dtype):
    fitted = make(1, sigma=0).fit(np.array([[1], [2]], dtype=dtype))
    assert fitted.cluster_centers_.dtype == np.float64
    np.testing.assert_array_equal(fitted.cluster_centers_, [[1.5]])


@every
@pytest.mark.parametrize("container", [list, np.array])
def test_four_integer_rows_make_two_clusters(make, container):
    rows = container([[1, 1], [1, 2], [3, 2], [4, 3]])
    fitted = make(2, sigma=0.1, n_init=5, random_state=0).fit(rows)
    np.testing.assert_allclose(
        np.sort(fitted.cluster_centers_, axis=0), [[1, 1.5], [3.5, 2.5]], rtol=0, atol=1e-9
    )


@every
def test_bytes_do_not_wrap_around(make):
    image = np.zeros((8, 6), dtype=np.uint8)
    image[4:] = 255
    image[0, 0] = 200
    fitted = make(2, sigma=10, init=np.array([[0] * 6, [255] * 6], dtype=np.uint8)).fit(image)
    np.testing.assert_array_equal(fitted.labels_, [0] * 4 + [1] * 4)
    np.testing.assert_allclose(fitted.cluster_centers_[0], [50, 0, 0, 0, 0, 0], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(fitted.predict(image), fitted.labels_)


@every
def test_truth_values_are_zeros_and_ones(make):
    rows = np.array([[True, False], [True, False], [False, True]])
    fitted = make(2, sigma=0.1, init=rows[[0, 2]]).fit(rows)
    np.testing.assert_allclose(fitted.cluster_centers_, [[1, 0], [0, 1]], rtol=0, atol=1e-12)


@every
@pytest.mark.parametrize("name, n_clusters", [("iris", 3), ("wine", 3), ("digits", 10)])
def test_single_precision_is_close_to_double_precision(make, name, n_clusters):
    rows = reference.data(name)
    start = reference.spread_start(rows, n_clusters)
    sigma = 0.3 * np.sqrt(np.median(reference.gaps(rows, start)))
    double = make(n_clusters, sigma=sigma, init=start, tol=1e-6).fit(rows)
    single = make(n_clusters, sigma=sigma, init=start, tol=1e-6).fit(rows.astype(np.float32))
    scale = rows.std()
    np.testing.assert_allclose(
        single.cluster_centers_, double.cluster_centers_, rtol=1e-5, atol=1e-4 * scale
    )
    assert single.cluster_centers_.dtype == np.float32
    assert single.labels_.dtype == np.int32


# ------------------------------------------------------------------ initial centres

IRIS = reference.data("iris")
START = np.array([[5, 3, 2, 0], [6, 3, 4, 1], [7, 3, 5, 2]])


def frame(values):
    return pytest.importorskip("pandas").DataFrame(values)


FORMS = {
    "int": lambda: START,
    "int32": lambda: START.astype(np.int32),
    "float32": lambda: START.astype(np.float32),
    "fortran": lambda: np.asfortranarray(START, dtype=np.float64),
    "lists": START.tolist,
    "tuple": lambda: tuple(map(tuple, START)),
    "frame": lambda: frame(START),
    "function": lambda: lambda X, n_clusters, random_state: START,
    "function-lists": lambda: lambda X, n_clusters, random_state: START.tolist(),
    "function-float32": lambda: lambda X, n_clusters, random_state: START.astype(np.float32),
}


@every
@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_the_same_centres_are_the_same_start(make, form):
    expected = make(3, init=START.astype(np.float64)).fit(IRIS)
    fitted = make(3, init=FORMS[form](), n_init="auto" if "function" in form else 1).fit(IRIS)
    np.testing.assert_allclose(fitted.cluster_centers_, expected.cluster_centers_, rtol=1e-12)
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)


@every
def test_arrays_of_centres_can_be_cloned_shown_and_searched(make):
    estimator = make(3, init=START)
    repr(estimator)
    clone(estimator).set_params(init=START + 1).fit(IRIS)
    search = GridSearchCV(make(3, sigma=0.5), {"init": [START, START + 0.5, "k-means++"]}, cv=3)
    search.fit(IRIS[np.random.RandomState(0).permutation(150)])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()

"""Wrong parameters and wrong data: the error a user of scikit-learn expects."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

import reference
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
X = reference.blobs(3, n_samples=30)


# -------------------------------------------------------------------- parameters


@every
@pytest.mark.parametrize(
    "name, value",
    [
        ("n_clusters", 0),
        ("n_clusters", -3),
        ("n_clusters", 1.5),
        ("n_clusters", "3"),
        ("n_clusters", None),
        ("sigma", "abc"),
        ("sigma", -1),
        ("sigma", None),
        ("sigma", [1.0]),
        ("init", "kmeans++"),
        ("init", 3),
        ("init", None),
        ("n_init", 0),
        ("n_init", 2.5),
        ("n_init", "many"),
        ("max_iter", 0),
        ("max_iter", 1.5),
        ("tol", -1e-3),
        ("tol", "small"),
        ("verbose", "loud"),
        ("random_state", "seed"),
        ("copy_x", "yes"),
    ],
)
def test_a_parameter_of_the_wrong_kind_is_named(make, name, value):
    with pytest.raises(InvalidParameterError, match=f"'{name}'"):
        make(**{name: value}).fit(X)


@every
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e-300])
def test_sigma_must_be_a_finite_length(make, value):
    with pytest.raises(ValueError, match="sigma"):
        make(3, sigma=value).fit(X)


@pytest.mark.parametrize("value", [0.9, 0, -1, 1 - 1e-12, "a", None, np.nan, np.inf, [1.5]])
def test_alpha_must_be_a_finite_number_from_one_on(value):
    with pytest.raises(ValueError, match="alpha"):
        EntmaxKMeans(3, alpha=value).fit(X)


@every
def test_a_tolerance_that_is_not_a_number_is_an_error(make):
    with pytest.raises(ValueError, match="tol"):
        make(3, tol=np.nan).fit(X)


@every
@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_parameters_are_checked_by_every_way_to_fit(make, method):
    with pytest.raises(ValueError, match="sigma"):
        getattr(make(3, sigma=-1), method)(X)


@every
def test_numpy_scalars_are_numbers(make):
    fitted = make(
        np.int64(3), sigma=np.float32(0.5), tol=np.float64(1e-3), max_iter=np.int32(50), init=X[:3]
    ).fit(X)
    assert fitted.sigma_ == 0.5
    assert fitted.cluster_centers_.dtype == np.float64


@every
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_more_clusters_than_rows_is_an_error_that_names_both(make, container):
    with pytest.raises(ValueError, match=r"n_samples=30 should be >= n_clusters=31"):
        make(31).fit(container(X))
    rows = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    with pytest.raises(ValueError, match=r"n_samples=2 should be >= n_clusters=8"):
        make().fit(rows)


# ------------------------------------------------------------------ initial centres


def as_function(values):
    return lambda X, n_clusters, random_state: values


@every
@pytest.mark.parametrize("shape", [(2, 2), (4, 2), (3, 1), (3, 3)])
@pytest.mark.parametrize("wrap", [np.array, list, as_function], ids=["array", "list", "function"])
def test_initial_centres_of_the_wrong_shape_are_told_both_shapes(make, shape, wrap):
    with pytest.raises(ValueError) as caught:
        make(3, init=wrap(np.ones(shape))).fit(X)
    assert str(shape) in str(caught.value)
    assert str((3, 2)) in str(caught.value)


@every
@pytest.mark.parametrize("wrap", [np.array, as_function], ids=["array", "function"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_initial_centres_must_be_finite(make, wrap, bad):
    start = X[:3].copy()
    start[1, 0] = bad
    with pytest.raises(ValueError, match=r"(?i)nan|inf"):
        make(3, init=wrap(start)).fit(X)


@every
@pytest.mark.parametrize(
    "result",
    [None, "rows", [1.0, 2.0, 3.0], [[1.0, 2.0], [3.0]], np.ones((3, 2, 1))],
    ids=["none", "string", "one-dimensional", "ragged", "three-dimensional"],
)
def test_a_function_must_return_centres(make, result):
    with pytest.raises((ValueError, TypeError)):
        make(3, init=as_function(result)).fit(X)


# -------------------------------------------------------------------------- data


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_data_must_be_finite(make, dtype, bad):
    rows = X.astype(dtype)
    fitted = make(3, random_state=0).fit(rows)
    rows[7, 1] = bad
    for method in (
        make(3).fit,
        fitted.predict,
        fitted.predict_proba,
        fitted.transform,
        fitted.score,
        fitted.score_samples,
    ):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            method(rows)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        make(3).fit(sparse.csr_array(rows))


@every
def test_one_dimensional_data_is_an_error(make):
    with pytest.raises(ValueError, match="Expected 2D array"):
        make(2).fit(X[:, 0])
    fitted = make(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="Expected 2D array"):
        fitted.predict(X[0])


@every
def test_data_without_rows_or_columns_is_an_error(make):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        make(1).fit(np.empty((0, 2)))
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        make(1).fit(np.empty((4, 0)))
    fitted = make(2, random_state=0).fit(X)
    for method in (fitted.predict, fitted.transform, fitted.score):
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            method(np.empty((0, 2)))


@every
def test_another_number_of_columns_is_an_error(make):
    fitted = make(2, random_state=0).fit(X)
    for method in (fitted.predict, fitted.predict_proba, fitted.score):
        with pytest.raises(ValueError, match="3 features"):
            method(np.ones((4, 3)))


@every
@pytest.mark.parametrize("rows", [[["a", "b"], ["c", "d"]], X + 1j])
def test_data_that_are_not_real_numbers_are_an_error(make, rows):
    with pytest.raises(ValueError):
        make(2).fit(rows)


@every
def test_squares_that_overflow_float64_are_an_error_that_says_so(make):
    with pytest.raises(ValueError, match=r"(?i)overflow|too large|scale"):
        make(2, init=[[0.0], [1e200]]).fit([[0.0], [1.0], [1e200], [2e200]])


# ----------------------------------------------------------------------- weights


@every
@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
@pytest.mark.parametrize(
    "bad, match",
    [
        (-1.0, r"(?i)negative"),
        (np.nan, r"NaN"),
        (np.inf, r"infinity"),
    ],
)
def test_weights_must_be_finite_and_not_negative(make, method, bad, match):
    weight = np.ones(len(X))
    weight[3] = bad
    with pytest.raises(ValueError, match=match):
        getattr(make(3), method)(X, sample_weight=weight)
    with pytest.raises(ValueError, match=match):
        make(3, random_state=0).fit(X).score(X, sample_weight=weight)


@every
@pytest.mark.parametrize(
    "weight", [np.ones(len(X) - 1), np.ones(len(X) + 1), np.ones((len(X), 2)), [1.0]]
)
def test_there_is_one_weight_for_every_row(make, weight):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        make(3).fit(X, sample_weight=weight)


@every
def test_weights_that_are_all_zero_are_an_error(make):
    with pytest.raises(ValueError, match=r"(?i)sample.weight.*zero"):
        make(3).fit(X, sample_weight=np.zeros(len(X)))
    fitted = make(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"(?i)zero"):
        fitted.score(X, sample_weight=np.zeros(len(X)))


@every
@pytest.mark.parametrize("sigma", ["auto", 0, 1.0])
def test_one_positive_weight_puts_a_single_centre_on_that_row(make, sigma):
    weight = np.zeros(len(X))
    weight[11] = 2.5
    fitted = make(1, sigma=sigma, random_state=0).fit(X, sample_weight=weight)
    np.testing.assert_array_equal(fitted.cluster_centers_[0], X[11])


@every
@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0, 0, "x", {}])
def test_one_number_for_all_rows_is_checked_like_an_array(make, weight):
    with pytest.raises((ValueError, TypeError)):
        make(3).fit(X, sample_weight=weight)


@every
def test_weights_whose_sum_overflows_are_an_error(make):
    with pytest.raises(ValueError, match="sample_weight must be finite, and its sum"):
        make(3).fit(X, sample_weight=np.full(len(X), 1e308))


@every
def test_one_number_is_the_weight_of_every_row(make):
    one = make(3, random_state=0).fit(X, sample_weight=2.5)
    other = make(3, random_state=0).fit(X, sample_weight=np.full(len(X), 2.5))
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    assert one.objective_ == other.objective_


@every
def test_lists_and_integers_are_weights(make):
    weight = [1, 2] * 15
    one = make(3, random_state=0).fit(X, sample_weight=weight)
    other = make(3, random_state=0).fit(X, sample_weight=np.array(weight, dtype=np.float64))
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)


@every
def test_validation_switched_off_never_hangs_or_crashes(make):
    rows = X.copy()
    rows[4] = np.nan
    with config_context(assume_finite=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            fitted = make(3, random_state=0, max_iter=20).fit(rows)
        except ValueError:
            return
    assert fitted.n_iter_ <= 20

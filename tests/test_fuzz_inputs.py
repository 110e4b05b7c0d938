"""Arbitrary input: an answer or a clear error, never anything else. Run by `make fuzz`."""

import warnings

import numpy as np
import pandas as pd
from hypothesis import event, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

# What may be raised: InvalidParameterError and NotFittedError are ValueErrors.
CLEAR = (ValueError, TypeError)

# What may be said: that the result is not what was asked for, or that input was converted.
ALLOWED = [
    (ConvergenceWarning, ""),
    (DataConversionWarning, ""),
    (RuntimeWarning, "Explicit initial center position passed"),
    (np.exceptions.ComplexWarning, ""),
    (RuntimeWarning, "invalid value encountered in reduce"),  # scikit-learn looks for infinities
]

numbers = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 2.5, 5e-324, 1e-160, 1e-30, 1e30, 1e160, 1.7e308, -1.7e308]
)
bad_numbers = st.sampled_from([np.nan, np.inf, -np.inf])
anything = st.sampled_from([None, "", "x", b"x", object(), 3 + 4j, {}, [], {1: 2}, np.nan, "nan"])


def usually(good, bad):
    """One value in twelve is bad: with one for each parameter, half of the calls are good."""
    return st.integers(1, 12).flatmap(lambda number: bad if number == 7 else good)


def mostly(good, *others):
    return usually(st.sampled_from(good), st.sampled_from(others))


shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9)
odd_shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
ordinary = st.floats(-100, 100, width=32)
dtypes = st.sampled_from("f8 f4 f2 >f8 >f4 i8 i4 i2 u1 u8 >i4 ? g".split())
odd_dtypes = st.sampled_from("c16 O U3 S3 M8[s] m8[s]".split())


@st.composite
def dense(draw):
    shape = draw(shapes)
    elements = draw(st.sampled_from([ordinary, ordinary, numbers, st.sampled_from([0.0, 1.0])]))
    X = draw(hnp.arrays(np.float64, shape, elements=elements))
    if draw(st.booleans()):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X = X.astype(draw(dtypes))
    if draw(st.booleans()):
        X = X[:: draw(st.sampled_from([1, -1, 2])), :: draw(st.sampled_from([1, -1, 2]))]
    if draw(st.booleans()):
        X = np.repeat(X, draw(st.integers(1, 40)), axis=0)
    if draw(st.booleans()):
        X.flags.writeable = False
    return X


@st.composite
def spoiled(draw):
    X = np.array(draw(dense()), dtype=np.float64)
    X.flat[draw(st.integers(0, X.size - 1))] = draw(bad_numbers)
    return X


@st.composite
def sparse_rows(draw):
    dtype = draw(st.sampled_from(["f8", "f4"]))
    with np.errstate(over="ignore"):
        X = np.array(draw(usually(dense(), spoiled())), dtype=dtype)
    form = draw(st.sampled_from(["csr", "csc", "coo", "lil", "dok", "bsr"]))
    kind = draw(st.sampled_from(["array", "matrix"]))
    X = getattr(sparse, f"{form}_{kind}")(X)
    if form == "csr" and draw(st.booleans()):
        X.indices = X.indices.astype(np.int64)
        X.indptr = X.indptr.astype(np.int64)
    return X


@st.composite
def strange(draw):
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return draw(st.lists(st.lists(st.one_of(numbers, anything), max_size=4), max_size=5))
    if kind == 1:
        shape = draw(odd_shapes)
        return np.zeros(shape, dtype=draw(st.one_of(dtypes, odd_dtypes)))
    if kind == 2:
        return pd.DataFrame(draw(dense())).assign(text=draw(st.sampled_from(["a", 1, None])))
    if kind == 3:
        return np.ma.masked_greater(np.asarray(draw(dense()), dtype=float), 1.0)
    return draw(anything)


frames = dense().map(lambda X: pd.DataFrame(X.astype(X.dtype.newbyteorder("="))))
tables = usually(
    st.one_of(dense(), dense(), sparse_rows(), frames), st.one_of(spoiled(), strange())
)


@st.composite
def initial_centers(draw, n_clusters):
    k = int(n_clusters) if n_clusters in (1, 2, 3) else 2
    kind = draw(st.integers(0, 4))
    if kind <= 1:
        return draw(st.sampled_from(["k-means++", "random", "k-means", None, 3, ()]))
    if kind == 2:
        return draw(tables)
    if kind == 3:
        return lambda X, n_clusters, random_state: X[:n_clusters]
    return np.linspace(-1, 1, 2 * k).reshape(k, 2)


@st.composite
def estimators(draw):
    n_clusters = draw(mostly([1, 2, 3], 0, -1, 2.5, None, "a", True, 10**9, np.int64(2), np.nan))
    params = {
        "sigma": draw(mostly(["auto", 0, 0.7, 1e-300, 1e300], -1, np.nan, np.inf, None, "x", True)),
        "init": draw(usually(st.just("k-means++"), initial_centers(n_clusters))),
        "n_init": draw(mostly(["auto", 1, 2], 0, -1, 1.5, None, "x")),
        "max_iter": draw(mostly([1, 5, 30], 0, -3, 2.5, None)),
        "tol": draw(mostly([1e-4, 0, 10.0], -1, np.nan, None, "x")),
        "random_state": draw(mostly([0, None], "x", -1)),
        "copy_x": draw(mostly([True, False], 2, None)),
    }
    if draw(st.booleans()):
        return SoftKMeans(n_clusters, **params)
    alpha = draw(mostly([1, 1.5, 2, 1.3, 4.0, 1 + 1e-9, 1e6], 0.5, -1, np.nan, np.inf, None, "x"))
    return EntmaxKMeans(n_clusters, alpha=alpha, **params)


@st.composite
def sample_weights(draw, X):
    n_samples = X.shape[0] if len(getattr(X, "shape", ())) == 2 else 3
    kind = draw(st.integers(0, 11))
    if kind <= 3:
        return None
    if kind <= 6:
        return draw(hnp.arrays(np.float64, n_samples, elements=st.floats(0, 100)))
    if kind <= 8:
        return [draw(st.integers(0, 3)) for _ in range(n_samples)]
    if kind <= 10:
        return draw(hnp.arrays(np.float64, n_samples, elements=numbers.map(abs)))
    bad = hnp.arrays(np.float64, n_samples, elements=st.one_of(numbers, bad_numbers))
    return draw(st.one_of(anything, bad, hnp.arrays(np.float64, odd_shapes, elements=ordinary)))


def answer(call):
    """The result of a call, or None where it raised what may be raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category, message in ALLOWED:
            warnings.filterwarnings("ignore", message, category)
        try:
            return call()
        except CLEAR as error:
            assert str(error), "an error without a message"
            return None


def check_fitted(fitted, X, n_samples):
    for name in ("cluster_centers_", "cluster_mass_", "objective_path_"):
        assert np.isfinite(getattr(fitted, name)).all(), name
    for name in ("inertia_", "objective_", "sigma_"):
        assert np.isfinite(getattr(fitted, name)), name
    assert fitted.labels_.shape == (n_samples,)
    assert ((fitted.labels_ >= 0) & (fitted.labels_ < fitted.n_clusters)).all()
    labels = answer(lambda: fitted.predict(X))
    if labels is not None:
        np.testing.assert_array_equal(labels, fitted.labels_)


def check_prediction(fitted, X):
    resp = answer(lambda: fitted.transform(X))
    if resp is not None:
        assert ((resp >= 0) & (resp <= 1)).all()
        np.testing.assert_allclose(resp.sum(axis=1, dtype=np.float64), 1, rtol=0, atol=2e-6)
    score = answer(lambda: fitted.score(X))
    assert score is None or score < np.inf


@given(estimator=estimators(), X=tables, other=tables, data=st.data())
def test_any_input_gets_an_answer_or_a_clear_error(estimator, X, other, data):
    sample_weight = data.draw(sample_weights(X), label="sample_weight")
    fitted = answer(lambda: estimator.fit(X, sample_weight=sample_weight))
    event("an answer" if fitted is not None else "an error")
    if fitted is not None:
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        check_fitted(fitted, X, n_samples)
        check_prediction(fitted, X)
        check_prediction(fitted, other)

"""Responsibilities as CSR: the numbers of the dense ones, without the zeros and the memory."""

import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from models import run_python
from sklearn_softkmeans import EntmaxKMeans
from sklearn_softkmeans._sparse_shares import index_dtype

X = reference.blobs(12, n_samples=3000, n_features=3, std=1.0, box=5.0, seed=0)
CENTERS = reference.spread_start(X, 12)


def pair(sigma, alpha=1.5, centers=CENTERS):
    make = EntmaxKMeans.from_centers
    dense = make(centers, sigma=sigma, alpha=alpha)
    return dense, make(centers, sigma=sigma, alpha=alpha, sparse_output=True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([EntmaxKMeans(sparse_output=True)])
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.7, 5.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_numbers_are_those_of_the_dense_array(container, dtype, sigma, alpha):
    dense, thin = pair(sigma, alpha)
    rows = container(X.astype(dtype))
    expected, found = dense.transform(rows), thin.transform(rows)
    assert isinstance(found, sparse.csr_array)
    assert found.dtype == dtype
    assert found.indices.dtype == found.indptr.dtype == np.int32
    assert found.has_canonical_format
    assert (found.data > 0).all()
    rounding = 1e-14 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(found.toarray(), expected, rtol=0, atol=rounding)
    assert found.nnz == np.count_nonzero(expected)


def test_rows_are_shared_and_blocks_are_several(monkeypatch):
    monkeypatch.setattr("sklearn_softkmeans._sparse_shares._BLOCK_BYTES", 8 * 12 * 7)
    dense, thin = pair(0.7)
    expected = dense.transform(X)
    assert 0.1 < ((expected > 0).sum(axis=1) > 1).mean() < 0.9
    np.testing.assert_allclose(thin.transform(X).toarray(), expected, rtol=0, atol=1e-14)


def test_ties_and_one_cluster():
    dense, thin = pair(0.5, centers=np.array([[-1.0], [1.0], [1.0]]))
    rows = [[0.0], [1.0], [-9.0]]
    np.testing.assert_array_equal(thin.transform(rows).toarray(), dense.transform(rows))
    _, thin = pair(0.5, centers=np.zeros((1, 2)))
    np.testing.assert_array_equal(thin.transform(np.eye(2)).toarray(), [[1.0], [1.0]])


def test_all_methods_return_it_and_labels_stay_arrays():
    model = EntmaxKMeans(3, sparse_output=True, random_state=0)
    first = model.fit_transform(X)
    for shares in (first, model.transform(X), model.predict_proba(X)):
        assert sparse.issparse(shares)
        np.testing.assert_array_equal(shares.toarray(), first.toarray())
    np.testing.assert_array_equal(first.toarray().argmax(axis=1), model.labels_)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_data_frames_are_an_error_that_says_what_to_do(container):
    model = EntmaxKMeans(3, sparse_output=True).set_output(transform=container)
    for call in (model.fit_transform, model.fit(X).transform):
        with pytest.raises(ValueError, match=f"sparse_output=True.*{container}.*sparse_output=F"):
            call(X)
    assert sparse.issparse(model.predict_proba(X))  # `set_output` is about transform
    model.set_params(sparse_output=False)
    assert model.transform(X).shape == (len(X), 3)


def test_it_works_as_a_step_of_a_pipeline():
    chain = make_pipeline(StandardScaler(), EntmaxKMeans(3, sparse_output=True, random_state=0))
    assert sparse.issparse(chain.fit_transform(X))


def test_indices_have_64_bits_where_32_are_too_few():
    assert index_dtype(2**31 - 1) == np.int32
    assert index_dtype(2**31) == np.int64


PEAK = """
import json, re
import numpy as np
from sklearn_softkmeans import EntmaxKMeans

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read()).group(1)) // 1024

rng = np.random.RandomState(0)
centers = rng.normal(size=(1000, 4))
X = centers[rng.randint(1000, size=200_000)] + rng.normal(scale=0.1, size=(200_000, 4))
model = EntmaxKMeans.from_centers(centers, sigma=0.05, sparse_output=True)
model.transform(X[:2000])
before = peak()
shares = model.transform(X)
print(json.dumps([before, peak(), shares.nnz]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the process files of Linux")
def test_no_dense_array_is_made():
    before, after, nnz = run_python(PEAK)
    assert 200_000 < nnz < 1_000_000
    assert after - before < 120  # MiB; the dense array has 1526

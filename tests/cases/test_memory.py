"""Memory: no array of rows times clusters, no copy of the data.

Sources: https://github.com/scikit-learn/scikit-learn/issues/9943,
https://github.com/facebookresearch/faiss/issues/39, https://github.com/NVIDIA/cuml/issues/226
"""

import sys
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from models import fit_quietly, run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
MIB = 2**20

# Peak memory of the process after each step. Responsibilities would take 2 or 4 GB. (What
# `resource` knows as the peak includes that of the parent.)
MANY_CLUSTERS = """
import json, re, warnings
import numpy as np
from scipy import sparse
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

def peak():
    status = open("/proc/self/status").read()
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", status).group(1))

warnings.simplefilter("ignore")
make = {name}
X = np.random.RandomState(0).uniform(0, 5, size=(250_000, 2)).astype(np.{dtype})
if {is_sparse}:
    X = sparse.csr_array(X)
make(2, max_iter=2, random_state=0).fit(X[:200]).score(X[:200])  # compiles
peaks = [peak()]
fitted = make(2000, init="random", n_init=1, sigma={sigma}, max_iter=2, random_state=0).fit(X)
peaks.append(peak())
fitted.predict(X)
fitted.score(X)
fitted.score_samples(X)
peaks.append(peak())
print(json.dumps(peaks))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the process files of Linux")
@pytest.mark.parametrize(
    "name, dtype, is_sparse, sigma",
    [
        ("SoftKMeans", "float64", False, "'auto'"),
        ("EntmaxKMeans", "float64", True, "0.05"),
    ],
)
def test_many_clusters_take_no_array_of_rows_times_clusters(name, dtype, is_sparse, sigma):
    code = MANY_CLUSTERS.format(name=name, dtype=dtype, is_sparse=is_sparse, sigma=sigma)
    before, after_fit, after_prediction = run_python(code)
    assert after_fit - before < 200 * MIB
    assert after_prediction - before < 200 * MIB


def traced_peak(call):
    """Largest memory that arrays made during a call take at any time, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [np.ascontiguousarray, sparse.csr_array])
def test_rows_are_not_copied_where_that_is_not_allowed(container, dtype, make):
    X = container(np.random.RandomState(0).normal(size=(20_000, 100)).astype(dtype))
    size = 20_000 * 100 * np.dtype(dtype).itemsize
    model = make(3, sigma=3.0, init="random", n_init=1, max_iter=3, random_state=0, copy_x=False)
    fit_quietly(model, X + 1.0 if isinstance(X, np.ndarray) else 2.0 * X).score(X)  # compiles
    assert traced_peak(lambda: fit_quietly(model, X)) < 0.5 * size
    for method in (model.predict, model.score):
        assert traced_peak(lambda method=method: method(X)) < 0.5 * size


@every
def test_one_copy_at_most_where_it_is_allowed(make):
    X = np.random.RandomState(0).normal(size=(20_000, 100))
    model = make(3, sigma=3.0, init="random", n_init=1, max_iter=3, random_state=0)
    fit_quietly(model, X[:100])
    assert traced_peak(lambda: fit_quietly(model, X)) < 1.5 * X.nbytes


@every
def test_two_copies_at_most_where_rows_lie_in_tiles(make):
    random = np.random.RandomState(0)
    middles = 100.0 * random.normal(size=(64, 50))
    X = np.repeat(middles, 300, axis=0) + random.normal(size=(19_200, 50))
    model = make(64, init=middles, max_iter=3)
    assert fit_quietly(model, X).n_iter_ > 1
    assert traced_peak(lambda: fit_quietly(model, X)) < 2.75 * X.nbytes

"""The same data give the same bits: repeated, reordered, on any number of threads."""

import json

import numpy as np
import pytest

import reference
from models import run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
X = reference.blobs(3, n_samples=120, n_features=5, std=0.8, box=5.0, seed=3)
WEIGHT = reference.weights(len(X))


@every
def test_repeated_fits_are_bitwise_equal(make):
    fits = [make(5, random_state=0).fit(X, sample_weight=WEIGHT) for _ in range(3)]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(fits[0].objective_path_, other.objective_path_)
        np.testing.assert_array_equal(fits[0].transform(X), other.transform(X))


IN_ANOTHER_PROCESS = """
import hashlib, json
import numba, numpy as np
from scipy import sparse
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

rows = np.random.RandomState(0).normal(size=(20011, 4))
digests, left_alone = {}, True
for n_threads in (1, 2, 3, 4):
    numba.set_num_threads(n_threads)
    for name, estimator, X in (
        ("softmax", SoftKMeans(6, sigma=0.5, max_iter=8), rows),
        ("entmax", EntmaxKMeans(6, sigma=0.8, max_iter=8), rows),
        ("hard", SoftKMeans(6, sigma=0, max_iter=8), rows),
        ("single", SoftKMeans(6, sigma=0.5, max_iter=8), rows.astype(np.float32)),
        ("sparse", SoftKMeans(6, sigma=0.5, max_iter=8), sparse.csr_array(rows)),
    ):
        estimator.set_params(init=rows[:6], tol=0).fit(X)
        parts = (estimator.cluster_centers_, estimator.labels_, estimator.objective_path_,
                 estimator.transform(X), np.float64(estimator.score(X)))
        digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
        digests.setdefault(name, []).append(digest)
        left_alone &= numba.get_num_threads() == n_threads
print(json.dumps([digests, left_alone]))
"""


def test_results_are_bitwise_equal_for_any_number_of_threads(tmp_path):
    output = run_python(IN_ANOTHER_PROCESS, cwd=tmp_path, NUMBA_NUM_THREADS="4")
    digests, left_alone = json.loads(output)
    assert set(digests) == {"softmax", "entmax", "hard", "single", "sparse"}
    for name, found in digests.items():
        assert len(found) == 4
        assert len(set(found)) == 1, name
    assert left_alone


@every
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_the_order_of_the_rows_does_not_matter(make, init):
    order = np.random.RandomState(1).permutation(len(X))
    one = make(5, init=init, random_state=3).fit(X, sample_weight=WEIGHT)
    other = make(5, init=init, random_state=3).fit(X[order], sample_weight=WEIGHT[order])
    np.testing.assert_array_equal(one.labels_[order], other.labels_)
    np.testing.assert_allclose(one.cluster_centers_, other.cluster_centers_, rtol=1e-8)

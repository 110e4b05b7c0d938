"""The same data give the same bits: repeated, reordered, on any number of threads."""

import numpy as np
import pytest
from scipy import sparse

import reference
from models import run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._seeding import initial_centers

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


# ------------------------------------------------------------------- number of threads

# The rows are so many that every pass has several tasks, and BLAS uses threads where it may.
IN_ANOTHER_PROCESS = """
import hashlib, json
import numba, numpy as np
from scipy import sparse
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from threadpoolctl import threadpool_info, threadpool_limits

rng = np.random.RandomState(0)
rows = rng.normal(size=(40009, 6))
rows[rng.uniform(size=rows.shape) < 0.3] = 0
wide = rng.normal(size=(30, 50000))
far = np.vstack([rows[:4], 50 + rows[:2]])
CASES = {
    "k-means++": (SoftKMeans(6, sigma=0.5), rows),
    "random": (EntmaxKMeans(6, sigma=0.8, init="random", n_init=2), rows),
    "auto": (SoftKMeans(6), rows),
    "auto by variance": (SoftKMeans(1), wide),
    "dead, entmax": (EntmaxKMeans(6, sigma=0.5, init=far), rows),
    "dead, hard": (SoftKMeans(6, sigma=0, init=far), rows),
    "starved": (SoftKMeans(6, sigma=0.5, init=far), rows),
    "single": (EntmaxKMeans(6, sigma=0.5), rows.astype(np.float32)),
}

def digest(estimator, X):
    weight = np.linspace(0.5, 2, X.shape[0])
    fitted = estimator.set_params(max_iter=4, tol=0, random_state=0).fit(X, sample_weight=weight)
    parts = (fitted.cluster_centers_, fitted.labels_, fitted.objective_path_, fitted.transform(X),
             np.float64([fitted.sigma_, fitted.inertia_, fitted.score(X)]))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

digests, left_alone = {}, True
for n_threads, n_blas in ((1, 1), (4, 1), (1, 4), (3, 2)):
    numba.set_num_threads(n_threads)
    with threadpool_limits(n_blas, user_api="blas"):
        before = blas_threads()
        for name, (estimator, X) in CASES.items():
            for container in (np.array, sparse.csr_array):
                found = digests.setdefault(f"{name}, {container.__name__}", [])
                found.append(digest(estimator, container(X)))
        left_alone &= numba.get_num_threads() == n_threads and blas_threads() == before
print(json.dumps([digests, left_alone]))
"""


def test_results_are_bitwise_equal_for_any_number_of_threads():
    threads = dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "4")
    digests, left_alone = run_python(IN_ANOTHER_PROCESS, **threads)
    assert len(digests) == 16
    for found in digests.values():
        assert len(found) == 4
    assert not [name for name, found in digests.items() if len(set(found)) > 1]
    assert left_alone


# ---------------------------------------------------------------------- order of the rows


@every
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_the_order_of_the_rows_does_not_matter(make, init):
    order = np.random.RandomState(1).permutation(len(X))
    one = make(5, init=init, random_state=3).fit(X, sample_weight=WEIGHT)
    other = make(5, init=init, random_state=3).fit(X[order], sample_weight=WEIGHT[order])
    np.testing.assert_array_equal(one.labels_[order], other.labels_)
    np.testing.assert_allclose(one.cluster_centers_, other.cluster_centers_, rtol=1e-8)


GRID = 0.1 * np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)


def start(rows, init, seed, weight=None):
    """Initial centres in the unit of the rows."""
    problem = problem_for_fit(rows, weight, 1.0, resident=False)
    return problem.out_of_frame(initial_centers(problem, 5, init, np.random.RandomState(seed)))


@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_the_start_depends_on_the_weighted_rows_alone_where_distances_are_tied(init, container):
    """On a grid many candidates are equally good, up to the rounding of their sums."""
    for seed in range(100):
        rng = np.random.RandomState(seed)
        order, times = rng.permutation(36), rng.randint(0, 4, size=36)
        plain = start(container(GRID), init, seed)
        shuffled = start(container(GRID[order]), init, seed)
        np.testing.assert_allclose(shuffled, plain, rtol=0, atol=1e-12)
        weighted = start(container(GRID), init, seed, times.astype(float))
        repeated = start(container(np.repeat(GRID, times, axis=0)), init, seed)
        np.testing.assert_allclose(repeated, weighted, rtol=0, atol=1e-12)

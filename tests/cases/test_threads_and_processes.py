"""Calls from many threads and from forked or spawned processes, and the settings they share.

Sources: https://github.com/numba/numba/issues/8563, https://github.com/numba/numba/issues/10565,
https://github.com/lmcinnes/umap/issues/665,
https://github.com/scikit-learn/scikit-learn/issues/20216,
https://github.com/scikit-learn/scikit-learn/issues/17944,
https://github.com/numba/numba/issues/3681, https://github.com/joblib/joblib/pull/951,
https://github.com/Wake-T/Wake-T/issues/161
"""

import importlib
import multiprocessing
import os
import sys

import numba
import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

import reference
from models import run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, _assignment, _jit

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
X = reference.blobs(8, n_samples=3000, n_features=10, std=1.0, box=4.0, seed=2)


def layer_or_skip(name, module):
    try:
        importlib.import_module(f"numba.np.ufunc.{module}")
    except ImportError:
        return pytest.param(name, marks=pytest.mark.skip(f"{name} is not installed"))
    return name


LAYERS = [
    layer_or_skip(name, module)
    for name, module in {"workqueue": "workqueue", "omp": "omppool", "tbb": "tbbpool"}.items()
]


@pytest.fixture
def many_tasks(monkeypatch):
    """Small data are shared between threads too."""
    monkeypatch.setattr(_assignment, "_MAX_WIDTH", 32)
    monkeypatch.setattr(_assignment, "SERIAL_WORK", 0)
    monkeypatch.setattr(_jit, "_n_threads", lambda: 3)


# ------------------------------------------------------------------- threads of Python

SHARED_BY_THREADS = """
import json
from concurrent.futures import ThreadPoolExecutor
import numba
import numpy as np
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

@numba.njit(parallel=True)
def of_somebody_else(x):
    for i in numba.prange(len(x)):
        x[i] += 1.0

of_somebody_else(np.zeros(99))  # the threading layer runs
X = np.random.RandomState(0).normal(size=(5000, 10))
models = [make(8, max_iter=20, random_state=0).fit(X) for make in (SoftKMeans, EntmaxKMeans)]

def fit(i):
    return models[i % 2].__class__(8, max_iter=20, random_state=0).fit(X).cluster_centers_

def predict(i):
    return models[i % 2].transform(X)

with ThreadPoolExecutor(8) as pool:
    fits, predictions = pool.map(fit, range(16)), pool.map(predict, range(200))
    same = [np.array_equal(c, models[i % 2].cluster_centers_) for i, c in enumerate(fits)]
    expected = [model.transform(X) for model in models]
    same += [np.array_equal(r, expected[i % 2]) for i, r in enumerate(predictions)]
print(json.dumps([len(same), all(same)]))
"""


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("n_threads", ["1", "3"])
def test_a_pool_of_threads_fits_and_predicts_on_every_layer(layer, n_threads):
    environment = {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": n_threads}
    assert run_python(SHARED_BY_THREADS, **environment) == [216, True]


@every
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_a_parallel_search_equals_a_serial_one(make, backend):
    grid = {"n_clusters": [3, 8], "sigma": [0.3, 0.5, 1.0]}
    options = {"cv": 3, "error_score": "raise"}
    search = GridSearchCV(make(random_state=0, max_iter=500), grid, **options)
    expected = search.fit(X[:600]).cv_results_["mean_test_score"]
    with parallel_config(backend, n_jobs=3):
        search = GridSearchCV(make(random_state=0, max_iter=500), grid, **options)
        found = search.fit(X[:600]).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(found, expected)


@every
@pytest.mark.usefixtures("many_tasks")
def test_searches_within_threads_of_joblib(make):
    def search(seed):
        grid = GridSearchCV(make(4, random_state=seed, max_iter=500), {"sigma": [0.5, 1.0]}, cv=2)
        return grid.fit(X[:400]).best_score_

    expected = [search(seed) for seed in range(3)]
    with parallel_config("threading", n_jobs=3):
        assert Parallel()(delayed(search)(seed) for seed in range(3)) == expected


# --------------------------------------------------------------- the same with any threads

REPORTED = np.random.RandomState(2).normal(size=(1800, 2))
REPORTED[:700] += 3.0
REPORTED[700:1200] -= 0.5
REPORTED[1200:] += [3.0, -3.0]
REPORTED = REPORTED[np.random.RandomState(2).permutation(1800)]
MANY = reference.blobs(10, n_samples=10_000, n_features=2, std=1.0, box=10.0, seed=2)


@every
@pytest.mark.parametrize("sigma", ["auto", 0])
@pytest.mark.parametrize("rows, n_clusters, n_init", [(REPORTED, 3, 10), (MANY, 10, 1)])
def test_a_seed_is_a_result_whatever_the_number_of_threads(
    rows, n_clusters, n_init, sigma, make, many_tasks, monkeypatch
):
    def fit():
        model = make(n_clusters, sigma=sigma, n_init=n_init, random_state=10, max_iter=500)
        return model.fit(rows)

    expected = fit()
    for n_threads in [1, 2, 3, 4, 8, 8, 1]:
        monkeypatch.setattr(_jit, "_n_threads", lambda n=n_threads: n)
        again = fit()
        np.testing.assert_array_equal(again.cluster_centers_, expected.cluster_centers_)
        np.testing.assert_array_equal(again.labels_, expected.labels_)
        assert again.objective_ == expected.objective_


# --------------------------------------------------------------------------- processes

FORKED_FROM_A_THREAD = """
import concurrent.futures, json, multiprocessing, os, signal, threading
import numpy as np
from sklearn_softkmeans import EntmaxKMeans

X = np.random.RandomState(0).normal(size=(20_000, 5))

def fit(seed):
    return EntmaxKMeans(5, random_state=0, max_iter=30).fit(X).cluster_centers_.tolist()

def fork():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        with os.fdopen(writing, "w") as file:
            json.dump(fit(0), file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        answers.append(json.loads(file.read() or "null"))
    os.waitpid(child, 0)

signal.alarm(100)
answers = [fit(0)]
thread = threading.Thread(target=fork)
thread.start()
thread.join()
context = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(2, context, signal.alarm, (30,)) as pool:
    answers += pool.map(fit, range(3))
print(json.dumps([len(answers), all(answer == answers[0] for answer in answers)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems advise against it")
def test_children_forked_from_a_thread_or_an_executor_can_fit():
    assert run_python(FORKED_FROM_A_THREAD, NUMBA_NUM_THREADS="3") == [5, True]


def test_spawned_workers_take_and_return_fitted_models():
    fitted = SoftKMeans(4, random_state=0).fit(X[:500])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (labels,) = pool.map(fitted.predict, [X[:500]])
        other = pool.apply(EntmaxKMeans(4, random_state=0).fit, (X[:500],))
    np.testing.assert_array_equal(labels, fitted.labels_)
    expected = EntmaxKMeans(4, random_state=0).fit(X[:500])
    np.testing.assert_array_equal(other.cluster_centers_, expected.cluster_centers_)


# ---------------------------------------------------------------- settings of the process


def settings():
    n_threads = numba.get_num_threads()  # loads another pool, if it is the first call
    return n_threads, [info["num_threads"] for info in threadpool_info()], dict(os.environ)


@every
@pytest.mark.usefixtures("many_tasks")
def test_a_fit_leaves_the_settings_of_threads_alone(make):
    # A number of its own: one thread, left by another test, would hide a leak of this one.
    with threadpool_limits(2, user_api="blas"):
        before = settings()
        fitted = make(4, random_state=0).fit(X)
        fitted.predict(X)
        with pytest.raises(ValueError, match="init"):
            make(4, init=lambda X, n_clusters, random_state: X[:1]).fit(X)
        assert settings() == before


SETTINGS_AROUND_AN_IMPORT = """
import json, os
import numba, sklearn  # which set variables of their own
before = dict(os.environ)
if {first!r} == "numba":
    numba.set_num_threads(1)
import numpy as np
from sklearn_softkmeans import SoftKMeans, _jit
if {first!r} == "ours":
    SoftKMeans(2, random_state=0).fit(np.random.RandomState(0).normal(size=(40_000, 9)))
    numba.set_num_threads(1)
SoftKMeans(2, random_state=0).fit(np.random.RandomState(0).normal(size=(40_000, 9)))
print(json.dumps([numba.get_num_threads(), _jit._n_threads(), dict(os.environ) == before]))
"""


def without_variables_of_threads():
    """For run_python: what this process has set would hide that the child sets it too."""
    names = ("OMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMBA_THREAD")
    return {name: None for name in os.environ if name.startswith(names)}


@pytest.mark.parametrize("first", ["numba", "ours"])
def test_the_number_set_in_numba_holds_whoever_comes_first(first):
    code = SETTINGS_AROUND_AN_IMPORT.format(first=first)
    environment = {**without_variables_of_threads(), "NUMBA_NUM_THREADS": "3"}
    assert run_python(code, **environment) == [1, 1, True]


@pytest.mark.parametrize("inner", [1, 3])
def test_workers_of_loky_take_no_more_threads_than_they_are_given(inner):
    with parallel_config("loky", n_jobs=2, inner_max_num_threads=inner):
        assert set(Parallel()(delayed(_jit._n_threads)() for _ in range(4))) == {inner}


INTERRUPTED = """
import json, signal
import numba
import numpy as np
from threadpoolctl import threadpool_info
from sklearn_softkmeans import {name}

def settings():
    return numba.get_num_threads(), [info["num_threads"] for info in threadpool_info()]

X = np.random.RandomState(0).normal(size=(20_000, 10))
expected = {name}(3, random_state=0, max_iter=500).fit(X).cluster_centers_
before = settings()
n_interrupts = 0
for delay in (0.2, 0.35, 0.5):
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        {name}(20, n_init=10_000, random_state=0, max_iter=3, tol=1.0).fit(X)
    except KeyboardInterrupt:
        n_interrupts += 1
same = np.array_equal({name}(3, random_state=0, max_iter=500).fit(X).cluster_centers_, expected)
print(json.dumps([n_interrupts, settings() == before, same]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs the signals of Unix")
@every
def test_an_interrupt_ends_a_fit_and_changes_no_setting(make):
    code = INTERRUPTED.format(name=make.__name__)
    assert run_python(code, OPENBLAS_NUM_THREADS="2") == [3, True, True]

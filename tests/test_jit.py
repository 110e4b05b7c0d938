"""Compiling, the cache of compiled code, and threads."""

import gc
import importlib.util
import os
import shutil
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numba
import numpy as np
import pytest
from numba.core.event import Listener, install_listener
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

import reference
import sklearn_softkmeans
from models import run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, _assignment, _jit, projections
from sklearn_softkmeans._kernels import distances, rows, simplex, steps

PACKAGE = Path(sklearn_softkmeans.__file__).parent
X = reference.blobs(3, n_samples=120, n_features=3, seed=1)


# ---------------------------------------------------------------------- what is compiled


def _sum_of(x):
    total = 0.0
    for value in x:
        total += value
    return total


def _lost_digits(x):
    return (x + 1e16) - 1e16


_exact_lost_digits = _jit.exact(_lost_digits)


@_jit.by_type({np.float64: _lost_digits}, strict=True)
def _strict_lost_digits(x):
    """By the type of x, without reordering."""


def _half(x):
    return np.float32(0.5) * x


def _double(x):
    return 2.0 * x


@_jit.by_type({np.float32: _half, np.float64: _double})
def _half_or_double(x):
    """Another function for each type."""


@_jit.entry
def _call_all(x, result):
    result[0] = _exact_lost_digits(x[0])
    result[1] = _strict_lost_digits(x[0])
    result[2] = 1.0 / (x[0] - x[0])
    result[3] = 1.0 if x[1] != x[1] else 0.0


@_jit.entry
def _call_by_type(x, result):
    result[0] = _half_or_double(x[0])


def test_exact_arithmetic_is_not_reordered_inside_fast_callers():
    result = np.empty(4)
    _call_all(np.array([1.0, np.nan]), result)
    assert result[0] == result[1] == 0.0


def test_division_by_zero_and_nan_are_as_in_numpy():
    result = np.empty(4)
    _call_all(np.array([1.0, np.nan]), result)
    assert result[2] == np.inf
    assert result[3] == 1.0
    _call_all(np.array([1.0, 2.0]), result)
    assert result[3] == 0.0


@pytest.mark.parametrize("dtype, expected", [(np.float32, 1.5), (np.float64, 6.0)])
def test_the_type_chooses_the_function_compiled_or_not(dtype, expected):
    result = np.empty(1)
    _call_by_type(np.array([3.0], dtype), result)
    assert result[0] == expected
    assert _half_or_double(dtype(3.0)) == expected


@pytest.mark.parametrize("decorate", [_jit.entry, _jit.kernel, _jit.exact])
def test_without_the_compiler_functions_are_left_alone(decorate, monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert decorate(_sum_of) is _sum_of
    assert _jit.threaded(_sum_of).kernel is _sum_of


class _Collector(Listener):
    """Whether garbage is collected while numba compiles."""

    def __init__(self):
        self.enabled = []

    def on_start(self, event):
        self.enabled.append(gc.isenabled())

    on_end = on_start


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_garbage_waits_until_a_function_is_compiled(fails, enabled, monkeypatch):
    monkeypatch.setenv("SKLEARN_SOFTKMEANS_CACHE", "0")
    function = _jit.entry(_sum_of)
    listener = _Collector()
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with install_listener("numba:compile", listener):
            if fails:
                with pytest.raises(numba.TypingError):
                    function(object())
            else:
                assert function(np.arange(4.0)) == 6.0
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert not any(listener.enabled)
    assert fails or listener.enabled


# --------------------------------------------------------------------------------- cache


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SKLEARN_SOFTKMEANS_CACHE", raising=False)
    return tmp_path


def compile_and_call():
    """The function after its first call: from the cache, or compiled."""
    function = _jit.entry(_sum_of)
    assert function(np.arange(4.0)) == 6.0
    return function


def was_cached(function):
    return sum(function.stats.cache_hits.values()) == 1


def cached_files(folder, ending):
    return [path for path in folder.rglob(f"*{ending}") if path.is_file()]


def test_compiled_code_is_kept_in_the_folder_of_numba(folder):
    assert not was_cached(compile_and_call())
    assert len(cached_files(folder, ".nbi")) == len(cached_files(folder, ".nbc")) == 1
    assert was_cached(compile_and_call())


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"garbage" * 99],
    ids=["empty", "truncated", "garbage"],
)
def test_a_damaged_cache_is_compiled_anew(ending, damage, folder):
    compile_and_call()
    (path,) = cached_files(folder, ending)
    path.write_bytes(damage(path.read_bytes()))
    assert not was_cached(compile_and_call())
    assert was_cached(compile_and_call())


def test_a_folder_that_vanishes_costs_only_the_cache(folder):
    function = _jit.entry(_sum_of)
    (parent,) = folder.iterdir()
    shutil.rmtree(parent)
    parent.write_text("not a folder")
    assert function(np.arange(4.0)) == 6.0
    assert not cached_files(folder, ".nbc")


def test_without_any_folder_functions_are_compiled_in_every_process(folder, monkeypatch):
    monkeypatch.setattr(_jit._ForgivingCache._impl_class, "_locator_classes", [])
    compile_and_call()
    assert not list(folder.iterdir())


def test_the_cache_can_be_switched_off(folder, monkeypatch):
    monkeypatch.setenv("SKLEARN_SOFTKMEANS_CACHE", "0")
    assert not was_cached(compile_and_call())
    assert not list(folder.iterdir())


def copy_package(folder):
    copy = folder / "sklearn_softkmeans"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.mark.parametrize("changed", ["_jit.py", "_kernels/steps.py", "_kernels/new.py"])
def test_a_change_in_any_kernel_changes_the_name_of_all(changed, monkeypatch, tmp_path):
    copy = copy_package(tmp_path)
    monkeypatch.setattr(_jit.resources, "files", lambda package: copy)
    fingerprint = _jit._fingerprint.__wrapped__
    assert fingerprint() == _jit._fingerprint()
    (copy / "_kernels" / "notes.txt").write_text("no source")
    (copy / "_solver.py").write_text("no kernel")
    assert fingerprint() == _jit._fingerprint()
    with open(copy / changed, "a") as file:
        file.write("# changed\n")
    assert fingerprint() != _jit._fingerprint()


def test_a_compiled_function_is_named_by_role_and_sources():
    names = {_jit._clone(_sum_of, role).__qualname__ for role in ("kernel", "serial")}
    assert names == {f"_sum_of_{role}_{_jit._fingerprint()}" for role in ("kernel", "serial")}
    clone = _jit._clone(_sum_of, "serial")
    assert clone(np.arange(4.0)) == 6.0
    assert clone.__module__ == _sum_of.__module__


FIRST_CALL = """
import json
from numba.core.event import install_recorder
from sklearn_softkmeans.projections import softmax
with install_recorder("numba:compile") as compilations:
    result = softmax([[0.0, 1.0], [2.0, 2.0]])
print(json.dumps([len(compilations.buffer), result.tolist()]))
"""


def test_a_second_process_compiles_nothing_and_a_damaged_cache_is_no_error(tmp_path):
    n_cold, expected = run_python(FIRST_CALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert n_cold > 0
    assert run_python(FIRST_CALL, NUMBA_CACHE_DIR=str(tmp_path)) == [0, expected]
    for path in cached_files(tmp_path, ".nb[ci]"):
        path.write_bytes(path.read_bytes()[:100])
    n_damaged, result = run_python(FIRST_CALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert n_damaged > 0
    assert result == expected


ENTRIES = [
    distances.load_rows,
    rows.sq_distances_to,
    simplex.project_rows,
    steps.pass_over_rows,
]


def n_signatures():
    return [len(entry.kernel.signatures) for entry in ENTRIES]


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def sliced(array):
    wide = np.zeros((2 * len(array), array.shape[1] + 2), array.dtype)
    wide[::2, 1:-1] = array
    return wide[::2, 1:-1]


def use(data, weight=None, **params):
    """Everything that an estimator does with data."""
    for init in ("k-means++", data[:3].toarray() if sparse.issparse(data) else data[:3]):
        fitted = EntmaxKMeans(3, init=init, random_state=0, **params)
        fitted.fit(data, sample_weight=weight)
    fitted.transform(data), fitted.predict(data), fitted.score(data, sample_weight=weight)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_of_the_input_compile_nothing_anew(dtype, monkeypatch):
    monkeypatch.setattr(_assignment, "_MAX_WIDTH", 32)  # several chunks, kept in the frame
    data = X.astype(dtype)
    use(data)
    use(data, sigma=0.01)
    projections.softmax(data)
    before = n_signatures()
    weight = np.ones(2 * len(X))[::2]
    weight[5:9] = 0.0
    for layout in (np.asfortranarray, read_only, sliced, np.ascontiguousarray):
        use(layout(data), weight)
        use(layout(data), read_only(weight), copy_x=False)
        use(layout(data), sigma=0.01)
        projections.softmax(layout(data))
        projections.softmax(layout(data), axis=0)
    assert n_signatures() == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_containers_compile_nothing_anew(dtype):
    data = sparse.csr_array(X.astype(dtype))
    use(data)
    before = n_signatures()
    frozen = data.copy()
    frozen.data.flags.writeable = frozen.indices.flags.writeable = False
    for other in (sparse.csr_matrix(data), data.tocsc(), data.tocoo(), frozen):
        use(sparse.csr_array(other), np.ones(len(X)))
    assert n_signatures() == before


# ------------------------------------------------------------------------------- threads


def _count_tasks(tasks, counts, failing):
    n_done = 0
    while True:
        task = _jit.take(tasks, n_done)
        if task < 0:
            break
        n_done = 1
        if task == failing:
            raise ValueError("the task failed")
        counts[task] += tasks.count


count_tasks = _jit.threaded(_count_tasks)


@pytest.fixture(params=[1, 2, 3, 5])
def n_threads(request, monkeypatch):
    monkeypatch.setattr(_jit, "_n_threads", lambda: request.param)
    return request.param


@pytest.mark.parametrize("n_tasks", [1, 2, 3, 4, 5, 64])
def test_every_task_runs_once(n_tasks, n_threads):
    counts = np.zeros(n_tasks, dtype=np.int64)
    count_tasks(n_tasks, counts, -1)
    np.testing.assert_array_equal(counts, n_tasks)


@pytest.mark.parametrize("failing", [0, 3, 11])
def test_an_exception_in_any_task_surfaces(failing, n_threads):
    counts = np.zeros(12, dtype=np.int64)
    for _ in range(3):
        with pytest.raises(ValueError, match="the task failed"):
            count_tasks(12, counts, failing)
    counts[:] = 0
    count_tasks(12, counts, -1)
    np.testing.assert_array_equal(counts, 12)


def test_a_thread_that_is_done_takes_tasks_of_the_others(monkeypatch):
    """Here no other thread begins at all."""
    monkeypatch.setattr(_jit, "_n_threads", lambda: 3)
    monkeypatch.setattr(_jit, "_submit", lambda helper: None)
    counts = np.zeros(10, dtype=np.int64)
    count_tasks(10, counts, -1)
    np.testing.assert_array_equal(counts, 10)


def test_threads_with_other_work_delay_nobody_and_keep_nothing(monkeypatch):
    monkeypatch.setattr(_jit, "_n_threads", lambda: 3)
    busy = threading.Event()
    counts, others = np.zeros(10, dtype=np.int64), np.zeros(10, dtype=np.int64)
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(_jit, "_pool", pool)
        other_work = pool.submit(busy.wait)
        try:
            count_tasks(10, counts, -1)
            np.testing.assert_array_equal(counts, 10)
            with pytest.raises(ValueError, match="the task failed"):
                count_tasks(10, others, 0)
            assert not other_work.done()
            alive = weakref.ref(counts)
            del counts
            assert alive() is None
        finally:
            busy.set()


def test_a_thread_that_cannot_be_started_is_not_needed(monkeypatch):
    """The pool puts the job in its queue before it fails, and another thread may come to it."""
    monkeypatch.setattr(_jit, "_n_threads", lambda: 2)
    jobs = []

    def submit(job):
        jobs.append(job)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_jit, "_pool", SimpleNamespace(submit=submit))
    counts = np.zeros(10, dtype=np.int64)
    count_tasks(10, counts, -1)
    assert len(jobs) == 1
    jobs[0]()
    np.testing.assert_array_equal(counts, 10)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="Python code is not atomic")
def test_threads_in_a_race_for_tasks_take_each_of_them_once():
    barrier = threading.Barrier(3)
    n_tasks = 300_000

    def race(claims, own, counts):
        barrier.wait()
        count_tasks.kernel(_jit.Tasks(claims, own, n_tasks), counts, -1)

    with ThreadPoolExecutor(3) as pool:
        for _ in range(5):
            # Of three slices nothing is left but the first, which all threads turn to.
            claims = np.array([0, 2 * n_tasks // 3, n_tasks, 0])
            counts = np.zeros(n_tasks, dtype=np.int64)
            list(pool.map(race, [claims] * 3, range(3), [counts] * 3))
            once = np.arange(n_tasks) < n_tasks // 3
            np.testing.assert_array_equal(counts, once * n_tasks)
            assert claims[-1] == n_tasks // 3


class _SlowKernel:
    """A kernel in Python, of which tasks take some milliseconds."""

    def __init__(self):
        self.n_done = 0
        self._lock = threading.Lock()  # numbers of tasks are not taken atomically here

    def __call__(self, tasks, failing):
        task = self._take(tasks, 0)
        while task >= 0:
            time.sleep(0.003)
            if task == failing:
                raise ValueError("the task failed")
            task = self._take(tasks, 1)

    def _take(self, tasks, n_done):
        with self._lock:
            self.n_done += n_done
            return getattr(_jit.take, "py_func", _jit.take)(tasks, n_done)


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr(_jit, "_fetch_and_add", _jit._plain_add)
    call = _jit.threaded(_count_tasks)
    call.kernel = _SlowKernel()
    return call


def test_a_call_ends_when_its_slowest_thread_has(slow, n_threads):
    for _ in range(3):
        slow.kernel.n_done = 0
        slow(7, -1)
        assert slow.kernel.n_done == 7


@pytest.mark.parametrize("failing", [0, 6])
def test_nothing_is_written_after_an_exception(failing, slow, n_threads):
    for _ in range(3):
        with pytest.raises(ValueError, match="the task failed"):
            slow(7, failing)
        n_done = slow.kernel.n_done
        time.sleep(0.02)
        assert slow.kernel.n_done == n_done


def test_an_exception_reaches_the_caller_whose_task_failed(slow, n_threads):
    def fails(i):
        try:
            slow(7, 6 if i % 3 == 0 else -1)
        except ValueError:
            return True
        return False

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(fails, range(30))) == [True, False, False] * 10


def test_a_single_task_starts_no_thread(monkeypatch):
    monkeypatch.setattr(_jit, "_submit", None)
    monkeypatch.setattr(_jit, "_n_threads", None)
    counts = np.zeros(1, dtype=np.int64)
    count_tasks(1, counts, -1)
    assert counts[0] == 1


def test_the_number_of_threads_is_that_of_numba(monkeypatch):
    parallel = numba.np.ufunc.parallel
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 7)
    monkeypatch.setattr(parallel, "_is_initialized", False)
    assert _jit._n_threads() == 7
    monkeypatch.setattr(parallel, "_is_initialized", True)
    monkeypatch.setattr(numba, "get_num_threads", lambda: 3)
    assert _jit._n_threads() == 3


def test_one_pool_serves_all_calls(monkeypatch):
    monkeypatch.setattr(_jit, "_pool", None)
    monkeypatch.setattr(_jit, "_n_threads", lambda: 3)
    counts = np.zeros(6, dtype=np.int64)
    count_tasks(6, counts, -1)
    pool = _jit._pool
    assert pool is not None
    count_tasks(6, counts, -1)
    assert _jit._pool is pool
    pool.shutdown()


def test_a_pool_that_is_closed_leaves_the_work_to_the_caller(monkeypatch):
    """Threads end before the interpreter does, which may still run a fit."""
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    monkeypatch.setattr(_jit, "_pool", pool)
    monkeypatch.setattr(_jit, "_n_threads", lambda: 3)
    counts = np.zeros(6, dtype=np.int64)
    count_tasks(6, counts, -1)
    np.testing.assert_array_equal(counts, 6)
    with pytest.raises(ValueError, match="the task failed"):
        count_tasks(6, counts, 5)


IN_FORKED_CHILDREN = """
import json, multiprocessing, os, signal
import numpy as np
from sklearn_softkmeans import SoftKMeans, _assignment, _jit

_assignment._MAX_WIDTH, _assignment.SERIAL_WORK = 32, 0  # several tasks
X = np.random.RandomState(0).normal(size=(300, 3))

def fit(seed):
    fitted = SoftKMeans(3, sigma=0.4, random_state=0).fit(X)
    return fitted.cluster_centers_.tolist(), _jit._pool is not None

signal.alarm(90)  # what waits forever is ended
expected = fit(0)
reading, writing = os.pipe()
_jit._lock.acquire()  # as if another thread held it
child = os.fork()
if child == 0:
    signal.alarm(30)
    with os.fdopen(writing, "w") as file:
        json.dump(fit(0), file)
    os._exit(0)
_jit._lock.release()
os.close(writing)
with os.fdopen(reading) as file:
    forked = json.loads(file.read() or "null")
status = os.waitpid(child, 0)[1]
with multiprocessing.get_context("fork").Pool(2, signal.alarm, (30,)) as pool:
    pooled = pool.map(fit, range(4))
print(json.dumps([status, expected, forked, pooled, fit(0)]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_was_forked_after_a_fit_can_fit():
    status, expected, forked, pooled, again = run_python(IN_FORKED_CHILDREN, NUMBA_NUM_THREADS="3")
    assert status == 0
    centers, has_pool = expected
    assert has_pool
    assert [forked, *pooled, again] == [[centers, True]] * 6


@pytest.mark.parametrize("n_users", [0, 3])
def test_a_forked_child_forgets_the_threads_of_its_parent(n_users, monkeypatch):
    lock, limit = threading.Lock(), Mock()
    values = {"_lock": lock, "_pool": object(), "_blas_users": n_users, "_blas_limit": limit}
    for name, value in values.items():
        monkeypatch.setattr(_jit, name, value)
    with lock:
        _jit._forget_threads()
        assert not _jit._lock.locked()
    assert _jit._pool is None
    assert _jit._blas_users == 0
    assert limit.restore_original_limits.called == (n_users > 0)


def test_the_module_loads_where_processes_cannot_fork(monkeypatch):
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    spec = importlib.util.spec_from_file_location("sklearn_softkmeans._jit_copy", _jit.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.__all__ == _jit.__all__


# ---------------------------------------------------------------------------------- BLAS


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """More than one thread, where the machine has them."""
    assert _jit._blas_users == 0  # another test left it
    with threadpool_limits(2, user_api="blas"):
        yield blas_threads()


def in_a_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(30)


def test_blas_has_one_thread_inside_and_its_own_number_outside(two_blas_threads):
    with _jit.single_threaded_blas():
        assert set(blas_threads()) <= {1}
    assert blas_threads() == two_blas_threads


def test_an_exception_restores_blas(two_blas_threads):
    with pytest.raises(KeyError), _jit.single_threaded_blas():
        raise KeyError
    assert blas_threads() == two_blas_threads
    assert _jit._blas_users == 0


def test_blas_has_one_thread_during_a_whole_fit(two_blas_threads):
    """A norm or an eigenvalue between the passes must not depend on the number of threads."""
    seen = []

    def init(X, n_clusters, random_state):
        seen.extend(blas_threads())
        return X[:n_clusters]

    SoftKMeans(2, init=init, n_init=1).fit(X)
    assert set(seen) == {1}
    assert blas_threads() == two_blas_threads


def test_a_pass_that_fails_restores_blas(two_blas_threads, monkeypatch):
    monkeypatch.setattr(steps, "pass_over_rows", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        SoftKMeans(2).fit(X)
    assert steps.pass_over_rows.called
    assert blas_threads() == two_blas_threads


def test_the_last_of_several_users_restores_blas(two_blas_threads):
    with _jit.single_threaded_blas():
        with _jit.single_threaded_blas():
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}
    assert blas_threads() == two_blas_threads


def test_threads_may_leave_in_the_order_they_came():
    before = blas_threads()
    first_inside, both_inside, first_left = (threading.Event() for _ in range(3))

    def first():
        with _jit.single_threaded_blas():
            first_inside.set()
            assert both_inside.wait(30)
        first_left.set()

    def last():
        assert first_inside.wait(30)
        with _jit.single_threaded_blas():
            both_inside.set()
            assert first_left.wait(30)

    with ThreadPoolExecutor(2) as pool:
        for other in [pool.submit(first), pool.submit(last)]:
            other.result(30)
        assert blas_threads() == before  # while both threads are alive


def test_a_thread_that_has_left_keeps_no_control_over_blas():
    """Some versions of threadpoolctl let one thread set limits until it gives that right back."""
    before = blas_threads()
    with _jit.single_threaded_blas():
        pass

    def limited():
        with threadpool_limits(1, user_api="blas"):
            return set(blas_threads())

    assert in_a_thread(limited) <= {1}
    assert blas_threads() == before

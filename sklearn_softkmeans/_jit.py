"""The only place that knows numba: compile options, the cache, and the choice of threads.

A kernel is a plain Python function; the decorators below say how it is compiled:

``kernel``    called by other kernels only;
``exact``     the same, with strict floating point (for tricks that reassociation would undo);
``by_type``   one name for several kernels, chosen by the type of the first argument;
``entry``     called from Python, cached on disk;
``threaded``  an ``entry`` whose tasks are shared between threads: it asks for them by ``take``.

Threads are Python's own: compiled code releases the GIL, so that ``prange`` would gain nothing, and
it would cost a second and longer compilation, one of numba's threading layers (one of them aborts
the process when two Python threads enter it, another ends a forked child), and its own pool beside
the caller's.
"""

import functools
import gc
import hashlib
import os
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import resources
from typing import NamedTuple

import numba
import numpy as np
import scipy.linalg  # noqa: F401  its BLAS must be loaded before the threads of BLAS are counted
import threadpoolctl
from numba import njit
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic, overload

__all__ = [
    "by_type",
    "entry",
    "exact",
    "kernel",
    "one_thread",
    "single_threaded_blas",
    "take",
    "threaded",
]

# `nnan` and `ninf` are left out on purpose: they would delete every test for NaN and infinity.
_FAST = {"reassoc", "nsz", "arcp", "contract"}
_OPTIONS = {"error_model": "numpy", "nogil": True}

# What only kernels call needs no way in from Python, which takes longer to compile than its body.
_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# The environment's switch for installations that must not write compiled code to disk.
_CACHE_SWITCH = "SKLEARN_SOFTKMEANS_CACHE"


# ------------------------------------------------------------------------------------ cache


@functools.cache
def _fingerprint():
    """Hash of all kernel sources: numba's own key ignores what a kernel calls in other files."""
    digest = hashlib.sha256()
    package = resources.files(__package__)
    sources = [package / "_jit.py", *package.joinpath("_kernels").iterdir()]
    for source in sorted(sources, key=lambda item: item.name):
        if source.name.endswith(".py"):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _clone(func, role):
    """Copy `func` under a name of its own, for a cache entry that no other version can claim."""
    name = f"{func.__name__}_{role}_{_fingerprint()}"
    code = func.__code__.replace(co_name=name, co_qualname=name)
    copy = types.FunctionType(code, func.__globals__, name, func.__defaults__)
    copy.__qualname__ = name
    copy.__module__ = func.__module__
    copy.__doc__ = func.__doc__
    return copy


class _ForgivingCache(FunctionCache):
    """A cache whose damaged or unwritable files mean a new compilation, never an error."""

    def load_overload(self, sig, target_context):
        # Declarations before implementations, as the compiler itself has it: the other order makes
        # it choose among more candidates at every call, a twentieth of a cold start.
        target_context.typing_context.refresh()
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever unpickling a truncated or foreign file may raise
            self._discard()
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception:
            self._discard()

    def _discard(self):
        try:
            self.flush()
        except OSError:
            pass


@contextmanager
def _no_garbage_collection():
    """To walk through the many objects of the compiler takes a tenth of a cold start."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _compile(func, role, *, cached=False, **options):
    if numba.config.DISABLE_JIT:
        return func
    dispatcher = njit(_clone(func, role), **_OPTIONS, **options)
    if cached:
        dispatcher.compile = _no_garbage_collection()(dispatcher.compile)
    if cached and os.environ.get(_CACHE_SWITCH, "1") != "0":
        try:
            dispatcher._cache = _ForgivingCache(dispatcher.py_func)
        except RuntimeError:  # no folder to write to: compile in every process instead
            pass
    return dispatcher


# ------------------------------------------------------------------------------- decorators


def kernel(func):
    """Compile a kernel that other kernels call."""
    return _compile(func, "kernel", fastmath=_FAST, **_NO_WRAPPERS)


def exact(func):
    """Compile a kernel that other kernels call, without reordering its arithmetic.

    The flags are given in full: a kernel compiled without any inherits those of its first caller.
    """
    return _compile(func, "exact", fastmath={"contract"}, **_NO_WRAPPERS)


def by_type(cases, *, strict=False):
    """Let kernels call the decorated function for several, chosen by its first argument's type.

    `cases` maps a class (a NamedTuple, or a NumPy scalar type) to a plain function of the same
    signature. The choice is made when the caller is compiled; without the compiler, at each call.
    With `strict`, the functions are compiled as by `exact`.
    """

    def decorate(func):
        @functools.wraps(func)
        def call(*args):
            return cases[type(args[0])](*args)

        @functools.wraps(func)
        def choose(*args):
            return cases[_class_of(args[0])]

        flags = {"contract"} if strict else _FAST
        overload(call, jit_options={"fastmath": flags, **_NO_WRAPPERS})(choose)
        return call

    return decorate


def _class_of(numba_type):
    if isinstance(numba_type, numba.types.BaseNamedTuple):
        return numba_type.instance_class
    return {numba.types.float32: np.float32, numba.types.float64: np.float64}[numba_type]


def entry(func):
    """Compile a kernel that Python calls."""
    return _compile(func, "serial", cached=True, fastmath=_FAST, no_cfunc_wrapper=True)


# ------------------------------------------------------------------------------------ tasks

# How often a thread that has run out of tasks looks whether the others have finished theirs, some
# hundred microseconds in all, before it goes to sleep: to wake up takes as long as a short pass.
_LOOKS = 10_000


class Tasks(NamedTuple):
    """Tasks 0 .. count - 1 of a call, in a slice for each thread, as one of the threads has it."""

    claims: np.ndarray  # (n_threads + 1,) int64, next task of each slice, then how many are done
    own: int  # the slice that this thread begins with
    count: int


@intrinsic
def _atomic_add(context, array, index, number):
    def generate(target, builder, signature, args):
        kind = signature.args[0]
        place = cgutils.get_item_pointer(
            target, builder, kind, target.make_array(kind)(target, builder, args[0]), [args[1]]
        )
        return builder.atomic_rmw("add", place, args[2], "seq_cst")

    return numba.types.int64(array, numba.types.intp, numba.types.int64), generate


def _plain_add(array, index, number):
    before = array[index]
    array[index] += number
    return before


# Adds to an element that other threads may add to, and returns what it was before.
_fetch_and_add = _plain_add if numba.config.DISABLE_JIT else _atomic_add


@kernel
def take(tasks, n_done):
    """The next task of a thread, which has done so many since it took the last; -1 at the end.

    Those of its own slice come first, then what is left of the others': a thread that starts late,
    or is held up, delays nobody for longer than one task.
    """
    n_slices = tasks.claims.shape[0] - 1
    n_done += _fetch_and_add(tasks.claims, n_slices, n_done)
    for turn in range(n_slices):
        part = (tasks.own + turn) % n_slices
        end = (part + 1) * tasks.count // n_slices
        if tasks.claims[part] < end:
            task = _fetch_and_add(tasks.claims, part, 1)
            if task < end:
                return task
    looks = _LOOKS if tasks.own == 0 else 0
    while n_done < tasks.count and looks > 0:
        n_done = _fetch_and_add(tasks.claims, n_slices, 0)
        looks -= 1
    return -1


class threaded:
    """Compile a kernel that Python calls, and share its tasks between threads.

    The kernel takes ``(tasks, *args)`` and runs what it is given by ``take(tasks, n_done)``. Number
    and content of the tasks must not depend on the number of threads: then nor do the results.
    """

    def __init__(self, func):
        functools.update_wrapper(self, func)
        self.kernel = entry(func)

    def __call__(self, n_tasks, *args):
        n_threads = min(n_tasks, _n_threads()) if n_tasks > 1 else 1
        if n_threads == 1:
            self.kernel(Tasks(np.zeros(2, np.int64), 0, n_tasks), *args)
            return
        claims = np.array([i * n_tasks // n_threads for i in range(n_threads)] + [0], np.int64)
        helpers = []
        try:
            for own in range(1, n_threads):
                helpers.append(_Helper(self.kernel, Tasks(claims, own, n_tasks), *args))
                _submit(helpers[-1])
            self.kernel(Tasks(claims, 0, n_tasks), *args)
        except BaseException:
            claims[:-1] = n_tasks  # nothing else is begun
            raise
        finally:
            for helper in helpers:
                helper.dismiss()
            if claims[-1] < n_tasks:
                for helper in helpers:
                    helper.wait()
        if claims[-1] < n_tasks:  # a task failed
            raise next(helper.error for helper in helpers if helper.error is not None)


class _Helper:
    """A call of a kernel in another thread, which may come to nothing: the caller does not need it.

    It lets go of its arguments when it is dismissed, since the thread may never come to ask for it.
    """

    def __init__(self, kernel, *args):
        self.error = None
        self._call = kernel, args
        self._at_work = threading.Lock()

    def __call__(self):
        with self._at_work:
            call = self._call
            if call is None:
                return
            kernel, args = call
            try:
                kernel(*args)
            except BaseException as error:  # raised by the caller
                self.error = error

    def dismiss(self):
        """Do not begin, if that has not happened."""
        self._call = None

    def wait(self):
        """Until it has ended, if it has begun."""
        with self._at_work:
            pass


# ---------------------------------------------------------------------------------- threads

_lock = threading.Lock()
_pool = None
_blas_users = 0
_blas_limit = None


def _forget_threads():
    """A forked child has a copy of the pool without its threads, and perhaps of a held lock."""
    global _lock, _pool, _blas_users
    _lock = threading.Lock()
    _pool = None
    if _blas_users > 0:
        _blas_limit.restore_original_limits()
    _blas_users = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


_caller = threading.local()


@contextmanager
def one_thread():
    """Run kernels in the calling thread alone: for workers, of which there is one for each core."""
    before = getattr(_caller, "alone", False)
    _caller.alone = True
    try:
        yield
    finally:
        _caller.alone = before


def _n_threads():
    """The number of threads that numba would use, without starting its threading layer."""
    if getattr(_caller, "alone", False) or numba.config.DISABLE_JIT:
        return 1
    if getattr(numba.np.ufunc.parallel, "_is_initialized", False):
        return numba.get_num_threads()  # as set by numba.set_num_threads
    return numba.config.NUMBA_NUM_THREADS


def _submit(helper):
    """Offer a helper to the pool that all callers share."""
    global _pool
    with _lock:
        if _pool is None:
            size = max(numba.config.NUMBA_NUM_THREADS - 1, 1)
            _pool = ThreadPoolExecutor(size, thread_name_prefix="sklearn_softkmeans")
        try:
            _pool.submit(helper)
        except RuntimeError:  # the interpreter is shutting down, or the system has no more threads
            pass


@functools.cache
def _blas():
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


@contextmanager
def single_threaded_blas():
    """Keep BLAS to one thread: the tasks already use all of them.

    BLAS has one setting for the whole process, so the first of several Python threads in here
    changes it and the last one restores it.
    """
    _enter_blas()
    try:
        yield
    finally:
        _leave_blas()


def _enter_blas():
    global _blas_users, _blas_limit
    with _lock:
        if _blas_users == 0:
            _blas_limit = _blas().limit(limits=1)
            _disown_blas()
        _blas_users += 1


def _leave_blas():
    global _blas_users
    with _lock:
        _blas_users -= 1
        if _blas_users == 0:
            _blas_limit.restore_original_limits()
            _disown_blas()


def _disown_blas():
    """Let any thread restore the limits: threadpoolctl leaves that to the one that set them."""
    getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", lambda: None)()

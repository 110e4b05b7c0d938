"""The compiled floor, imported when it is first needed: numba is slow to import."""

from functools import cache
from types import SimpleNamespace


def one_blas_thread():
    """Context in which BLAS runs on one thread."""
    return kernels().single_threaded_blas()


@cache
def kernels():
    """The kernel modules, and the contexts that limit threads."""
    from ._jit import one_thread, single_threaded_blas
    from ._kernels import distances, rows, shares, simplex, steps, tiles

    return SimpleNamespace(
        distances=distances,
        rows=rows,
        shares=shares,
        simplex=simplex,
        steps=steps,
        tiles=tiles,
        one_thread=one_thread,
        single_threaded_blas=single_threaded_blas,
    )

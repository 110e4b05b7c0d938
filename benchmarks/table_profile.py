"""Where the time of a pass goes, on one thread, and the rates that this machine reaches."""

import numpy as np
from numba import njit
from timing import seconds

from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._kernels.chunks import Chunk, measure_rows, mend_rows
from sklearn_softkmeans._kernels.distances import scan_scores, score_chunk
from sklearn_softkmeans._kernels.elementary import exp
from sklearn_softkmeans._kernels.shares import add_rows, map_soft_rows, new_support
from sklearn_softkmeans._kernels.steps import write_rows

STAGES = ["scores", "two best", "doubts", "mending", "map", "totals", "sums"]


@njit(error_model="numpy")
def run_stages(n_stages, rows, weights, model, projection, outputs, width):
    """`pass_over_rows` over the full chunks of resident rows, as far as the last stage wanted."""
    n_clusters, n_features = model.points.shape
    real = model.bias.dtype
    chunk = Chunk(
        z=np.empty((n_clusters, width), real),
        best=np.empty(width, real),
        second=np.empty(width, real),
        nearest=np.empty(width, np.intp),
        error=np.empty(width),
        lead=np.empty(width),
        objective=np.empty(width),
        weights=np.empty(width),
        soft=np.empty(width, np.intp),
    )
    work = np.empty((4, width), real)
    total, column = np.empty(width), np.empty(n_clusters)
    candidates = np.empty(n_clusters, np.intp)
    product = np.empty((n_clusters, n_features), real)
    soft_rows = 0
    support = new_support(n_clusters, width, real)
    for start in range(0, rows.X.shape[0] - width + 1, width):
        block, norms = rows.blocks[start : start + width], rows.norms[start : start + width]
        score_chunk(rows, start, width, model, block, norms, chunk.z, column)
        if n_stages < 2:
            continue
        scan_scores(chunk.z, model.bias, chunk.best, chunk.second, chunk.nearest)
        if n_stages < 3:
            continue
        n_soft, all_sure, mean = measure_rows(weights, start, width, norms, model, chunk)
        soft_rows += n_soft
        if n_stages < 4:
            continue
        if not all_sure:
            mend_rows(rows, start, width, model, chunk, mean, candidates)
        if n_stages < 5:
            continue
        n_soft, route = map_soft_rows(
            width, n_soft, True, model, projection, chunk, support, work, total
        )
        if n_stages < 6:
            continue
        write_rows(start, width, n_soft, route, model.precision, chunk, outputs, 0)
        if n_stages < 7:
            continue
        sums, mass = outputs.sums[0], outputs.mass[0]
        add_rows(
            rows, start, width, n_soft, route, True, block, chunk, support, product, sums, mass
        )
    return soft_rows


def profile(column, X, centers, repeats):
    """Nanoseconds for each row and stage; precision; share of soft rows."""
    sigma = column.temperature(X, centers)
    problem = problem_for_fit(X, None, column.alpha, sigma=sigma, resident=True)
    in_frame = problem.into_frame(centers)
    model = problem._model(in_frame, sigma / problem.unit, {})
    dtype = model.bias.dtype
    width, _ = problem._layout(len(centers), dtype.itemsize, True)
    outputs = problem._outputs(1, centers.shape, {})
    arguments = problem._rows(dtype, width), problem._read_only_weights(), model, problem._map
    n_rows = len(X) // width * width

    def run(n_stages):
        return run_stages(n_stages, *arguments, outputs, width)

    share = run(len(STAGES)) / n_rows
    numbers = range(1, len(STAGES) + 1)
    times = [[seconds(lambda n=n: run(n)) for n in numbers] for _ in range(repeats)]
    fastest = np.min(times, axis=0)  # what disturbs a run makes it slower, never faster
    return 1e9 / n_rows * np.diff(fastest, prepend=0.0), dtype, share


@njit(error_model="numpy", fastmath={"reassoc", "nsz", "arcp", "contract"})
def exponentials(x, repeats):
    total = x.dtype.type(0.0)
    for _ in range(repeats):
        for i in range(len(x)):
            total += exp(x[i] - total)

    return total

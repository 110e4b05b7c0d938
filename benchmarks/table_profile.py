"""Where the time of a pass goes, on one thread, and the rates that this machine reaches."""

from typing import NamedTuple

import numpy as np
from data import early_centers
from numba import njit
from report import number, wanted
from table_iterations import COLUMNS, DTYPES, cases
from timing import call_seconds, seconds

from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._compiled import one_blas_thread
from sklearn_softkmeans._kernels.chunks import Chunk, measure_rows, mend_rows
from sklearn_softkmeans._kernels.distances import scan_scores, score_chunk, view_block
from sklearn_softkmeans._kernels.elementary import exp
from sklearn_softkmeans._kernels.shares import add_rows, listing, map_soft_rows, new_support
from sklearn_softkmeans._kernels.steps import write_rows

STAGES = ["scores", "two best", "doubts", "mending", "map", "totals", "sums"]


@njit(error_model="numpy")
def run_stages(n_stages, rows, weights, model, projection, listing, outputs, width):
    """`pass_over_rows` over the full chunks of resident rows, as far as the last stage wanted."""
    n_clusters, n_features = model.points.shape
    real = model.bias.dtype
    chunk = Chunk(
        z=np.empty((n_clusters, width), real),
        best=np.empty(width, real),
        second=np.empty(width, real),
        nearest=np.empty(width, np.int32),
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
    support = new_support(listing, width, real)
    for start in range(0, rows.X.shape[0] - width + 1, width):
        end = start + width
        block, norms = view_block(rows, rows.blocks, start, end), rows.norms[start:end]
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
        n_soft, route = map_soft_rows(support, width, n_soft, model, projection, chunk, work, total)
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


def measure(column, X, centers, repeats):
    """Nanoseconds for each row and stage; the precision; the share of soft rows."""
    sigma = column.temperature(X, centers)
    problem = problem_for_fit(X, None, column.alpha, sigma=sigma, resident=True)
    model = problem._model(problem.into_frame(centers), sigma / problem.unit, {})
    dtype = model.bias.dtype
    width, _ = problem._layout(len(centers), dtype.itemsize, True)
    outputs = problem._outputs(1, centers.shape, {})
    arguments = problem._rows(dtype, width), problem._read_only_weights, model, problem._map
    wanted_list = listing(len(centers))
    n_rows = len(X) // width * width

    def run(n_stages):
        return run_stages(n_stages, *arguments, wanted_list, outputs, width)

    share = run(len(STAGES)) / n_rows
    numbers = range(1, len(STAGES) + 1)
    times = [[seconds(lambda n=n: run(n)) for n in numbers] for _ in range(repeats)]
    fastest = np.min(times, axis=0)  # whatever disturbs a run makes it slower
    return 1e9 / n_rows * np.diff(fastest, prepend=0.0), dtype, share


# ---------------------------------------------------------------------------- the machine


class Rates(NamedTuple):
    """What one thread reaches."""

    operations: float  # for each nanosecond, in a large matrix product
    exponentials: float  # of our own
    bytes: float  # read from memory


@njit(error_model="numpy", fastmath={"reassoc", "nsz", "arcp", "contract"})
def exponentials(x):
    for i in range(len(x)):
        x[i] = exp(x[i])


def rates(dtype, repeats):
    square = np.ones((1000, 1000), dtype)
    short, long = np.zeros(4096, dtype), np.ones(2**26 // np.dtype(dtype).itemsize * 4, dtype)
    exponentials(short)

    def fastest(call, number):
        return 1e9 * min(call_seconds(call, number) for _ in range(repeats))

    return Rates(
        2.0 * square.size * 1000 / fastest(lambda: square @ square, 1),
        short.size / fastest(lambda: exponentials(short), 1000),
        long.nbytes / fastest(long.max, 1),
    )


def limit(column, X, n_clusters, dtype, rate):
    """Nanoseconds for each row at the machine's rates, if nothing but these were to be done."""
    products = 1 if column.name in SPARSE else 2
    operations = 2.0 * products * n_clusters * X.shape[1] / rate.operations
    n_exponentials = n_clusters if column.name == "SoftKMeans hot" else 0
    read = X.shape[1] * dtype.itemsize / rate.bytes
    return max(operations + n_exponentials / rate.exponentials, read)


# Where most of the responsibilities are none, one matrix product is enough.
SPARSE = ["SoftKMeans auto", "EntmaxKMeans auto", "SoftKMeans σ = 0"]


def write(report, args):
    report.title("Where the time of a pass goes")
    with one_blas_thread():
        machine = {np.dtype(dtype): rates(dtype, args.repeats) for dtype in DTYPES}
        report.head("one thread", *DTYPES)
        for name, unit in [
            ("operations", "GFLOP/s in a matrix product, 1000 x 1000"),
            ("exponentials", "exponentials of ours per ns"),
            ("bytes", "GB/s read from memory"),
        ]:
            report.row(unit, *(number(getattr(rate, name)) for rate in machine.values()))
        report.line("\nNanoseconds for each row, on one thread.\n")
        report.head("n × d, k, dtype", "computed in", "soft rows", *STAGES, "all", "limit")
        for label, X, n_clusters, _ in cases(args):
            centers = early_centers(X, n_clusters)
            for column in COLUMNS:
                if wanted(column.name, args.columns):
                    times, dtype, share = measure(column, X, centers, args.repeats)
                    bound = limit(column, X, n_clusters, dtype, machine[dtype])
                    report.row(
                        f"{label}: {column.name}",
                        str(dtype),
                        f"{share:.0%}",
                        *(number(time, 1) for time in [*times, times.sum(), bound]),
                    )

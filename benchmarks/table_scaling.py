"""The time of an iteration against the numbers of samples, clusters and features."""

from typing import NamedTuple

import numpy as np
from data import early_centers, overlapping_blobs
from report import number, wanted
from table_iterations import COLUMNS, FEW, reference
from timing import iteration_seconds


class Sweep(NamedTuple):
    name: str  # of the number that grows
    title: str  # the others
    growing: list
    sizes: list  # (n_samples, n_features, n_clusters) for each of them


N_SAMPLES = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000]
N_CLUSTERS = [10, 30, 100, 300, 1000]
N_FEATURES = [8, 24, 80, 240, 800]
SWEEPS = [
    Sweep("n_samples", "d = 10, k = 10", N_SAMPLES, [(n, 10, 10) for n in N_SAMPLES]),
    Sweep("n_clusters", "n = 50 000, d = 16", N_CLUSTERS, [(50_000, 16, k) for k in N_CLUSTERS]),
    Sweep("n_features", "n = 20 000, k = 10", N_FEATURES, [(20_000, d, 10) for d in N_FEATURES]),
]
PLOTTED = [column for column in COLUMNS if column.name != "SoftKMeans σ = 0"]
WORK = 4e9  # multiplications of all iterations of a measurement


def measure(sizes, repeats):
    """Fastest seconds of one iteration: of KMeans, and of each of ours."""
    n_samples, n_features, n_clusters = sizes
    X = overlapping_blobs(n_samples, n_features, n_clusters, "float64")
    centers = early_centers(X, n_clusters)
    many = FEW + int(np.clip(WORK / (n_samples * n_features * n_clusters), 5, 40))
    makers = [lambda max_iter: reference(centers, max_iter)]
    for column in PLOTTED:
        sigma = column.temperature(X, centers)
        makers.append(lambda max_iter, c=column, s=sigma: c.make(centers, s, max_iter))
    times = [[iteration_seconds(make, X, FEW, many) for make in makers] for _ in range(repeats)]
    return np.min(times, axis=0)


def write(report, args):
    report.title("One iteration, as the data grow")
    report.line(
        "Milliseconds, float64. In parentheses: the exponent of the growth since the last row."
    )
    names = ["KMeans", *(column.name for column in PLOTTED)]
    measured = []
    for sweep in SWEEPS:
        if wanted(sweep.name, args.rows):
            count = 2 if args.quick else len(sweep.sizes)
            times = np.array([measure(sizes, args.repeats) for sizes in sweep.sizes[:count]])
            write_sweep(report, sweep, names, times)
            measured.append((sweep, times))
    if args.plot and measured:
        draw(measured, names, args.plot)


def write_sweep(report, sweep, names, times):
    report.line()
    report.head(f"{sweep.name}, {sweep.title}", *names)
    growth = np.diff(np.log(sweep.growing[: len(times)]))[:, None]
    exponents = np.diff(np.log(times), axis=0) / growth
    for i, row in enumerate(1e3 * times):
        cells = [number(time) for time in row]
        if i > 0:
            cells = [f"{c} ({number(e)})" for c, e in zip(cells, exponents[i - 1], strict=True)]
        report.row(f"{sweep.growing[i]}", *cells)


def draw(measured, names, path):
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(measured), figsize=(11, 3.6), squeeze=False, sharey=True)
    for ax, (sweep, times) in zip(axes[0], measured, strict=True):
        for name, column in zip(names, 1e3 * times.T, strict=True):
            style = {"color": "0.4", "linestyle": "--"} if name == "KMeans" else {}
            growing = sweep.growing[: len(column)]
            ax.loglog(growing, column, marker="o", markersize=4, label=name, **style)
        ax.set(xlabel=sweep.name, title=sweep.title)
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("milliseconds for one iteration")
    axes[0, 0].legend(frameon=False, fontsize="small")
    fig.tight_layout()
    fig.savefig(path, dpi=120)

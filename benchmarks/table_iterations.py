"""One iteration of ours over one of KMeans, same start, over shapes and temperatures."""

from typing import NamedTuple

import numpy as np
from data import SAMPLE, early_centers, hot_sigma, mean_perplexity, overlapping_blobs
from report import geometric_mean, number, wanted
from sklearn.cluster import KMeans
from timing import alternate, iteration_seconds, ratios

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

# n_samples, n_features, n_clusters, and iterations enough to rise above the noise.
SHAPES = [
    (100_000, 10, 10, 40),
    (100_000, 50, 100, 10),
    (20_000, 784, 10, 10),
    (50_000, 16, 1000, 8),
    (1_000_000, 2, 8, 15),
]
DTYPES = ["float32", "float64"]
FEW = 3  # iterations of the short fit; the long one has so many more than the shape says


class Column(NamedTuple):
    name: str
    estimator: type
    alpha: float
    sigma: str | float  # "hot", "auto" or a number

    def temperature(self, X, centers):
        if self.sigma == "hot":
            return hot_sigma(X, centers, self.alpha)
        if self.sigma == "auto":  # once, not within what is timed
            return self.make(centers, "auto", 1).fit(X).sigma_
        return self.sigma

    def make(self, centers, sigma, max_iter):
        return self.estimator(
            len(centers), sigma=sigma, init=centers, max_iter=max_iter, tol=0.0, random_state=0
        )


COLUMNS = [
    Column("SoftKMeans hot", SoftKMeans, 1.0, "hot"),
    Column("SoftKMeans auto", SoftKMeans, 1.0, "auto"),
    Column("EntmaxKMeans hot", EntmaxKMeans, 1.5, "hot"),
    Column("EntmaxKMeans auto", EntmaxKMeans, 1.5, "auto"),
    Column("SoftKMeans σ = 0", SoftKMeans, 1.0, 0.0),
]


class Cell(NamedTuple):
    lloyd: np.ndarray  # seconds per iteration, for each repetition
    ratios: np.ndarray
    sigma: float
    perplexity: float
    early: bool  # a fit stopped before its last iteration

    def __str__(self):
        return number(np.median(self.ratios)) + ("*" if self.early else "")


def reference(centers, max_iter):
    return KMeans(
        len(centers), init=centers, n_init=1, max_iter=max_iter, tol=0.0, algorithm="lloyd"
    )


def measure(column, X, centers, n_iter, repeats):
    """Alternate KMeans and one of ours, after a long fit of each that warms up."""
    sigma = column.temperature(X, centers)
    few, many = FEW, FEW + n_iter

    def theirs(max_iter):
        return reference(centers, max_iter)

    def ours(max_iter):
        return column.make(centers, sigma, max_iter)

    last = ours(many).fit(X)
    early = min(last.n_iter_, theirs(many).fit(X).n_iter_) < many
    times = alternate(
        repeats,
        lambda: iteration_seconds(theirs, X, few, many),
        lambda: iteration_seconds(ours, X, few, many),
    )
    perplexity = mean_perplexity(last.predict_proba(X[:SAMPLE]))
    return Cell(times[:, 0], ratios(times), sigma, perplexity, early)


def write(report, args):
    columns = [column for column in COLUMNS if wanted(column.name, args.columns)]
    if not columns:
        return
    report.title("One iteration, over one of KMeans")
    report.line('`KMeans(algorithm="lloyd")`: median (fastest); ours as a multiple of it.\n')
    names = [column.name for column in columns]
    report.head("n × d, k, dtype", "KMeans, ms", *names)
    cells = {}
    for label, X, n_clusters, n_iter in cases(args):
        centers = early_centers(X, n_clusters)
        row = [measure(column, X, centers, n_iter, args.repeats) for column in columns]
        lloyd = 1e3 * np.array([cell.lloyd for cell in row])
        report.row(label, f"{number(np.median(lloyd))} ({number(lloyd.min())})", *map(str, row))
        cells[label] = row
    write_means(report, cells)
    if any(cell.early for row in cells.values() for cell in row):
        report.line("\n\\* One side converged before its last iteration, see README.md.")
    write_temperatures(report, cells, names)


def cases(args):
    for n_samples, n_features, n_clusters, n_iter in SHAPES:
        for dtype in DTYPES:
            label = f"{n_samples}x{n_features}, {n_clusters}, {dtype}"
            if wanted(label, args.rows):
                size = min(n_samples, 2000) if args.quick else n_samples
                X = overlapping_blobs(size, n_features, n_clusters, dtype)
                yield label, X, n_clusters, 2 if args.quick else n_iter


def write_means(report, cells):
    for name, ending in [*((dtype, dtype) for dtype in DTYPES), ("all", "")]:
        rows = [row for label, row in cells.items() if label.endswith(ending)]
        if rows:
            means = [
                number(geometric_mean([np.median(cell.ratios) for cell in column]))
                for column in zip(*rows, strict=True)
            ]
            report.row(f"geometric mean, {name}", "", *means)
    if cells:
        every = [cell for row in cells.values() for cell in row]
        spread = [np.ptp(np.quantile(cell.ratios, [0.25, 0.75])) for cell in every]
        spread = np.median(np.divide(spread, [np.median(cell.ratios) for cell in every]))
        report.line(f"\nInterquartile range of the ratios, typically: {100 * spread:.0f} %.")


def write_temperatures(report, cells, names):
    report.line("\nσ, and the mean perplexity of a row after the last iteration:\n")
    report.head("n × d, k, dtype", *names)
    for label, row in cells.items():
        report.row(label, *(f"{cell.sigma:.3g}: {cell.perplexity:.3g}" for cell in row))

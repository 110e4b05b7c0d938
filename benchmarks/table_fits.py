"""Whole fits at sigma="auto" over fits of KMeans with its default tol, from the same start."""

import numpy as np
from data import overlapping_blobs
from report import geometric_mean, number, wanted
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_digits, make_blobs
from timing import alternate, ratios, seconds

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

# The default tol, and one that is about as coarse as that of KMeans.
OURS = [(model, tol) for tol in (1e-4, 1e-2) for model in (SoftKMeans, EntmaxKMeans)]


def digits(n_samples, n_features, n_clusters):
    return load_digits(return_X_y=True)[0]


def blobs(n_samples, n_features, n_clusters):
    return make_blobs(n_samples, n_features, centers=n_clusters, random_state=0)[0]


def overlapping(n_samples, n_features, n_clusters):
    return overlapping_blobs(n_samples, n_features, n_clusters, "float64")


# A function that makes the rows, n_samples, n_features, n_clusters.
DATA = [
    (digits, 1797, 64, 10),
    (blobs, 10_000, 2, 8),
    (blobs, 100_000, 10, 10),
    (blobs, 20_000, 16, 100),
    (overlapping, 100_000, 10, 10),
    (overlapping, 20_000, 50, 50),
    (blobs, 200_000, 8, 1000),
]


def compare(estimator, tol, X, n_clusters, repeats):
    """Seconds of both sides, in each repetition from a new start; median iterations and inertia."""
    ends = []

    def fit(model):
        elapsed = seconds(lambda: model.fit(X))
        ends.append((model.n_iter_, model.inertia_))
        return elapsed

    def both(seed):
        start = kmeans_plusplus(X, n_clusters, random_state=seed)[0]
        theirs = KMeans(n_clusters, init=start, n_init=1, algorithm="lloyd")
        ours = estimator(n_clusters, init=start, tol=tol)
        return alternate(1, lambda: fit(theirs), lambda: fit(ours))

    both(0)  # warms up
    ends.clear()
    times = np.concatenate([both(seed) for seed in range(repeats)])
    n_iter, inertia = np.reshape(ends, (repeats, 2, 2)).T
    return times, np.median(n_iter, axis=1), np.median(inertia[1] / inertia[0])


def write(report, args):
    report.title('A whole fit at sigma="auto", over one of KMeans')
    report.line(
        "From the same k-means++ centers; in parentheses iterations, and inertia as a multiple.\n"
    )
    names = [f"{estimator.__name__}, tol={tol:g}" for estimator, tol in OURS]
    report.head("data, n × d, k, dtype", "KMeans, ms", *names)
    means = []
    for label, X, n_clusters in cases(args):
        results = [compare(*ours, X, n_clusters, args.repeats) for ours in OURS]
        medians = [np.median(ratios(times)) for times, _, _ in results]
        lloyd = 1e3 * np.median([times[:, 0] for times, _, _ in results])
        report.row(
            label,
            f"{number(lloyd)} ({results[0][1][0]:.0f})",
            *(
                f"{number(median)} ({n_iter[1]:.0f}, {number(inertia, 4)})"
                for median, (_, n_iter, inertia) in zip(medians, results, strict=True)
            ),
        )
        means.append(medians)
    if means:
        columns = zip(*means, strict=True)
        report.row("geometric mean", "", *(number(geometric_mean(column)) for column in columns))


def cases(args):
    for make, n_samples, n_features, n_clusters in DATA:
        for dtype in ["float32", "float64"]:
            label = f"{make.__name__}, {n_samples}x{n_features}, {n_clusters}, {dtype}"
            if wanted(label, args.rows):
                size = min(n_samples, 2000) if args.quick else n_samples
                yield label, make(size, n_features, n_clusters).astype(dtype), n_clusters

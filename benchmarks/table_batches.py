"""Fits in batches and streams, over fits to all rows and over MiniBatchKMeans of equal batches."""

import numpy as np
from data import overlapping_blobs
from report import number, wanted
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_digits, make_blobs
from timing import seconds

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

OURS = [SoftKMeans, EntmaxKMeans]


def digits(n_samples, n_features, n_clusters):
    return load_digits().data


def blobs(n_samples, n_features, n_clusters):
    return make_blobs(n_samples, n_features, centers=n_clusters, random_state=0)[0]


def overlapping(n_samples, n_features, n_clusters):
    return overlapping_blobs(n_samples, n_features, n_clusters, "float64")


# A function that makes the rows, n_samples, n_features, n_clusters, rows in a batch.
FITS = [
    (blobs, 1_000_000, 20, 100, 1024),
    (overlapping, 200_000, 20, 50, 1024),
    (blobs, 50_000, 10, 20, 256),
]
STREAMS = [
    (digits, 1797, 64, 10, 256),
    (blobs, 50_000, 10, 20, 256),
    (overlapping, 50_000, 10, 10, 256),
]


def fit(model, X, batch_size):
    return model.set_params(batch_size=batch_size).fit(X)


def stream(model, X, batch_size):
    """One epoch, in random order."""
    order = np.random.RandomState(model.random_state).permutation(len(X))
    for start in range(0, len(X), batch_size):
        model.partial_fit(X[order[start : start + batch_size]])
    return model


def inertia(model, X):
    """Of all rows, found in the same way for all models."""
    centers = model.cluster_centers_
    blocks = np.array_split(X, max(1, len(X) // 10_000))
    return sum(
        ((rows - centers[labels]) ** 2).sum()
        for rows in blocks
        for labels in [SoftKMeans.from_centers(centers, sigma=0.0).predict(rows)]
    )


def measure(model, run, X):
    """Seconds and inertia."""
    elapsed = seconds(lambda: run(model, X))
    return elapsed, inertia(model, X)


def compare(run, X, n_clusters, repeats):
    """Of each seed and model (theirs, then each of ours in batches and to all rows)."""
    found = []
    for seed in range(repeats):
        makers = [(MiniBatchKMeans, run)]
        for ours in OURS:
            makers += [(ours, run), (ours, lambda model, X: model.fit(X))]
        found.append([measure(make(n_clusters, random_state=seed), how, X) for make, how in makers])
    return np.array(found)


def write(report, args):
    for title, run, data in [
        ("Fits in batches", fit, FITS),
        ("Streams: `partial_fit`, one epoch", stream, STREAMS),
    ]:
        report.title(title)
        report.line("Median ratios over seeds, and the largest in parentheses.\n")
        report.head(
            "data, n × d, k, batch",
            "estimator",
            "time over all rows",
            "inertia",
            "time over MiniBatchKMeans",
            "inertia",
        )
        for case in data:
            label = "{}, {}x{}, {}, {}".format(case[0].__name__, *case[1:])
            if wanted(label, args.rows):
                write_case(report, label, case, run, args)


def write_case(report, label, case, run, args):
    make_rows, n_samples, n_features, n_clusters, batch_size = case
    X = make_rows(min(n_samples, 10_000) if args.quick else n_samples, n_features, n_clusters)

    def run_batches(model, X):
        return run(model, X, batch_size)

    compare(run_batches, X[: 60 * n_clusters + 4 * batch_size], n_clusters, 1)  # warms up
    found = compare(run_batches, X, n_clusters, args.repeats)
    theirs = found[:, 0]
    for i, ours in enumerate(OURS):
        batches, full = found[:, 1 + 2 * i], found[:, 2 + 2 * i]
        cells = [ratio[:, j] for ratio in (batches / full, batches / theirs) for j in (0, 1)]
        report.row(
            label,
            ours.__name__,
            *(f"{number(np.median(cell), 3)} ({number(cell.max(), 3)})" for cell in cells),
        )

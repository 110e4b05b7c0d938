"""What one run from each start finds, against the best of ten runs of KMeans."""

from functools import partial

import numpy as np
from report import geometric_mean, number, wanted
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_sample_image,
    load_wine,
    make_blobs,
    make_moons,
)
from sklearn.preprocessing import scale
from timing import alternate, ratios, seconds

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

# Column, estimator, parameters.
OURS = [
    ("annealing, σ = 0", SoftKMeans, {"sigma": 0, "init": "annealing"}),
    ("exchange, σ = 0", SoftKMeans, {"sigma": 0, "init": "exchange"}),
    ("annealing, SoftKMeans", SoftKMeans, {"init": "annealing"}),
    ("annealing, EntmaxKMeans", EntmaxKMeans, {"init": "annealing"}),
]
EQUAL = 1.001  # ratio of inertias that is as good as the same


def grid(side, std, n_each, seed=0):
    """Gaussians on a square grid of spacing 4."""
    random = np.random.RandomState(seed)
    middles = 4.0 * np.stack(np.meshgrid(range(side), range(side)), axis=-1).reshape(-1, 2)
    return np.repeat(middles, n_each, axis=0) + std * random.normal(size=(side**2 * n_each, 2))


def unbalanced():
    random = np.random.RandomState(0)
    middles = np.array([(0, 0), (8, 0), (0, 9), (3, 8), (9, 8), (20, -8)], dtype=float)
    return np.repeat(middles, [2000, 2000] + 4 * [100], axis=0) + random.normal(size=(4400, 2))


def clouds(n_samples, n_features, n_clusters, std, seed=0):
    options = {"centers": n_clusters, "cluster_std": std, "random_state": seed}
    return make_blobs(n_samples, n_features, **options)[0]


def pixels(name):
    colours = load_sample_image(name).reshape(-1, 3) / 255.0
    return colours[:: len(colours) // 4000]


def tuned_on():
    digits = load_digits().data
    yield "iris", load_iris().data, 3
    yield "wine, scaled", scale(load_wine().data), 3
    yield "breast cancer, scaled", scale(load_breast_cancer().data), 5
    for n_clusters in [10, 20, 50]:
        yield "digits", digits, n_clusters
    yield "50 blobs in 2-D", clouds(3000, 2, 50, 0.5), 50
    yield "25 blobs in 8-D", clouds(3000, 8, 25, 2.0), 25
    yield "20 blobs in 5-D", clouds(4000, 5, 20, 1.5), 20
    yield "8 × 8 grid", grid(8, 0.6, 30), 64
    yield "10 × 10 grid", grid(10, 0.8, 20), 100
    yield "unbalanced", unbalanced(), 6


def not_tuned_on():
    random = np.random.RandomState(42)
    yield "digits", load_digits().data, 25
    yield "flower, pixels", pixels("flower.jpg"), 12
    yield "china, pixels", pixels("china.jpg"), 24
    yield "wine, scaled", scale(load_wine().data), 6
    yield "diabetes", load_diabetes().data, 8
    yield "60 blobs in 3-D", clouds(4000, 3, 60, 0.8, seed=7), 60
    yield "30 blobs in 20-D", clouds(3000, 20, 30, 3.0, seed=8), 30
    yield "9 × 9 grid", grid(9, 0.5, 25, seed=9), 81
    yield "moons", make_moons(2000, noise=0.08, random_state=10)[0], 20
    yield "uniform cube", random.uniform(size=(2000, 3)), 15
    yield "exponential", random.exponential(size=(2000, 4)), 10
    yield "Student's t", random.standard_t(3, size=(2000, 3)), 20


def write(report, args):
    report.title("Starts: inertia of one run, over the median of KMeans(n_init=10) over seeds")
    report.line("In brackets the time, over that of the ten runs; bold: below the best seed.\n")
    for name, data in [("Tuned on", tuned_on), ("Not tuned on", not_tuned_on)]:
        report.head(f"{name}: data, k", "best seed", *[column for column, *_ in OURS])
        rows = [
            compare(report, f"{words}, {n_clusters}", X, n_clusters, args.repeats)
            for words, X, n_clusters in data()
            if wanted(f"{words}, {n_clusters}", args.rows)
        ]
        if rows:
            summarise(report, np.array(rows))
        report.line()


def compare(report, label, X, n_clusters, repeats):
    seeds = range(10 if repeats > 1 else 2)
    theirs = [KMeans(n_clusters, n_init=10, random_state=s).fit(X).inertia_ for s in seeds]
    median, best = np.median(theirs), min(theirs)
    found, cells = [], []
    for _, estimator, params in OURS:
        model = estimator(n_clusters, random_state=0, **params)
        inertia = model.fit(X).inertia_
        ten = KMeans(n_clusters, n_init=10, random_state=0)
        times = alternate(3, *[partial(seconds, partial(m.fit, X)) for m in (ten, model)])
        time = np.median(ratios(times))
        cell = f"{inertia / median:.4f} ({number(time)})"
        cells.append(f"**{cell}**" if inertia < (1.0 - 1e-6) * best else cell)
        found.append((inertia / median, time, inertia < (1.0 - 1e-6) * best))
    report.row(label, f"{best / median:.4f}", *cells)
    return found


def summarise(report, rows):
    ratio, time, below = rows[..., 0], rows[..., 1], rows[..., 2]
    columns = range(len(OURS))
    report.row(
        f"at most {EQUAL}, of {len(rows)}",
        "",
        *[str((ratio[:, c] <= EQUAL).sum()) for c in columns],
    )
    report.row("at least 1 % lower", "", *[str((ratio[:, c] <= 0.99).sum()) for c in columns])
    report.row("below the best seed", "", *[str(int(below[:, c].sum())) for c in columns])
    report.row("largest ratio", "", *[f"{ratio[:, c].max():.4f}" for c in columns])
    report.row(
        "geometric mean of times", "", *[number(geometric_mean(time[:, c])) for c in columns]
    )

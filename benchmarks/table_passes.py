"""Passes over the data until the centres are at a fixed point, by solver. No times."""

import numpy as np
from report import geometric_mean, number, wanted
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.preprocessing import scale

from sklearn_softkmeans import EntmaxKMeans

SOLVERS = ["em", "anderson", "lbfgs"]
TOL = 1e-6
MAX_ITER = 100_000


def data():
    yield "iris", load_iris(return_X_y=True)[0], 3
    yield "wine", scale(load_wine(return_X_y=True)[0]), 3
    yield "breast cancer", scale(load_breast_cancer(return_X_y=True)[0]), 5
    yield "digits", load_digits(return_X_y=True)[0], 10
    yield "blobs", make_blobs(3000, 2, centers=50, cluster_std=0.5, random_state=0)[0], 50


def last_transition(X, n_clusters, alpha):
    """Temperature above which all centres are one: sigma^2 = k^(alpha - 1) lambda_max."""
    largest = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[-1]
    return np.sqrt(n_clusters ** (alpha - 1.0) * largest)


def write(report, args):
    report.title("Passes over the data")
    report.line(f"Until the estimated distance to the fixed point is {TOL:g} of the spread.\n")
    report.head("data, k, alpha, sigma", *SOLVERS, "em / anderson", "em / lbfgs")
    gains = []
    for name, X, n_clusters in data():
        start = kmeans_plusplus(X, n_clusters, random_state=0)[0]
        for alpha in [1.0, 1.5]:
            temperatures = {
                "auto": "auto",
                ".95 of the last transition": 0.95 * last_transition(X, n_clusters, alpha),
            }
            for words, sigma in temperatures.items():
                label = f"{name}, {n_clusters}, {alpha:g}, {words}"
                if not wanted(label, args.rows):
                    continue
                options = {"sigma": sigma, "init": start, "tol": TOL, "max_iter": MAX_ITER}
                models = [EntmaxKMeans(n_clusters, alpha, solver=s, **options) for s in SOLVERS]
                passes = [model.fit(X).n_iter_ for model in models]
                gain = [passes[0] / n for n in passes[1:]]
                report.row(label, *map(str, passes), *map(number, gain))
                gains.append((words, gain))
    for words in dict.fromkeys(words for words, _ in gains):
        own = [gain for other, gain in gains if other == words]
        means = [number(geometric_mean(column)) for column in zip(*own, strict=True)]
        report.row(f"geometric mean, {words}", *["" for _ in SOLVERS], *means)

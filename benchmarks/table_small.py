"""Small data, where the cost of Python rules: fits of iris, and predictions for one row."""

import numpy as np
from report import number
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_iris
from timing import alternate, call_seconds, ratios

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

N_CLUSTERS = 3
CALLS = 20  # in a row, before it is the other side's turn


def tasks(estimator, X):
    """What is timed: a name, and a call without arguments."""
    start = kmeans_plusplus(X, N_CLUSTERS, random_state=0)[0]
    own_start = estimator(N_CLUSTERS, n_init=1, random_state=0)
    same_start = estimator(N_CLUSTERS, n_init=1, init=start)
    fitted = estimator(N_CLUSTERS, n_init=1, init=start).fit(X)
    return {
        "fit, k-means++": lambda: own_start.fit(X),
        "fit, same start": lambda: same_start.fit(X),
        "predict, one row": lambda: fitted.predict(X[:1]),
    }


def write(report, args):
    report.title("Small data: iris, k = 3")
    report.head("", "KMeans, µs", "ours, µs", "ratio")
    X = load_iris(return_X_y=True)[0]
    theirs = tasks(KMeans, X)
    for estimator in [SoftKMeans, EntmaxKMeans]:
        for name, call in tasks(estimator, X).items():
            sides = [lambda call=call: call_seconds(call, CALLS) for call in (theirs[name], call)]
            alternate(1, *sides)  # warms up
            times = alternate(1 if args.quick else 4 * args.repeats, *sides)
            report.row(
                f"{estimator.__name__}: {name}",
                *(number(1e6 * median, 0) for median in np.median(times, axis=0)),
                number(np.median(ratios(times))),
            )

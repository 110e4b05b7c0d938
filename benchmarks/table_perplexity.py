"""The mean perplexity of models fitted for one, on the data sets of `starts`."""

import warnings

import numpy as np
from report import wanted
from sklearn.exceptions import ConvergenceWarning
from table_starts import tuned_on

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

ASKED = [1.05, 1.2, 1.5, 2.0]
CLOSE = 0.02


def write(report, args):
    report.title("Perplexity: that of the fitted model")
    report.line("An asterisk: a warning says what can be reached.\n")
    names = [f"{name} {asked}" for name in ("Soft", "Entmax") for asked in ASKED]
    report.head("data, k", *names)
    far = warned = 0
    for words, X, n_clusters in tuned_on():
        if not wanted(f"{words}, {n_clusters}", args.rows):
            continue
        cells = []
        for estimator in (SoftKMeans, EntmaxKMeans):
            for asked in ASKED:
                found, told = fitted_perplexity(estimator, X, n_clusters, asked)
                cells.append(f"{found:.3f}{'*' if told else ''}")
                far += abs(found / asked - 1.0) > CLOSE and not told
                warned += told
        report.row(f"{words}, {n_clusters}", *cells)
    report.line(f"\nOff by more than {CLOSE:.0%} without a warning: {far}; warnings: {warned}.")


def fitted_perplexity(estimator, X, n_clusters, asked):
    """(mean perplexity of the rows, whether a warning names what can be reached)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = estimator(n_clusters, perplexity=asked, random_state=0).fit(X)
    shares = model.transform(X)
    entropy = -np.sum(shares * np.log(np.where(shares > 0.0, shares, 1.0)), axis=1)
    told = any("cannot be reached" in str(warning.message) for warning in caught)
    return float(np.exp(entropy).mean()), told

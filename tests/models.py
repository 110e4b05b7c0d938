"""Short ways to the estimators, for the tests."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

import sklearn_softkmeans
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

PACKAGE_PATH = Path(sklearn_softkmeans.__file__).parents[1]


def model(alpha, n_clusters, **params):
    """The estimator of that alpha: SoftKMeans for 1, else EntmaxKMeans."""
    if alpha == 1:
        return SoftKMeans(n_clusters, **params)
    return EntmaxKMeans(n_clusters, alpha=alpha, **params)


def at_centers(alpha, centers, sigma):
    """A fitted estimator over given centres."""
    if alpha == 1:
        return SoftKMeans.from_centers(centers, sigma=sigma)
    return EntmaxKMeans.from_centers(centers, sigma=sigma, alpha=alpha)


def fit_quietly(estimator, X, sample_weight=None):
    """Fit where merged centres or reaching max_iter are part of the question."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, sample_weight=sample_weight)


def one_step(alpha, X, centers, sigma, sample_weight=None):
    """The estimator after one step; objective_path_[0] is F at the given centres."""
    estimator = model(alpha, len(centers), sigma=sigma, init=centers, max_iter=1)
    return fit_quietly(estimator, X, sample_weight)


def run_python(code, *arguments, path=PACKAGE_PATH, **environment):
    """What code prints as JSON, if anything, in a new process that may take two minutes."""
    settings = {**os.environ, "PYTHONPATH": str(path), **environment}
    finished = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code, *map(str, arguments)],
        env={name: value for name, value in settings.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout or "null")

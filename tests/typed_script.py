"""A user's script, which `test_typing.py` gives to mypy in its strict mode."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from sklearn_softkmeans import (
    EntmaxKMeans,
    SoftKMeans,
    inspection,
    metrics,
    objective_and_gradient,
    projections,
    soft_kmeans_path,
)
from sklearn_softkmeans.onnx import register_converters


def fit(X: NDArray[np.float64], weights: NDArray[np.float64]) -> SoftKMeans:
    model = SoftKMeans(n_clusters=3, sigma=0.5, init="annealing", random_state=0)
    assert_type(model.fit(X, sample_weight=weights), SoftKMeans)
    assert_type(model.fit_blocks(lambda: iter([X])), SoftKMeans)
    assert_type(model.bic(X), float)
    return model.align_to(SoftKMeans(3, init=[[0.0], [1.0], [2.0]]))


def use(X: NDArray[np.float32]) -> float:
    model = EntmaxKMeans(3, alpha=2.0, perplexity=1.2, sparse_output=True).fit(X.tolist())
    assert_type(model, EntmaxKMeans)
    assert_type(model.predict(X), NDArray[np.int32])
    assert_type(model.fit_predict(X), NDArray[np.int32])
    assert_type(model.score_samples(X), NDArray[np.float64])
    shares = EntmaxKMeans.from_centers(X[:3], sigma=1.0).predict_proba(X)
    register_converters()
    assert_type(metrics.partition_coefficient(shares), float)
    assert_type(inspection.hard_sigma(X, X[:3]), float)
    inspection.MembershipDisplay.from_estimator(model, X, kind="perplexity").plot()
    path = soft_kmeans_path(X, 3, direction="heating")
    value, gradient = objective_and_gradient(X, path.centers[0], sigma=1.0, loss="free_energy")
    assert_type(gradient, NDArray[np.float64])
    return value + float(projections.entmax(shares, 1.3, axis=0).sum()) + model.score(X)

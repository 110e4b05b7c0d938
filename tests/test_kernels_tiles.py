"""A pass over tiles, against NumPy; see test_tiles.py for the same passes on more data."""

import numpy as np
import pytest

import reference
from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._kernels.tiles import Tiles
from sklearn_softkmeans._tiles import TiledProblem

X = reference.blobs(6, n_samples=150, n_features=3, std=0.6, box=8.0, seed=2)
START = reference.spread_start(X, 9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha, sigma", [(1.0, 0.0), (1.0, 0.3), (1.5, 0.3), (1.5, 2.0)])
def test_sums_are_those_of_the_reference(alpha, sigma, dtype, weighted):
    weights = reference.weights(len(X)) if weighted else None
    problem = problem_for_fit(X.astype(dtype), weights, alpha, resident=True)
    centers = problem.into_frame(START)
    grouped = TiledProblem(problem, np.arange(len(X)), centers)
    found = grouped.statistics(centers, sigma / problem.unit)
    rows = problem.rows_in_frame(np.arange(len(X)))
    resp = reference.responsibilities(rows, centers, sigma / problem.unit, alpha)
    resp = resp * problem.weights[:, None]
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found.sums, resp.T @ rows, rtol=0, atol=tolerance * len(X))
    np.testing.assert_allclose(found.mass, resp.sum(axis=0), rtol=0, atol=tolerance * len(X))
    free_energy = reference.free_energy(rows, centers, sigma / problem.unit, alpha, problem.weights)
    size = abs(free_energy) + found.inertia
    assert found.objective == pytest.approx(free_energy, rel=0, abs=tolerance * size)
    assert found.inertia == pytest.approx(
        reference.distortion(rows, centers, problem.weights), rel=tolerance
    )


def test_groups_without_rows_and_centres_of_no_tile_have_no_sums():
    problem = problem_for_fit(X, None, 1.5, resident=True)
    centers = np.vstack([problem.into_frame(START), [[50.0, 0.0, 0.0]]])
    grouped = TiledProblem(problem, np.arange(len(X)), centers)
    assert isinstance(grouped._tiles, Tiles)
    statistics = grouped.statistics(centers, 0.05)
    assert statistics.mass[-1] == 0.0
    assert statistics.mass.sum() == pytest.approx(len(X))

"""One rule for the end of every run, in the data's own scale.

Sources: https://github.com/scikit-learn/scikit-learn/issues/22519,
https://github.com/scikit-learn/scikit-learn/issues/17039,
https://github.com/uxlfoundation/scikit-learn-intelex/pull/3399
"""

import numpy as np
import pytest

import reference
from models import fit_quietly, model
from sklearn_softkmeans import SoftKMeans

every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])


@every_alpha
@pytest.mark.parametrize("sigma", [0, 0.02])
@pytest.mark.parametrize("factor", [1024.0, 2.0**-30])
def test_the_unit_does_not_move_the_stop(alpha, sigma, factor):
    """Powers of two, since these rows have exact ties that rounding would break."""
    rows = np.arange(1000.0)[:, None] / 1000
    one = model(alpha, 10, sigma=sigma, init=rows[:10])
    other = model(alpha, 10, sigma=sigma * factor, init=factor * rows[:10])
    fit_quietly(one, rows)
    fit_quietly(other, factor * rows)
    assert one.n_iter_ == other.n_iter_
    assert one.stop_reason_ == other.stop_reason_
    np.testing.assert_allclose(other.cluster_centers_, factor * one.cluster_centers_, rtol=1e-6)


@every_alpha
def test_a_dominant_column_sets_the_scale(alpha):
    """Added at 1e6 times the size, it rules distances and tolerance alike."""
    iris = reference.data("iris")
    wide = np.column_stack([iris, 1e6 * iris[:, 2]])
    start = wide[[0, 60, 120]]
    sigma = 2e5
    fitted = model(alpha, 3, sigma=sigma, init=start).fit(wide)
    alone = model(alpha, 3, sigma=sigma, init=start[:, 4:]).fit(wide[:, 4:])
    assert fitted.n_iter_ == alone.n_iter_
    np.testing.assert_allclose(fitted.cluster_centers_[:, 4:], alone.cluster_centers_, rtol=1e-9)


@pytest.mark.parametrize("sigma, solution", [(0.9, 0.6956580), (0.99, 0.2423843)])
@pytest.mark.parametrize("start", [0.5, 0.99, 0.05])
@pytest.mark.parametrize("copies", [1, 50])
def test_the_solution_is_reached_from_other_starts(sigma, solution, start, copies):
    rows = np.tile([[-1.0], [1.0]], (copies, 1))
    estimator = SoftKMeans(2, sigma=sigma, init=[[-start], [start]], max_iter=2000).fit(rows)
    np.testing.assert_allclose(estimator.cluster_centers_, [[-solution], [solution]], rtol=0.01)


@pytest.mark.parametrize("tol", [1e-300, 1e-16, 1e-12])
@every_alpha
def test_a_tolerance_below_rounding_still_ends(alpha, tol):
    rows = reference.data("wine")
    start = reference.spread_start(rows, 3)
    fitted = model(alpha, 3, sigma=0.8, init=start, tol=tol, max_iter=20000).fit(rows)
    assert fitted.stop_reason_ in ("tol", "stagnation")
    assert fitted.n_iter_ < 20000

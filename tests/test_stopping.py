"""When the iteration ends, and what it says about it."""

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

import reference
from models import fit_quietly, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
PAIR = np.array([[-1.0], [1.0]])
IRIS = reference.data("iris")


def convergence_warnings(estimator, X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X)
    return [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


# ------------------------------------------- the tolerance bounds the distance left


@pytest.mark.parametrize("sigma, solution", [(0.5, 0.9993257), (0.9, 0.6956580), (0.99, 0.2423843)])
def test_slow_convergence_is_followed_to_the_solution(sigma, solution):
    """Two rows at -1 and 1: the solution is c = tanh(c / sigma^2)."""
    assert solution == pytest.approx(np.tanh(solution / sigma**2), abs=2e-6)
    fitted = SoftKMeans(2, sigma=sigma, init=0.5 * PAIR).fit(PAIR)
    np.testing.assert_allclose(fitted.cluster_centers_, solution * PAIR, rtol=0.01)
    assert fitted.converged_
    assert fitted.stop_reason_ == "tol"
    assert fitted.n_iter_ <= fitted.max_iter


def test_at_the_critical_temperature_the_warning_comes():
    with pytest.warns(ConvergenceWarning):
        SoftKMeans(2, sigma=1.0, init=0.5 * PAIR, solver="em").fit(PAIR)


@pytest.mark.parametrize("sigma", [0.99, 0.9999, 1.0, 1.0001, 1.01])
def test_extrapolated_steps_pass_the_critical_temperature(sigma):
    """The solution is c = tanh(c / sigma^2), 0 from sigma = 1 on."""
    exact = brentq(lambda c: np.tanh(c / sigma**2) - c, 1e-3, 1.0) if sigma < 1 else 0.0
    fitted = SoftKMeans(2, sigma=sigma, init=0.5 * PAIR)
    fit_quietly(fitted, PAIR)
    assert fitted.stop_reason_ == "tol"
    assert fitted.n_iter_ < 80
    np.testing.assert_allclose(fitted.cluster_centers_, exact * PAIR, rtol=0, atol=3e-4)


@pytest.mark.parametrize("solver", ["em", "auto"])
@pytest.mark.parametrize("make, seed", [(SoftKMeans, 1), (EntmaxKMeans, 2)])
def test_a_slow_stretch_in_single_precision_is_no_end(make, seed, solver):
    """Shifts that do not fall for twenty steps, and are far above rounding."""
    digits = reference.data("digits").astype(np.float32)
    options = {"sigma": 3.0, "random_state": seed, "solver": solver, "max_iter": 1000}
    fitted = make(6, **options).fit(digits)
    assert fitted.stop_reason_ == "tol"
    further = make(6, **{**options, "init": fitted.cluster_centers_, "tol": 1e-6})
    further.fit(digits.astype(np.float64))
    moved = np.linalg.norm(further.cluster_centers_ - fitted.cluster_centers_)
    assert moved <= 3e-4 * np.sqrt(digits.var(axis=0).sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every
def test_a_far_initial_centre_is_no_measure_of_rounding(make, dtype):
    X = reference.blobs(3, n_samples=150, std=1.0, seed=1)
    far = 1e5 if dtype == np.float32 else 1e80
    start = np.vstack([X[:2], [[far, far]]])
    near = np.vstack([X[:2], [[1e3, 1e3]]])
    fits = [
        fit_quietly(make(3, sigma=0.5, init=init, tol=1e-5), X.astype(dtype))
        for init in (start, near)
    ]
    assert [fitted.stop_reason_ for fitted in fits] == ["tol", "tol"]
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-5)


@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-6])
@every_alpha
def test_the_distance_left_is_about_the_tolerance(tol, alpha):
    """Against a run to rounding, in units of the data's scale."""
    X = reference.blobs(4, n_samples=200, std=2.0, box=6.0, seed=5)
    start = reference.spread_start(X, 4)
    sigma = {1.0: 1.4, 1.3: 1.7, 1.5: 1.9, 2.0: 2.1}[alpha]
    settings = {"sigma": sigma, "init": start, "max_iter": 20000}
    exact = fit_quietly(model(alpha, 4, tol=0, **settings), X).cluster_centers_
    fitted = model(alpha, 4, tol=tol, **settings).fit(X)
    assert fitted.n_iter_ > 5
    scale = np.sqrt(X.var(axis=0).sum())
    distance = np.sqrt(((fitted.cluster_centers_ - exact) ** 2).sum(axis=1)).max()
    assert distance <= 3 * tol * scale


@every_alpha
def test_a_larger_tolerance_never_takes_more_iterations(alpha):
    start = reference.spread_start(IRIS, 3)
    counts = [
        model(alpha, 3, sigma=0.5, init=start, tol=tol, max_iter=3000).fit(IRIS).n_iter_
        for tol in (0.5, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@every_alpha
def test_constant_columns_and_offsets_do_not_move_the_stop(alpha):
    start = reference.spread_start(IRIS, 3)
    plain = model(alpha, 3, sigma=0.5, init=start).fit(IRIS)
    wider = np.column_stack([IRIS, np.full(150, 1e3)])
    constant = model(alpha, 3, sigma=0.5, init=np.column_stack([start, np.full(3, 1e3)]))
    constant.fit(wider)
    assert constant.n_iter_ == plain.n_iter_
    np.testing.assert_allclose(constant.cluster_centers_[:, :4], plain.cluster_centers_, rtol=1e-8)


def test_both_estimators_share_one_rule():
    start = reference.spread_start(IRIS, 3)
    soft = SoftKMeans(3, sigma=0.5, init=start).fit(IRIS)
    for alpha in (1, 1 + 1e-9):
        other = EntmaxKMeans(3, alpha, sigma=0.5, init=start).fit(IRIS)
        assert other.n_iter_ == soft.n_iter_
        assert other.stop_reason_ == soft.stop_reason_


# ------------------------------------------------------------------- tolerance zero


@every_alpha
@pytest.mark.parametrize("sigma", [0, 0.3, "auto"])
def test_zero_tolerance_ends_by_stagnation(alpha, sigma):
    start = reference.spread_start(IRIS, 3)
    fitted = model(alpha, 3, sigma=sigma, init=start, tol=0, max_iter=5000).fit(IRIS)
    assert fitted.stop_reason_ == "stagnation"
    assert fitted.converged_
    assert fitted.n_iter_ < 5000
    step = reference.em_step(IRIS, fitted.cluster_centers_, fitted.sigma_, alpha)
    np.testing.assert_allclose(fitted.cluster_centers_, step, rtol=0, atol=1e-7)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_tolerance_ends_in_either_precision(make, dtype):
    X = reference.blobs(5, n_samples=400, std=1.0, seed=1).astype(dtype)
    fitted = make(5, tol=0, max_iter=5000, random_state=0).fit(X)
    assert fitted.stop_reason_ == "stagnation"


# ------------------------------------------------------------------------ max_iter


@every
@pytest.mark.parametrize("n_init", [1, 5])
@pytest.mark.parametrize("tol", [0, 1e-4])
def test_reaching_max_iter_warns_once_and_says_what_to_change(make, n_init, tol):
    estimator = make(
        3, sigma=0.5, init="random", n_init=n_init, max_iter=2, tol=tol, random_state=0
    )
    messages = convergence_warnings(estimator, IRIS)
    assert len(messages) == 1
    assert "max_iter" in messages[0]
    assert estimator.stop_reason_ == "max_iter"
    assert estimator.converged_ is False
    assert estimator.n_iter_ == 2
    assert len(estimator.objective_path_) == 3


@every
def test_convergence_does_not_warn(make):
    assert convergence_warnings(make(3, random_state=0), IRIS) == []


# ------------------------------------------------------------------ merged centres


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_merged_centres_warn_once_with_number_sigma_and_remedy(alpha):
    rows = np.random.RandomState(0).normal(size=(60, 2))
    estimator = model(alpha, 4, sigma=25.0, random_state=0)
    (message,) = convergence_warnings(estimator, rows)
    assert estimator.n_distinct_clusters_ == 1
    for part in ("1", "4", "25", "sigma"):
        assert part in message
    np.testing.assert_allclose(estimator.transform(rows), np.full((60, 4), 0.25), rtol=0, atol=1e-3)


def test_distinct_centres_are_counted_beyond_rounding():
    """Three pairs of rows far apart; two centres share a pair and merge there."""
    rows = np.array([[0.0, 0], [0.1, 0], [50, 0], [50.1, 0], [0, 50], [0.1, 50]])
    start = rows[[0, 1, 2, 4]]
    estimator = SoftKMeans(4, sigma=5.0, init=start, tol=1e-10, max_iter=2000)
    (message,) = convergence_warnings(estimator, rows)
    assert estimator.n_distinct_clusters_ == 3
    assert "3" in message
    assert "4" in message
    separate = SoftKMeans(4, sigma=0.01, init=start).fit(rows)
    assert separate.n_distinct_clusters_ == 4


# ------------------------------------------------------------- the path of F


@every_alpha
@pytest.mark.parametrize("sigma", [0, 0.4, 2.0])
def test_the_path_falls_from_the_start_to_the_objective(alpha, sigma):
    start = reference.spread_start(IRIS, 3)
    fitted = fit_quietly(model(alpha, 3, sigma=sigma, init=start), IRIS)
    path = fitted.objective_path_
    first = reference.free_energy(IRIS, start, sigma, alpha)
    assert path[0] == pytest.approx(first, rel=1e-10)
    assert path[-1] == fitted.objective_
    assert len(path) == fitted.n_iter_ + 1
    assert (np.diff(path) <= 1e-10 * np.abs(path[:-1])).all()
    assert path[-1] < path[0]

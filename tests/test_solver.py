"""The iteration and its stopping rule."""

import numpy as np
import pytest

import reference
from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._solver import StoppingRule, solve_em

IRIS = reference.data("iris")
EPS = np.finfo(np.float64).eps

alphas = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.2])


def make_rule(tol, spread=1.0, largest=1.0):
    return StoppingRule(tol, spread, np.array([[largest, 0.0]]))


def steps_until_stop(rule, shifts):
    """Reason, number of steps and last shift."""
    for n_steps, shift in enumerate(shifts, start=1):
        reason = rule.check(shift)
        if reason is not None:
            return reason, n_steps, shift
    return None, n_steps, shift


def geometric(factor, first=1.0, n_steps=10_000):
    return first * factor ** np.arange(n_steps)


# ------------------------------------------------------------ synthetic sequences of shifts


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_the_distance_of_a_geometric_sequence_is_what_is_left_of_it(factor, tol):
    rule = make_rule(tol)
    reason, _, shift = steps_until_stop(rule, geometric(factor, n_steps=50_000))
    left = shift * factor / (1 - factor)
    assert reason == "tol"
    assert rule.distance == pytest.approx(left, rel=1e-8)
    assert left <= tol < left / factor**2


def test_the_tolerance_is_relative_to_the_spread():
    counts = [
        steps_until_stop(make_rule(1e-4, spread, largest=spread), spread * geometric(0.9))[1]
        for spread in (1e-3, 1.0, 1e5)
    ]
    assert len(set(counts)) == 1
    assert steps_until_stop(make_rule(1e-4, spread=1e-3), geometric(0.9))[1] > counts[0]


def test_a_fast_sequence_counts_as_halving():
    """A single small factor may be luck: at least the last shift is assumed to be left."""
    rule = make_rule(1e-3)
    assert rule.check(1.0) is None
    assert rule.check(2e-3) is None
    assert rule.distance == pytest.approx(2e-3)
    assert rule.check(0.9e-3) == "tol"


def test_the_largest_of_two_factors_counts():
    rule = make_rule(1e-9)
    for shift in (1.0, 0.9, 0.9 * 0.6):
        rule.check(shift)
    assert rule.distance == pytest.approx(0.54 * 0.9 / 0.1)
    rule.check(0.54 * 0.7)
    assert rule.distance == pytest.approx(0.378 * 0.7 / 0.3)


def test_one_step_says_nothing_about_the_distance():
    rule = make_rule(1e-1)
    assert rule.check(1e-3) is None
    assert rule.distance == np.inf


def test_growing_shifts_have_no_fixed_point_in_sight():
    rule = make_rule(10.0)
    assert steps_until_stop(rule, geometric(1.01, first=1e-3, n_steps=100))[0] is None
    assert rule.distance == np.inf


def test_a_plateau_does_not_stop_the_iteration():
    shifts = np.r_[geometric(0.5, n_steps=5), np.full(200, 1e-3), geometric(0.5, 1e-3, 60)]
    reason, n_steps, _ = steps_until_stop(make_rule(1e-6), shifts)
    assert reason == "tol"
    assert n_steps > 205


@pytest.mark.parametrize("shift", [0.0, EPS])
def test_a_shift_of_rounding_error_is_the_end(shift):
    for tol, expected in ((1e-4, "tol"), (0.0, "stagnation")):
        rule = make_rule(tol)
        assert rule.check(shift) == expected
        assert rule.distance == shift
        rule = make_rule(tol)
        assert rule.check(1.0) is None
        assert rule.check(shift) == expected


def test_a_tolerance_below_rounding_ends_by_stagnation():
    reason, _, shift = steps_until_stop(make_rule(1e-20), geometric(0.5))
    assert reason == "stagnation"
    assert shift <= 4 * EPS


def test_rounding_is_relative_to_the_largest_centre():
    reason, _, shift = steps_until_stop(make_rule(0.0, largest=1e6), geometric(0.5))
    assert reason == "stagnation"
    assert 1e6 * EPS < shift <= 4e6 * EPS


@pytest.mark.parametrize("factor", [0.9, 0.999])
def test_without_tolerance_the_iteration_ends_at_rounding(factor):
    reason, _, shift = steps_until_stop(make_rule(0.0), geometric(factor, n_steps=100_000))
    assert reason == "stagnation"
    assert shift <= 4 * EPS


def test_noise_above_rounding_ends_by_stagnation():
    """Shifts that no longer fall, within a thousand rounding errors."""
    noise = 500 * EPS * np.random.RandomState(0).uniform(0.5, 1, size=1000)
    reason, n_steps, _ = steps_until_stop(make_rule(0.0), np.r_[geometric(0.5, n_steps=30), noise])
    assert reason == "stagnation"
    assert 50 < n_steps < 200


def test_constant_shifts_that_are_no_noise_go_on():
    rule = make_rule(0.0)
    assert steps_until_stop(rule, np.full(500, 1e-9))[0] is None


# ---------------------------------------------------------------------------- the iteration


def solve(alpha, sigma, *, tol=1e-4, max_iter=1000, X=IRIS, n_clusters=3, report=None):
    problem = problem_for_fit(X, None, alpha, resident=True)
    start = problem.into_frame(reference.spread_start(X, n_clusters))
    sigma = sigma / problem.unit
    solution = solve_em(problem, start, sigma=sigma, max_iter=max_iter, tol=tol, report=report)
    return problem, start, sigma, solution


@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0])
def test_the_iteration_repeats_the_step_of_the_reference(alpha, sigma):
    problem, start, sigma, solution = solve(alpha, sigma, max_iter=5, tol=0.0)
    rows = problem.rows_in_frame(np.arange(len(IRIS)))
    centers = start
    for n_iter in range(solution.n_iter):
        objective = reference.free_energy(rows, centers, sigma, alpha)
        assert solution.objective_path[n_iter] == pytest.approx(objective, rel=1e-10)
        centers = reference.em_step(rows, centers, sigma, alpha)
    np.testing.assert_allclose(solution.centers, centers, rtol=0, atol=1e-11)


@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_the_start_is_left_alone(alpha, sigma):
    problem, start, *_ = solve(alpha, sigma)
    expected = problem.into_frame(reference.spread_start(IRIS, 3))
    np.testing.assert_array_equal(start, expected)


@alphas
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_the_estimated_distance_is_that_to_the_fixed_point(alpha, tol):
    sigma = {1.0: 0.5, 1.5: 0.8, 2.0: 0.8, 1.2: 0.7}[alpha]
    problem, _, _, solution = solve(alpha, sigma, tol=tol)
    *_, exact = solve(alpha, sigma, tol=0.0, max_iter=100_000)
    assert solution.stop_reason == "tol"
    assert exact.stop_reason == "stagnation"
    left = np.linalg.norm(solution.centers - exact.centers)
    assert left <= 2 * solution.distance + 1e-12
    assert solution.distance <= tol * problem.spread


@pytest.mark.parametrize("max_iter", [1, 4])
def test_max_iter_ends_the_iteration(max_iter):
    *_, solution = solve(1.0, 0.5, max_iter=max_iter, tol=0.0)
    assert solution.n_iter == max_iter
    assert solution.stop_reason == "max_iter"
    assert len(solution.objective_path) == max_iter


@alphas
def test_every_iteration_is_reported_once(alpha):
    reports = []
    *_, solution = solve(alpha, 0.4, report=lambda *args: reports.append(args))
    assert [report[0] for report in reports] == list(range(1, solution.n_iter + 1))
    assert [report[1] for report in reports] == solution.objective_path
    shifts = [report[2] for report in reports]
    assert all(isinstance(shift, float) and shift >= 0 for shift in shifts)
    assert shifts[-1] < shifts[0]


def test_the_report_has_the_length_of_each_step():
    reports = []
    *_, start, _, solution = solve(1.0, 0.4, max_iter=1, report=lambda *args: reports.append(args))
    assert reports[0][2] == pytest.approx(np.linalg.norm(solution.centers - start), rel=1e-14)


@alphas
def test_the_free_energy_never_rises(alpha):
    for seed in range(5):
        X = reference.blobs(4, n_samples=80, std=1.5, seed=seed)
        *_, solution = solve(alpha, 1.0 + seed / 2, X=X, n_clusters=4, tol=1e-8)
        path = np.array(solution.objective_path)
        assert (np.diff(path) <= 1e-10 * np.abs(path[:-1])).all()


def test_constant_rows_end_at_once():
    problem = problem_for_fit(np.full((5, 2), 3.0), None, 1.0, resident=True)
    start = problem.into_frame(np.full((1, 2), 3.0))
    solution = solve_em(problem, start, sigma=0.1, max_iter=10, tol=1e-4)
    assert solution.n_iter <= 2
    assert solution.stop_reason in ("tol", "stagnation")
    np.testing.assert_array_equal(problem.out_of_frame(solution.centers), 3.0)

"""The iteration and its stopping rule."""

from types import SimpleNamespace

import numpy as np
import pytest

import reference
from sklearn_softkmeans._centers import problem_for_fit, update_centers
from sklearn_softkmeans._solver import StoppingRule, _Anderson, solve

IRIS = reference.data("iris")
EPS = np.finfo(np.float64).eps

alphas = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.2])
solvers = pytest.mark.parametrize("solver", ["em", "anderson", "lbfgs"])


def steps_until_stop(rule, shifts, largest=1.0):
    """Reason, number of steps and last shift."""
    for n_steps, shift in enumerate(shifts, start=1):
        reason = rule.check(shift, largest)
        if reason is not None:
            return reason, n_steps, shift
    return None, n_steps, shift


def geometric(factor, first=1.0, n_steps=10_000):
    return first * factor ** np.arange(n_steps)


# ------------------------------------------------------------ synthetic sequences of shifts


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_the_distance_of_a_geometric_sequence_is_what_is_left_of_it(factor, tol):
    rule = StoppingRule(tol, 1.0)
    reason, _, shift = steps_until_stop(rule, geometric(factor, n_steps=50_000))
    left = shift * factor / (1 - factor)
    assert reason == "tol"
    assert rule.distance == pytest.approx(left, rel=1e-8)
    assert left <= tol < left / factor**2


def test_the_tolerance_is_relative_to_the_spread():
    counts = [
        steps_until_stop(StoppingRule(1e-4, spread), spread * geometric(0.9), largest=spread)[1]
        for spread in (1e-3, 1.0, 1e5)
    ]
    assert len(set(counts)) == 1
    assert steps_until_stop(StoppingRule(1e-4, 1e-3), geometric(0.9))[1] > counts[0]


def test_a_fast_sequence_counts_as_halving():
    """A single small factor may be luck: at least the last shift is assumed to be left."""
    rule = StoppingRule(1e-3, 1.0)
    assert rule.check(1.0, 1.0) is None
    assert rule.check(2e-3, 1.0) is None
    assert rule.distance == pytest.approx(2e-3)
    assert rule.check(0.9e-3, 1.0) == "tol"


def test_the_largest_of_two_factors_counts():
    rule = StoppingRule(1e-9, 1.0)
    for shift in (1.0, 0.9, 0.9 * 0.6):
        rule.check(shift, 1.0)
    assert rule.distance == pytest.approx(0.54 * 0.9 / 0.1)
    rule.check(0.54 * 0.7, 1.0)
    assert rule.distance == pytest.approx(0.378 * 0.7 / 0.3)


def test_one_step_says_nothing_about_the_distance():
    rule = StoppingRule(1e-1, 1.0)
    assert rule.check(1e-3, 1.0) is None
    assert rule.distance == np.inf


def test_growing_shifts_have_no_fixed_point_in_sight():
    rule = StoppingRule(10.0, 1.0)
    assert steps_until_stop(rule, geometric(1.01, first=1e-3, n_steps=100))[0] is None
    assert rule.distance == np.inf


def test_a_plateau_does_not_stop_the_iteration():
    shifts = np.r_[geometric(0.5, n_steps=5), np.full(200, 1e-3), geometric(0.5, 1e-3, 60)]
    reason, n_steps, _ = steps_until_stop(StoppingRule(1e-6, 1.0), shifts)
    assert reason == "tol"
    assert n_steps > 205


@pytest.mark.parametrize("shift", [0.0, EPS])
def test_a_shift_of_rounding_error_is_the_end(shift):
    for tol, expected in ((1e-4, "tol"), (0.0, "stagnation")):
        rule = StoppingRule(tol, 1.0)
        assert rule.check(shift, 1.0) == expected
        assert rule.distance == shift
        rule = StoppingRule(tol, 1.0)
        assert rule.check(1.0, 1.0) is None
        assert rule.check(shift, 1.0) == expected


def test_a_tolerance_below_rounding_ends_by_stagnation():
    reason, _, shift = steps_until_stop(StoppingRule(1e-20, 1.0), geometric(0.5))
    assert reason == "stagnation"
    assert shift <= 4 * EPS


def test_rounding_is_relative_to_the_largest_centre():
    reason, _, shift = steps_until_stop(StoppingRule(0.0, 1.0), geometric(0.5), largest=1e6)
    assert reason == "stagnation"
    assert 1e6 * EPS < shift <= 4e6 * EPS


@pytest.mark.parametrize("factor", [0.9, 0.999])
def test_without_tolerance_the_iteration_ends_at_rounding(factor):
    reason, _, shift = steps_until_stop(StoppingRule(0.0, 1.0), geometric(factor, n_steps=100_000))
    assert reason == "stagnation"
    assert shift <= 4 * EPS


def test_noise_above_rounding_ends_by_stagnation():
    """Shifts that no longer fall, within ten of the smallest that counts as a step."""
    noise = 30 * EPS * np.random.RandomState(0).uniform(0.5, 1, size=1000)
    reason, n_steps, _ = steps_until_stop(
        StoppingRule(0.0, 1.0), np.r_[geometric(0.5, n_steps=30), noise]
    )
    assert reason == "stagnation"
    assert 50 < n_steps < 200


def test_constant_shifts_that_are_no_noise_go_on():
    rule = StoppingRule(0.0, 1.0)
    assert steps_until_stop(rule, np.full(500, 1e-9))[0] is None


# ---------------------------------------------------------------------------- the iteration


def run(alpha, sigma, *, solver="em", tol=1e-4, max_iter=1000, X=IRIS, n_clusters=3, report=None):
    problem = problem_for_fit(X, None, alpha, resident=True)
    start = problem.into_frame(reference.spread_start(X, n_clusters))
    sigma = sigma / problem.unit
    options = {"solver": solver, "max_iter": max_iter, "tol": tol, "report": report}
    return problem, start, sigma, solve(problem, start, sigma=sigma, **options)


@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0])
def test_the_iteration_repeats_the_step_of_the_reference(alpha, sigma):
    problem, start, sigma, solution = run(alpha, sigma, max_iter=5, tol=0.0)
    rows = problem.rows_in_frame(np.arange(len(IRIS)))
    centers = start
    for n_iter in range(solution.n_iter):
        objective = reference.free_energy(rows, centers, sigma, alpha)
        assert solution.objective_path[n_iter] == pytest.approx(objective, rel=1e-10)
        centers = reference.em_step(rows, centers, sigma, alpha)
    np.testing.assert_allclose(solution.centers, centers, rtol=0, atol=1e-11)


@alphas
@solvers
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_the_start_is_left_alone(alpha, sigma, solver):
    problem, start, *_ = run(alpha, sigma, solver=solver)
    expected = problem.into_frame(reference.spread_start(IRIS, 3))
    np.testing.assert_array_equal(start, expected)


@alphas
@solvers
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_the_estimated_distance_is_that_to_the_fixed_point(alpha, tol, solver):
    sigma = {1.0: 0.5, 1.5: 0.8, 2.0: 0.8, 1.2: 0.7}[alpha]
    problem, _, _, solution = run(alpha, sigma, tol=tol, solver=solver)
    *_, exact = run(alpha, sigma, tol=0.0, max_iter=100_000)
    assert solution.stop_reason == "tol"
    assert exact.stop_reason == "stagnation"
    left = np.linalg.norm(solution.centers - exact.centers)
    assert left <= (1.1 if solver == "em" else 3.0) * tol * problem.spread


@solvers
@pytest.mark.parametrize("max_iter", [1, 2, 4, 13])
def test_max_iter_ends_the_iteration(max_iter, solver):
    *_, solution = run(1.0, 0.5, solver=solver, max_iter=max_iter, tol=0.0)
    assert solution.n_iter == max_iter
    assert solution.stop_reason == "max_iter"
    assert len(solution.objective_path) == max_iter


@alphas
@solvers
def test_every_iteration_is_reported_once(alpha, solver):
    reports = []
    *_, solution = run(alpha, 0.4, solver=solver, report=lambda *args: reports.append(args))
    assert [report[0] for report in reports] == list(range(1, solution.n_iter + 1))
    kept = [np.inf if shift is None else found.objective for _, found, shift, _ in reports]
    np.testing.assert_array_equal(np.minimum.accumulate(kept), solution.objective_path)
    shifts = [report[2] for report in reports if report[2] is not None]
    assert all(isinstance(shift, float) and shift >= 0 for shift in shifts)
    assert shifts[-1] < shifts[0]


def test_the_report_has_the_length_of_each_step():
    reports = []
    *_, start, _, solution = run(1.0, 0.4, max_iter=1, report=lambda *args: reports.append(args))
    assert reports[0][2] == pytest.approx(np.linalg.norm(solution.centers - start), rel=1e-14)


@alphas
@solvers
def test_the_free_energy_never_rises(alpha, solver):
    for seed in range(5):
        X = reference.blobs(4, n_samples=80, std=1.5, seed=seed)
        *_, solution = run(alpha, 1.0 + seed / 2, solver=solver, X=X, n_clusters=4, tol=1e-8)
        path = np.array(solution.objective_path)
        assert (np.diff(path) <= 1e-10 * np.abs(path[:-1])).all()


@solvers
def test_constant_rows_end_at_once(solver):
    problem = problem_for_fit(np.full((5, 2), 3.0), None, 1.0, resident=True)
    start = problem.into_frame(np.full((1, 2), 3.0))
    solution = solve(problem, start, solver=solver, sigma=0.1, max_iter=10, tol=1e-4)
    assert solution.n_iter <= 4
    assert solution.stop_reason in ("tol", "stagnation")
    np.testing.assert_array_equal(problem.out_of_frame(solution.centers), 3.0)


# --------------------------------------------------------------------------- fewer passes


def passes_near_the_last_transition(alpha, solver, n_clusters=8):
    """Passes to the fixed point within 1e-6, at .95 of the sigma where the last centres merge."""
    X = reference.blobs(n_clusters, n_samples=600, std=1.0, seed=3)
    problem = problem_for_fit(X, None, alpha, resident=True)
    critical = np.sqrt(n_clusters ** (alpha - 1.0) * np.linalg.eigvalsh(np.cov(X.T, ddof=0))[-1])
    start = problem.into_frame(reference.spread_start(X, n_clusters))
    options = {"sigma": 0.95 * critical / problem.unit, "max_iter": 20_000, "tol": 1e-6}
    return problem, options["sigma"], solve(problem, start, solver=solver, **options)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
@pytest.mark.parametrize("solver", ["anderson", "lbfgs", "auto"])
def test_slow_convergence_takes_a_third_of_the_passes(alpha, solver):
    problem, sigma, plain = passes_near_the_last_transition(alpha, "em")
    *_, fast = passes_near_the_last_transition(alpha, solver)
    assert plain.n_iter > 100
    assert fast.stop_reason == "tol"
    assert 3 * fast.n_iter < plain.n_iter
    objective = [problem.statistics(s.centers, sigma).objective for s in (plain, fast)]
    assert objective[1] <= objective[0] + 1e-9 * abs(objective[0])


@alphas
def test_the_solvers_agree_on_the_fixed_point(alpha):
    sigma = {1.0: 0.5, 1.5: 0.8, 2.0: 0.8, 1.2: 0.7}[alpha]
    problem, *_, expected = run(alpha, sigma, tol=0.0, max_iter=100_000)
    for solver in ("anderson", "lbfgs"):
        *_, solution = run(alpha, sigma, solver=solver, tol=1e-9, max_iter=10_000)
        left = np.linalg.norm(solution.centers - expected.centers)
        assert left <= 1e-8 * problem.spread
        assert len(solution.objective_path) == solution.n_iter


@pytest.mark.parametrize(("alpha", "sigma"), [(1.0, 0.0), (1.5, 0.0), (1.5, 1e-4), (2.0, 1e-4)])
def test_where_all_rows_are_hard_the_steps_are_those_of_kmeans(alpha, sigma):
    X = np.random.RandomState(0).uniform(size=(400, 2))
    *_, plain = run(alpha, sigma, X=X, n_clusters=12)
    assert plain.n_iter > 8
    for solver in ("anderson", "auto"):
        *_, other = run(alpha, sigma, solver=solver, X=X, n_clusters=12)
        np.testing.assert_array_equal(other.centers, plain.centers)
        assert other.objective_path == plain.objective_path


class Rugged:
    """A problem whose free energy is that of a real one, but high wherever EM would not go."""

    def __init__(self, problem, allowed):
        self.problem = problem
        self.allowed = allowed
        self.n_refused = 0

    def __getattr__(self, name):
        return getattr(self.problem, name)

    def statistics(self, centers, sigma):
        statistics = self.problem.statistics(centers, sigma)
        if any(np.array_equal(centers, known) for known in self.allowed):
            self.allowed.append(update_centers(self.problem, statistics, centers, sigma))
            return statistics
        self.n_refused += 1
        return statistics._replace(objective=statistics.objective + 1e3)


def test_what_lowers_the_objective_too_little_is_discarded_for_one_pass():
    problem, start, sigma, plain = run(1.0, 1.0, tol=1e-6)
    rugged = Rugged(problem, [start])
    solution = solve(rugged, start, solver="anderson", sigma=sigma, max_iter=1000, tol=1e-6)
    assert rugged.n_refused > 3
    assert solution.stop_reason == "tol"
    assert np.linalg.norm(solution.centers - plain.centers) <= 1e-6 * problem.spread
    assert solution.n_iter <= 1.5 * plain.n_iter
    path = np.array(solution.objective_path)
    assert (path[1:] == path[:-1]).sum() >= rugged.n_refused
    assert (np.diff(path) <= 0.0).all()


@pytest.mark.parametrize(("factor", "proposed"), [(0.9, True), (0.9999, False)])
def test_an_extrapolation_beyond_the_data_is_not_tried(factor, proposed):
    """It would land at shift / (1 - factor), here 1e3 times the spread, and might overflow."""
    anderson = _Anderson(SimpleNamespace(spread=1.0, dtype=np.float64), (1, 1), np.inf)
    statistics = SimpleNamespace(objective=1.0, inertia=2.0, mass=np.ones(1))
    centers = np.zeros((1, 1))
    for shift in (0.1, 0.1 * factor):
        plain = centers + shift
        found, bound = anderson.propose(centers, plain, statistics, [factor, factor])
        last, centers = plain, plain
    if proposed:
        np.testing.assert_allclose(found, 0.1 / (1 - factor), rtol=1e-6)
        assert bound < 1.0
    else:
        np.testing.assert_array_equal(found, last)
        assert bound == np.inf


def test_extrapolation_is_that_of_the_last_differences_however_many_there_were():
    random = np.random.RandomState(0)
    shape = (4, 3)
    factors, mass = random.uniform(0.6, 0.9, shape), random.uniform(1.0, 2.0, 4)
    anderson = _Anderson(SimpleNamespace(spread=10.0, dtype=np.float64), shape, np.inf)
    statistics = SimpleNamespace(objective=1.0, inertia=2.0, mass=mass)
    centers = random.normal(size=shape)
    plains, shifts = [], []
    for n_steps in range(1, 13):
        plain = factors * centers
        found, _ = anderson.propose(centers, plain, statistics, [0.8, 0.8])
        plains.append(plain)
        shifts.append(plain - centers)
        if n_steps > 1:
            differences = np.diff(shifts, axis=0)[-5:].reshape(-1, 12)
            weighted = differences * np.repeat(mass, 3)
            gram = weighted @ differences.T
            gram += 1e-10 * gram.trace() * np.eye(len(gram))
            part = np.linalg.solve(gram, weighted @ shifts[-1].ravel())
            expected = plain.ravel() - part @ np.diff(plains, axis=0)[-5:].reshape(-1, 12)
            np.testing.assert_allclose(found.ravel(), expected, rtol=0, atol=1e-7)
        centers = plain + 0.01 * random.normal(size=shape)


def test_discarded_centres_are_reported_as_such():
    problem, start, sigma, _ = run(1.0, 1.0, tol=1e-6)
    rugged = Rugged(problem, [start])
    reports = []
    options = {"sigma": sigma, "max_iter": 1000, "tol": 1e-6}
    solve(rugged, start, solver="anderson", report=lambda *r: reports.append(r), **options)
    discarded = [found.objective for _, found, shift, _ in reports if shift is None]
    assert len(discarded) == rugged.n_refused
    assert min(discarded) > 1e3 - 1.0


def test_lbfgs_counts_every_pass():
    problem, start, sigma, _ = run(1.5, 0.8)
    for max_iter in (1, 2, 3, 7):
        passes = []
        counted = Counted(problem, passes)
        solution = solve(counted, start, solver="lbfgs", sigma=sigma, max_iter=max_iter, tol=0.0)
        assert solution.n_iter == max_iter == len(passes)


class Counted:
    def __init__(self, problem, passes):
        self.problem = problem
        self.passes = passes

    def __getattr__(self, name):
        return getattr(self.problem, name)

    def statistics(self, centers, sigma):
        self.passes.append(centers)
        return self.problem.statistics(centers, sigma)


def test_an_ended_budget_returns_the_plain_step():
    """Not the proposal that no pass has seen."""
    problem, start, sigma, _ = run(1.0, 0.8)
    for max_iter in range(1, 30):
        options = {"solver": "anderson", "max_iter": max_iter, "tol": 0.0}
        solution = solve(problem, start, sigma=sigma, **options)
        objective = problem.statistics(solution.centers, sigma).objective
        assert objective <= solution.objective_path[-1] * (1 + 1e-14)


@pytest.mark.parametrize("solver", ["anderson", "lbfgs"])
def test_an_empty_cluster_is_relocated_by_every_solver(solver):
    X = reference.blobs(3, n_samples=90, std=0.3, seed=0)
    problem = problem_for_fit(X, None, 1.5, resident=True)
    start = problem.into_frame(np.vstack([reference.spread_start(X, 2), [[1e3, 1e3]]]))
    solution = solve(problem, start, solver=solver, sigma=0.1, max_iter=1000, tol=1e-6)
    assert (problem.statistics(solution.centers, 0.1).mass > 1.0).all()
    assert solution.stop_reason == "tol"

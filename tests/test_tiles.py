"""Passes that leave out far centres: the same numbers, whatever the tiles."""

import numpy as np
import pytest

import reference
from models import fit_quietly, model
from sklearn_softkmeans import _tiles
from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._tiles import TiledProblem, tiled

every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
X = reference.blobs(40, n_samples=3000, n_features=3, std=0.5, box=10.0, seed=0)
START = reference.spread_start(X, 40)


@pytest.fixture
def always(monkeypatch):
    """Tiles for any number of clusters and rows, however little they save."""
    monkeypatch.setattr(_tiles, "_FEW_CLUSTERS", 1)
    monkeypatch.setattr(_tiles, "_FEW_PAIRS", 1)
    monkeypatch.setattr(_tiles, "_FEW_ROWS", 1)
    monkeypatch.setattr(_tiles, "_LARGE_SHARE", np.inf)


def both(alpha, rows=X, weights=None, start=START):
    problem = problem_for_fit(rows, weights, alpha, resident=True)
    centers = problem.into_frame(start)
    ids = np.arange(len(rows)) if weights is None else np.flatnonzero(weights)
    return problem, TiledProblem(problem, ids, centers), centers


def assert_same(found, expected, rounding):
    scale = np.abs(expected.sums).max()
    np.testing.assert_allclose(found.sums, expected.sums, rtol=0, atol=rounding * scale)
    mass = expected.mass.max()
    np.testing.assert_allclose(found.mass, expected.mass, rtol=0, atol=rounding * mass)
    # Of equal rows no distance is left, where the square of a rounding error may be.
    size = rounding * (abs(expected.objective) + expected.inertia) + 1e-28
    assert found.objective == pytest.approx(expected.objective, rel=0, abs=size)
    assert found.inertia == pytest.approx(expected.inertia, rel=rounding)


def cubes(random):
    """200 rows around each of 27 points that lie far apart, and the points."""
    middles = 10.0 * np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(27, 3)
    return np.repeat(middles, 200, axis=0) + random.uniform(-1.0, 1.0, (5400, 3)), middles


# ------------------------------------------------------------------------- the same numbers


@every_alpha
@dtypes
@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.5, 3.0])
def test_a_pass_over_tiles_is_the_full_pass_to_rounding(sigma, dtype, alpha):
    problem, grouped, centers = both(alpha, X.astype(dtype))
    sigma = sigma / problem.unit
    rounding = 1e-12 if dtype == np.float64 else 3e-6
    assert_same(grouped.statistics(centers, sigma), problem.statistics(centers, sigma), rounding)


@pytest.mark.parametrize("dtype, sigma", [(np.float64, 0.0), (np.float64, 0.5), (np.float32, 0.5)])
def test_rows_of_many_features_lie_in_tiles_by_rows(dtype, sigma):
    random = np.random.RandomState(0)
    rows = np.hstack([X, 0.1 * random.normal(size=(len(X), 37))]).astype(dtype)
    problem, grouped, centers = both(1.0, rows, start=reference.spread_start(rows, 40))
    sigma = sigma / problem.unit
    rounding = 1e-12 if dtype == np.float64 else 3e-6
    assert_same(grouped.statistics(centers, sigma), problem.statistics(centers, sigma), rounding)


@every_alpha
def test_tiles_serve_centres_that_they_were_not_made_for(alpha):
    problem, grouped, _ = both(alpha)
    for seed in range(3):
        others = problem.into_frame(np.random.RandomState(seed).normal(scale=8.0, size=(55, 3)))
        for sigma in (0.0, 0.3):
            found, expected = (p.statistics(others, sigma) for p in (grouped, problem))
            assert_same(found, expected, 1e-12)
        grouped.worthwhile = True


@every_alpha
@dtypes
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_with_a_single_near_centre_count_by_their_mean(weighted, dtype, alpha):
    """No pair of a row and a centre is computed, wherever in their clusters the centres are."""
    random = np.random.RandomState(0)
    rows, middles = cubes(random)
    weights = random.uniform(0.5, 2.0, 5400) if weighted else None
    problem, grouped, centers = both(alpha, rows.astype(dtype), weights, start=middles)
    rounding = 1e-12 if dtype == np.float64 else 3e-6
    for sigma in (0.0, 0.1 / problem.unit):
        moved = centers + random.uniform(-0.5, 0.5, centers.shape) / problem.unit
        assert_same(grouped.statistics(moved, sigma), problem.statistics(moved, sigma), rounding)
        assert grouped._work == 27 * moved.size  # finding the centres that are near


def test_weights_that_underflow_beside_others_are_none():
    rows, middles = cubes(np.random.RandomState(0))
    weights = np.full(len(rows), 1e-320)
    weights[::200] = 1e300
    problem, grouped, centers = both(1.5, rows, weights, start=middles)
    assert (grouped._tiles.mass == 0.0).any()
    for sigma in (0.0, 0.05):
        found, expected = (p.statistics(centers, sigma) for p in (grouped, problem))
        assert_same(found, expected, 1e-12)


@every_alpha
def test_weights_count_and_rows_without_weight_may_lie_anywhere(alpha):
    rows = X.copy()
    weights = np.random.RandomState(1).uniform(0.1, 9.0, size=len(X))
    weights[::7] = 0.0
    rows[::14] = 1e200
    problem, grouped, centers = both(alpha, rows, weights)
    assert grouped.n_samples == (weights > 0).sum()
    for sigma in (0.0, 0.4):
        found, expected = (p.statistics(centers, sigma) for p in (grouped, problem))
        assert_same(found, expected, 1e-12)


def test_repeated_rows_ties_and_empty_groups():
    rows = np.repeat(np.arange(12.0).reshape(6, 2), 150, axis=0)
    start = np.vstack([rows[::150], rows[:1], rows[:1] + 1.0, [[500.0, 500.0]]])
    problem, grouped, centers = both(1.5, rows, start=start)
    for sigma in (0.0, 1.0):
        found, expected = (p.statistics(centers, sigma) for p in (grouped, problem))
        assert_same(found, expected, 1e-12)


def test_an_offset_costs_no_digits():
    problem, grouped, centers = both(1.0, X + 1e7, start=START + 1e7)
    found, expected = (p.statistics(centers, 0.4) for p in (grouped, problem))
    assert_same(found, expected, 1e-11)


@dtypes
def test_any_number_of_threads_gives_the_same_bits(dtype, monkeypatch):
    _, grouped, centers = both(1.5, X.astype(dtype))
    results = []
    for n_threads in (1, 2, 3, 8):
        monkeypatch.setattr("sklearn_softkmeans._jit._n_threads", lambda n=n_threads: n)
        results.append(grouped.statistics(centers, 0.02))
        assert grouped.worthwhile
    for other in results[1:]:
        np.testing.assert_array_equal(other.sums, results[0].sums)
        assert other.objective == results[0].objective


def test_where_few_pairs_are_left_a_single_thread_takes_them(monkeypatch):
    _, grouped, centers = both(1.0)
    n_tasks = []

    def counted(n_groups, n_clusters):
        n_tasks.append(7)
        return 7

    monkeypatch.setattr(grouped, "_n_summed", counted)
    first, second = (grouped.statistics(centers, 0.01) for _ in range(2))
    assert n_tasks == [7]
    assert_same(second, first, 1e-12)
    monkeypatch.setattr(_tiles, "SERIAL_WORK", 0)
    grouped.statistics(centers, 0.01)
    assert n_tasks == [7, 7]


def test_squares_that_overflow_are_an_error():
    _, grouped, centers = both(1.0)
    with pytest.raises(ValueError, match="overflow"):
        grouped.statistics(centers * 1e160, 0.0)


# ------------------------------------------------------------------------------- the tiles


def test_rows_of_a_group_share_tiles_of_at_most_the_width():
    starts, groups = _tiles._split(np.array([0, 3, 128, 129, 0, 400]))
    np.testing.assert_array_equal(starts, [0, 3, 131, 195, 260, 360, 460, 560, 660])
    np.testing.assert_array_equal(groups, [0, 0, 1, 2, 4, 4, 8])


def test_each_row_lies_within_the_radius_of_its_tile_and_radii_fall():
    _, grouped, _ = both(1.0)
    assert sorted(map(tuple, grouped.X)) == sorted(map(tuple, X))
    tiles = grouped._tiles
    for g, middle in enumerate(tiles.middles):
        own = slice(tiles.groups[g], tiles.groups[g + 1])
        assert (np.diff(tiles.radii[own]) <= 0).all()
        for t in range(own.start, own.stop):
            rows = grouped.rows_in_frame(slice(tiles.starts[t], tiles.starts[t + 1]))
            assert np.linalg.norm(rows - middle, axis=1).max() <= tiles.radii[t]


# --------------------------------------------------------------------------------- when


def test_few_clusters_or_pairs_and_rows_that_are_not_kept_stay_as_they_are(monkeypatch):
    problem, _, centers = both(1.0)
    assert tiled(problem, centers) is problem
    monkeypatch.setattr(_tiles, "_FEW_CLUSTERS", 40)
    assert tiled(problem, centers) is problem
    monkeypatch.setattr(_tiles, "_FEW_PAIRS", 40 * 3000)
    assert isinstance(tiled(problem, centers), TiledProblem)
    monkeypatch.setattr(_tiles, "_FEW_ROWS", 76)
    assert tiled(problem, centers) is problem
    monkeypatch.setattr(_tiles, "_FEW_ROWS", 75)
    assert isinstance(tiled(problem, centers), TiledProblem)
    lean = problem_for_fit(X, None, 1.0, resident=False)
    assert tiled(lean, centers) is lean


def test_where_centres_are_close_against_the_tiles_nothing_is_gained(monkeypatch):
    monkeypatch.setattr(_tiles, "_FEW_PAIRS", 1)
    monkeypatch.setattr(_tiles, "_FEW_CLUSTERS", 1)
    rows = np.random.RandomState(0).normal(size=(2000, 30))
    problem = problem_for_fit(rows, None, 1.0, resident=True)
    assert tiled(problem, problem.into_frame(rows[:50])) is problem


def test_a_periodic_mask_leaves_rows_to_decide_by(monkeypatch):
    """The sample is taken from the rows that count."""
    monkeypatch.setattr(_tiles, "_FEW_CLUSTERS", 40)
    monkeypatch.setattr(_tiles, "_FEW_PAIRS", 1)
    monkeypatch.setattr(_tiles, "_FEW_ROWS", 1)
    monkeypatch.setattr(_tiles, "_SAMPLE", 1000)
    weights = np.ones(len(X))
    weights[::3] = 0.0
    problem = problem_for_fit(X, weights, 1.0, resident=True)
    grouped = tiled(problem, problem.into_frame(START))
    assert isinstance(grouped, TiledProblem)
    assert grouped.n_samples == 2000


def test_passes_for_single_rows_leave_the_tiles_as_they_are():
    _, grouped, centers = both(1.5)
    first = grouped.statistics(centers, 0.05)
    objective = grouped.row_objective(centers, 0.05)
    assert objective.sum() == pytest.approx(first.objective, rel=1e-10)
    assert grouped._blocks == {}
    np.testing.assert_array_equal(grouped.statistics(centers, 0.05).sums, first.sums)


def test_at_a_high_temperature_passes_become_full_ones():
    problem, grouped, centers = both(1.0)
    first = grouped.statistics(centers, 5.0)
    assert not grouped.worthwhile
    second = grouped.statistics(centers, 5.0)
    for found in (first, second):
        assert_same(found, problem.statistics(centers, 5.0), 1e-12)


@every_alpha
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sigma", ["auto", 0.0])
def test_a_fit_with_tiles_is_the_fit_without(sigma, weighted, alpha, request):
    weights = reference.weights(len(X)) if weighted else None
    estimator = model(alpha, 40, sigma=sigma, init=START, tol=1e-7, solver="em", max_iter=3000)
    expected = fit_quietly(estimator, X, weights)
    expected = expected.cluster_centers_, expected.labels_, expected.objective_, expected.n_iter_
    request.getfixturevalue("always")
    fitted = fit_quietly(estimator, X, weights)
    np.testing.assert_allclose(fitted.cluster_centers_, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(fitted.labels_, expected[1])
    assert fitted.objective_ == pytest.approx(expected[2], rel=1e-12)
    assert fitted.n_iter_ == expected[3]


@pytest.mark.parametrize("sigma", ["auto", 0.0])
def test_a_row_of_hardly_any_weight_may_lie_beyond_single_precision(sigma, always):
    rows = (1e-30 * X).astype(np.float32)
    rows[5] = 1e15
    weights = np.ones(len(X))
    weights[5] = 1e-100
    fits = [
        fit_quietly(model(1.0, 40, sigma=sigma, init=1e-30 * START, copy_x=copy_x), rows, weights)
        for copy_x in (True, False)
    ]
    scale = 1e-30 * np.abs(X).max()
    centers = [fitted.cluster_centers_ for fitted in fits]
    np.testing.assert_allclose(centers[0], centers[1], rtol=0, atol=1e-3 * scale)
    assert fits[0].inertia_ == pytest.approx(fits[1].inertia_, rel=1e-3, abs=0.0)


def test_blocks_in_single_precision_are_finite_and_norms_tell():
    _, grouped, _ = both(1.0, X.astype(np.float32))
    grouped.X[7] = 1e38
    grouped.unit *= 1e-3
    rows = grouped._rows_in_tiles(np.dtype(np.float32))
    assert np.isfinite(rows.blocks).all()
    assert np.isinf(rows.norms).sum() == 1


def test_rows_whose_weight_underflows_beside_others_may_lie_anywhere(always, monkeypatch):
    monkeypatch.setattr(_tiles, "_SAMPLE", 1000)
    rows = X.copy()
    rows[4::8] = 1e200
    weights = np.full(len(X), 1e290)
    weights[4::8] = 1e-300
    for sigma in ("auto", 0.0):
        estimator = model(1.5, 40, sigma=sigma, init=START)
        fitted = fit_quietly(estimator, rows, weights)
        rest = fit_quietly(estimator, np.delete(rows, np.s_[4::8], axis=0), 1e290 * np.ones(2625))
        assert fitted.inertia_ == pytest.approx(rest.inertia_, rel=1e-9)


def test_an_empty_cluster_is_relocated(always):
    start = np.vstack([START[:39], [[1e3, 1e3, 1e3]]])
    fitted = fit_quietly(model(1.5, 40, sigma=0.1, init=start), X)
    assert (fitted.cluster_mass_ > 0).all()

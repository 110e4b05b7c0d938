"""Centres from sums, centres without mass, and what is read off the data."""

import decimal
from decimal import Decimal

import numpy as np
import pytest
from scipy import sparse

import reference
from models import fit_quietly
from sklearn_softkmeans import SoftKMeans
from sklearn_softkmeans._centers import (
    _gap_limit,
    _largest_variance,
    _log_space_means,
    _quantile,
    auto_sigma,
    count_distinct,
    problem_for_fit,
    update_centers,
)

X = reference.blobs(4, n_samples=120, n_features=3, std=1.0, box=6.0, seed=2)
WEIGHT = reference.weights(len(X))

containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array])
alphas = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.2])


def make_problem(rows, weight=None, alpha=1.0):
    return problem_for_fit(rows, weight, alpha, resident=False)


def step(rows, centers, sigma, alpha=1.0, weight=None):
    """Centres after one E-step and M-step, all in the unit of the rows."""
    problem = make_problem(rows, weight, alpha)
    inside, sigma = problem.into_frame(centers), sigma / problem.unit
    statistics = problem.statistics(inside, sigma)
    return problem.out_of_frame(update_centers(problem, statistics, inside, sigma))


# ------------------------------------------------------------------------ frame of a fit


@containers
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("factor, offset", [(1, 0), (1e-3, 1e3), (1e100, 0), (1e-140, 0)])
def test_the_frame_has_the_mean_and_the_spread_of_the_data(factor, offset, weight, container):
    rows = factor * X + offset
    problem = make_problem(container(rows), weight)
    mean = np.average(rows, axis=0, weights=weight)
    variance = np.average(((rows - mean) / factor) ** 2, axis=0, weights=weight).sum()
    assert problem.spread * problem.unit == pytest.approx(np.sqrt(variance) * factor, rel=1e-9)
    assert 0.5 <= problem.spread <= 1
    if container is np.array:
        np.testing.assert_allclose(problem.origin, mean, rtol=1e-12)


@containers
@pytest.mark.parametrize("factor", [1e-200, 1e-300])
def test_squares_that_underflow_do_not_hide_the_spread(factor, container):
    problem = make_problem(container(factor * X))
    expected = np.sqrt(X.var(axis=0).sum())
    assert problem.spread * problem.unit / factor == pytest.approx(expected, rel=1e-3)


@containers
def test_single_precision_data_up_to_its_largest_number(container):
    rows = (X * (3e38 / np.abs(X).max())).astype(np.float32)
    problem = make_problem(container(rows))
    expected = np.sqrt(rows.astype(np.float64).var(axis=0).sum())
    assert problem.spread * problem.unit == pytest.approx(expected, rel=1e-9)


@containers
@pytest.mark.parametrize("value", [0.0, 7.25, -1e-300])
def test_constant_data_have_no_spread(value, container):
    problem = make_problem(container(np.full((5, 3), value)))
    assert problem.spread == 0
    assert 0 < problem.unit < np.inf


# ----------------------------------------------------------------------------- the M-step


@containers
@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_centres_move_to_the_weighted_means(weight, sigma, alpha, container):
    centers = X[[0, 1, 2, 3]] + 0.3
    if alpha > 1 or sigma == 0:
        centers = reference.lloyd_run(X, reference.spread_start(X, 4)).centers + 0.1
    found = step(container(X), centers, sigma, alpha, weight)
    expected = reference.em_step(X, centers, sigma, alpha, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def big_exponent_mean(rows, centers, j, sigma, weight):
    """Mean of cluster j under softmax responsibilities of any size."""
    with decimal.localcontext(prec=40, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX):
        shares = []
        for x, w in zip(rows.tolist(), weight.tolist(), strict=True):
            powers = []
            for c in centers.tolist():
                d = sum((Decimal(a) - Decimal(b)) ** 2 for a, b in zip(x, c, strict=True))
                powers.append((-d / (2 * Decimal(sigma) ** 2)).exp())
            shares.append(Decimal(w) * powers[j] / sum(powers))
        total = sum(shares)
        columns = zip(*rows.tolist(), strict=True)
        return [
            float(sum(s * Decimal(x) for s, x in zip(shares, column, strict=True)) / total)
            for column in columns
        ]


@containers
@pytest.mark.parametrize("distance", [10.0, 1e3, 1e6])
@pytest.mark.parametrize("sigma", [0.05, 1.0, 20.0])
def test_a_starved_softmax_centre_has_its_exact_mean(sigma, distance, container):
    """Its responsibilities are down to exp(-1e14), and their ratios still matter."""
    rows, weight = X[:25], WEIGHT[:25].copy()
    weight[3] = 0.0
    weight[4] = 1e-300
    centers = np.vstack([rows[:3], [[distance, -distance, 2 * distance]]])
    found = step(container(rows), centers, sigma, 1.0, weight)[3]
    expected = big_exponent_mean(rows, centers, 3, sigma, weight)
    # The exponent itself has a rounding error.
    rounding = 1e-15 * (distance / sigma) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=min(1e-9 + 30 * rounding, 1e-2))


@containers
def test_means_in_log_space_equal_plain_means(container):
    """Where nothing underflows."""
    problem = make_problem(container(X), WEIGHT)
    centers = problem.into_frame(X[:4] + 0.2)
    sigma = 0.4
    means = _log_space_means(problem, centers, np.arange(4), sigma)
    statistics = problem.statistics(centers, sigma)
    np.testing.assert_allclose(means, statistics.sums / statistics.mass[:, None], atol=1e-9)


@pytest.mark.parametrize("sigma", [1e-100, 1e-150, 1e-155, 1e-200, 1e-300])
def test_a_starved_centre_at_any_small_sigma_goes_to_the_row_it_is_second_best_for(sigma):
    """The limit of small sigma: the row that loses least by belonging to it."""
    rows = X[:30]
    centers = np.vstack([rows[:3], [[1e3, 1e3, 1e3]]])
    found = step(rows, centers, sigma)[3]
    sq_distances = reference.sq_distances(rows, centers)
    nearest = (sq_distances[:, 3] - sq_distances.min(axis=1)).argmin()
    np.testing.assert_allclose(found, rows[nearest], rtol=1e-12)


# --------------------------------------------------------------------------- dead centres


@containers
@alphas
@pytest.mark.parametrize("n_dead", [1, 2, 5])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_dead_centres_go_to_the_rows_that_are_served_worst(weight, n_dead, alpha, container):
    centers = np.vstack([X[:3], np.full((n_dead, 3), 1e4) * np.arange(1, n_dead + 1)[:, None]])
    found = step(container(X), centers, 0.0, alpha, weight)[3:]
    badness = reference.sq_distances(X, centers).min(axis=1)
    badness = badness if weight is None else weight * badness
    worst = np.argsort(-badness)[:n_dead]
    np.testing.assert_allclose(found, X[worst], rtol=1e-9)


@containers
@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.2])
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("seed", range(6))
def test_relocation_never_raises_the_free_energy(seed, sigma, alpha, container):
    random = np.random.RandomState(seed)
    rows = random.normal(size=(30, 2)) * [1, 4]
    weight = random.uniform(0, 3, size=30) ** 3
    n_dead = 1 + seed % 3
    near = rows[: 1 + seed % 4] + random.normal(0, 0.5, size=(1 + seed % 4, 2))
    centers = np.vstack([near, 1e3 * (1 + random.uniform(size=(n_dead, 2)))])
    moved = step(container(rows), centers, sigma, alpha, weight)
    assert np.abs(moved).max() < 100
    before = reference.free_energy(rows, centers, sigma, alpha, weight)
    after = reference.free_energy(rows, moved, sigma, alpha, weight)
    assert after <= before + 1e-10 * abs(before)


def test_a_heavy_row_that_gains_by_being_shared_stays_shared():
    """Its own centre is worth 0 to it, and without it the other two centres move away."""
    rows = np.array([[0.0], [-5.0], [5.0]])
    weight = np.array([1e4, 1.0, 1.0])
    centers = np.array([[-0.5], [0.5], [1e3]])
    moved = step(rows, centers, 2.0, 1.5, weight)
    before = reference.free_energy(rows, centers, 2.0, 1.5, weight)
    assert before < 0
    assert reference.free_energy(rows, moved, 2.0, 1.5, weight) <= before


def test_a_cluster_that_loses_its_only_row_keeps_its_centre():
    """A centre far from everything but one row, which a dead centre takes."""
    rows = np.array([[0.0], [0.1], [10.0]])
    moved = step(rows, np.array([[0.0], [14.0], [1e6]]), 0.0)
    np.testing.assert_allclose(moved, [[0.05], [14.0], [10.0]], rtol=1e-12)


def test_rounding_errors_of_a_lost_mass_are_no_mass():
    """Three rows leave a cluster in another order than they came."""
    weight = np.array([1.0, 1.0, 0.1, 0.2, 0.3])
    assert sum(weight[2:]) != sum(weight[:1:-1])
    rows = np.array([[0.0], [0.1], [10.0], [10.1], [10.2]])
    moved = step(rows, np.array([[0.0], [19.0], [1e6], [2e6], [3e6]]), 0.0, 1.0, weight)
    np.testing.assert_allclose(moved, [[0.05], [19.0], [10.2], [10.1], [10.0]], rtol=1e-12)


@containers
@alphas
def test_more_centres_than_different_rows(alpha, container):
    """What cannot be relocated stays where it is."""
    rows = np.repeat([[0.0, 0.0], [2.0, 0.0]], 3, axis=0)
    centers = np.array([[0.0, 0.0], [2.0, 0.0], [50.0, 0.0], [60.0, 0.0]])
    moved = step(container(rows), centers, 0.0, alpha)
    np.testing.assert_allclose(moved, centers)


def test_one_of_two_dead_centres_finds_a_row():
    rows = np.array([[0.0], [0.0], [2.0]])
    moved = step(rows, np.array([[0.0], [50.0], [60.0]]), 0.0)
    np.testing.assert_allclose(moved, [[0.0], [2.0], [60.0]])


# --------------------------------------------------------------------------- sigma="auto"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_weighted_quantile_is_that_of_repetitions(seed, share):
    random = np.random.RandomState(seed)
    values, times = random.normal(size=20).round(1), random.randint(0, 6, size=20)
    found = _quantile(values[times > 0], times[times > 0].astype(float), share)
    repeated = np.repeat(values, times)
    assert found == np.quantile(repeated, share, method="inverted_cdf")
    assert found == _quantile(repeated, np.ones(len(repeated)), share)
    assert found == _quantile(repeated, None, share)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_the_limit_of_gaps_is_the_smallest_of_all_quantiles(seed, weighted):
    random = np.random.RandomState(seed)
    centers = random.normal(size=(12, 2)) * [1.0, 3.0]
    rows = np.repeat(centers, random.randint(1, 40, size=12), axis=0)
    rows = rows + random.normal(size=rows.shape) * 0.4
    weight = random.randint(1, 4, size=len(rows)).astype(float) if weighted else None
    problem = make_problem(rows, weight)
    sq_distances = np.sort(((rows[:, None] - centers) ** 2).sum(axis=2), axis=1)
    labels = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    times = np.ones(len(rows), int) if weight is None else weight.astype(int)
    gaps, labels = (np.repeat(a, times) for a in (sq_distances[:, 1] - sq_distances[:, 0], labels))
    medians = [np.quantile(gaps[labels == j], 0.5, method="inverted_cdf") for j in set(labels)]
    expected = min(np.quantile(gaps, 0.1, method="inverted_cdf"), 0.25 * min(medians))
    found = _gap_limit(problem, problem.into_frame(centers)) * problem.unit**2
    assert found == pytest.approx(expected, rel=1e-9)


@containers
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_features", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_the_largest_variance_equals_numpy(offset, n_features, weighted, container):
    random = np.random.RandomState(0)
    rows = offset + random.normal(size=(70, n_features)) @ random.normal(size=(n_features,) * 2)
    weight = reference.weights(70) if weighted else None
    problem = make_problem(container(rows), weight)
    covariance = np.atleast_2d(np.cov(rows, rowvar=False, bias=True, aweights=weight))
    found = _largest_variance(problem) * problem.unit**2
    assert found == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=1e-9)


def test_the_largest_variance_of_many_rows_is_summed_in_blocks():
    rows = np.random.RandomState(0).normal(size=(5000, 3)) * [1, 2, 3]
    problem = make_problem(rows)
    expected = np.linalg.eigvalsh(np.cov(rows, rowvar=False, bias=True))[-1]
    assert _largest_variance(problem) * problem.unit**2 == pytest.approx(expected, rel=1e-10)


def auto(rows, centers, weight=None, alpha=1.0):
    problem = make_problem(rows, weight, alpha)
    return auto_sigma(problem, problem.into_frame(centers)) * problem.unit


def auto_reference(rows, centers, weight):
    """The three limits of the docstring, of rows after one step of K-means."""
    centers = reference.lloyd_step(rows, centers, weight)
    gaps = reference.gaps(rows, centers)
    labels = reference.sq_distances(rows, centers).argmin(axis=1)

    def quantile(chosen, share):
        repeated = np.repeat(gaps[chosen], weight[chosen])
        return np.quantile(repeated, share, method="inverted_cdf")

    medians = [quantile(labels == j, 0.5) for j in np.unique(labels)]
    covariance = np.cov(rows, rowvar=False, bias=True, fweights=weight)
    variance = np.linalg.eigvalsh(covariance)[-1]
    return 0.5 * np.sqrt(min(quantile(gaps >= 0, 0.1), 0.25 * min(medians), variance))


@containers
@alphas
@pytest.mark.parametrize("rows", [X, np.random.RandomState(0).normal(size=(120, 3))])
@pytest.mark.parametrize("seed", range(5))
def test_auto_sigma_is_the_smallest_of_its_three_limits(seed, rows, alpha, container):
    random = np.random.RandomState(seed)
    weight = random.randint(1, 5, size=120)
    centers = reference.spread_start(rows, 2 + seed, seed)
    found = auto(container(rows), centers, weight.astype(float), alpha)
    assert found == pytest.approx(auto_reference(rows, centers, weight), rel=1e-9)


def test_two_tight_clusters_limit_sigma_by_their_distance():
    rows = np.r_[np.zeros(50), np.full(50, 0.2), np.full(100, 30.0)][:, None]
    assert auto(rows, np.array([[0.0], [0.2], [30.0]])) == pytest.approx(0.25 * 0.2)


def test_the_first_principal_axis_limits_sigma():
    rows = np.r_[np.full(50, -1.0), np.full(50, 1.0)][:, None] * [1.0, 0.0]
    assert auto(rows, np.array([[0.0, 0.0]])) == pytest.approx(0.5)
    far = np.array([[-1.0, 0.0], [1.0, 0.0]])
    assert auto(rows, far) == pytest.approx(0.5)


@containers
def test_equal_centres_count_once(container):
    centers = reference.spread_start(X, 3)
    lloyd = reference.lloyd_run(X, centers).centers
    expected = auto(container(X), lloyd)
    assert auto(container(X), lloyd[[0, 1, 2, 2, 0]]) <= expected
    problem = make_problem(container(X))
    inside = problem.into_frame(lloyd)
    limit = _gap_limit(problem, inside)
    assert _gap_limit(problem, inside[[0, 1, 2, 2, 0]]) == limit
    assert _gap_limit(problem, inside[[1, 1]]) == np.inf


def test_rows_halfway_between_all_centres_set_no_limit():
    rows = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 0.5]])
    problem = make_problem(rows)
    assert _gap_limit(problem, problem.into_frame([[1.0, 0.0], [-1.0, 0.0]])) == np.inf


@containers
@pytest.mark.parametrize("value", [0.0, 4.0])
def test_constant_data_have_a_small_positive_sigma(value, container):
    for n_clusters in (1, 3):
        found = auto(container(np.full((4, 2), value)), np.full((n_clusters, 2), value))
        assert 0 < found <= 1e-10


def test_rows_without_weight_do_not_count():
    outliers = np.random.RandomState(0).uniform(-99, 99, size=(40, 3))
    centers = reference.spread_start(X, 3)
    weight = np.r_[np.ones(120), np.zeros(40)]
    found = auto(np.vstack([X, outliers]), centers, weight)
    assert found == pytest.approx(auto(X, centers), rel=1e-9)


def test_a_centre_without_weight_sets_no_limit():
    """It stays where it is; the gap of its only row, of no weight, would be a small one."""
    rows = np.array([[0.0], [0.0], [2.0], [2.0], [1.69]])
    centers = np.array([[0.0], [2.0], [1.4]])
    found = auto(rows, centers, np.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    assert found == pytest.approx(auto(rows[:4], centers), rel=1e-12)


# ------------------------------------------------------------------------- distinct centres


def test_centres_within_the_distance_count_once():
    centers = np.array([[0.0, 0], [0.3, 0], [5, 0], [5, 0], [0, 9]])
    mass = np.ones(5)
    assert count_distinct(centers, mass, 0.0) == 4
    assert count_distinct(centers, mass, 0.29) == 4
    assert count_distinct(centers, mass, 0.3) == 3
    assert count_distinct(centers, mass, 50.0) == 1


def test_a_chain_of_near_centres_is_one():
    assert count_distinct(np.arange(6.0)[:, None], np.ones(6), 1.0) == 1


def test_centres_without_mass_do_not_count():
    centers = np.arange(4.0)[:, None]
    assert count_distinct(centers, np.array([1.0, 0.0, 1e-300, 0.0]), 0.5) == 2


@pytest.mark.parametrize("sigma, weight", [("auto", [1.0, 1.7e308]), (1e-300, [1.0, 1e-160])])
def test_a_starved_centre_has_its_mean_where_its_exponents_overflow(sigma, weight):
    rows = np.array([[0.0], [1.0]])
    model = SoftKMeans(2, sigma=sigma, max_iter=1, random_state=0)
    fitted = fit_quietly(model, rows, weight)
    np.testing.assert_array_equal(np.sort(fitted.cluster_centers_.ravel()), [0.0, 1.0])


@pytest.mark.parametrize("far", [1e20, 1e60, -1e100])
def test_a_starved_centre_far_from_all_rows_comes_to_them_at_any_small_sigma(far):
    rows = np.array([[0.0], [1.0]])
    model = SoftKMeans(2, sigma=1e-300, init=[[0.0], [far]], max_iter=1)
    centers = fit_quietly(model, rows).cluster_centers_
    assert ((centers >= 0) & (centers <= 1)).all()

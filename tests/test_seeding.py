"""Initial centres: the canonical order of the rows, and the draws."""

import numpy as np
import pytest
from scipy import sparse

import reference
from sklearn_softkmeans._assignment import Problem
from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._seeding import _canonical_order, _draw, initial_centers

containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array])
inits = pytest.mark.parametrize("init", ["k-means++", "random"])
X = reference.blobs(4, n_samples=90, n_features=3, seed=1)


def make_problem(rows, weight=None):
    return problem_for_fit(rows, weight, 1.0, resident=False)


def start(rows, n_clusters, init, seed=0, weight=None):
    """Initial centres in the unit of X."""
    problem = make_problem(rows, weight)
    centers = initial_centers(problem, n_clusters, init, np.random.RandomState(seed))
    return problem.out_of_frame(centers)


# ------------------------------------------------------------------------- canonical order

REPEATED = np.repeat(X[:12], [1, 3, 2, 1, 1, 4, 1, 1, 2, 1, 1, 1], axis=0)
# Projections of these rows are equal to rounding, though their contents are not.
TINY_BESIDE_HUGE = np.array([[1e20, 1], [1e20, 3], [1e20, 2], [1e20, 1], [-1e20, 2], [-1e20, 1]])
LAST_BIT = np.array([[9.0, 1], [9, 1 + 2**-52], [-9, 1], [-9, 1 + 2**-52], [0, -90], [9, 1]])
ORDERED = {"repeated": REPEATED, "tiny beside huge": TINY_BESIDE_HUGE, "last bit": LAST_BIT}


@containers
@pytest.mark.parametrize("name", ORDERED)
def test_the_order_depends_on_the_content_alone(name, container):
    rows = np.vstack([ORDERED[name]] * 2)
    order, repeats = _canonical_order(make_problem(rows))
    expected = rows[order]
    for seed in range(5):
        shuffled = rows[np.random.RandomState(seed).permutation(len(rows))]
        other, other_repeats = _canonical_order(make_problem(container(shuffled)))
        np.testing.assert_array_equal(shuffled[other], expected)
        np.testing.assert_array_equal(other_repeats, repeats)


@containers
@pytest.mark.parametrize("name", ORDERED)
def test_repeats_are_the_rows_that_equal_the_one_before(name, container):
    rows = np.vstack([ORDERED[name]] * 2)
    order, repeats = _canonical_order(make_problem(container(rows)))
    np.testing.assert_array_equal(np.sort(order), np.arange(len(rows)))
    same = (rows[order][1:] == rows[order][:-1]).all(axis=1)
    np.testing.assert_array_equal(repeats, np.r_[False, same])
    assert (~repeats).sum() == len(np.unique(rows, axis=0))


@containers
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_equal_rows_are_compared_in_blocks(container, dtype):
    rows = np.repeat(np.array([[1e20, 1], [1e20, 2], [5, 6]], dtype), [1500, 1200, 1], axis=0)
    rows = rows[np.random.RandomState(0).permutation(len(rows))]
    order, repeats = _canonical_order(make_problem(container(rows)))
    assert (~repeats).sum() == 3
    np.testing.assert_array_equal(np.unique(rows[order][~repeats], axis=0), np.unique(rows, axis=0))


@containers
def test_scaling_and_translation_keep_the_order(container):
    order, repeats = _canonical_order(make_problem(container(REPEATED)))
    scaled, _ = _canonical_order(make_problem(container(2.0**40 * REPEATED)))
    np.testing.assert_array_equal(order, scaled)
    moved, moved_repeats = _canonical_order(make_problem(np.round(REPEATED, 3) + 1000.0))
    np.testing.assert_array_equal(REPEATED[order], REPEATED[moved])
    np.testing.assert_array_equal(repeats, moved_repeats)


# ----------------------------------------------------------------------------------- draws


@pytest.mark.parametrize(
    "weights",
    [[0, 0, 1.0], [1.0, 0, 0], [0, 0.3, 0, 0, 0.7, 0], [1e-300, 0, 1e300, 0], [0.1] * 10],
    ids=str,
)
def test_positions_without_mass_are_never_drawn(weights):
    weights = np.array(weights)
    cumulated = np.cumsum(weights)
    steps = cumulated / cumulated[-1]
    uniform = np.r_[0.0, np.nextafter(1.0, 0.0), 1.0, np.linspace(0, 1, 1001), steps]
    uniform = np.clip(np.r_[uniform, np.nextafter(steps, 0.0), np.nextafter(steps, 1.0)], 0, 1)
    assert (weights[_draw(cumulated, uniform)] > 0).all()


def test_positions_are_drawn_in_proportion_to_their_mass():
    weights = np.array([3.0, 0.0, 1.0, 4.0])
    positions = _draw(np.cumsum(weights), (np.arange(800) + 0.5) / 800)
    np.testing.assert_array_equal(np.bincount(positions, minlength=4), 100 * weights)


@inits
@pytest.mark.parametrize("seed", range(8))
def test_rows_of_zero_weight_are_never_taken(init, seed):
    weight = (np.arange(90) % 3 == 0).astype(float)
    centers = start(X, 6, init, seed, weight)
    distances = reference.sq_distances(centers, X[weight == 0])
    assert distances.min() > 1e-12


@inits
@containers
@pytest.mark.parametrize("seed", range(4))
def test_centres_are_rows_and_differ(init, container, seed):
    centers = start(container(X), 8, init, seed)
    distances = reference.sq_distances(centers, X)
    np.testing.assert_allclose(distances.min(axis=1), 0, atol=1e-20)
    assert len(np.unique(distances.argmin(axis=1))) == 8


@inits
@pytest.mark.parametrize("seed", range(4))
def test_weights_are_repetitions(init, seed):
    times = np.random.RandomState(seed).randint(0, 4, size=90)
    weighted = start(X, 6, init, seed, times.astype(float))
    repeated = start(np.repeat(X, times, axis=0), 6, init, seed)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


@inits
@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1e200])
def test_weights_have_no_unit(init, factor):
    weight = np.random.RandomState(0).randint(1, 5, size=90) / 4
    expected = start(X, 6, init, 1, weight)
    np.testing.assert_allclose(start(X, 6, init, 1, weight * factor), expected, rtol=1e-12)


@inits
@pytest.mark.parametrize("seed", range(4))
def test_dense_and_sparse_rows_give_the_same_centres(init, seed):
    dense, sparse_ = start(X, 6, init, seed), start(sparse.csr_array(X), 6, init, seed)
    np.testing.assert_allclose(dense, sparse_, rtol=1e-12)


@inits
@containers
def test_with_fewer_different_rows_than_centres_all_are_taken(init, container):
    rows = np.repeat(X[:3], 4, axis=0)
    centers = start(container(rows), 7, init)
    distances = reference.sq_distances(centers, X[:3])
    np.testing.assert_array_equal(np.unique(distances.argmin(axis=1)), [0, 1, 2])
    np.testing.assert_allclose(distances.min(axis=1), 0, atol=1e-20)


@inits
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_rows_of_zero_weight_are_not_even_repeated(init, missing):
    weight = np.ones(3)
    weight[missing] = 0.0
    centers = start(X[:3].copy(), 6, init, weight=weight)
    nearest = reference.sq_distances(centers, X[:3]).argmin(axis=1)
    np.testing.assert_array_equal(np.unique(nearest), np.delete([0, 1, 2], missing))


def test_plus_plus_takes_a_row_of_every_far_group():
    groups = 100.0 * np.eye(6)
    rows = np.repeat(groups, 10, axis=0) + np.random.RandomState(0).normal(size=(60, 6))
    for seed in range(10):
        centers = start(rows, 6, "k-means++", seed)
        nearest = reference.sq_distances(centers, groups).argmin(axis=1)
        assert len(np.unique(nearest)) == 6


class Uniform:
    """In place of a random state: numbers that are known."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def uniform(self, size=None):
        drawn, self.numbers = self.numbers[: size or 1], self.numbers[size or 1 :]
        return np.array(drawn) if size else drawn[0]


@pytest.mark.parametrize("first, second", [(0.2, 0.8), (0.8, 0.2)])
def test_plus_plus_takes_the_best_of_its_candidates(first, second):
    """The row at 0 has nearly all weight; then those at 1 and 10 are drawn with equal chance."""
    rows, weight = np.array([[0.0], [1.0], [10.0]]), np.array([1e6, 100.0, 1.0])
    random = Uniform(0.5, first, second)
    problem = Problem(rows, weight, alpha=1.0, origin=np.zeros(1), size=0.9)
    centers = initial_centers(problem, 2, "k-means++", random)
    np.testing.assert_array_equal(centers, [[0.0], [1.0]])  # leaves 81, the other one 100
    assert not random.numbers

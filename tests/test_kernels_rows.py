"""Exact distances and keys of single rows, dense and CSR."""

from fractions import Fraction

import numba
import numpy as np
import pytest
from scipy import sparse

import reference
from sklearn_softkmeans._assignment import Problem
from sklearn_softkmeans._cells import scatter_along
from sklearn_softkmeans._kernels.rows import sq_distances_to

PLAIN = bool(numba.config.DISABLE_JIT)
ROWS = [1, 31, 33] if PLAIN else [1, 31, 32, 33, 511, 513, 3000]

dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array])
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning" if PLAIN else "error")


def draw_rows(n_samples, n_features, dtype=np.float64, seed=0):
    """Normal rows with some zeros, so that CSR has rows of every length."""
    random = np.random.RandomState(seed)
    X = random.normal(size=(n_samples, n_features))
    X[random.uniform(size=X.shape) < 0.4] = 0.0
    return X.astype(dtype)


def problem_of(X, origin=None, size=0.9):
    """With this size, the unit of the frame is 1."""
    origin = np.zeros(X.shape[1]) if origin is None else origin
    return Problem(X, alpha=1.0, origin=origin, size=size)


def exact_sq_distance(x, c):
    pairs = zip(np.asarray(x, float), np.asarray(c, float), strict=True)
    return float(sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in pairs))


def distances_to(problem, points, closest=np.inf):
    return problem.sq_distances(points, np.full(problem.n_samples, closest))


# -------------------------------------------------------------------- squared distances


@dtypes
@containers
@pytest.mark.parametrize("n_features", [1, 2, 17])
@pytest.mark.parametrize("n_samples", ROWS)
def test_distances_equal_the_reference(n_samples, n_features, container, dtype):
    X = draw_rows(n_samples, n_features, dtype)
    points = np.random.RandomState(1).normal(size=(3, n_features))
    found = distances_to(problem_of(container(X)), points)
    # As Python, single precision elements are squared in single precision.
    rtol = 1e-6 if PLAIN and dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found.T, reference.sq_distances(X, points), rtol=rtol)


@containers
def test_a_smaller_bound_is_kept(container):
    X = draw_rows(20, 3)
    points = X[[4, 9]] + 0.5
    closest = np.linspace(0, 10, 20)
    found = problem_of(container(X)).sq_distances(points, closest)
    expected = np.minimum(reference.sq_distances(X, points).T, closest)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@dtypes
@containers
@pytest.mark.parametrize("step", [1e-3, 1e-7, 1e-12])
def test_distances_of_near_points_do_not_cancel(step, container, dtype):
    """|x|^2 - 2 x.c + |c|^2 would have no right digit."""
    X = draw_rows(12, 6, dtype)
    points = X.astype(np.float64) + step * np.random.RandomState(1).normal(size=X.shape)
    found = distances_to(problem_of(container(X)), points)
    exact = [exact_sq_distance(x, c) for x, c in zip(X, points, strict=True)]
    np.testing.assert_allclose(np.diag(found), exact, rtol=1e-13)


@containers
def test_the_distance_of_a_row_to_itself_is_zero(container):
    X = draw_rows(9, 5)
    assert (np.diag(distances_to(problem_of(container(X)), X)) == 0).all()


@dtypes
def test_the_origin_of_dense_rows_is_subtracted_in_double_precision(dtype):
    X = (1e5 + draw_rows(15, 3)).astype(dtype)
    origin = X.mean(axis=0, dtype=np.float64)
    problem = problem_of(X, origin, size=0.3)
    points = problem.into_frame(X[:4])
    found = distances_to(problem, points) * problem.unit**2
    np.testing.assert_allclose(found.T, reference.sq_distances(X, X[:4]), rtol=1e-9, atol=1e-20)


@containers
@pytest.mark.parametrize("exponent", [-400, -30, 0, 30, 400])
def test_the_unit_costs_no_digit(exponent, container):
    X = draw_rows(10, 4)
    points = np.random.RandomState(1).normal(size=(2, 4))
    plain = distances_to(problem_of(container(X)), points)
    scaled = problem_of(container(np.ldexp(X, exponent)), size=0.6 * 2.0**exponent)
    assert scaled.unit == 2.0**exponent
    np.testing.assert_array_equal(distances_to(scaled, points), plain)


@containers
def test_slices_of_rows_change_nothing(container):
    problem = problem_of(container(draw_rows(40, 5)))
    points = np.ascontiguousarray(draw_rows(3, 5, seed=2))
    norms, closest = (points**2).sum(axis=1), np.full(40, 4.0)
    results = np.empty((3, 3, 40))
    for n_tasks, result in zip([1, 3, 40], results, strict=True):
        sq_distances_to(n_tasks, problem._rows(), points, norms, closest, result)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


# ----------------------------------------------------------------------------- principal axes


@dtypes
@containers
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_samples", ROWS)
def test_scatter_along_directions_equals_the_reference(n_samples, weighted, container, dtype):
    X = draw_rows(n_samples, 5, dtype)
    random = np.random.RandomState(1)
    weights = random.randint(3, size=n_samples).astype(float) if weighted else None
    if weighted:
        weights[0] = 2.0
    labels = random.randint(4, size=n_samples).astype(np.int32)
    directions, means = random.normal(size=(2, 4, 5))
    zero = np.zeros(5)
    problem = Problem(container(X), weights, alpha=1.0, origin=zero, size=0.9)
    found = scatter_along(problem, labels, directions, means)
    expected = np.zeros((4, 5))
    for i, j in enumerate(labels):
        difference = np.asarray(X[i], float) - means[j]
        expected[j] += problem.weights[i] * difference * (difference @ directions[j])
    atol = 1e-6 * n_samples if PLAIN and dtype == np.float32 else 1e-12 * n_samples
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def test_rows_without_weight_are_left_out_wherever_they_lie():
    X = np.array([[1.0, 2.0], [1e200, 1e200], [3.0, 0.0]])
    labels = np.zeros(3, np.int32)
    problem = Problem(X, np.array([1.0, 0, 1]), alpha=1.0, origin=np.zeros(2), size=0.9)
    found = scatter_along(problem, labels, np.array([[1.0, 0.0]]), np.array([[2.0, 1.0]]))
    np.testing.assert_allclose(found, 2.0 * problem.weights[0] * np.array([[1.0, -1.0]]))

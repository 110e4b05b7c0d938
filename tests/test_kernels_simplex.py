"""The maps to the simplex, as blocks of columns, against references written by rows."""

import numba
import numpy as np
import pytest

import reference
from sklearn_softkmeans._jit import entry
from sklearn_softkmeans._kernels.simplex import (
    Entmax,
    Entmax15,
    Softmax,
    Sparsemax,
    map_of,
    project_chunk,
    project_rows,
)

PLAIN = bool(numba.config.DISABLE_JIT)  # kernels run as Python: fewer and smaller cases
WIDTHS = [1, 31, 33] if PLAIN else [1, 31, 32, 33, 511]
CLUSTERS = [1, 2, 3, 7, 100]
ALPHAS = [1.0, 1.0001, 1.3, 1.5, 1.9, 2.0, 2.5, 4.0]
ERROR = {np.float64: 1e-12, np.float32: 2e-6}

all_alphas = pytest.mark.parametrize("alpha", ALPHAS)
dtypes = pytest.mark.parametrize("dtype", ERROR)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning" if PLAIN else "error")


@entry
def _map_block(projection, z, width, peak, value, work, total):
    project_chunk(projection, z, width, peak, value, work, total)


def map_block(scores, alpha, capacity=None):
    """Responsibilities and conjugate of each row of scores, which are columns to the kernel."""
    width, n_clusters = scores.shape
    capacity = capacity or width
    z = np.full((n_clusters, capacity), 7.0, scores.dtype)
    z[:, :width] = scores.T
    peak, value = np.zeros((2, capacity), scores.dtype)
    peak[:width] = scores.max(axis=1)
    work = np.empty((4, capacity), scores.dtype)
    _map_block(map_of(alpha), z, width, peak, value, work, np.empty(capacity))
    assert (z[:, width:] == 7.0).all()
    return z[:, :width].T.copy(), value[:width] + peak[:width]


def draw_scores(width, n_clusters, dtype=np.float64, scale=2.0, seed=0):
    return np.random.RandomState(seed).normal(0, scale, (width, n_clusters)).astype(dtype)


def exact_rows(scores, alpha):
    """Decimal arithmetic where float64 bisection would lose digits near the edge."""
    scores = np.asarray(scores, dtype=np.float64)
    if alpha in (1, 1.5, 2):
        return reference.entmax(scores, alpha)
    digits = 35 if alpha <= 2 else 40 + int(16 * alpha)  # of the smallest p^(alpha - 1)
    return np.array([reference.entmax_exact_row(row, alpha, digits) for row in scores])


# --------------------------------------------------------------------- against references


@dtypes
@all_alphas
@pytest.mark.parametrize("n_clusters", CLUSTERS)
def test_columns_equal_the_reference(n_clusters, alpha, dtype):
    scores = draw_scores(1 if n_clusters == 100 else 4, n_clusters, dtype)
    found, value = map_block(scores, alpha)
    exact = exact_rows(scores, alpha)
    # Beyond alpha = 2 a small responsibility magnifies the rounding of its score.
    magnified = 1.0 if alpha <= 2 else 30.0
    np.testing.assert_allclose(found, exact, rtol=0, atol=magnified * ERROR[dtype])
    np.testing.assert_allclose(found.sum(axis=1, dtype=np.float64), 1, rtol=0, atol=ERROR[dtype])
    conjugate = (exact * scores).sum(axis=1) - reference.negative_entropy(exact, alpha)
    np.testing.assert_allclose(value, conjugate, rtol=0, atol=10 * ERROR[dtype])


@dtypes
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_clusters", [2, 7, 19])
def test_any_width_equals_the_reference(n_clusters, width, alpha, dtype):
    scores = draw_scores(width, n_clusters, dtype, scale=3.0)
    found, _ = map_block(scores, alpha, capacity=width + 5)
    exact = exact_rows(scores, alpha)
    np.testing.assert_allclose(found, exact, rtol=0, atol=ERROR[dtype])


@dtypes
@all_alphas
def test_a_column_does_not_depend_on_its_neighbours_or_its_place(alpha, dtype):
    scores = draw_scores(35, 6, dtype)
    scores[3:] += 1e-3 * scores[:-3]  # neighbours that need another number of passes
    scores[::5] *= 1e-3
    resp, value = map_block(scores, alpha)
    for i in range(0, len(scores), 3):
        alone, value_alone = map_block(scores[i : i + 1], alpha)
        np.testing.assert_array_equal(alone[0], resp[i])
        assert value_alone[0] == value[i]


@dtypes
@all_alphas
@pytest.mark.parametrize("n_clusters", [2, 7, 100])
def test_equal_scores_share_equally(n_clusters, alpha, dtype):
    scores = np.full((3, n_clusters), -2.5, dtype)
    resp, value = map_block(scores, alpha)
    np.testing.assert_allclose(resp, 1 / n_clusters, rtol=2 * ERROR[dtype])
    assert len(np.unique(resp)) == 1
    exact = -2.5 + reference.max_entropy(n_clusters, alpha)
    np.testing.assert_allclose(value, exact, rtol=0, atol=10 * ERROR[dtype])


@all_alphas
def test_tied_scores_within_a_column_get_the_same_bits(alpha):
    scores = np.array([[0.3, -0.1, 0.3, -0.1, 0.2, 0.3, -5.0, 0.2]])
    resp, _ = map_block(scores, alpha)
    for score in (0.3, 0.2, -0.1):
        assert len(np.unique(resp[scores == score])) == 1


@dtypes
@all_alphas
def test_scores_of_minus_infinity_get_exactly_zero(alpha, dtype):
    scores = draw_scores(5, 6, dtype, scale=0.3)
    masked = scores.copy()
    masked[:, [1, 4]] = -np.inf
    resp, value = map_block(masked, alpha)
    expected, expected_value = map_block(np.delete(masked, [1, 4], axis=1), alpha)
    np.testing.assert_array_equal(resp[:, [1, 4]], 0)
    np.testing.assert_allclose(np.delete(resp, [1, 4], axis=1), expected, atol=ERROR[dtype])
    np.testing.assert_allclose(value, expected_value, atol=10 * ERROR[dtype])
    masked[:, 1:] = -np.inf
    resp, value = map_block(masked, alpha)
    np.testing.assert_array_equal(resp, np.eye(6)[np.zeros(5, int)])
    np.testing.assert_allclose(value, masked[:, 0], rtol=1e-6, atol=ERROR[dtype])


@all_alphas
def test_a_large_common_offset_changes_nothing(alpha):
    scores = np.round(draw_scores(8, 5) * 2**10) / 2**10  # exact also beside the offset
    plain, _ = map_block(scores, alpha)
    shifted, value = map_block(scores + 2.0**40, alpha)
    np.testing.assert_array_equal(plain, shifted)
    np.testing.assert_allclose(value, 2.0**40, rtol=1e-9)


@dtypes
@all_alphas
def test_huge_differences_are_hard(alpha, dtype):
    largest = float(np.finfo(dtype).max)
    scores = np.array([[0.1 * largest, -0.9 * largest, 0], [-0.9 * largest, -1e30, -0.5 * largest]])
    resp, value = map_block(scores.astype(dtype), alpha)
    np.testing.assert_array_equal(resp, [[1, 0, 0], [0, 1, 0]])
    np.testing.assert_allclose(value, scores.max(axis=1), rtol=1e-6)


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("beside", [-1e-9, 0.0, 1e-9])
def test_a_lead_of_the_margin_is_where_columns_become_one_hot(alpha, beside):
    lead = 1 / (alpha - 1) * (1 + beside)
    resp, _ = map_block(np.array([[0.5, 0.5 - lead, -30.0]]), alpha)
    assert (resp[0, 1] == 0) == (beside >= 0)
    assert resp[0, 0] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("alpha", [1 + 1e-12, 1 + 1e-8, 1 + 1e-5])
def test_alpha_near_one_is_near_softmax(alpha):
    scores = draw_scores(6, 9, scale=4.0)
    softmax, value = map_block(scores, 1.0)
    resp, value_near = map_block(scores, alpha)
    np.testing.assert_allclose(resp, softmax, rtol=0, atol=2e-12 + 100 * (alpha - 1))
    np.testing.assert_allclose(value_near, value, rtol=0, atol=1e-3 if alpha > 1 + 1e-6 else 1e-6)


@pytest.mark.parametrize("alpha", [3.0, 10.0, 100.0, 300.0, 1000.0, 1e4])
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_any_alpha_meets_the_conditions_of_the_maximum(n_clusters, alpha):
    """p^(alpha - 1) - (alpha - 1) z is one number on the support, and no smaller off it."""
    a = alpha - 1
    scores = draw_scores(6, n_clusters, scale=0.2 / a)
    scores[0] = 0.0
    scores[1, 1:] = scores[1, 0]
    resp, _ = map_block(scores, alpha)
    np.testing.assert_allclose(resp.sum(axis=1), 1, rtol=0, atol=1e-12)
    levels = resp**a - a * scores
    rounding = 1e-13 + 1e-15 * a
    level = np.where(resp > 0, levels, -np.inf).max(axis=1, keepdims=True)
    np.testing.assert_allclose(np.where(resp > 0, levels, level), level + 0 * resp, atol=rounding)
    assert (levels >= level - rounding).all()


@pytest.mark.parametrize("alpha", [2.5, 4.0])
def test_scores_at_the_edge_of_the_support_are_accurate(alpha):
    """There responsibilities rise vertically: no threshold makes the sum one in floating point."""
    lead = 1 / (alpha - 1)
    edges = [lead * (1 - 2.0**-k) for k in (4, 24, 48)]
    scores = np.array([[0.0, -edge, -edge, -9.0] for edge in edges])
    resp, _ = map_block(scores, alpha)
    np.testing.assert_allclose(resp, exact_rows(scores, alpha), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(resp.sum(axis=1), 1, rtol=0, atol=1e-12)


# --------------------------------------------------------------------------- rows of scores


@dtypes
@pytest.mark.parametrize("n_clusters", [31, 32, 33, 47, 48, 257, 300])
def test_softmax_of_long_rows(n_clusters, dtype):
    """They are not moved into columns."""
    scores = draw_scores(5, n_clusters, dtype)
    scores[0] += 100.0
    scores[1] = np.roll(np.where(np.arange(n_clusters) % 3 == 0, -np.inf, scores[1]), -1)
    scores[2] = -np.inf
    scores[2, -1] = 1e30  # in the last lane, or beyond the lanes
    scores[3] = 7.0
    scores[4] = -np.sort(-scores[4])
    found, faults = np.empty_like(scores), np.zeros((1, 2), np.intp)
    project_rows(1, map_of(1.0), scores, found, faults)
    assert not faults.any()
    np.testing.assert_allclose(found, reference.entmax(scores, 1), rtol=0, atol=ERROR[dtype])
    np.testing.assert_allclose(found.sum(axis=1, dtype=np.float64), 1, rtol=0, atol=ERROR[dtype])
    scores[0, -1], scores[1, 0], scores[3] = np.nan, np.inf, -np.inf
    project_rows(1, map_of(1.0), scores, found, faults)
    assert faults.tolist() == [[2, 1]]


@pytest.mark.parametrize(
    "alpha, expected", [(1, Softmax), (1.5, Entmax15), (2.0, Sparsemax), (1.2, Entmax)]
)
def test_each_alpha_has_its_map(alpha, expected):
    assert type(map_of(alpha)) is expected
    assert map_of(alpha).alpha == alpha


@dtypes
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.3])
@pytest.mark.parametrize("n_rows", [1, 255, 257] if PLAIN else [1, 255, 256, 257, 1030])
def test_rows_are_mapped_in_slices_of_any_number(n_rows, alpha, dtype):
    scores = draw_scores(n_rows, 3, dtype)
    scores.flags.writeable = False
    results = [np.empty_like(scores) for _ in range(3)]
    for n_tasks, result in zip([1, 2, 7], results, strict=True):
        project_rows(n_tasks, map_of(alpha), scores, result, np.zeros((n_tasks, 2), np.intp))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_allclose(
        results[0], reference.entmax(scores, alpha), rtol=0, atol=ERROR[dtype]
    )

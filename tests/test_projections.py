"""The public maps from scores to probabilities."""

import numpy as np
import pytest
from scipy import sparse

import reference
from sklearn_softkmeans import projections
from sklearn_softkmeans.projections import entmax, entmax15, softmax, sparsemax

EXACT = {"softmax": softmax, "entmax15": entmax15, "sparsemax": sparsemax}
ALPHA = {"softmax": 1.0, "entmax15": 1.5, "sparsemax": 2.0}
ALPHAS = [1.0, 1.1, 1.5, 1.75, 2.0, 3.0]

exact_maps = pytest.mark.parametrize("name", list(EXACT))
all_alphas = pytest.mark.parametrize("alpha", ALPHAS)


def normal(*shape, seed=0, scale=1.0, dtype=np.float64):
    draws = np.random.RandomState(seed).normal(size=shape)
    return (scale * draws).astype(dtype)


def exact_rows(scores, alpha):
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    return np.array([reference.entmax_exact_row(row, alpha) for row in rows])


# ------------------------------------------------------------ against references


@exact_maps
@pytest.mark.parametrize("n_columns", [2, 5, 40])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_map_equals_its_reference_in_float64(name, n_columns, scale):
    scores = normal(50, n_columns, scale=scale)
    expected = reference.entmax(scores, ALPHA[name])
    np.testing.assert_allclose(EXACT[name](scores), expected, rtol=0, atol=1e-12)


@exact_maps
@pytest.mark.parametrize("n_columns", [2, 5, 40])
def test_map_equals_its_reference_in_float32(name, n_columns):
    scores = normal(50, n_columns, scale=3.0, dtype=np.float32)
    expected = reference.entmax(scores, ALPHA[name])
    np.testing.assert_allclose(EXACT[name](scores), expected, rtol=1e-5, atol=1e-6)


@exact_maps
def test_entmax_with_that_alpha_is_the_named_map(name):
    scores = normal(30, 6, scale=2.0)
    np.testing.assert_array_equal(entmax(scores, ALPHA[name]), EXACT[name](scores))


def test_alpha_defaults_to_one_and_a_half():
    scores = normal(10, 4)
    np.testing.assert_array_equal(entmax(scores), entmax15(scores))


# Large alpha magnifies the rounding of small masses: p = u^(1 / (alpha - 1)).
@pytest.mark.parametrize(
    "alpha, atol",
    [
        (1.05, 1e-12),
        (1.25, 1e-12),
        (1.7, 1e-12),
        (2.5, 1e-12),
        (3.0, 1e-12),
        (5.0, 1e-11),
        (10.0, 1e-7),
    ],
)
def test_any_alpha_equals_bisection_in_decimal_arithmetic(alpha, atol):
    scores = normal(10, 6, scale=2.0)
    expected = exact_rows(scores, alpha)
    np.testing.assert_allclose(entmax(scores, alpha), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("alpha", [1.25, 1.5, 1.9, 2.0, 3.0])
def test_result_solves_the_optimality_conditions(alpha):
    """p^(alpha-1) - (alpha-1) z is one constant on the support, and less off it."""
    scores = normal(40, 7, scale=2.0)
    result = entmax(scores, alpha)
    slack = result ** (alpha - 1.0) - (alpha - 1.0) * scores
    for row, mass in zip(slack, result, strict=True):
        threshold = row[mass > 0].mean()
        np.testing.assert_allclose(row[mass > 0], threshold, rtol=0, atol=1e-10)
        assert (row[mass == 0] >= threshold - 1e-10).all()
    assert (result == 0).any()


@pytest.mark.parametrize("alpha", [1.0, 1.25, 1.5, 2.0, 3.0])
def test_result_equals_the_entmax_package(alpha):
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("entmax")
    scores = normal(60, 12, scale=2.0, dtype=np.float32)
    tensor = torch.from_numpy(scores)
    exact = tensor.double()  # its bisection needs float64 to reach 1e-6
    if alpha == 1.0:
        expected = torch.softmax(tensor, dim=-1)
    elif alpha == 1.5:
        expected = peer.entmax15(tensor)
    elif alpha == 2.0:
        expected = peer.sparsemax(tensor)
    else:
        expected = peer.entmax_bisect(exact, alpha, n_iter=60)
    np.testing.assert_allclose(entmax(scores, alpha), expected.numpy(), rtol=0, atol=1e-6)


# ---------------------------------------------------------------- closed forms


def test_two_scores_softmax_is_the_logistic_function():
    gap = np.linspace(-20, 20, 41)
    result = softmax(np.column_stack([gap, np.zeros_like(gap)]))
    np.testing.assert_allclose(result[:, 0], 1 / (1 + np.exp(-gap)), rtol=1e-14)


def test_two_scores_entmax15_has_its_closed_form():
    half_gap = np.linspace(0, 1.3, 27)
    result = entmax15(np.column_stack([2 * half_gap, np.zeros_like(half_gap)]))
    inside = np.minimum(half_gap, 1.0)
    expected = ((inside + np.sqrt(2 - inside**2)) / 2) ** 2
    np.testing.assert_allclose(result[:, 0], expected, rtol=0, atol=1e-15)
    assert (result[half_gap >= 1.0] == [1.0, 0.0]).all()


def test_two_scores_sparsemax_is_a_clipped_line():
    gap = np.linspace(-1.5, 1.5, 31)
    result = sparsemax(np.column_stack([gap, np.zeros_like(gap)]))
    expected = np.clip((1 + gap) / 2, 0, 1)
    np.testing.assert_allclose(result[:, 0], expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0, 3.0])
def test_two_scores_differ_by_the_gap_in_powers(alpha):
    """p1^(alpha-1) - p2^(alpha-1) = (alpha-1) gap while both have mass."""
    limit = 1.0 / (alpha - 1.0)
    gap = np.array([0.0, 0.2, 0.5, 0.8]) * limit
    result = entmax(np.column_stack([gap, np.zeros_like(gap)]), alpha)
    powers = result ** (alpha - 1.0)
    np.testing.assert_allclose(powers[:, 0] - powers[:, 1], (alpha - 1.0) * gap, rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0, 3.0])
def test_result_is_one_hot_exactly_from_the_margin_on(alpha):
    margin = 1.0 / (alpha - 1.0)
    below = entmax([[0.99 * margin, 0.0]], alpha)
    above = entmax([[1.01 * margin, 0.0]], alpha)
    assert 0 < below[0, 1] < 0.1
    np.testing.assert_array_equal(above, [[1.0, 0.0]])


# ------------------------------------------------------------- continuity in alpha


@pytest.mark.parametrize(
    "alpha, expected",
    [
        (1.0, [0.2119416, 0.2119416, 0.5761169]),
        (1.00001, [0.2119403, 0.2119403, 0.5761195]),
        (1.1, [0.1984664, 0.1984664, 0.6030672]),
    ],
)
def test_known_values_near_softmax(alpha, expected):
    result = entmax([0.0, 0.0, 1.0], alpha)
    np.testing.assert_allclose(result, expected, rtol=0, atol=6e-8)


@pytest.mark.parametrize("excess", [1e-15, 1e-12, 1e-10, 1e-8])
def test_alpha_just_above_one_is_nearly_softmax(excess):
    scores = normal(20, 5, scale=3.0)
    result = entmax(scores, 1.0 + excess)
    np.testing.assert_allclose(result, softmax(scores), rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
@pytest.mark.parametrize("step", [-1e-9, 1e-9])
def test_alpha_is_continuous_at_the_exact_maps(alpha, step):
    scores = normal(20, 5, scale=1.0)
    np.testing.assert_allclose(
        entmax(scores, alpha + step), entmax(scores, alpha), rtol=0, atol=1e-7
    )


def test_masses_change_smoothly_over_a_grid_of_alpha():
    grid = np.concatenate([1 + np.geomspace(1e-10, 1e-2, 9), np.arange(1.02, 2.4, 0.02)])
    results = np.array([entmax([0.0, 0.3, 1.0], alpha) for alpha in grid])
    assert np.abs(np.diff(results, axis=0)).max() < 0.01
    assert (np.diff(results[:, 2]) > 0).all()


@pytest.mark.parametrize("alpha", [0.9, 0, -1, np.nan, np.inf, "a", None])
def test_alpha_below_one_or_not_finite_is_an_error(alpha):
    with pytest.raises((ValueError, TypeError), match="alpha"):
        entmax([[0.0, 1.0]], alpha)


@pytest.mark.parametrize("alpha", [1, 2, 4, 7, 10])
def test_integer_alpha_up_to_ten_gives_probabilities(alpha):
    result = entmax(normal(30, 8, scale=2.0), alpha)
    assert (result >= 0).all()
    np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=0, atol=1e-12)


# ------------------------------------------------------------ ties and infinities


@all_alphas
def test_tied_scores_get_bitwise_equal_mass(alpha):
    result = entmax([[0.7, 0.7, 0.1, 0.7], [0.1, 0.1, 0.1, 0.1]], alpha)
    assert result[0, 0] == result[0, 1] == result[0, 3]
    np.testing.assert_array_equal(result[1], [0.25] * 4)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 3.0, 10.0])
def test_many_tied_scores_share_equally(alpha):
    result = entmax(np.full((2, 49), 3.3), alpha)
    np.testing.assert_allclose(result, 1 / 49, rtol=1e-13)
    assert (result == result[0, 0]).all()


@all_alphas
def test_minus_infinity_has_no_mass_and_leaves_the_rest_alone(alpha):
    scores = normal(8, 4)
    masked = np.insert(scores, 2, -np.inf, axis=1)
    result = entmax(masked, alpha)
    np.testing.assert_array_equal(result[:, 2], 0.0)
    np.testing.assert_allclose(
        np.delete(result, 2, axis=1), entmax(scores, alpha), rtol=0, atol=1e-15
    )


@all_alphas
def test_a_single_finite_score_takes_all(alpha):
    result = entmax([[-np.inf, 5.0, -np.inf]], alpha)
    np.testing.assert_array_equal(result, [[0.0, 1.0, 0.0]])


@all_alphas
@pytest.mark.parametrize(
    "row", [[-np.inf, -np.inf], [0.0, np.nan], [0.0, np.inf], [np.nan, -np.inf]]
)
def test_row_without_a_distribution_is_an_error(alpha, row):
    scores = np.zeros((3, 2))
    scores[1] = row
    with pytest.raises(ValueError, match=r"(?i)finite|inf|nan"):
        entmax(scores, alpha)


@exact_maps
def test_named_map_rejects_nan_too(name):
    with pytest.raises(ValueError, match=r"(?i)nan"):
        EXACT[name]([[0.0, np.nan]])


@pytest.mark.parametrize("function", [softmax, sparsemax, entmax15, entmax])
@pytest.mark.parametrize(
    "scores",
    [
        [[0.0, 1.0 + 0.5j]],
        np.zeros((2, 3), dtype=complex),
        [["0.0", "1.0"]],
        np.array([["a", "b"]]),
        sparse.csr_array([[0.0, 1.0]]),
        sparse.csr_matrix([[0.0, 1.0]]),
    ],
    ids=["complex", "complex array", "numbers as text", "text", "sparse array", "sparse matrix"],
)
def test_scores_that_are_no_array_of_real_numbers_are_an_error_that_says_so(function, scores):
    with pytest.raises((ValueError, TypeError), match=r"scores must be .*real numbers"):
        function(scores)


# ------------------------------------------------------------------- magnitudes


@all_alphas
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_peaked_scores_are_one_hot_to_rounding(alpha, scale, dtype):
    scores = normal(10, 100, seed=21, scale=scale, dtype=dtype)
    ordered = np.sort(scores, axis=1)
    assert (ordered[:, -1] - ordered[:, -2] > 60).all()  # exp(-60) = 9e-27
    result = entmax(scores, alpha)
    expected = reference.one_hot(scores.argmax(axis=1), 100)
    if alpha > 1:
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-25)


@all_alphas
def test_large_common_offset_keeps_the_small_differences(alpha):
    """Offsets that are sums of powers of two: the shifted scores are exact."""
    scores = np.array([[0.0, 0.25, 0.5, -0.75]])
    np.testing.assert_allclose(
        entmax(scores + 2.0**40, alpha), entmax(scores, alpha), rtol=0, atol=1e-15
    )


@all_alphas
def test_scores_at_the_ends_of_the_range_do_not_overflow(alpha):
    result = entmax([[1e308, -1e308, 1e308], [-1e308, -1.5e308, 0.0]], alpha)
    np.testing.assert_array_equal(result, [[0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])


@all_alphas
def test_scores_below_the_smallest_number_share_equally(alpha):
    result = entmax([[0.0, 5e-324, -5e-324, 1e-310]], alpha)
    np.testing.assert_allclose(result, 0.25, rtol=1e-12)


def test_softmax_keeps_small_masses():
    result = softmax([[0.0, -100.0, -700.0]])
    np.testing.assert_allclose(result, np.exp([[0.0, -100.0, -700.0]]), rtol=1e-12)


# -------------------------------------------------------- containers and layouts


@all_alphas
@pytest.mark.parametrize(
    "scores", [[[0, 1, 3], [2, 2, 0]], ((0, 1, 3), (2, 2, 0)), [[True, False]]]
)
def test_lists_and_integers_are_computed_in_float64(alpha, scores):
    result = entmax(scores, alpha)
    expected = entmax(np.array(scores, dtype=np.float64), alpha)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, expected)


@all_alphas
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_and_shape_are_kept(alpha, dtype):
    result = entmax(normal(3, 5, dtype=dtype), alpha)
    assert result.dtype == dtype
    assert result.shape == (3, 5)


@all_alphas
def test_axis_selects_where_the_masses_sum_to_one(alpha):
    scores = normal(3, 4, 5)
    last = entmax(scores, alpha)
    np.testing.assert_array_equal(entmax(scores, alpha, axis=2), last)
    for axis in (0, 1, -2, -3):
        moved = np.moveaxis(entmax(np.moveaxis(scores, axis, -1), alpha), -1, axis)
        result = entmax(scores, alpha, axis=axis)
        assert result.shape == scores.shape
        np.testing.assert_allclose(result, moved, rtol=0, atol=1e-15)


@exact_maps
def test_named_map_takes_axis_and_one_dimension(name):
    scores = normal(4, 6)
    expected = EXACT[name](scores)
    columns = EXACT[name](scores.T.copy(), axis=0).T
    np.testing.assert_allclose(columns, expected, rtol=0, atol=1e-15)
    one_row = EXACT[name](scores[1])
    assert one_row.shape == (6,)
    np.testing.assert_allclose(one_row, expected[1], rtol=0, atol=1e-15)


@pytest.mark.parametrize("axis", [2, -3])
@pytest.mark.parametrize("function", [softmax, sparsemax, entmax15, entmax])
def test_axis_out_of_range_is_numpys_axis_error(function, axis):
    with pytest.raises(np.exceptions.AxisError):
        function(np.zeros((2, 3)), axis=axis)


def test_axis_is_keyword_only():
    with pytest.raises(TypeError):
        softmax(np.zeros((2, 3)), 0)
    with pytest.raises(TypeError):
        entmax(np.zeros((2, 3)), 1.5, 0)


def test_a_single_number_has_no_axis():
    with pytest.raises(ValueError):
        softmax(3.0)


@all_alphas
def test_no_rows_give_no_rows(alpha):
    result = entmax(np.empty((0, 5), dtype=np.float32), alpha)
    assert result.shape == (0, 5)
    assert result.dtype == np.float32


@all_alphas
def test_one_column_is_always_one(alpha):
    result = entmax([[-3.0], [0.0], [1e9]], alpha)
    np.testing.assert_array_equal(result, np.ones((3, 1)))


@all_alphas
def test_memory_layout_does_not_matter(alpha):
    scores = normal(6, 8)
    expected = entmax(scores[:, ::2].copy(), alpha)
    np.testing.assert_array_equal(entmax(scores[:, ::2], alpha), expected)
    np.testing.assert_array_equal(entmax(np.asfortranarray(scores[:, ::2]), alpha), expected)


@all_alphas
def test_read_only_input_works_and_input_is_never_written(alpha):
    scores = normal(6, 8)
    before = scores.copy()
    scores.flags.writeable = False
    result = entmax(scores, alpha)
    assert not np.may_share_memory(result, scores)
    assert result.flags.writeable
    scores.flags.writeable = True
    np.testing.assert_array_equal(entmax(scores, alpha), result)
    np.testing.assert_array_equal(scores, before)


@all_alphas
def test_a_row_does_not_depend_on_the_rows_around_it(alpha):
    scores = normal(1100, 6, scale=2.0)
    result = entmax(scores, alpha)
    for row in (0, 1, 255, 256, 700, 1099):
        np.testing.assert_allclose(entmax(scores[row], alpha), result[row], rtol=0, atol=1e-14)


def test_the_module_lists_its_four_maps():
    assert set(projections.__all__) == {"softmax", "sparsemax", "entmax15", "entmax"}

"""Scores of rows: fast where that is accurate, from exact differences where it is not."""

from fractions import Fraction

import numba
import numpy as np
import pytest
from scipy import sparse

import reference
from sklearn_softkmeans import _assignment
from sklearn_softkmeans._assignment import Problem, for_prediction
from sklearn_softkmeans._cells import cells_of
from sklearn_softkmeans._kernels.distances import load_rows
from sklearn_softkmeans._kernels.rows import ColumnRows

PLAIN = bool(numba.config.DISABLE_JIT)
ERROR = {np.float64: 1e-12, np.float32: 2e-6}

dtypes = pytest.mark.parametrize("dtype", ERROR)
containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array])
alphas = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.2])
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning" if PLAIN else "error")


def exact_gaps(X, centers):
    """d_ij^2 - min_l d_il^2 of the numbers as they are, rounded once."""
    gaps = np.empty((len(X), len(centers)))
    for i, x in enumerate(X.tolist()):
        sq_distances = [
            sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, c, strict=True))
            for c in np.asarray(centers).tolist()
        ]
        gaps[i] = [float(d - min(sq_distances)) for d in sq_distances]
    return gaps


def exact_responsibilities(X, centers, sigma, alpha):
    scores = -0.5 * exact_gaps(X, centers) / sigma / sigma
    return reference.entmax(scores, alpha)


def predicted(X, centers, sigma, alpha, container=np.array):
    """Responsibilities as of `predict_proba`, and labels as of `predict`."""
    problem = for_prediction(container(X), centers, sigma, alpha)
    model = problem.into_frame(centers), sigma / problem.unit
    return problem.responsibilities(*model), problem.labels(*model)


# --------------------------------------------------------------------- rows in the frame


@dtypes
@pytest.mark.parametrize("n_samples", [1, 31, 32, 33, 70])
@pytest.mark.parametrize("n_features", [1, 2, 17, 40])
def test_rows_are_moved_into_the_frame_and_padded_with_zeros(n_features, n_samples, dtype):
    X = (1e4 + np.random.RandomState(0).normal(size=(n_samples, n_features))).astype(dtype)
    problem = Problem(X, alpha=1.0, origin=np.full(n_features, 1e4), size=1e-3)
    n_padded = -(-n_samples // 32) * 32
    expected = np.zeros((n_padded, n_features))
    expected[:n_samples] = problem.rows_in_frame(slice(None))
    for n_tasks in (1, 2, 5):
        blocks = np.full(n_padded * n_features, np.nan, dtype)
        rows = problem._rows(dtype)._replace(blocks=blocks, norms=np.full(n_padded, np.nan, dtype))
        load_rows(n_tasks, 32, rows)
        if isinstance(rows, ColumnRows):
            found = blocks.reshape(-1, n_features, 32).swapaxes(1, 2).reshape(-1, n_features)
        else:
            found = blocks.reshape(-1, n_features)
        np.testing.assert_array_equal(found, expected.astype(dtype))
        np.testing.assert_allclose(rows.norms, (expected**2).sum(axis=1), rtol=ERROR[dtype])


# ---------------------------------------------------------------------- hard assignments


@dtypes
@containers
@pytest.mark.parametrize("n_clusters", [1, 2, 7])
def test_nearest_centres_and_gaps_equal_the_reference(n_clusters, container, dtype):
    X = np.random.RandomState(0).normal(size=(70, 4)).astype(dtype)
    problem = Problem(container(X), alpha=1.0, origin=X.mean(axis=0), size=1.0)
    centers = problem.into_frame(X[:n_clusters] + 0.1)
    rows = problem.rows_in_frame(np.arange(70))
    cells = cells_of(problem, centers)
    sq_distances = reference.sq_distances(rows, centers)
    np.testing.assert_array_equal(cells.labels, sq_distances.argmin(axis=1))
    nearest = sq_distances.min(axis=1)
    np.testing.assert_allclose(cells.sq_distances, nearest, rtol=0, atol=ERROR[dtype])
    labels, gaps = problem.labels_and_gaps(centers)
    np.testing.assert_array_equal(labels, cells.labels)
    one_hot = np.eye(n_clusters)[cells.labels]
    np.testing.assert_array_equal(cells.mass, one_hot.sum(axis=0))
    np.testing.assert_allclose(cells.sums, one_hot.T @ rows, rtol=0, atol=100 * ERROR[dtype])
    if n_clusters == 1:
        np.testing.assert_array_equal(gaps, np.inf)
    else:
        expected = reference.gaps(rows, centers)
        np.testing.assert_allclose(gaps, expected, rtol=0, atol=ERROR[dtype])


@dtypes
@containers
def test_gaps_that_cancel_are_taken_from_differences(container, dtype):
    """Rows beside the middle of two centres that are far from the origin."""
    middle = np.array([300.0, -200.0, 100.0])
    step = 2.0 ** np.arange(-12, -1)
    X = (middle + np.outer(step, [1.0, 0.0, 0.0])).astype(dtype)
    centers = middle + np.array([[-0.5, 0, 0], [0.5, 0, 0]])
    problem = for_prediction(container(X), centers, 0.0, 1.0)
    labels, gaps = problem.labels_and_gaps(problem.into_frame(centers))
    np.testing.assert_array_equal(labels, 1)
    np.testing.assert_allclose(gaps * problem.unit**2, 2 * step, rtol=1e-12)


def test_gaps_below_the_rounding_of_scores_are_exact():
    """Sparse rows have no origin, so that their scores are as large as 300^2."""
    middle = np.array([300.0, -200.0, 100.0])
    step = 2.0 ** -np.arange(37, 44)
    X = middle + np.outer(step, [1.0, 0.0, 0.0])
    centers = middle + np.array([[-0.5, 0, 0], [0.5, 0, 0]])
    problem = for_prediction(sparse.csr_array(X), centers, 0.0, 1.0)
    labels, gaps = problem.labels_and_gaps(problem.into_frame(centers))
    np.testing.assert_array_equal(labels, 1)
    np.testing.assert_allclose(gaps * problem.unit**2, 2 * step, rtol=1e-9)


@dtypes
@containers
@pytest.mark.parametrize("sigma", [0.0, 1e-9, 0.4])
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_the_first_of_equal_centres_gets_the_label(alpha, sigma, container, dtype):
    X = np.random.RandomState(0).normal(size=(50, 3)).astype(dtype)
    centers = np.repeat(X[:3], 3, axis=0)
    resp, labels = predicted(X, centers, sigma, alpha, container)
    expected = 3 * reference.sq_distances(X, X[:3]).argmin(axis=1)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(resp.argmax(axis=1), labels)
    if sigma > 0:
        np.testing.assert_array_equal(resp[:, 0], resp[:, 1])
        np.testing.assert_array_equal(resp[:, 1], resp[:, 2])


# --------------------------------------------------------------------- the accuracy guard


@alphas
@containers
@pytest.mark.parametrize(
    "dtype, offset, step",
    [
        (np.float64, 1e6, 0.7),
        (np.float64, -1e9, 0.01),
        (np.float32, 1e5, 0.7),
        (np.float32, 1e6, 2.0),
    ],
)
def test_an_offset_costs_no_digit(dtype, offset, step, container, alpha):
    random = np.random.RandomState(0)
    X = (offset + step * random.normal(size=(40, 3))).astype(dtype)
    centers = (offset + step * random.normal(size=(4, 3))).astype(dtype)
    resp, labels = predicted(X, centers, step, alpha, container)
    exact = exact_responsibilities(X, centers, step, alpha)
    np.testing.assert_allclose(resp, exact, rtol=0, atol=ERROR[dtype])
    np.testing.assert_array_equal(labels, resp.argmax(axis=1))


@alphas
@dtypes
@containers
def test_far_rows_between_near_centres(container, dtype, alpha):
    """1e6 away at sigma = 1: differences of squares of 1e12 decide."""
    centers = np.array([[0.0, 0.0], [2.0**-20, 0.0], [0.0, 3.0]])
    X = np.array([[1e6, 0.0], [1e6, 1e6], [-1e6, 1.5], [0.5, 0.0]], dtype)
    resp, _ = predicted(X, centers, 1.0, alpha, container)
    exact = exact_responsibilities(X, centers, 1.0, alpha)
    assert 0.01 < exact.max(axis=1)[0] < 0.99
    np.testing.assert_allclose(resp, exact, rtol=0, atol=ERROR[dtype])


@pytest.mark.parametrize("alpha", [1.0, 1.5])
@containers
@pytest.mark.parametrize("far", [1e2, 1e4, 1e6, 1e8])
def test_far_rows_keep_the_digits_that_their_numbers_have(far, container, alpha):
    """Across the line between two centres: |x - c|^2 has an error of far^2 times rounding."""
    random = np.random.RandomState(0)
    centers = random.normal(size=(2, 3))
    along = centers[0] - centers[1]
    across = np.cross(along, [0.3, -0.5, 0.8])
    across *= far / np.linalg.norm(across)
    X = centers.mean(axis=0) + across + random.normal(0, 0.3, (20, 1)) * along
    resp, _ = predicted(X, centers, 1.0, alpha, container)
    exact = exact_responsibilities(X, centers, 1.0, alpha)
    np.testing.assert_allclose(resp, exact, rtol=0, atol=1e-13 + 1e-15 * far)


@alphas
@containers
@pytest.mark.parametrize(
    "dtype, half, sigma, far",
    [
        (np.float32, 1.0, 0.5, 3e38),
        (np.float32, 1e-3, 1e-3, 1e37),
        (np.float64, 1.0, 1e-80, 1e150),
        (np.float64, 1e-3, 1e-3, 1e150),
    ],
)
def test_a_row_whose_scores_overflow_among_soft_ones(dtype, half, sigma, far, container, alpha):
    X = np.array([[0.0]] * 60 + [[far], [-far]], dtype)
    resp, labels = predicted(X, np.array([[-half], [half]]), sigma, alpha, container)
    np.testing.assert_array_equal(resp[-2:], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(labels[-2:], [1, 0])
    np.testing.assert_allclose(resp[:-2], 0.5, rtol=1e-6)


@containers
@pytest.mark.parametrize("sigma", [0.0, 1e-3])
def test_an_exact_tie_goes_to_the_first_centre_though_squares_round(sigma, container):
    """Two centres as far as each other from a row, in other directions."""
    offsets = np.array([[0.1, 0.3, 0.7], [0.7, 0.1, 0.3], [0.3, 0.7, 0.1], [5.0, 5.0, 5.0]])
    for order in ([0, 1, 2, 3], [2, 0, 1, 3], [1, 2, 0, 3]):
        resp, labels = predicted(np.zeros((3, 3)), offsets[order], sigma, 1.0, container)
        np.testing.assert_array_equal(labels, resp.argmax(axis=1))
        if sigma > 0:
            np.testing.assert_allclose(resp[:, :3], 1 / 3, rtol=1e-9)


@alphas
@containers
@pytest.mark.parametrize("distance", [1e-2, 1e-5, 1e-9])
def test_near_centres_at_a_sigma_as_small(distance, container, alpha):
    random = np.random.RandomState(0)
    centers = np.array([[1.0, 2.0], [1.0, 2.0], [-3.0, 0.5]])
    centers[1] += distance * random.normal(size=2)
    X = centers[random.randint(3, size=30)] + distance * random.normal(size=(30, 2))
    resp, _ = predicted(X, centers, distance, alpha, container)
    exact = exact_responsibilities(X, centers, distance, alpha)
    assert (exact.max(axis=1) < 0.9).any()
    np.testing.assert_allclose(resp, exact, rtol=0, atol=ERROR[np.float64])


@alphas
@pytest.mark.parametrize("seed", range(5 if PLAIN else 40))
def test_any_scale_of_offsets_distances_and_sigma_is_accurate(seed, alpha):
    random = np.random.RandomState(seed)
    offset = random.choice([0.0, 1.0, 1e3, 1e6])
    spread = 10 ** random.uniform(-4, 3)
    near = spread * 10 ** random.uniform(-4, 0)
    sigma = 10 ** random.uniform(-6, 6) if seed % 2 else near * 10 ** random.uniform(-1, 1)
    dtype = (np.float64, np.float32)[seed % 3 == 0]
    container = (np.array, sparse.csr_array)[seed % 4 < 2]
    groups = offset + spread * random.normal(size=(3, 4))
    centers = (groups[[0, 0, 0, 1, 2]] + near * random.normal(size=(5, 4))).astype(dtype)
    X = (groups[random.randint(3, size=12)] + near * random.normal(size=(12, 4))).astype(dtype)
    resp, labels = predicted(X, centers, sigma, alpha, container)
    exact = exact_responsibilities(X, centers, sigma, alpha)
    np.testing.assert_allclose(resp, exact, rtol=0, atol=ERROR[dtype])
    np.testing.assert_array_equal(labels, resp.argmax(axis=1))


@alphas
@containers
@pytest.mark.parametrize("sigma", [1e-200, 1e-150, 1e-90, 1e90, 1e150, 1e200])
def test_sigma_beyond_all_distances_is_hard_or_uniform(sigma, container, alpha):
    X = np.random.RandomState(0).normal(size=(20, 3))
    centers = X[:4] + 0.1
    resp, labels = predicted(X, centers, sigma, alpha, container)
    nearest = reference.sq_distances(X, centers).argmin(axis=1)
    expected = reference.one_hot(nearest, 4) if sigma < 1 else np.full((20, 4), 0.25)
    np.testing.assert_allclose(resp, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(labels, resp.argmax(axis=1))


@containers
def test_responsibilities_far_below_rounding_are_written(container):
    centers = np.array([[0.0], [1.0]])
    for gap in (60.0, 300.0, 700.0):
        resp, _ = predicted(np.zeros((1, 1)), centers, np.sqrt(0.5 / gap), 1.0, container)
        assert resp[0, 1] == pytest.approx(np.exp(-gap), rel=1e-10, abs=0)


@alphas
@dtypes
@containers
def test_a_row_does_not_depend_on_the_rows_it_comes_with(container, dtype, alpha, monkeypatch):
    """Whether the rows around it are soft or hard, accurate or not."""
    random = np.random.RandomState(0)
    X = np.repeat(random.normal(size=(24, 3)), 4, axis=0)
    X[1::4] *= 1e-3
    X[2::4] *= 1e5
    X = X.astype(dtype)
    centers = random.normal(size=(5, 3))
    together, _ = predicted(X, centers, 0.7, alpha, container)
    for i in range(0, len(X), 5):
        alone, _ = predicted(X[i : i + 1], centers, 0.7, alpha, container)
        np.testing.assert_allclose(alone[0], together[i], rtol=0, atol=ERROR[dtype])
    monkeypatch.setattr(_assignment, "_MAX_WIDTH", 32)
    chunked, _ = predicted(X, centers, 0.7, alpha, container)
    np.testing.assert_allclose(chunked, together, rtol=0, atol=ERROR[dtype])


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("alpha", [1.0, 1.5])
@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_free_energy_of_near_rows_has_all_its_digits(sigma, alpha, container):
    """|x|^2 - 2 x.c + |c|^2 would leave none of a squared distance of 1e-14."""
    centers = np.array([[1000.0, 0.0], [-1000.0, 0.0]])
    X = centers + 1e-7 * np.eye(2)
    problem = for_prediction(container(X), centers, sigma, alpha)
    objective = problem.row_objective(problem.into_frame(centers), sigma / problem.unit)
    exact = reference.sq_distances(X, centers).min(axis=1)
    np.testing.assert_allclose(objective * problem.unit**2, exact, rtol=1e-12)

"""One pass over the rows: responsibilities, labels and sums against the plain definitions."""

from typing import NamedTuple

import numba
import numpy as np
import pytest
from scipy import sparse

import reference
from sklearn_softkmeans import _assignment
from sklearn_softkmeans._assignment import Problem, for_prediction
from sklearn_softkmeans._kernels.rows import DenseRows

PLAIN = bool(numba.config.DISABLE_JIT)
SHAPES = [  # n_samples, n_clusters, n_features
    (1, 1, 1),
    (1, 7, 2),
    (31, 2, 1),
    (32, 3, 17),
    (33, 7, 2),
]
if not PLAIN:
    SHAPES += [(511, 2, 17), (513, 7, 2), (513, 3, 1), (70, 100, 17), (1500, 3, 2)]

KINDS = {  # container, dtype, resident
    "dense": (np.array, np.float64, False),
    "resident": (np.array, np.float64, True),
    "single": (np.array, np.float32, False),
    "single-resident": (np.array, np.float32, True),
    "csr": (sparse.csr_array, np.float64, False),
    "csr-single": (sparse.csr_array, np.float32, False),
}
# As Python, single precision rows of CSR are squared in single precision.
RTOL = {np.float64: 1e-12, np.float32: 1e-5}
ATOL = {np.float64: 1e-12, np.float32: 2e-6}

kinds = pytest.mark.parametrize("kind", KINDS)
some_kinds = pytest.mark.parametrize("kind", ["dense", "single", "csr"])
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
alphas = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.2])
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning" if PLAIN else "error")


@pytest.fixture(autouse=True)
def little_work_in_single(monkeypatch):
    """Single precision is used although it saves nothing."""
    monkeypatch.setattr(_assignment, "_SINGLE_WORK", 0)


@pytest.fixture
def many_chunks(monkeypatch):
    """Chunks of 32 rows, each a task of its own."""
    monkeypatch.setattr(_assignment, "_MAX_WIDTH", 32)
    monkeypatch.setattr(_assignment, "SERIAL_WORK", 0)


class Case(NamedTuple):
    problem: Problem
    rows: np.ndarray  # in the frame
    centers: np.ndarray  # in the frame
    rtol: float
    atol: float


def make_case(shape, kind="dense", alpha=1.0, weighted=False, seed=0):
    """Rows of a few blobs; centres near some of them."""
    n_samples, n_clusters, n_features = shape
    container, dtype, resident = KINDS[kind]
    random = np.random.RandomState(seed)
    groups = 3 * random.normal(size=(3, n_features))
    X = groups[random.randint(3, size=n_samples)] + random.normal(size=(n_samples, n_features))
    X[random.uniform(size=X.shape) < 0.1] = 0.0
    X = X.astype(dtype)
    weight = None
    if weighted:
        weight = random.uniform(0.2, 3.0, size=n_samples)
        weight[random.uniform(size=n_samples) < 0.2] = 0.0
        weight[0] = 1.0
    size = np.linalg.norm(X - X.mean(axis=0)) / np.sqrt(n_samples) or 1.0
    problem = Problem(
        container(X), weight, alpha=alpha, origin=X.mean(axis=0), size=size, resident=resident
    )
    rows = problem.rows_in_frame(np.arange(n_samples))
    centers = rows[random.randint(n_samples, size=n_clusters)]
    centers = centers + 0.2 * random.normal(size=centers.shape)
    return Case(problem, rows, centers, RTOL[dtype], ATOL[dtype])


class Expected(NamedTuple):
    resp: np.ndarray
    objective: np.ndarray  # of each row
    sq_distances: np.ndarray


def expect(case, sigma):
    """The definitions, with all scores relative to the nearest centre."""
    alpha = case.problem.alpha
    sq_distances = reference.sq_distances(case.rows, case.centers)
    nearest = sq_distances.min(axis=1)
    if sigma == 0:
        resp = reference.one_hot(sq_distances.argmin(axis=1), len(case.centers))
        return Expected(resp, nearest, sq_distances)
    gaps = sq_distances - nearest[:, None]
    resp = reference.entmax(-0.5 * gaps / sigma / sigma, alpha)
    entropy = -2 * sigma**2 * reference.negative_entropy(resp, alpha)
    return Expected(resp, nearest + (resp * gaps).sum(axis=1) - entropy, sq_distances)


def check_all(case, sigma):
    """Every output of a pass."""
    problem, rows, centers, rtol, atol = case
    expected = expect(case, sigma)
    weights = np.asarray(problem.weights)
    size = np.abs(rows).max() + np.abs(centers).max() + sigma

    resp = problem.responsibilities(centers, sigma)
    assert resp.dtype == problem.X.dtype
    np.testing.assert_allclose(resp, expected.resp, rtol=0, atol=atol)
    np.testing.assert_allclose(resp.sum(axis=1, dtype=float), 1, rtol=0, atol=atol)

    objective = problem.row_objective(centers, sigma)
    np.testing.assert_allclose(objective, expected.objective, rtol=rtol, atol=rtol * size**2)

    labels = problem.labels(centers, sigma)
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, resp.argmax(axis=1))

    statistics = problem.statistics(centers, sigma)
    shares = expected.resp * weights[:, None]
    total = weights.sum()
    np.testing.assert_allclose(statistics.sums, shares.T @ rows, atol=rtol * total * size)
    np.testing.assert_allclose(statistics.mass, shares.sum(axis=0), atol=rtol * total)
    scale = weights @ np.abs(expected.objective) + rtol * size**2 * total
    assert abs(statistics.objective - weights @ expected.objective) <= 10 * rtol * scale

    result = problem.assign(centers, sigma)
    np.testing.assert_array_equal(result.labels, labels)
    mass = statistics.mass * problem.weight_unit
    np.testing.assert_allclose(result.mass, mass, rtol=rtol, atol=rtol * total)
    square = problem.unit**2 * problem.weight_unit
    inertia = weights @ expected.sq_distances.min(axis=1) * square
    assert result.inertia == pytest.approx(inertia, rel=10 * rtol)
    assert result.objective == pytest.approx(
        statistics.objective * square, rel=10 * rtol, abs=10 * rtol * scale * square
    )


# -------------------------------------------------------------------- against definitions


@pytest.mark.parametrize("small", [1e-46, 1e-19])
@pytest.mark.parametrize("alpha, sigma", [(1.0, 0.22), (1.0, 0.5), (1.5, 0.75), (1.5, 1.2)])
def test_rows_of_small_weight_count_in_single_precision(alpha, sigma, small):
    """Some of them are weights that float32 does not have."""
    random = np.random.RandomState(0)
    centers = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 4.0]])
    labels = np.arange(600) % 3
    X = (centers[labels] + 0.25 * random.normal(size=(600, 2))).astype(np.float32)
    weight = np.where(labels == 2, small, 1.0)
    problem = Problem(X, weight, alpha=alpha, origin=np.zeros(2), size=1.0, resident=True)
    inside, sigma = problem.into_frame(centers), sigma / problem.unit
    in_single = problem._model(inside, sigma, {}).bias.dtype == np.float32
    assert in_single == (small > 1e-20)
    resp = problem.responsibilities(inside, sigma)
    assert (resp.max(axis=1) < 1.0 - 1e-7).any()
    mass = problem.statistics(inside, sigma).mass * problem.weight_unit
    expected = weight @ resp.astype(np.float64)
    np.testing.assert_allclose(mass, expected, rtol=1e-5)


def test_a_far_centre_has_its_small_mass_in_single_precision():
    """Where entmax is nearly softmax: without any mass the centre would be moved."""
    X = np.linspace(0.3, 0.7, 600, dtype=np.float32)[:, None]
    centers = np.array([[0.0], [1.0], [9.4]])
    single, double = (
        Problem(rows, alpha=1.01, origin=np.zeros(1), size=1.0, resident=True)
        for rows in (X, X.astype(np.float64))
    )
    inside, sigma = single.into_frame(centers), 1.0 / single.unit
    assert single._model(inside, sigma, {}).bias.dtype == np.float32
    found, expected = (problem.statistics(inside, sigma) for problem in (single, double))
    assert 0.0 < expected.mass[2] < 1e-18
    np.testing.assert_allclose(found.mass, expected.mass, rtol=1e-3)
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-3)


@kinds
@shapes
@alphas
@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_every_output_equals_its_definition(shape, kind, alpha, sigma):
    check_all(make_case(shape, kind, alpha, weighted=sigma == 1.0), sigma)


@kinds
@shapes
@pytest.mark.parametrize("weighted", [False, True])
def test_every_output_at_zero_temperature(shape, kind, weighted):
    check_all(make_case(shape, kind, weighted=weighted), 0.0)


@pytest.mark.parametrize("kind", ["single-resident", "resident", "dense"])
@pytest.mark.parametrize("alpha", [1.0, 1.5])
@pytest.mark.parametrize("sigma", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("shape", [(33, 3, 33), (130, 20, 40), (70, 100, 64)], ids=str)
def test_every_output_for_rows_of_many_features(shape, sigma, kind, alpha):
    """They are stored by rows, others by columns."""
    case = make_case(shape, kind, alpha, weighted=True)
    assert isinstance(case.problem._rows(), DenseRows)
    check_all(case, sigma)


@kinds
@alphas
@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 0.05, 30.0, 1e6])
def test_every_output_at_any_temperature(kind, alpha, sigma):
    check_all(make_case((45, 5, 3), kind, alpha, weighted=True), sigma)


@kinds
@alphas
@pytest.mark.parametrize("n_samples", [33, 130])
def test_every_output_over_several_chunks_and_tasks(n_samples, kind, alpha, many_chunks):
    case = make_case((n_samples, 4, 3), kind, alpha, weighted=True)
    width, n_tasks = case.problem._layout(4, 8, True)
    assert width == 32
    assert n_tasks == -(-n_samples // 32)
    check_all(case, 0.4)


@some_kinds
@alphas
@pytest.mark.parametrize("n_soft", [0, 1, 7, 8, 9, 31, 32])
def test_any_number_of_soft_rows_in_a_chunk(n_soft, kind, alpha):
    """Few soft rows are gathered, many are mapped where they are."""
    container, dtype, _ = KINDS[kind]
    random = np.random.RandomState(n_soft)
    X = random.uniform(-0.05, 0.05, size=(32, 2))
    X[:, 0] += 4
    X[random.permutation(32)[:n_soft], 0] -= 4
    centers = np.array([[-4.0, 0.0], [4.0, 0.0], [4.0, 30.0]])
    problem = Problem(container(X.astype(dtype)), alpha=alpha, origin=np.zeros(2), size=3.0)
    rows = problem.rows_in_frame(np.arange(32))
    case = Case(problem, rows, problem.into_frame(centers), RTOL[dtype], ATOL[dtype])
    sigma = 1.0 / problem.unit
    soft = expect(case, sigma).resp.max(axis=1) < 1 - 1e-9
    assert soft.sum() == n_soft
    check_all(case, sigma)


# ----------------------------------------------------------------------------- invariance


@some_kinds
@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_rows_kept_in_the_frame_give_the_same_bits(kind, alpha, sigma, many_chunks):
    one = make_case((100, 4, 3), kind, alpha, weighted=True)
    two = make_case((100, 4, 3), kind, alpha, weighted=True)
    two.problem._resident = not two.problem.is_sparse
    for _ in range(2):
        a = one.problem.statistics(one.centers, sigma)
        b = two.problem.statistics(two.centers, sigma)
        np.testing.assert_array_equal(a.sums, b.sums)
        np.testing.assert_array_equal(a.mass, b.mass)
        assert a.objective == b.objective


@some_kinds
@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.3, 3.0])
def test_zero_weight_is_removal(kind, alpha, sigma):
    with_them = make_case((80, 4, 3), kind, alpha, weighted=True)
    problem = with_them.problem
    kept = np.flatnonzero(problem.sample_weight)
    assert len(kept) < 80
    without = Problem(
        problem.X[kept],
        problem.sample_weight[kept],
        alpha=alpha,
        origin=problem.origin,
        size=problem.size,
    )
    a = problem.statistics(with_them.centers, sigma)
    b = without.statistics(with_them.centers, sigma)
    tolerance = {"rtol": with_them.rtol, "atol": with_them.rtol * a.mass.sum()}
    np.testing.assert_allclose(a.sums, b.sums, **tolerance)
    np.testing.assert_allclose(a.mass, b.mass, **tolerance)
    assert a.objective == pytest.approx(b.objective, rel=10 * with_them.rtol)


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("far, size", [(1e200, 1.0), (1e300, 1e-30)])
def test_rows_without_weight_may_lie_anywhere(far, size, sigma, alpha, container):
    """Where their squares overflow, or even their coordinates in the frame."""
    if PLAIN and alpha == 1 and sigma > 0:
        pytest.skip("the logarithm of 0 is an error outside compiled code")
    X = size * np.random.RandomState(0).normal(size=(40, 3))
    weight = np.ones(40)
    weight[[0, 5, 33]] = 0.0
    options = {"alpha": alpha, "origin": np.zeros(3), "size": size}
    without = Problem(container(X[weight > 0]), **options)
    X[[0, 5, 33]] = [[far, 0, 0], [0, -far, 0], [far, far, far]]
    with_them = Problem(container(X), weight, **options)
    centers = with_them.into_frame(X[1:4])
    for a, b in zip(
        with_them.statistics(centers, sigma), without.statistics(centers, sigma), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    a, b = with_them.assign(centers, sigma), without.assign(centers, sigma)
    np.testing.assert_array_equal(a.labels[weight > 0], b.labels)
    assert a.inertia == pytest.approx(b.inertia, rel=1e-12, abs=0)


@some_kinds
@alphas
def test_unit_weights_are_no_weights(kind, alpha):
    none = make_case((50, 4, 3), kind, alpha)
    problem = none.problem
    ones = Problem(problem.X, np.ones(50), alpha=alpha, origin=problem.origin, size=problem.size)
    a, b = problem.statistics(none.centers, 0.4), ones.statistics(none.centers, 0.4)
    np.testing.assert_array_equal(a.sums, b.sums)
    np.testing.assert_array_equal(a.mass, b.mass)
    assert a.objective == b.objective


@some_kinds
@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.2, 2.0])
def test_duplicate_rows_get_the_same_bits(kind, alpha, sigma):
    """Wherever they stand in a chunk."""
    container = KINDS[kind][0]
    distinct = make_case((23, 5, 3), kind, alpha)
    ids = np.random.RandomState(0).randint(23, size=160)
    X = sparse.csr_array(distinct.problem.X).toarray()[ids]
    problem = Problem(container(X), alpha=alpha, origin=X.mean(axis=0), size=2.0)
    centers = distinct.centers
    for rows in (
        problem.responsibilities(centers, sigma),
        problem.row_objective(centers, sigma),
        problem.labels(centers, sigma),
    ):
        for i in np.unique(ids):
            assert len(np.unique(rows[ids == i], axis=0)) == 1


@some_kinds
@alphas
@pytest.mark.parametrize("sigma", [0.2, 2.0, 50.0])
def test_duplicate_centres_share_equally(kind, alpha, sigma):
    case = make_case((40, 3, 4), kind, alpha)
    centers = case.centers[[0, 1, 2, 1, 0, 1]]
    resp = case.problem.responsibilities(centers, sigma)
    np.testing.assert_array_equal(resp[:, 0], resp[:, 4])
    np.testing.assert_array_equal(resp[:, 1], resp[:, 3])
    np.testing.assert_array_equal(resp[:, 1], resp[:, 5])
    mass = case.problem.statistics(centers, sigma).mass
    np.testing.assert_allclose(mass, resp.sum(axis=0, dtype=float), rtol=1e-5)


@some_kinds
@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.5, 100.0, 1e9])
def test_labels_are_the_first_of_the_largest_responsibilities(kind, alpha, sigma):
    """Rows halfway between centres, and temperatures at which all centres are nearly alike."""
    container, dtype, _ = KINDS[kind]
    grid = np.stack(np.meshgrid(np.arange(9), np.arange(9)), axis=-1).reshape(-1, 2) / 4
    centers = np.array([[2.0, 0], [0, 0], [0, 2], [2, 2], [1, 1], [0, 0]])
    X = np.vstack([grid, grid + 1e-9]).astype(dtype)
    problem = for_prediction(container(X), centers, sigma, alpha)
    model = problem.into_frame(centers), sigma / problem.unit
    resp = problem.responsibilities(*model)
    np.testing.assert_array_equal(problem.labels(*model), resp.argmax(axis=1))
    np.testing.assert_array_equal(problem.assign(*model).labels, resp.argmax(axis=1))
    middle = np.flatnonzero((grid == [1, 0]).all(axis=1))[0]  # between the first two centres
    assert resp[middle, 0] == resp[middle, 1] or sigma == 0


# ------------------------------------------------------------------------------- overflow


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("sigma", [0.0, 1.0, 1e200])
@alphas
def test_squares_that_overflow_are_reported(sigma, alpha, container):
    if PLAIN and alpha == 1 and sigma > 0:
        pytest.skip("the logarithm of 0 is an error outside compiled code")
    X = np.random.RandomState(0).normal(size=(40, 2))
    X[33] = [1e200, -1e200]
    problem = Problem(container(X), alpha=alpha, origin=np.zeros(2), size=1.0)
    for method in (problem.statistics, problem.assign, problem.labels, problem.responsibilities):
        with pytest.raises(ValueError, match=r"overflow float64.*Scale X down"):
            method(X[:3], sigma)


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_single_precision_rows_never_overflow(container):
    X = (1e38 * np.random.RandomState(0).uniform(-1, 1, size=(40, 2))).astype(np.float32)
    problem = Problem(container(X), alpha=1.0, origin=np.zeros(2), size=1e38)
    centers = problem.into_frame(X[:3])
    labels = problem.labels(centers, 0.01)
    np.testing.assert_array_equal(labels, reference.sq_distances(X, X[:3]).argmin(axis=1))


def test_centres_of_another_width_are_rejected():
    problem = Problem(np.zeros((3, 2)), alpha=1.0, origin=np.zeros(2), size=1.0)
    with pytest.raises(ValueError, match="X has 2 features, but the cluster centers have 3"):
        problem.labels(np.zeros((1, 3)), 0.0)


# ------------------------------------------------------------------------------ listed shares


def many_clusters(kind, alpha, weighted, n_samples=150 if PLAIN else 700):
    """Rows around 100 centres, the first of them halfway between all: it may be shared by all."""
    container, dtype, resident = KINDS[kind]
    random = np.random.RandomState(0)
    centers = random.normal(size=(100, 5))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    rows = centers[random.randint(100, size=n_samples)] + 0.02 * random.normal(size=(n_samples, 5))
    rows[0] = 0.0
    rows = rows.astype(dtype)
    weight = random.randint(3, size=n_samples).astype(float) if weighted else None
    problem = Problem(
        container(rows), weight, alpha=alpha, origin=np.zeros(5), size=0.9, resident=resident
    )
    assert problem.unit == 1.0
    return Case(problem, rows.astype(float), centers, RTOL[dtype], ATOL[dtype])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.2, 3.0])
def test_rows_with_few_of_many_clusters(kind, weighted, alpha):
    case = many_clusters(kind, alpha, weighted)
    sigma = {1.0: 0.08, 1.2: 0.2, 1.5: 0.3, 2.0: 0.4, 3.0: 0.5}[alpha]
    shares = (expect(case, sigma).resp > 1e-20).sum(axis=1)
    assert (shares > 1).sum() > len(shares) / 8  # soft rows that are no exception,
    assert shares[1:].mean() < 100 / 8  # with few clusters each
    assert shares[0] == 100  # but for one
    check_all(case, sigma)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_rows_with_a_share_of_more_and_more_clusters(alpha):
    case = many_clusters("dense", alpha, weighted=True)
    for sigma in np.geomspace(0.05, 2.0, 4 if PLAIN else 12):
        check_all(case, sigma)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_left_out_of_sums_is_below_rounding(dtype):
    case = many_clusters("single" if dtype == np.float32 else "dense", 1.0, weighted=False)
    margin = case.problem._model(case.centers, 0.1, {}).margin
    assert np.finfo(dtype).eps / 8 < 100 * np.exp(-margin) < np.finfo(dtype).eps
    assert case.problem._model(case.centers, 0.1, {"responsibilities": None}).margin == 745.0
    entmax = case.problem.with_map(1.5)
    assert entmax._model(case.centers, 0.1, {}).margin == pytest.approx(2.0)

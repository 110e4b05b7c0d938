"""The frame of a problem, and the layout of its passes."""

import numpy as np
import pytest
from scipy import sparse

import reference
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, _assignment, _jit
from sklearn_softkmeans._assignment import Problem, for_prediction
from sklearn_softkmeans._cells import cells_of

X = reference.blobs(3, n_samples=150, n_features=4, std=0.8, box=5.0, seed=3)
WEIGHT = reference.weights(len(X))

containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array])
alphas = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.2])


def make_problem(rows, *, alpha=1.0, weight=WEIGHT, origin=None, size=2.0, **options):
    origin = np.zeros(rows.shape[1]) if origin is None else origin
    return Problem(rows, weight, alpha=alpha, origin=origin, size=size, **options)


@pytest.fixture
def many_chunks(monkeypatch):
    """Chunks of 32 rows, each a task of its own."""
    monkeypatch.setattr(_assignment, "_MAX_WIDTH", 32)
    monkeypatch.setattr(_assignment, "SERIAL_WORK", 0)


# ------------------------------------------------------------------------------- the frame


@containers
def test_into_and_out_of_the_frame_are_inverse(container):
    problem = make_problem(container(X), origin=np.arange(4.0), size=3.0)
    inside = problem.into_frame(X[:5])
    np.testing.assert_allclose(problem.out_of_frame(inside), X[:5], rtol=1e-14)
    origin = np.arange(4.0) if container is np.array else np.zeros(4)
    np.testing.assert_allclose(inside * problem.unit, X[:5] - origin, rtol=1e-14)
    np.testing.assert_array_equal(problem.rows_in_frame(np.arange(5)), inside)


@pytest.mark.parametrize("size", [0.7, 1.0, 3.0, 1e-30, 1e30, 5e-324, 1e308])
def test_the_unit_is_a_power_of_two_near_the_size(size):
    unit = make_problem(X, size=size).unit
    assert np.frexp(unit)[0] == 0.5
    if 1e-300 < size < 1e300:
        assert size < 2 * unit <= 4 * size
    assert 0 < 1 / unit < np.inf


@containers
def test_given_weights_are_kept_and_others_are_ones(container):
    problem = make_problem(container(X))
    np.testing.assert_array_equal(problem.weights * problem.weight_unit, WEIGHT)
    assert 1 <= problem.weights.max() < 2
    ones = make_problem(container(X), weight=None).weights
    np.testing.assert_array_equal(ones, np.ones(150))
    assert ones.strides == (0,)


def outputs(problem, centers, sigma):
    """All that a fit asks for, in the frame."""
    statistics = problem.statistics(centers, sigma)
    return [
        statistics.sums,
        statistics.mass,
        np.array(statistics.objective),
        problem.row_objective(centers, sigma),
        problem.responsibilities(centers, sigma),
        problem.labels(centers, sigma),
        *problem.labels_and_gaps(centers),
        *cells_of(problem, centers),
    ]


def assert_same_bits(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@containers
@alphas
@pytest.mark.parametrize("exponent", [-90, -1, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_power_of_two_as_unit_changes_nothing_in_the_frame(dtype, exponent, alpha, container):
    rows = X.astype(dtype)
    plain = make_problem(container(rows), alpha=alpha)
    factor = dtype(2.0**exponent)
    scaled = make_problem(container(rows * factor), alpha=alpha, size=2.0 * float(factor))
    assert scaled.unit == plain.unit * float(factor)
    centers = plain.into_frame(X[:5] + 0.1)
    one, other = outputs(plain, centers, 0.3), outputs(scaled, centers, 0.3)
    assert_same_bits(one[:-1], other[:-1])
    np.testing.assert_array_equal(np.argsort(one[-1]), np.argsort(other[-1]))
    a, b = plain.assign(centers, 0.3), scaled.assign(centers, 0.3)
    assert b.inertia == a.inertia * float(factor) ** 2
    assert b.objective == a.objective * float(factor) ** 2


@alphas
def test_a_translation_changes_nothing_in_the_frame(alpha):
    """Where the numbers are short enough that it is exact."""
    rows = np.round(X * 2**12) / 2**12
    shift = np.array([1e6, -3e5, 17.0, 0.0])
    origin = np.array([0.5, 1.0, -2.0, 0.0])
    plain = make_problem(rows, alpha=alpha, origin=origin)
    moved = make_problem(rows + shift, alpha=alpha, origin=origin + shift)
    centers = plain.into_frame(X[:5] + 0.1)
    assert_same_bits(outputs(plain, centers, 0.3), outputs(moved, centers, 0.3))


@alphas
@containers
def test_the_frame_of_a_prediction_depends_on_the_centres_alone(container, alpha):
    centers = X[:4] + 0.2
    problem = for_prediction(container(X), centers, 0.5, alpha)
    few = for_prediction(container(1e9 * X[:2]), centers, 0.5, alpha)
    assert few.unit == problem.unit
    np.testing.assert_array_equal(few.origin, problem.origin)
    resp = problem.responsibilities(problem.into_frame(centers), 0.5 / problem.unit)
    expected = reference.responsibilities(X, centers, 0.5, alpha)
    np.testing.assert_allclose(resp, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sigma", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("center", [0.0, 1.0, -1e8])
def test_predictions_for_equal_centres_have_a_frame(sigma, center):
    centers = np.full((2, 3), center)
    problem = for_prediction(X[:, :3].copy(), centers, sigma, 1.0)
    assert 0 < problem.unit < np.inf
    resp = problem.responsibilities(problem.into_frame(centers), sigma / problem.unit)
    np.testing.assert_array_equal(resp, [[0.5, 0.5]] * 150 if sigma else [[1, 0]] * 150)


def test_rows_far_from_a_single_centre_do_not_overflow():
    """A row 1e60 away has a squared distance of 1e120, whatever sigma is."""
    rows = 1e60 * X
    problem = for_prediction(rows, rows[:1], 1.0, 1.0)
    np.testing.assert_array_equal(
        problem.labels(problem.into_frame(rows[:1]), 1.0 / problem.unit), 0
    )


@pytest.mark.parametrize(
    "sigma, weight", [(1e160, 1.0), (1e300, 1.0), (1e150, 1e200), (1.0, 1e306)], ids=str
)
def test_a_free_energy_that_overflows_is_an_error(sigma, weight):
    """Of a fit, whose objective is in the units of X and the weights; the numbers are all valid."""
    with pytest.raises(ValueError, match="The objective overflows float64"):
        SoftKMeans(3, sigma=sigma, random_state=0).fit(X, sample_weight=np.full(150, weight))


def test_the_mean_of_huge_centres_does_not_overflow():
    centers = np.full((40, 2), 1.5e308)
    assert for_prediction(centers, centers, 0.0, 1.0).origin == pytest.approx([1.5e308] * 2)


# ----------------------------------------------------------------------- working precision


def working_precision(problem, sigma, n_clusters=4):
    centers = problem.into_frame(X[:n_clusters])
    return problem._model(centers, sigma, {}).bias.dtype


@pytest.fixture
def little_work_in_single(monkeypatch):
    """Single precision is used although it saves nothing."""
    monkeypatch.setattr(_assignment, "_SINGLE_WORK", 0)


def test_single_precision_is_used_where_it_saves_time():
    problem = make_problem(X.astype(np.float32), origin=X.mean(axis=0), size=5.0)
    assert working_precision(problem, 0.0) == np.float32
    assert working_precision(problem, 30.0) == np.float64
    problem.n_samples = 2**22 // 16  # of 4 features, to 4 clusters
    assert working_precision(problem, 30.0) == np.float32


def test_single_precision_is_used_where_its_rounding_is_harmless(little_work_in_single):
    rows = X.astype(np.float32)
    origin = X.mean(axis=0)
    assert working_precision(make_problem(rows, origin=origin, size=5.0), 0.0) == np.float32
    assert working_precision(make_problem(rows, origin=origin, size=5.0), 30.0) == np.float32
    assert working_precision(make_problem(rows, origin=origin, size=5.0), 1e-3) == np.float64
    for other in (
        make_problem(rows, origin=origin, size=5.0, single=False),
        make_problem(X, origin=origin, size=5.0),
        make_problem(sparse.csr_array(rows), size=5.0),
        make_problem(rows, origin=origin, size=5.0, alpha=2.5),
    ):
        assert working_precision(other, 30.0) == np.float64


def test_the_precision_of_a_prediction_does_not_depend_on_the_rows():
    near, far = X.astype(np.float32), (1e3 * X).astype(np.float32)
    fitted = SoftKMeans.from_centers(X[:4], sigma=2.0)
    expected = fitted.transform(near), fitted.score_samples(near)
    together = np.vstack([far, near, far])
    np.testing.assert_array_equal(fitted.transform(together)[150:300], expected[0])
    np.testing.assert_array_equal(fitted.score_samples(together)[150:300], expected[1])


@pytest.mark.parametrize("sigma", [0.02, 0.5, 40.0])
@alphas
def test_either_precision_gives_the_results_of_float64(sigma, alpha, little_work_in_single):
    """Also for rows between two centres, where the rounding of scores matters most."""
    centers = X[:4] + 0.1
    middle = (centers[:, None] + centers).reshape(-1, 4) / 2
    rows = np.vstack([X, middle]).astype(np.float32)
    weight = np.r_[WEIGHT, np.ones(16)]
    options = {"alpha": alpha, "weight": weight, "origin": X.mean(axis=0), "size": 5.0}
    single = make_problem(rows, **options)
    double = make_problem(rows.astype(np.float64), **options)
    centers = single.into_frame(centers)
    resp = single.responsibilities(centers, sigma)
    np.testing.assert_allclose(resp, double.responsibilities(centers, sigma), rtol=0, atol=2e-6)
    for a, b in zip(
        single.statistics(centers, sigma), double.statistics(centers, sigma), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------ layout of passes


def layouts(rows, weight=None, resident=False):
    problem = make_problem(rows, weight=weight, resident=resident)
    return [
        (*problem._layout(k, itemsize, sums), problem._n_tasks(len(rows), k))
        for k in (1, 7, 300)
        for itemsize in (4, 8)
        for sums in (False, True)
    ]


def test_the_layout_depends_on_shapes_alone(monkeypatch):
    expected = layouts(X)
    assert layouts(1e9 * X, WEIGHT, resident=True) == expected
    for n_threads in (1, 3, 64):
        monkeypatch.setattr(_jit, "_n_threads", lambda n=n_threads: n)
        assert layouts(X) == expected


@pytest.mark.parametrize("n_clusters", [1, 8, 1000, 10**5])
@pytest.mark.parametrize("n_features", [1, 50, 784, 10**5])
def test_chunks_are_whole_vectors_and_sums_stay_small(n_features, n_clusters):
    problem = make_problem(np.broadcast_to(0.0, (10**6, n_features)), weight=None)
    for itemsize in (4, 8):
        width, n_tasks = problem._layout(n_clusters, itemsize, True)
        assert width % 32 == 0
        assert 32 <= width <= 512
        assert 1 <= n_tasks <= 64
        assert n_tasks == 1 or n_tasks * n_clusters * (n_features + 1) * 8 <= 2**26


@pytest.mark.parametrize("n_samples, width", [(1, 32), (31, 32), (32, 32), (33, 64), (10**4, 512)])
def test_few_rows_make_a_small_chunk(n_samples, width):
    assert make_problem(np.zeros((n_samples, 2)), weight=None)._layout(3, 8, True)[0] == width


def test_little_work_is_one_task():
    assert make_problem(X)._n_tasks(150, 4) == 1
    assert make_problem(np.zeros((10**6, 2)), weight=None)._n_tasks(1954, 8) == 64


@containers
@alphas
@pytest.mark.parametrize("sigma", [0.0, 0.4])
def test_any_number_of_threads_gives_the_same_bits(
    sigma, alpha, container, many_chunks, monkeypatch
):
    centers = X[:5] + 0.1
    found = []
    for n_threads in (1, 2, 3, 4):
        monkeypatch.setattr(_jit, "_n_threads", lambda n=n_threads: n)
        problem = make_problem(container(X), alpha=alpha, resident=n_threads % 2 == 0)
        closest = np.full(150, np.inf)
        found.append(
            [*outputs(problem, centers, sigma), problem.sq_distances(X[:3], closest)],
        )
    for other in found[1:]:
        assert_same_bits(found[0], other)


def test_tasks_change_results_by_rounding_only(many_chunks, monkeypatch):
    problem = make_problem(X)
    chunked = problem.statistics(X[:5] + 0.1, 0.4)
    monkeypatch.undo()
    assert make_problem(X)._layout(5, 8, True) == (160, 1)
    whole = make_problem(X).statistics(X[:5] + 0.1, 0.4)
    for a, b in zip(chunked, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# -------------------------------------------------------------------------- resident rows


def test_rows_are_loaded_once_for_each_layout(many_chunks):
    problem = make_problem(X, resident=True)
    centers = X[:5] + 0.1
    problem.statistics(centers, 0.4)
    (first,) = problem._blocks.values()
    problem.statistics(centers, 0.7)
    (again,) = problem._blocks.values()
    assert first.blocks is again.blocks
    problem._rows(np.dtype(np.float64), 64)
    (other,) = problem._blocks.values()
    assert other.blocks is not first.blocks


def test_sparse_rows_and_single_chunks_are_not_loaded(many_chunks):
    for problem in (
        make_problem(sparse.csr_array(X), resident=True),
        make_problem(X[:32], weight=None, resident=True),
        make_problem(X),
    ):
        problem.statistics(X[:5] + 0.1, 0.4)
        assert not problem._blocks


def test_read_only_input_is_accepted():
    rows, weight = X.copy(), WEIGHT.copy()
    rows.flags.writeable = weight.flags.writeable = False
    expected = make_problem(X).statistics(X[:3], 0.5)
    found = make_problem(rows, weight=weight).statistics(X[:3], 0.5)
    assert_same_bits(found, expected)


# ------------------------------------------------------------------------------------ keys


@containers
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [1, 2, 40])
def test_equal_rows_have_equal_keys(n_features, dtype, container):
    rows = np.random.RandomState(0).normal(1e3, 1, (4501, n_features)).astype(dtype)
    rows = np.vstack([rows, rows[::-1]])
    keys = make_problem(container(rows)).row_keys()
    np.testing.assert_array_equal(keys[:4501], keys[4501:][::-1])
    assert make_problem(container(rows[7:8])).row_keys()[0] == keys[7]


@containers
def test_keys_are_projections_on_one_direction(container):
    rows = np.random.RandomState(0).normal(size=(25, 6))
    direction = make_problem(container(np.eye(6))).row_keys()
    assert len(np.unique(direction)) == 6
    keys = make_problem(container(rows)).row_keys()
    np.testing.assert_allclose(keys, rows @ direction, rtol=0, atol=1e-13)


@pytest.mark.parametrize("sigma", ["auto", 0.7])
@pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
def test_fits_of_many_single_precision_rows_are_those_of_double(make, sigma):
    rows = reference.blobs(12, n_samples=30_000, n_features=16, std=1.0, box=4.0, seed=0)
    rows = rows.astype(np.float32)
    assert rows.size * 12 > _assignment._SINGLE_WORK
    options = {"n_clusters": 12, "sigma": sigma, "init": "exchange", "random_state": 0}
    single = make(**options).fit(rows)
    double = make(**options).fit(rows.astype(np.float64))
    assert single.sigma_ == pytest.approx(double.sigma_, rel=1e-5)
    spread = np.linalg.norm(rows - rows.mean(axis=0)) / np.sqrt(len(rows))
    np.testing.assert_allclose(
        single.cluster_centers_, double.cluster_centers_, rtol=0, atol=1e-5 * spread
    )
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-6)
    assert (np.diff(single.objective_path_) <= 0.0).all()
    assert (single.labels_ == double.labels_).mean() > 0.9999

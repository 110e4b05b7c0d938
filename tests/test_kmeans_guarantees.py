"""What users of scikit-learn's KMeans rely on, for the estimators near sigma = 0."""

import re
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import reference
from models import fit_quietly
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

HARD = {
    "softmax-0": partial(SoftKMeans, sigma=0),
    "entmax-0": partial(EntmaxKMeans, sigma=0),
    "softmax-small": partial(SoftKMeans, sigma=1e-3),
    "entmax-small": partial(EntmaxKMeans, sigma=1e-3),
}
hard = pytest.mark.parametrize("make", HARD.values(), ids=HARD)
every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array, sparse.csr_matrix])
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

TRUE_CENTERS = np.array([[4.0, 0, 0, 1, 0], [0, 0, 5.0, 0, 0], [0, 4.0, 0, 0, 3.0]])
X, TRUE_LABELS = make_blobs(120, centers=TRUE_CENTERS, cluster_std=0.8, random_state=3)
WEIGHT = reference.weights(len(X))


def assert_finds_the_blobs(fitted):
    assert fitted.cluster_centers_.shape == (3, 5)
    assert adjusted_rand_score(TRUE_LABELS, fitted.labels_) == 1.0
    assert fitted.inertia_ > 0


def assert_same_fit(one, other, rtol=1e-9):
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_allclose(one.cluster_centers_, other.cluster_centers_, rtol=rtol, atol=1e-12)
    assert one.objective_ == pytest.approx(other.objective_, rel=rtol)


# ---------------------------------------------------------------- small results


@hard
@containers
@dtypes
def test_a_problem_solved_by_hand(make, container, dtype):
    rows = container(np.array([[0], [1], [4], [6]], dtype=dtype))
    fitted = make(2, init=np.array([[0], [6]], dtype=dtype))
    fitted.fit(rows, sample_weight=[1, 3, 1, 1])
    np.testing.assert_array_equal(fitted.labels_, [0, 0, 1, 1])
    np.testing.assert_allclose(fitted.cluster_centers_, [[0.75], [5.0]], rtol=1e-6)
    assert fitted.inertia_ == pytest.approx(0.5625 + 3 * 0.0625 + 1 + 1, rel=1e-6)
    np.testing.assert_allclose(fitted.cluster_mass_, [4, 2], rtol=1e-6)
    assert fitted.n_iter_ <= 3
    assert fitted.converged_


@hard
@containers
def test_one_iteration_moves_to_the_means_and_labels_by_the_moved_centres(make, container):
    start = X[:4].copy()
    fitted = fit_quietly(make(4, init=start, max_iter=1), container(X))
    moved = reference.lloyd_step(X, start)
    assert fitted.n_iter_ == 1
    np.testing.assert_allclose(fitted.cluster_centers_, moved, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(fitted.labels_, reference.sq_distances(X, moved).argmin(axis=1))


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@containers
def test_one_soft_iteration_is_the_reference_step(alpha, container):
    start = X[:4].copy()
    make = SoftKMeans(4) if alpha == 1 else EntmaxKMeans(4, alpha)
    make.set_params(init=start, max_iter=1, sigma=1.7)
    fitted = fit_quietly(make, container(X), WEIGHT)
    moved = reference.em_step(X, start, 1.7, alpha, WEIGHT)
    np.testing.assert_allclose(fitted.cluster_centers_, moved, rtol=1e-9, atol=1e-12)


@hard
@containers
@dtypes
def test_inertia_is_the_weighted_sum_of_squares_to_the_nearest_centre(make, container, dtype):
    rows = X.astype(dtype)
    fitted = make(4, random_state=0).fit(container(rows), sample_weight=WEIGHT)
    expected = reference.distortion(rows, fitted.cluster_centers_, WEIGHT)
    assert fitted.inertia_ == pytest.approx(expected, rel=1e-6)
    assert isinstance(fitted.inertia_, float)


# --------------------------------------------------------------- empty clusters


@hard
@containers
def test_an_empty_cluster_takes_the_row_served_worst(make, container):
    rows = container([[0.0], [1], [5], [6]])
    fitted = make(2, init=np.array([[0.5], [100.0]])).fit(rows)
    np.testing.assert_allclose(fitted.cluster_centers_, [[0.5], [5.5]], rtol=1e-12)
    np.testing.assert_array_equal(fitted.labels_, [0, 0, 1, 1])
    assert fitted.inertia_ == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["softmax-0", "entmax-0"])
@containers
def test_several_empty_clusters_take_the_next_worst_rows(name, container):
    rows = container([[0.0], [1], [2], [3], [10], [20]])
    fitted = fit_quietly(HARD[name](3, init=np.zeros((3, 1)), max_iter=1), rows)
    np.testing.assert_allclose(np.sort(fitted.cluster_centers_.ravel()), [1.5, 10, 20], rtol=1e-12)
    np.testing.assert_array_equal(
        fitted.cluster_centers_.ravel()[fitted.labels_], [1.5, 1.5, 1.5, 1.5, 10, 20]
    )


@hard
@containers
def test_a_relocated_cluster_keeps_a_row_of_small_weight(make, container):
    rows = container([[-1.0], [1.0]])
    fitted = make(2, init=np.array([[-1.0], [10.0]])).fit(rows, sample_weight=[1.9, 0.1])
    np.testing.assert_allclose(fitted.cluster_centers_, [[-1], [1]], rtol=1e-12)
    np.testing.assert_array_equal(fitted.labels_, [0, 1])


@pytest.mark.parametrize("name", ["softmax-0", "entmax-0"])
@containers
def test_more_centres_than_distinct_rows_ends_with_a_warning(name, container):
    rows = np.array([[0.0, 0], [1, 1], [1, 1], [1, 0], [0, 1]])
    estimator = HARD[name](5, init=rows)
    with pytest.warns(ConvergenceWarning, match=r"\b4\b.*\b5\b"):
        estimator.fit(container(rows))
    assert estimator.n_iter_ <= 3
    assert estimator.n_distinct_clusters_ == 4
    assert np.isfinite(estimator.cluster_centers_).all()
    assert estimator.inertia_ == pytest.approx(0, abs=1e-20)


@hard
@pytest.mark.parametrize("seed", range(3))
def test_a_repeated_row_leaves_one_cluster_fewer_and_says_so(make, seed):
    rows = np.array([[0.0, 0], [0, 1], [1, 0], [1, 0]])
    estimator = make(4, random_state=seed)
    with pytest.warns(ConvergenceWarning, match=r"\b3\b.*\b4\b"):
        estimator.fit(rows)
    assert len(set(estimator.labels_)) == 3


# ------------------------------------------------------------------ convergence


@hard
@pytest.mark.parametrize("seed", range(3))
def test_zero_tolerance_stops_before_max_iter(make, seed):
    rows = np.random.RandomState(seed).normal(size=(2000, 5))
    fitted = make(5, random_state=seed, tol=0).fit(rows)
    assert fitted.n_iter_ < fitted.max_iter
    assert fitted.stop_reason_ == "stagnation"


@hard
def test_more_iterations_give_a_lower_objective(make):
    rows = np.random.RandomState(0).normal(size=(100, 10))
    short = fit_quietly(make(8, random_state=0, max_iter=1), rows)
    long = make(8, random_state=0).fit(rows)
    assert long.objective_ < short.objective_
    assert long.n_iter_ > 1


@hard
@containers
def test_starting_at_the_solution_changes_nothing(make, container):
    rows = container(X)
    first = make(3, random_state=0).fit(rows)
    again = make(3, init=first.cluster_centers_).fit(rows)
    assert_same_fit(first, again)
    assert again.n_iter_ <= 2


def test_starting_at_a_soft_solution_changes_less_than_the_tolerance():
    first = SoftKMeans(3, random_state=0).fit(X)
    again = SoftKMeans(3, sigma=first.sigma_, init=first.cluster_centers_).fit(X)
    scale = np.sqrt(X.var(axis=0).sum())
    shift = np.abs(first.cluster_centers_ - again.cluster_centers_).max()
    assert shift <= 2e-4 * scale
    assert again.n_iter_ <= first.n_iter_


@every
def test_verbose_reports_every_iteration_and_silence_is_the_default(make, capsys):
    fitted = make(3, random_state=0, verbose=1).fit(X)
    lines = re.findall(r"(?i)iteration\D*\d+", capsys.readouterr().out)
    assert len(lines) >= fitted.n_iter_
    make(3, random_state=0).fit(X)
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------ initial centres


def as_function(values):
    return lambda X, n_clusters, random_state: values


@hard
@containers
@pytest.mark.parametrize(
    "init",
    [
        "k-means++",
        np.str_("k-means++"),
        "random",
        TRUE_CENTERS,
        TRUE_CENTERS.tolist(),
        as_function(TRUE_CENTERS),
        as_function(TRUE_CENTERS.tolist()),
    ],
    ids=["k-means++", "numpy-string", "random", "array", "list", "function", "function-list"],
)
def test_every_kind_of_init_finds_the_blobs(make, container, init):
    n_init = 10 if isinstance(init, str) else "auto"
    assert_finds_the_blobs(make(3, init=init, n_init=n_init, random_state=2).fit(container(X)))


def test_a_function_is_called_with_data_number_and_random_state():
    calls = []

    def init(data, n_clusters, random_state):
        calls.append((data.shape, n_clusters))
        return data[random_state.permutation(len(data))[:n_clusters]]

    SoftKMeans(3, init=init, n_init=4, random_state=0).fit(X)
    assert calls == [(X.shape, 3)] * 4


@every
def test_auto_means_ten_runs_for_random_starts_and_one_for_the_others(make):
    calls = []

    def init(data, n_clusters, random_state):
        calls.append(n_clusters)
        return data[random_state.permutation(len(data))[:n_clusters]]

    make(3, init=init, random_state=0).fit(X)
    assert len(calls) == 10
    for name, n_init in (("k-means++", 1), ("random", 10)):
        auto = make(6, init=name, random_state=5, n_init="auto").fit(X)
        fixed = make(6, init=name, random_state=5, n_init=n_init).fit(X)
        np.testing.assert_array_equal(auto.cluster_centers_, fixed.cluster_centers_)


@every
@pytest.mark.parametrize("init", [TRUE_CENTERS, TRUE_CENTERS.tolist()], ids=["array", "list"])
def test_an_explicit_init_is_run_once_and_warns_only_when_asked_for_more(make, init):
    for n_init in ("auto", 1):
        make(3, init=init, n_init=n_init).fit(X)  # any warning would be an error
    with pytest.warns(RuntimeWarning, match="n_init"):
        fitted = make(3, init=init, n_init=10).fit(X)
    assert_same_fit(fitted, make(3, init=init).fit(X))


@hard
def test_more_runs_are_never_worse(make):
    objectives = [
        fit_quietly(make(6, init="random", n_init=n, random_state=0, max_iter=1), X).objective_
        for n in (1, 3, 10, 30)
    ]
    assert (np.diff(objectives) <= 0).all()
    assert objectives[-1] < objectives[0]


@every
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_given_centres_are_neither_changed_nor_shared(make, dtype):
    start = TRUE_CENTERS.astype(dtype)
    before = start.copy()
    fitted = make(3, init=start).fit(X.astype(dtype))
    np.testing.assert_array_equal(start, before)
    assert not np.may_share_memory(fitted.cluster_centers_, start)
    centers = fitted.cluster_centers_.copy()
    start[:] = 77
    np.testing.assert_array_equal(fitted.cluster_centers_, centers)


# ---------------------------------------------------------- layouts and precision


@every
@containers
@dtypes
@pytest.mark.parametrize("max_iter", [1, 2, 100])
def test_predict_on_the_training_data_gives_the_labels(make, container, dtype, max_iter):
    rows = container(X.astype(dtype))
    estimator = make(6, init="random", n_init=3, max_iter=max_iter, random_state=0)
    fitted = fit_quietly(estimator, rows)
    np.testing.assert_array_equal(fitted.predict(rows), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(fitted.cluster_centers_), np.arange(6))


@every
@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_and_dense_data_give_the_same_fit(make, init, container):
    rows = np.where(X > 1, X, 0)
    dense = make(3, init=init, random_state=0).fit(rows, sample_weight=WEIGHT)
    other = make(3, init=init, random_state=0).fit(container(rows), sample_weight=WEIGHT)
    assert_same_fit(dense, other)
    np.testing.assert_array_equal(dense.predict(container(rows)), dense.labels_)
    np.testing.assert_array_equal(other.predict(rows), dense.labels_)
    np.testing.assert_allclose(
        dense.transform(container(rows)), other.transform(rows), rtol=0, atol=1e-9
    )


@every
@containers
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("explicit", [False, True])
def test_integers_are_computed_in_float64(make, container, dtype, explicit):
    values = np.array([[1, 0], [11, 10], [10, 12], [-1, 1], [0, 2], [9, 11]], dtype=dtype)
    init = values[:2] if explicit else "k-means++"
    fitted = make(2, sigma=0.1, init=init, random_state=0).fit(container(values))
    assert fitted.cluster_centers_.dtype == np.float64
    assert adjusted_rand_score(fitted.labels_, [0, 1, 1, 0, 0, 1]) == 1
    np.testing.assert_allclose(
        np.sort(fitted.cluster_centers_, axis=0), [[0, 1], [10, 11]], rtol=0, atol=1e-12
    )


@every
@containers
def test_single_precision_agrees_with_double_precision(make, container):
    double = make(4, tol=1e-6, random_state=0).fit(container(X))
    rows = container(X.astype(np.float32))
    single = make(4, tol=1e-6, random_state=0).fit(rows)
    assert single.cluster_centers_.dtype == np.float32
    assert single.transform(rows).dtype == np.float32
    np.testing.assert_array_equal(single.labels_, double.labels_)
    np.testing.assert_allclose(single.cluster_centers_, double.cluster_centers_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(single.transform(rows), double.transform(X), rtol=0, atol=1e-4)
    assert single.inertia_ == pytest.approx(double.inertia_, rel=1e-4)


@every
def test_layout_of_data_and_centres_does_not_matter(make):
    expected = make(3, init=TRUE_CENTERS).fit(X)
    padded = np.empty((len(X), 10))
    padded[:, ::2] = X
    for rows in (np.asfortranarray(X), padded[:, ::2], X[::-1].copy()[::-1]):
        fitted = make(3, init=np.asfortranarray(TRUE_CENTERS)).fit(rows)
        np.testing.assert_array_equal(fitted.cluster_centers_, expected.cluster_centers_)
        np.testing.assert_array_equal(fitted.predict(rows), expected.labels_)


@every
@containers
def test_predict_works_on_read_only_centres_and_leaves_them(make, container):
    rows = container(X)
    fitted = make(3, random_state=0).fit(rows)
    expected = fitted.transform(rows)
    fitted.cluster_centers_.flags.writeable = False
    before = fitted.cluster_centers_.copy()
    np.testing.assert_array_equal(fitted.predict(rows), fitted.labels_)
    np.testing.assert_array_equal(fitted.transform(rows), expected)
    assert np.isfinite(fitted.score(rows))
    np.testing.assert_array_equal(fitted.cluster_centers_, before)


@every
def test_inputs_are_left_as_they_were(make):
    rows, weight = X.copy(), WEIGHT.copy()
    fitted = make(3, random_state=0).fit(rows, sample_weight=weight)
    fitted.score(rows, sample_weight=weight)
    make(3, random_state=0).fit_predict(rows, sample_weight=weight)
    make(3, random_state=0).fit_transform(rows, sample_weight=weight)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(weight, WEIGHT)


@every
def test_without_a_copy_the_data_are_restored_to_rounding(make):
    rows = X.copy()
    fitted = make(3, random_state=0, copy_x=False).fit(rows)
    np.testing.assert_allclose(rows, X, rtol=0, atol=1e-12)
    assert_same_fit(fitted, make(3, random_state=0).fit(X), rtol=1e-8)

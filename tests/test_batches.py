"""Stochastic EM: batches of the data, and streams."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import entr
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from models import fit_quietly, run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, _blocks
from sklearn_softkmeans._assignment import Problem
from sklearn_softkmeans._minibatch import (
    Running,
    Smoothed,
    drawn_by_weight,
    kept_share,
    step,
)

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
X = reference.blobs(8, n_samples=8000, n_features=5, std=1.0, box=10.0, seed=0)


def stream(estimator, rows, batch_size, seed=0, weights=None):
    order = np.random.RandomState(seed).permutation(rows.shape[0])
    for start in range(0, len(order), batch_size):
        ids = order[start : start + batch_size]
        estimator.partial_fit(rows[ids], sample_weight=None if weights is None else weights[ids])
    return estimator


def inertia(estimator, rows):
    return ((rows - estimator.cluster_centers_[estimator.predict(rows)]) ** 2).sum()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([SoftKMeans(n_clusters=2, batch_size=7), EntmaxKMeans(batch_size=7)])
def test_scikit_learn_check(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------- one step


def frame(X, weights=None, *, alpha=1.5, origin=0.0):
    """Rows in a frame whose unit is 2."""
    origin = np.full(X.shape[1], origin)
    return Problem(X, weights, alpha=alpha, origin=origin, size=1.5)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_a_step_is_the_mean_of_what_is_remembered_and_the_batch(container, alpha):
    centers, batch = X[:3].copy(), X[100:140]
    weights = np.random.RandomState(0).uniform(0.5, 2.0, size=40)
    mass = np.array([50.0, 30.0, 20.0])
    problem = frame(container(batch), weights, alpha=alpha, origin=1.0)
    running = Running(problem.into_frame(centers), mass)
    moved, statistics = step(problem, running, 2.0 / problem.unit)
    resp = reference.responsibilities(batch, centers, 2.0, alpha) * weights[:, None]
    kept = mass * (400.0 / (400.0 + weights.sum())) ** 3  # a quarter of 400 is remembered
    expected = (kept[:, None] * centers + resp.T @ batch) / (kept + resp.sum(axis=0))[:, None]
    np.testing.assert_allclose(problem.out_of_frame(moved.centers), expected, rtol=1e-10)
    np.testing.assert_allclose(moved.mass, kept + resp.sum(axis=0), rtol=1e-10)
    assert np.isfinite(statistics.objective)


def test_a_quarter_is_remembered_however_rows_are_divided():
    for batch in (1.0, 20.0):
        remembered = batch
        for _ in range(int(20_000 / batch)):
            remembered = remembered * kept_share(remembered, batch) + batch
        assert remembered == pytest.approx(5000.0, rel=0.05)
    assert kept_share(0.0, 1.0) == 0.0


def test_the_first_batch_leaves_no_memory_of_centres_without_mass():
    problem = frame(X[:50], alpha=1.0)
    moved, _ = step(problem, Running(problem.into_frame(X[:2]), np.zeros(2)), 1.0 / problem.unit)
    resp = reference.responsibilities(X[:50], X[:2], 1.0, 1.0)
    expected = resp.T @ X[:50] / resp.sum(axis=0)[:, None]
    np.testing.assert_allclose(problem.out_of_frame(moved.centers), expected)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_a_dead_centre_moves_to_the_furthest_row(container):
    problem = frame(container(np.array([[0.0], [1.0], [9.0], [0.5]])))
    running = Running(np.array([[0.0], [-10.0]]), np.array([400.0, 0.04]))
    moved, _ = step(problem, running, 0.05)
    np.testing.assert_allclose(moved.centers[1], 4.5)
    assert moved.mass[1] == pytest.approx(0.02 * (moved.mass[0] / 2), rel=0.02)
    early, _ = step(problem, Running(running.centers, np.array([40.0, 0.004])), 0.05)
    np.testing.assert_array_equal(early.centers[1], -10.0)  # too few rows to judge
    nowhere_to_go = frame(container(np.zeros((3, 1))))
    still, _ = step(nowhere_to_go, Running(np.zeros((2, 1)), np.array([400.0, 0.04])), 0.05)
    np.testing.assert_array_equal(still.centers, 0.0)


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e200])
def test_a_centre_stays_where_its_rows_would_lose_more(unit):
    problem = frame(np.array([[0.0], [1.0], [9.0], [0.5]]), np.full(4, unit))
    # Of a hundred rows for each cluster 0.4 times 0.98 are its own, and lie at the distance 10 of
    # the next one; the row at 4.5 is one.
    mass = unit * np.array([400.0, 0.8])
    for place, stays in ((-10.0, True), (-8.0, True), (-6.0, False)):
        moved, _ = step(problem, Running(np.array([[0.0], [place]]), mass), 0.05)
        assert (moved.centers[1] == place) == stays


def test_centres_of_least_loss_move_first():
    problem = frame(np.array([[0.0], [9.0], [0.5]]))
    running = Running(np.array([[0.0], [-10.0], [-3.0]]), np.array([900.0, 0.4, 0.1]))
    moved, _ = step(problem, running, 0.05)
    np.testing.assert_allclose(moved.centers[1:], [[-10.0], [4.5]])


def test_a_stream_ends_when_its_average_stops_falling():
    falling, flat, noisy = Smoothed(1e-3), Smoothed(1e-3), Smoothed(1e-3)
    assert not any(falling.ends_with(1.0 / t, 1.0 / t) for t in range(1, 120))
    assert [flat.ends_with(-1.0, 1.0) for _ in range(120)].index(True) == 99
    slow = [2000.0 - 0.01 * step for step in range(200)]  # half of tol, in as many steps as count
    by_less_than_tol, by_anything = Smoothed(1e-3), Smoothed(0.0)
    assert [by_less_than_tol.ends_with(mean, 1000.0) for mean in slow].index(True) < 120
    assert not any(by_anything.ends_with(mean, 1000.0) for mean in slow)
    noise = np.random.RandomState(0).normal(size=2000)
    ends = [noisy.ends_with(1.0 + 0.01 * e, 1.0) for e in noise]
    assert ends.index(True) < 300


# ------------------------------------------------------------------------------------ draws


def test_rows_of_equal_weight_are_drawn_once_each():
    for weights in (None, np.full(50, 0.1), np.full(50, 3e-9)):
        order = drawn_by_weight(weights, 50, np.random.RandomState(0))
        np.testing.assert_array_equal(np.sort(order), np.arange(50))
        assert (order[:-1] > order[1:]).any()


def test_rows_are_drawn_by_their_weight():
    weights = np.random.RandomState(0).exponential(size=200) * (np.arange(200) % 3 > 0)
    weights[7] = 40.0
    random = np.random.RandomState(1)
    counts = np.array(
        [np.bincount(drawn_by_weight(weights, 200, random), minlength=200) for _ in range(400)]
    )
    expected = weights * np.count_nonzero(weights) / weights.sum()
    assert np.abs(counts - expected).max() < 1.0 + 1e-9
    np.testing.assert_allclose(counts.mean(axis=0), expected, atol=0.1)
    assert not counts[:, weights == 0.0].any()


# ------------------------------------------------------------------------- batches of the data


@every
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_fitted_attributes_belong_to_all_rows(container, make):
    rows = container(X)
    weights = np.random.RandomState(0).uniform(0.0, 2.0, size=len(X))
    weights[::5] = 0.0
    model = make(8, batch_size=100, random_state=0).fit(rows, sample_weight=weights)
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    sq_distances = ((X - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    assert model.inertia_ == pytest.approx(weights @ sq_distances, rel=1e-6)
    mass = weights @ np.asarray(
        make.from_centers(model.cluster_centers_, sigma=model.sigma_).transform(rows)
    )
    np.testing.assert_allclose(model.cluster_mass_, mass)
    np.testing.assert_array_equal(model.objective_path_, [model.objective_])
    assert model.stop_reason_ == "tol"
    assert model.n_steps_ >= 100


@every
def test_fits_in_batches_are_as_good_as_full_ones_and_deterministic(make):
    full = np.median([make(8, random_state=s).fit(X).inertia_ for s in range(5)])
    fits = [make(8, batch_size=256, random_state=s).fit(X) for s in range(5)]
    assert np.median([m.inertia_ for m in fits]) <= 1.01 * full
    again = make(8, batch_size=256, random_state=0).fit(X)
    np.testing.assert_array_equal(again.cluster_centers_, fits[0].cluster_centers_)


@every
def test_units_of_data_and_weights_change_nothing(make):
    plain = make(8, batch_size=200, random_state=0).fit(X)
    scaled = make(8, batch_size=200, random_state=0).fit(
        1024.0 * X, sample_weight=np.full(len(X), 4.0)
    )
    np.testing.assert_allclose(scaled.cluster_centers_, 1024.0 * plain.cluster_centers_, rtol=1e-9)
    assert scaled.n_steps_ == plain.n_steps_


def test_max_iter_counts_epochs(capsys):
    model = SoftKMeans(3, batch_size=1000, max_iter=2, tol=0.0, verbose=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 epochs"):
        model.fit(X)
    # 3000 of 8000 rows, batches of the others, and those of another epoch
    assert (model.n_iter_, model.n_steps_) == (2, 1 + 5 + 8)
    assert (model.stop_reason_, model.converged_) == ("max_iter", False)
    printed = capsys.readouterr().out
    assert "run batches, iteration 14: sigma" in printed
    assert "run batches, iteration 15" not in printed


@every
def test_few_rows_are_fitted_without_batches(make):
    few = make(8, batch_size=64, random_state=0).fit(X[:400])
    np.testing.assert_array_equal(
        few.cluster_centers_, make(8, random_state=0).fit(X[:400]).cluster_centers_
    )
    assert not hasattr(few, "n_steps_")
    assert make(8, batch_size=64, random_state=0).fit(X[:401]).n_steps_ > 1


@every
def test_weights_are_rows(make):
    """A heavy row is found wherever it is, and rows without weight may lie anywhere."""
    rows = np.concatenate([X, [[60.0] * 5], [[1e9] * 5]])
    weights = np.concatenate([np.ones(len(X)), [1e5], [0.0]])
    model = make(9, batch_size=128, random_state=0).fit(rows, sample_weight=weights)
    assert np.abs(model.cluster_centers_ - 60.0).sum(axis=1).min() < 1e-6
    assert np.abs(model.cluster_centers_).max() < 61.0
    assert model.n_distinct_clusters_ == 9


@every
def test_perplexity_is_that_of_the_first_rows(make):
    model = make(8, perplexity=1.1, batch_size=500, random_state=0).fit(X)
    shares = model.transform(X)
    found = np.exp(entr(shares).sum(axis=1)).mean()
    assert found == pytest.approx(1.1, rel=0.02)
    stream_model = make(8, perplexity=1.1, random_state=0).partial_fit(X[:2000])
    assert stream_model.sigma_ == pytest.approx(model.sigma_, rel=0.1)
    with pytest.raises(ValueError, match="perplexity"):
        make(8, perplexity=1.1, sigma=1.0).partial_fit(X)


@pytest.mark.parametrize(
    "init", ["random", "annealing", "exchange", X[:8], lambda X, k, **_: X[:k]]
)
@pytest.mark.parametrize("solver", ["em", "anderson", "lbfgs"])
def test_starts_and_solvers_are_those_of_the_first_rows(init, solver):
    model = SoftKMeans(8, init=init, n_init=1, solver=solver, batch_size=300, random_state=0)
    fit_quietly(model, X)
    again = fit_quietly(clone(model), X)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    assert model.n_steps_ > 50
    assert model.inertia_ < 2.5 * SoftKMeans(8, init="exchange", random_state=0).fit(X).inertia_


def test_any_number_of_threads_gives_the_same_bits():
    code = """
import json
import numpy as np
from sklearn_softkmeans import SoftKMeans
X = np.random.RandomState(0).normal(size=(30000, 20))
model = SoftKMeans(40, batch_size=2000, random_state=0, max_iter=1).fit(X)
streamed = SoftKMeans(40, random_state=0).partial_fit(X[:9000]).partial_fit(X[9000:20000])
print(json.dumps([model.cluster_centers_.tolist(), streamed.cluster_centers_.tolist()]))
"""
    assert run_python(code, NUMBA_NUM_THREADS="1") == run_python(code, NUMBA_NUM_THREADS="2")


class Ending:
    """A callback that ends the fit with a task, and keeps the names of all."""

    def __init__(self, task):
        self.task, self.names = task, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.names.append(context.task_name)
        ready = fitted_estimator.predict(X[:9]).shape == (9,)
        return ready and context.task_name.startswith(self.task)


def test_a_callback_is_told_of_steps_and_ends_them():
    pytest.importorskip("sklearn.callback")
    ending = Ending("run batches")
    model = SoftKMeans(8, batch_size=200, random_state=0).set_callbacks(ending).fit(X)
    assert model.stop_reason_ == "callback"
    assert model.n_steps_ == 2
    assert "run batches, iteration 2" in ending.names
    assert len(model.labels_) == len(X)
    at_once = SoftKMeans(8, batch_size=200, random_state=0).set_callbacks(Ending("run 0")).fit(X)
    assert (at_once.stop_reason_, at_once.n_steps_) == ("callback", 1)


def test_inertia_falls_with_the_number_of_clusters():
    rows = np.random.RandomState(0).uniform(size=(100_000, 3))
    fits = [SoftKMeans(k, batch_size=500, random_state=0).fit(rows) for k in range(2, 21, 3)]
    found = [model.inertia_ for model in fits]
    assert found == sorted(found, reverse=True)
    assert fits[0].inertia_ == pytest.approx(inertia(fits[0], rows))  # of all rows


SIXTEEN = np.array(
    [
        [-2636.705, 892.6364, 239.4284],
        [-2676.219, 922.741, 227.3839],
        [-2628.628, 902.6482, 245.5609],
        [-2612.497, 860.9032, 248.924],
        [-2639.552, 993.8482, 211.2253],
        [-2602.453, 958.7801, 211.5786],
        [-2598.118, 1032.398, 177.4023],
        [-2582.155, 972.5088, 203.5048],
        [-2548.377, 803.9934, 279.4388],
        [-2550.095, 979.9586, 222.6467],
        [-2746.966, 1021.456, 188.8456],
        [-2745.181, 984.1931, 199.6674],
        [-2729.113, 973.8251, 201.8876],
        [-2720.765, 1014.262, 205.0213],
        [-2747.317, 1099.313, 146.2305],
        [-2739.32, 1005.173, 200.297],
    ]
)


@every
@pytest.mark.parametrize("n_clusters", [7, 11, 12, 13, 16])
def test_there_are_as_many_clusters_as_asked_for(n_clusters, make):
    rows = np.repeat(SIXTEEN, 200, axis=0)
    model = make(n_clusters, sigma=1.0, batch_size=128, random_state=0).fit(rows)
    assert model.n_steps_ > 1
    assert len(np.unique(model.labels_)) == n_clusters
    few = make(n_clusters, sigma=1.0, batch_size=5, random_state=0).fit(SIXTEEN)
    assert len(np.unique(few.labels_)) == n_clusters


@every
@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_batches_of_a_memory_map(dtype, make, tmp_path, monkeypatch):
    monkeypatch.setattr(_blocks, "_SMALL_MAP_BYTES", 0)
    rows = (100 * X).astype(dtype)
    rows.tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", dtype, "r", shape=rows.shape)
    found = make(8, batch_size=300, random_state=0).fit(mapped)
    expected = make(8, batch_size=300, random_state=0).fit(rows)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-9)
    np.testing.assert_array_equal(found.labels_, expected.labels_)


def test_blocks_are_no_batches():
    with pytest.raises(ValueError, match="batch_size=5 must be None"):
        SoftKMeans(2, batch_size=5).fit_blocks(lambda: iter([X]))


# -------------------------------------------------------------------------------- a stream


@every
@pytest.mark.parametrize("name", ["digits", "blobs"])
def test_one_epoch_of_a_stream_is_within_two_percent(name, make):
    rows = load_digits().data if name == "digits" else X
    k = 10 if name == "digits" else 8
    full = np.median([make(k, random_state=s).fit(rows).inertia_ for s in range(5)])
    found = [inertia(stream(make(k, random_state=s), rows, 256, s), rows) for s in range(5)]
    assert np.median(found) <= 1.02 * full


@every
def test_rows_wait_until_there_are_as_many_as_clusters(make):
    model = make(3, sigma=1.0, random_state=0)
    for rows in (X[:0], [], X[:1], X[1:2]):
        assert model.partial_fit(rows) is model
        with pytest.raises(NotFittedError):
            model.predict(X)
    model.partial_fit(sparse.csr_array(X[:0]))
    model.partial_fit(X[2:4])
    expected = make(3, sigma=1.0, random_state=0).partial_fit(X[:4])
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.n_steps_ == 1
    assert "_waiting" not in vars(model)
    centers = model.cluster_centers_.copy()
    model.partial_fit(X[:2], sample_weight=[0.0, 0.0]).partial_fit(X[:0])
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    assert model.partial_fit(X[9:10]).n_steps_ == 2  # one row, fewer than clusters


@every
def test_dense_rows_wait_for_sparse_ones(make):
    model = make(3, sigma=1.0, random_state=0)
    model.partial_fit(X[:2]).partial_fit(sparse.csr_array(X[2:4]))
    expected = make(3, sigma=1.0, random_state=0).partial_fit(X[:4])
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, rtol=1e-9)


@every
def test_a_stream_goes_on_from_a_fit_and_from_given_centres(make):
    model = make(8, random_state=0).fit(X)
    before, mass = model.cluster_centers_.copy(), model.cluster_mass_.copy()
    model.partial_fit(X[:100])
    assert 0.0 < np.abs(model.cluster_centers_ - before).max() < 0.5
    assert model.cluster_mass_.sum() < mass.sum() + 100
    assert model.n_steps_ == 1
    for name in ("labels_", "inertia_", "objective_", "n_iter_"):
        assert not hasattr(model, name)
    given = make.from_centers(before, sigma=1.0).partial_fit(X[:100])
    assert given.n_steps_ == 1
    model.fit(X)
    assert not hasattr(model, "n_steps_")
    np.testing.assert_array_equal(model.cluster_centers_, before)


@every
def test_a_small_cluster_that_lies_apart_is_kept(make):
    random = np.random.RandomState(0)
    centers = random.uniform(-10.0, 10.0, size=(20, 10))
    centers[0] = 60.0
    labels = random.randint(1, 20, size=20_000)
    labels[::7000] = 0  # three rows: 0.3 % of the mean mass
    rows = centers[labels] + random.normal(size=(20_000, 10))
    model = make(20, init=centers).fit(rows)
    for start in range(0, 20_000, 500):
        model.partial_fit(rows[start : start + 500])
    assert np.abs(model.cluster_centers_ - 60.0).max(axis=1).min() < 3.0
    assert inertia(model, rows) < 1.01 * inertia(make(20, init=centers).fit(rows), rows)


@every
def test_clusters_that_end_give_their_centres_to_new_ones(make):
    random = np.random.RandomState(2)
    before = random.uniform(-10.0, 10.0, size=(10, 10))
    after = before.copy()
    after[:2] = random.uniform(-10.0, 10.0, size=(2, 10))
    labels = random.randint(10, size=30_000)
    noise = random.normal(size=(30_000, 10))
    model = stream(make(10, random_state=0), (before[labels] + noise)[:3000], 500)
    rows = after[labels] + noise
    for start in range(0, 60_000, 500):
        model.partial_fit(rows[start % 30_000 : start % 30_000 + 500])
    assert inertia(model, rows) < 1.1 * inertia(make(10, init=after).fit(rows), rows)


@every
def test_a_stream_keeps_its_precision_and_forgets_no_features(make):
    model = make(3, sigma=1.0).partial_fit(X[:50].astype(np.float32)).partial_fit(X[50:90])
    assert model.cluster_centers_.dtype == np.float32
    with pytest.raises(ValueError, match="2 features"):
        model.partial_fit(X[:5, :2])
    with pytest.raises(ValueError, match="Negative"):
        model.partial_fit(X[:1], sample_weight=[-1.0])
    copy = X[:40].copy()
    model.partial_fit(copy)
    np.testing.assert_array_equal(copy, X[:40])


@every
def test_integers_do_not_stay_integers(make):
    model = make(1, sigma=1.0).partial_fit([[1], [2]])
    np.testing.assert_allclose(model.cluster_centers_, [[1.5]])
    images = np.random.RandomState(0).choice([0, 255], size=(60, 3)).astype(np.uint8)
    of_bytes = make(2, sigma=1.0, random_state=0).partial_fit(images).partial_fit(images)
    of_floats = make(2, sigma=1.0, random_state=0)
    of_floats.partial_fit(images.astype(float)).partial_fit(images.astype(float))
    np.testing.assert_array_equal(of_bytes.cluster_centers_, of_floats.cluster_centers_)
    assert of_bytes.cluster_centers_.dtype == np.float64


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_change_nothing(bad, make):
    model = make(3, sigma=1.0, random_state=0).partial_fit(X[:50])
    centers, rows = model.cluster_centers_.copy(), X[50:60].copy()
    rows[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.partial_fit(rows)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.partial_fit(X[:1], sample_weight=[bad])
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    assert model.n_steps_ == 1


@every
def test_what_waits_outlasts_an_error(make):
    model = make(3, sigma=1.0, init=np.zeros((2, 5)), random_state=0).partial_fit(X[:2])
    for bad in ({"X": X[2:9, :4]}, {"X": X[2:9]}, {"X": X[2:9], "sample_weight": [-1.0] * 7}):
        with pytest.raises(ValueError, match=r"features|initial centers|Negative"):
            model.partial_fit(**bad)
    model.set_params(init="k-means++").partial_fit(X[2:9])
    expected = make(3, sigma=1.0, random_state=0).partial_fit(X[:9])
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)


@every
def test_a_batch_that_was_refused_leaves_no_features(make):
    model = make(3, sigma=1.0, random_state=0)
    with pytest.raises(ValueError, match="Negative"):
        model.partial_fit(X[:9], sample_weight=[-1.0] * 9)
    model.partial_fit(X[:9], sample_weight=np.zeros(9))
    assert model.partial_fit(X[:9, :2]).n_features_in_ == 2


@every
def test_weights_that_overflow_change_nothing(make):
    model = make(3, sigma=1.0, random_state=0)
    with pytest.raises(ValueError, match="must be finite"):
        model.partial_fit(X[:9], sample_weight=np.full(9, 1e308))
    model.partial_fit(X[:2], sample_weight=np.full(2, 5e307))
    with pytest.raises(ValueError, match="must be finite"):
        model.partial_fit(X[2:4], sample_weight=np.full(2, 5e307))
    model.partial_fit(X[2:9], sample_weight=np.full(7, 5e306))
    centers, mass = model.cluster_centers_.copy(), model.cluster_mass_.copy()
    with pytest.raises(ValueError, match="must be finite"):
        model.partial_fit(X[:9], sample_weight=np.full(9, 1e307))
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    np.testing.assert_array_equal(model.cluster_mass_, mass)
    model.partial_fit(X[:1], sample_weight=[4e307])
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite(model.cluster_mass_).all()


@every
def test_centres_that_overflow_change_nothing(make):
    model = make(3, sigma=1.0, random_state=0).partial_fit(X[:50].astype(np.float32))
    centers = model.cluster_centers_.copy()
    with pytest.raises(ValueError, match="overflow float32"):
        model.partial_fit(1e100 * X[:50])
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    assert model.n_steps_ == 1


@every
def test_parameters_that_change_along_a_stream(make):
    model = make(3, sigma=4.0, random_state=0).partial_fit(X[:500])
    hot = clone(model).partial_fit(X[:500])
    model.set_params(sigma=1.0).partial_fit(X[500:1000])
    cold = make.from_centers(hot.cluster_centers_, sigma=1.0)
    cold.cluster_mass_ = hot.cluster_mass_
    cold.partial_fit(X[500:1000])
    assert model.sigma_ == 1.0
    np.testing.assert_array_equal(model.cluster_centers_, cold.cluster_centers_)
    with pytest.raises(ValueError, match="n_clusters=4, but the stream has 3 centers"):
        model.set_params(n_clusters=4).partial_fit(X[:9])
    with pytest.raises(ValueError, match="'sigma' parameter"):
        model.set_params(n_clusters=3, sigma=-1.0).partial_fit(X[:9])


def test_alpha_may_change_along_a_stream():
    model = EntmaxKMeans(3, alpha=2.0, sigma=1.0, random_state=0).partial_fit(X[:500])
    other = SoftKMeans.from_centers(model.cluster_centers_, sigma=1.0)
    other.cluster_mass_ = model.cluster_mass_
    model.set_params(alpha=1.0).partial_fit(X[500:900])
    np.testing.assert_array_equal(
        model.cluster_centers_, other.partial_fit(X[500:900]).cluster_centers_
    )
    with pytest.raises(ValueError, match="'alpha' parameter"):
        model.set_params(alpha=0.5).partial_fit(X[:9])


def test_what_is_no_batch():
    with pytest.raises(TypeError, match="sequence or array-like"):
        SoftKMeans(3).partial_fit(5)
    with pytest.raises(ValueError, match="batch_size"):
        SoftKMeans(3, batch_size=0).partial_fit(X)


@every
def test_rows_that_count_may_be_few(make):
    weights = np.zeros(len(X))
    weights[[5, 70, 900]] = 1.0, 2.0, 4.0
    model = make(3, sigma=1e-3, batch_size=100, random_state=0).fit(X, sample_weight=weights)
    assert sorted(model.cluster_mass_) == pytest.approx([1.0, 2.0, 4.0])
    assert model.inertia_ == pytest.approx(0.0, abs=1e-9)
    weights[:600] += 1.0  # beyond the first ones of 500 or more
    model = make(8, batch_size=10, random_state=0).fit(X, sample_weight=weights)
    counted = weights > 0.0
    alone = make(8, batch_size=10, random_state=0).fit(X[counted], sample_weight=weights[counted])
    assert model.n_steps_ > 1
    np.testing.assert_allclose(model.cluster_centers_, alone.cluster_centers_, rtol=1e-9)


@every
def test_warnings_point_at_the_caller(make):
    with pytest.warns(RuntimeWarning, match="n_init=3") as caught:
        make(3, init=X[:3], n_init=3, sigma=1.0).partial_fit(X[:20])
    assert caught[0].filename == __file__
    rows = np.repeat([[0.0], [5.0]], [95, 5], axis=0)
    with pytest.warns(ConvergenceWarning, match="cannot be reached") as caught:
        make(2, perplexity=1.7, random_state=0).partial_fit(rows)
    assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="after the first batch: 1, fewer") as caught:
        make(2, random_state=0).partial_fit(np.ones((9, 2)))
    assert caught[0].filename == __file__

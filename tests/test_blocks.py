"""Fits to rows in blocks: those of all rows at once, to the rounding of sums."""

import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import reference
from models import fit_quietly, model, run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, _blocks
from sklearn_softkmeans._centers import _gap_limit

X = 20.0 + reference.blobs(6, n_samples=3000, n_features=4, std=1.0, box=6.0, seed=0)
START = X[:6]
WEIGHTS = np.random.RandomState(1).uniform(0.0, 3.0, size=len(X))
WEIGHTS[::9] = 0.0
CUTS = [0, 0, 1, 4, 700, 705, 2999, 3000]  # an empty block, single rows, fewer than clusters

every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])


def cut(rows, weights=None, cuts=CUTS):
    """A callable that gives blocks of the rows."""
    parts = [slice(*pair) for pair in pairwise(cuts)]
    if weights is None:
        return lambda: (rows[part] for part in parts)
    return lambda: ((rows[part], weights[part]) for part in parts)


def fit_blocks_quietly(estimator, blocks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit_blocks(blocks)


def assert_same_fit(found, expected, rounding=1e-9):
    scale = np.abs(expected.cluster_centers_).max()
    np.testing.assert_allclose(
        found.cluster_centers_, expected.cluster_centers_, rtol=0, atol=rounding * scale
    )
    for name in ("sigma_", "inertia_", "objective_", "cluster_mass_", "objective_path_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rounding)
    for name in ("n_iter_", "stop_reason_", "n_distinct_clusters_", "n_features_in_"):
        assert getattr(found, name) == getattr(expected, name)
    assert found.cluster_centers_.dtype == expected.cluster_centers_.dtype


# ------------------------------------------------------------------------- the same numbers


@every_alpha
@pytest.mark.parametrize("sigma", ["auto", 0.0, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_blocks_give_the_fit_of_all_rows(container, weights, dtype, sigma, alpha):
    rows = container(X.astype(dtype))
    if sigma == 1.0:
        sigma = alpha  # many rows are shared
    estimator = model(alpha, 6, sigma=sigma, init=START)
    expected = fit_quietly(model(alpha, 6, sigma=sigma, init=START), rows, weights)
    # Where many rows are shared, chunks of float32 are multiplied in single precision.
    rounding = 1e-6 if dtype == np.float32 and sigma == alpha else 1e-9
    assert_same_fit(fit_blocks_quietly(estimator, cut(rows, weights)), expected, rounding)
    assert not hasattr(estimator, "labels_")
    np.testing.assert_array_equal(estimator.predict(rows), expected.labels_)


@every_alpha
def test_blocks_of_whole_chunks_give_the_digits_of_float32_too(alpha):
    rows = X.astype(np.float32)
    pair = [model(alpha, 6, sigma=alpha, init=START, max_iter=20) for _ in range(2)]
    blocks = cut(rows, WEIGHTS, cuts=[0, 512, 2048, 3000])
    assert_same_fit(fit_blocks_quietly(pair[0], blocks), fit_quietly(pair[1], rows, WEIGHTS))


@pytest.mark.parametrize("solver", ["em", "anderson", "lbfgs"])
def test_every_solver_works_on_blocks(solver):
    estimators = [SoftKMeans(6, sigma=0.8, init=START, solver=solver) for _ in range(2)]
    assert_same_fit(estimators[0].fit_blocks(cut(X)), estimators[1].fit(X), 1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e140])
def test_units_and_offsets_of_blocks_cost_no_digit(scale):
    rows = (X + 1e6) * scale
    estimators = [SoftKMeans(6, sigma=scale, init=rows[:6]) for _ in range(2)]
    found, expected = estimators[0].fit_blocks(cut(rows)), estimators[1].fit(rows)
    spread = np.abs(X - X.mean(axis=0)).max() * scale
    np.testing.assert_allclose(
        found.cluster_centers_, expected.cluster_centers_, rtol=0, atol=1e-8 * spread
    )


@every_alpha
def test_centres_that_lost_all_rows_find_new_ones(alpha):
    start = np.vstack([X[:4], X[:2] + 500.0])
    for sigma in (0.0, 0.3):
        pair = [model(alpha, 6, sigma=sigma, init=start) for _ in range(2)]
        found = fit_blocks_quietly(pair[0], cut(X, WEIGHTS))
        assert_same_fit(found, fit_quietly(pair[1], X, WEIGHTS))
        rows = sparse.csr_array(X)
        assert_same_fit(fit_blocks_quietly(pair[0], cut(rows)), fit_quietly(pair[1], rows))


def test_an_underflowed_centre_goes_to_its_nearest_row_whatever_the_blocks():
    rows = np.array([[0.0], [1.0], [2.0]])
    estimator = SoftKMeans(3, sigma=0.1, init=[[0.0], [1.0], [1000.0]])
    for cuts in ([0, 3], [0, 1, 2, 3], [0, 2, 3]):
        found = estimator.fit_blocks(cut(rows, np.array([1.0, 1.0, 1.0]), cuts))
        np.testing.assert_allclose(found.cluster_centers_.ravel(), [0.0, 1.0, 2.0], atol=1e-9)


@every
def test_blocks_with_and_without_weights_and_of_two_precisions_mix(make):
    weights = np.concatenate([np.full(1000, 3.0), np.ones(2000)])
    rows = X.astype(np.float32).astype(np.float64)

    def blocks():
        yield rows[:500], weights[:500]
        yield rows[500:1000].astype(np.float32), weights[500:1000]
        yield rows[1000:]

    found = make(6, sigma=1.0, init=START).fit_blocks(blocks)
    assert_same_fit(found, make(6, sigma=1.0, init=START).fit(rows, sample_weight=weights))


@every
@pytest.mark.parametrize("rows", [X, X[:, :1], np.repeat(X[:30], 40, axis=0)])
def test_sigma_auto_of_blocks_is_that_of_all_rows(rows, make):
    start = np.unique(rows, axis=0)[:: max(len(np.unique(rows, axis=0)) // 6, 1)][:6]
    pair = [make(6, init=start, max_iter=1) for _ in range(2)]
    found = fit_blocks_quietly(pair[0], cut(rows, cuts=[0, 100, 101, len(rows)])).sigma_
    assert found == pytest.approx(fit_quietly(pair[1], rows).sigma_, rel=1e-9)


def test_sigma_auto_by_the_largest_variance_has_one_pass_or_many(monkeypatch):
    rows = (
        np.random.RandomState(0).normal(size=(300, 40)) + 100.0 * np.eye(3, 40)[np.arange(300) % 3]
    )
    expected = SoftKMeans(3, init=rows[:3], max_iter=1)
    fit_quietly(expected, rows)
    for limit in (1024, 1):
        monkeypatch.setattr("sklearn_softkmeans._centers._LARGE_MATRIX", limit)
        found = SoftKMeans(3, init=rows[:3], max_iter=1)
        fit_blocks_quietly(found, cut(rows, cuts=[0, 7, 200, 300]))
        assert found.sigma_ == pytest.approx(expected.sigma_, rel=1e-9)


@every
def test_constant_rows_and_coincident_centres(make):
    found = fit_blocks_quietly(
        make(2, init=np.zeros((2, 3))), cut(np.zeros((9, 3)), cuts=[0, 4, 9])
    )
    np.testing.assert_array_equal(found.cluster_centers_, 0.0)
    assert found.sigma_ > 0
    same = fit_blocks_quietly(
        make(2, init=[[1.0], [1.0]]), cut(np.arange(9.0)[:, None], cuts=[0, 4, 9])
    )
    assert same.sigma_ == fit_quietly(make(2, init=[[1.0], [1.0]]), np.arange(9.0)[:, None]).sigma_


# -------------------------------------------------------------------------- initial centres


@every
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_initial_centres_depend_neither_on_blocks_nor_on_the_order_of_rows(init, make):
    settings = {"init": init, "n_init": 1, "max_iter": 1, "random_state": 3, "sigma": 1.0}
    first = fit_blocks_quietly(make(6, **settings), cut(X, WEIGHTS)).cluster_centers_
    order = np.random.RandomState(0).permutation(len(X))
    for cuts in ([0, 3000], [0, 10, 2000, 3000]):
        blocks = cut(X[order], WEIGHTS[order], cuts)
        other = fit_blocks_quietly(make(6, **settings), blocks).cluster_centers_
        np.testing.assert_allclose(other, first, rtol=1e-9)
    settings["random_state"] = 4
    assert not np.allclose(fit_blocks_quietly(make(6, **settings), cut(X)).cluster_centers_, first)


def test_drawn_centres_are_as_good_as_those_of_kmeans_plusplus():
    rows = reference.blobs(30, n_samples=6000, n_features=5, std=1.0, box=10.0, seed=1)
    blocks = cut(rows, cuts=[0, 1000, 4000, 6000])
    found = [SoftKMeans(30, sigma=0.5, random_state=s).fit_blocks(blocks) for s in range(5)]
    usual = [SoftKMeans(30, sigma=0.5, random_state=s).fit(rows) for s in range(5)]
    assert np.median([m.inertia_ for m in found]) <= 1.02 * np.median([m.inertia_ for m in usual])


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_rows_without_weight_are_never_drawn_and_few_different_rows_are_found(init):
    rows = np.repeat([[0.0, 0.0], [1.0, 1.0], [1e9, 0.0]], [200, 49, 5], axis=0)
    weights = np.where(rows[:, 0] > 1.0, 0.0, 1.0)
    for seed in range(10):
        estimator = SoftKMeans(2, sigma=0.1, init=init, n_init=1, random_state=seed)
        estimator.fit_blocks(cut(rows, weights, [0, 100, 220, 254]))
        np.testing.assert_allclose(np.sort(estimator.cluster_centers_[:, 0]), [0, 1], atol=1e-12)
    with pytest.warns(ConvergenceWarning, match="distinct cluster centers found: 2"):
        SoftKMeans(4, sigma=0.1, init=init, n_init=1).fit_blocks(cut(rows, weights, [0, 254]))


# ------------------------------------------------------------------------------- bad blocks


def test_a_generator_that_was_read_already_is_an_error():
    once = iter([X[:10], X[10:]])
    with pytest.raises(ValueError, match=r"found 3000 rows, a later one 0.*new iterator"):
        SoftKMeans(2).fit_blocks(lambda: once)
    with pytest.raises(TypeError, match="callable that returns a new iterator"):
        SoftKMeans(2).fit_blocks(iter([X]))


@pytest.mark.parametrize(
    "blocks, message",
    [
        ([], "no rows in any block"),
        ([X[:0]], "no rows in any block"),
        ([X[:1]], "n_samples=1 should be >= n_clusters=2"),
        ([X, X[:, :2]], "2 features, but SoftKMeans is expecting 4"),
        ([X, sparse.csr_array(X)], "Some blocks are sparse"),
        ([(X, WEIGHTS, 1)], r"tuple \(X, sample_weight\), got a tuple of 3"),
        ([(X, 0 * WEIGHTS)], "all zero"),
        ([(X, WEIGHTS[:-1])], "sample_weight"),
        ([(X, np.full(3000, 1e308))] * 2, "finite, and their sum"),
        ([X, X * np.nan], "NaN"),
        ([X, [["a", "b", "c", "d"]]], "could not convert|numeric"),
    ],
)
def test_bad_blocks_are_named(blocks, message):
    with pytest.raises(ValueError, match=message):
        SoftKMeans(2).fit_blocks(lambda: iter(blocks))


def test_a_callable_init_needs_all_rows():
    with pytest.raises(ValueError, match="init must be an array"):
        SoftKMeans(2, init=lambda X, n_clusters, random_state: X[:2]).fit_blocks(cut(X))


def test_lists_and_data_frames_are_blocks_too():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    found = SoftKMeans(6, sigma=1.0, init=START).fit_blocks(
        lambda: iter([frame[:9], frame[9:9], frame[9:]])
    )
    assert list(found.feature_names_in_) == list("abcd")
    assert_same_fit(found, SoftKMeans(6, sigma=1.0, init=START).fit(frame))
    with pytest.raises(ValueError, match="feature names"):
        SoftKMeans(6).fit_blocks(lambda: iter([frame, frame.rename(columns={"a": "z"})]))
    listed = SoftKMeans(2, sigma=1.0, init=START[:2]).fit_blocks(
        lambda: iter([X[:9].tolist(), [], X[9:].tolist()])
    )
    assert_same_fit(listed, SoftKMeans(2, sigma=1.0, init=START[:2]).fit(X))


def test_labels_of_an_earlier_fit_are_gone():
    estimator = SoftKMeans(2).fit(X)
    estimator.fit_blocks(cut(X))
    assert not hasattr(estimator, "labels_")
    with pytest.raises(NotFittedError):
        SoftKMeans(2).predict(X)


# ------------------------------------------------------------------------------ memory maps


@pytest.fixture
def small_blocks(monkeypatch):
    """Every memory map counts as large, and has several blocks."""
    monkeypatch.setattr(_blocks, "_SMALL_MAP_BYTES", 0)
    monkeypatch.setattr(_blocks, "_BLOCK_BYTES", 2**14)


def mapped(folder, rows, mode="r", order="C"):
    path = folder / "rows.bin"
    written = np.memmap(path, rows.dtype, "w+", shape=rows.shape, order=order)
    written[:] = rows
    written.flush()
    return np.memmap(path, rows.dtype, mode, shape=rows.shape, order=order)


@every_alpha
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("mode, order", [("r", "C"), ("r+", "C"), ("c", "C"), ("r", "F")])
def test_a_memory_map_gives_the_fit_of_an_array(alpha, dtype, mode, order, tmp_path, small_blocks):
    rows = (10 * X).astype(dtype)
    X_map = mapped(tmp_path, rows, mode, order)
    pair = [model(alpha, 6, init=rows[:6]) for _ in range(2)]
    for source in (X_map, X_map[500:], X_map[::2]):
        found = fit_quietly(pair[0], source, WEIGHTS[: len(source)])
        expected = fit_quietly(pair[1], np.array(source), WEIGHTS[: len(source)])
        assert_same_fit(found, expected)
        np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(X_map, rows)


def test_a_memory_map_without_a_start_and_with_a_callable(tmp_path, small_blocks):
    X_map = mapped(tmp_path, X)

    def first_rows(rows, n_clusters, random_state):
        assert rows is X_map
        return rows[:n_clusters]

    found = SoftKMeans(6, init=first_rows, n_init=1).fit(X_map)
    assert_same_fit(found, SoftKMeans(6, init=START).fit(X))
    drawn = SoftKMeans(6, random_state=0).fit(X_map)
    np.testing.assert_array_equal(drawn.fit_predict(X_map), drawn.labels_)
    with pytest.raises(ValueError, match="n_samples=3000 should be >= n_clusters=4000"):
        SoftKMeans(4000).fit(X_map)


def test_a_small_memory_map_is_an_array(tmp_path):
    found, expected = (SoftKMeans(6, random_state=0).fit(rows) for rows in (mapped(tmp_path, X), X))
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)


PEAK = """
import json, re, sys, warnings
import numpy as np
from sklearn_softkmeans import EntmaxKMeans

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read()).group(1)) // 1024

warnings.simplefilter("ignore")
EntmaxKMeans(3, max_iter=2, random_state=0).fit(np.random.RandomState(0).normal(size=(99, 32)))
before = peak()
X = np.memmap(sys.argv[1], np.float64, "r", shape=(1_600_000, 32))
model = EntmaxKMeans(3, max_iter=2, random_state=0).fit(X)
print(json.dumps([before, peak(), len(model.labels_)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the process files of Linux")
def test_a_memory_map_is_never_in_memory_as_a_whole(tmp_path):
    path = tmp_path / "rows.bin"
    with path.open("wb") as file:  # 391 MiB, of which the disk holds the first
        file.write(np.random.RandomState(0).normal(size=(4000, 32)).tobytes())
        file.truncate(1_600_000 * 32 * 8)
    before, after, n_labels = run_python(PEAK, path)
    assert n_labels == 1_600_000
    assert after - before < 150


# -------------------------------------------------------------------- other parameters


@every_alpha
def test_the_perplexity_of_blocks_is_that_of_all_rows(alpha):
    params = {"perplexity": 1.3, "init": START, "tol": 1e-8}
    expected = fit_quietly(model(alpha, 6, **params), X, WEIGHTS)
    found = fit_blocks_quietly(model(alpha, 6, **params), cut(X, WEIGHTS))
    np.testing.assert_allclose(found.sigma_, expected.sigma_, rtol=1e-6)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-6)


@pytest.mark.parametrize("init", ["annealing", "exchange"])
def test_starts_that_need_all_rows_are_refused(init):
    with pytest.raises(ValueError, match=f"init='{init}' needs all rows in memory"):
        SoftKMeans(6, init=init).fit_blocks(cut(X))


def test_impossible_perplexities_are_refused():
    with pytest.raises(ValueError, match="perplexity=9"):
        SoftKMeans(6, perplexity=9).fit_blocks(cut(X))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_halfway_between_all_centres_set_no_limit_to_sigma(container):
    rows = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 0.5]])
    blocks = _blocks.Blocks(lambda: iter([(container(rows), None), (container(rows[:2]), None)]))
    problem = _blocks.BlockProblem(blocks, alpha=1.0)
    centers = problem.into_frame(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert _gap_limit(problem, centers) == np.inf

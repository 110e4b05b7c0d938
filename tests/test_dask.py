"""Fits on dask: those of the rows in memory, whatever the blocks and the scheduler."""

import importlib
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from models import fit_quietly, run_python
from sklearn_softkmeans import (
    EntmaxKMeans,
    SoftKMeans,
    objective_and_gradient,
    soft_kmeans_path,
)
from sklearn_softkmeans.dask import DaskEntmaxKMeans, DaskSoftKMeans
from sklearn_softkmeans.inspection import critical_sigma, hard_sigma

X = 20.0 + reference.blobs(6, n_samples=3000, n_features=4, std=1.0, box=6.0, seed=0)
START = X[:6]
WEIGHTS = np.random.RandomState(1).uniform(0.0, 3.0, size=len(X))
WEIGHTS[::9] = 0.0
SIZES = (0, 1, 4, 695, 300, 0, 500, 500, 500, 499, 1)
CUTS = np.cumsum((0, *SIZES))
BLOCKS = [slice(*pair) for pair in pairwise(CUTS)]

pairs = pytest.mark.parametrize(
    "lazy, plain", [(DaskSoftKMeans, SoftKMeans), (DaskEntmaxKMeans, EntmaxKMeans)]
)


@pytest.fixture(autouse=True)
def threads():
    """The scheduler that arrays have by default, also where a client of another test is open."""
    with dask.config.set(scheduler="threads"):
        yield


def chunked(rows=X, columns=4):
    return da.from_array(rows, chunks=(SIZES, columns))


def assert_same_fit(found, expected, rounding=1e-9):
    scale = np.abs(expected.cluster_centers_).max()
    np.testing.assert_allclose(
        found.cluster_centers_, expected.cluster_centers_, rtol=0, atol=rounding * scale
    )
    for name in ("sigma_", "inertia_", "objective_", "cluster_mass_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rounding)
    assert found.n_iter_ == expected.n_iter_
    assert found.cluster_centers_.dtype == expected.cluster_centers_.dtype
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([DaskSoftKMeans(), DaskEntmaxKMeans()])
def test_scikit_learn_check(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------- the same numbers


@pairs
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sigma", ["auto", 0.0, 0.6])
def test_chunks_give_the_fit_of_rows_in_memory(sigma, dtype, weights, lazy, plain):
    rows = X.astype(dtype)
    found = lazy(6, sigma=sigma, init=START).fit(chunked(rows, 3), sample_weight=weights)
    expected = plain(6, sigma=sigma, init=START).fit(rows, sample_weight=weights)
    assert_same_fit(found, expected, 1e-9 if dtype == np.float64 or sigma != 0.6 else 1e-6)


@pairs
def test_results_are_lazy_and_have_the_right_chunks_and_types(lazy, plain):
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        model = lazy(6, init=START).fit(chunked(rows))
        expected = plain.from_centers(model.cluster_centers_, sigma=model.sigma_)
        results = {
            "predict": (np.int32, (SIZES,)),
            "transform": (dtype, (SIZES, (6,))),
            "predict_proba": (dtype, (SIZES, (6,))),
            "score_samples": (np.float64, (SIZES,)),
        }
        for method, (kind, chunks) in results.items():
            found = getattr(model, method)(chunked(rows))
            assert isinstance(found, da.Array)
            assert found.dtype == found.compute().dtype == kind
            assert found.chunks == chunks
            np.testing.assert_array_equal(found.compute(), getattr(expected, method)(rows))
        assert isinstance(model.labels_, da.Array)
        assert model.labels_.chunks == (SIZES,)
        assert model.labels_.dtype == np.int32
        for weights in (None, WEIGHTS):
            score = expected.score(rows, sample_weight=weights)
            assert model.score(chunked(rows), sample_weight=weights) == pytest.approx(score, 1e-9)
    assert model.fit_predict(chunked()).compute().shape == (3000,)
    assert model.fit_transform(chunked()).compute().shape == (3000, 6)


@pairs
def test_unknown_chunk_sizes(lazy, plain):
    rows = chunked()[chunked()[:, 0] > X[:, 0].min()]
    assert np.isnan(rows.shape[0])
    known = X[X[:, 0] > X[:, 0].min()]
    model = lazy(6, init=START).fit(rows)
    assert_same_fit(model, plain(6, init=START).fit(known))
    assert np.isnan(model.labels_.chunks[0]).all()
    assert model.transform(rows).compute().shape == (2999, 6)
    weights = da.from_array(WEIGHTS, chunks=(SIZES,))[chunked()[:, 0] > X[:, 0].min()]
    weighted = lazy(6, init=START).fit(rows, sample_weight=weights)
    numbers = WEIGHTS[X[:, 0] > X[:, 0].min()]
    assert_same_fit(weighted, plain(6, init=START).fit(known, sample_weight=numbers))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        model.fit(rows, sample_weight=numbers)


@pairs
def test_weights_in_other_chunks_are_those_of_the_rows(lazy, plain):
    weights = da.from_array(WEIGHTS, chunks=7)
    model = lazy(6, init=START).fit(chunked(), sample_weight=weights)
    assert_same_fit(model, plain(6, init=START).fit(X, sample_weight=WEIGHTS))


@pairs
def test_data_frames_keep_their_names(lazy, plain):
    frame = pd.DataFrame(X, columns=list("abcd"))
    rows = dd.from_pandas(frame, npartitions=3)
    model = lazy(6, init=START).fit(rows)
    assert list(model.feature_names_in_) == list("abcd")
    assert_same_fit(model, plain(6, init=START).fit(frame))
    frame["w"] = WEIGHTS
    weighted = dd.from_pandas(frame, npartitions=3)
    model.fit(weighted[list("abcd")], sample_weight=weighted["w"])
    assert_same_fit(model, plain(6, init=START).fit(frame[list("abcd")], sample_weight=WEIGHTS))
    assert model.transform(rows.astype("float32")).dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        model.predict(rows.rename(columns={"a": "z"}))
    few = dd.from_pandas(pd.DataFrame({"A": range(1, 6), "B": range(6, 11)}), npartitions=2)
    assert lazy(2).fit(few).predict(few).compute().shape == (5,)


@pairs
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_delayed_blocks_and_rows_in_memory(container, lazy, plain):
    expected = plain(6, init=START).fit(container(X), sample_weight=WEIGHTS)
    blocks = [delayed(container(X[part])) for part in BLOCKS]
    weights = [delayed(WEIGHTS[part]) for part in BLOCKS]
    model = lazy(6, init=START).fit(blocks, sample_weight=weights)
    assert_same_fit(model, expected)
    assert model.n_features_in_ == 4
    if container is sparse.csr_array:
        assert model.transform(blocks).compute().shape == (3000, 6)
    model = lazy(6, init=START).fit(container(X), sample_weight=WEIGHTS)
    assert_same_fit(model, expected)
    assert isinstance(model.labels_, np.ndarray)
    np.testing.assert_array_equal(model.predict(container(X)), expected.labels_)
    score = expected.score(container(X), sample_weight=WEIGHTS)
    assert model.score(container(X), sample_weight=WEIGHTS) == pytest.approx(score, rel=1e-9)


@pairs
def test_a_chunk_without_rows_or_with_fewer_than_clusters(lazy, plain):
    rows = X[:10]
    for sizes in ((0, 5, 5), (1,) * 10, (9, 0, 1)):
        model = lazy(2, sigma=0.5, init=START[:2]).fit(da.from_array(rows, chunks=(sizes, 4)))
        assert_same_fit(model, plain(2, sigma=0.5, init=START[:2]).fit(rows), 1e-10)


@pairs
@pytest.mark.parametrize("init", ["k-means||", "random"])
def test_initial_centres_do_not_depend_on_the_chunks(init, lazy, plain):
    fits = [
        fit_quietly(lazy(6, init=init, sigma=0.5, random_state=5, max_iter=1), rows)
        for rows in (chunked(), da.from_array(X, chunks=(1000, 4)), X)
    ]
    for other in fits[1:]:
        np.testing.assert_allclose(other.cluster_centers_, fits[0].cluster_centers_, rtol=1e-9)
    same = fit_quietly(clone(fits[0]), chunked())
    np.testing.assert_array_equal(same.cluster_centers_, fits[0].cluster_centers_)


@pairs
def test_tol_and_max_iter_are_passed_on(lazy, plain):
    counts = [lazy(6, init=START, sigma=0.8, tol=tol).fit(chunked()).n_iter_ for tol in (0.5, 1e-8)]
    assert counts[0] < counts[1]
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        lazy(6, init=START, max_iter=1).fit(chunked())
    model = lazy.from_centers(START, sigma=1.0)
    expected = plain.from_centers(START, sigma=1.0).transform(X)
    np.testing.assert_array_equal(model.transform(chunked()).compute(), expected)


# -------------------------------------------------------------------------------- the passes


def counted_blocks(counts):
    def load(number):
        counts[number] += 1
        return X[BLOCKS[number]]

    return [delayed(load, pure=False)(number) for number in range(len(BLOCKS))]


@pairs
def test_each_iteration_reads_the_rows_once(lazy, plain):
    counts = np.zeros(len(BLOCKS), dtype=int)
    with dask.config.set(scheduler="synchronous"):
        model = lazy(6, sigma=0.8, init=START).fit(counted_blocks(counts))
        # Before the first iteration the mean and the variance, at the end labels' totals.
        np.testing.assert_array_equal(counts, model.n_iter_ + 2)
        counts[:] = 0
        model = fit_quietly(lazy(6, sigma=0.8, max_iter=2), counted_blocks(counts))
        np.testing.assert_array_equal(counts, 2 + 2 + 6)


def test_tasks_run_on_one_thread_and_threads_of_others_are_left_alone(monkeypatch):
    from sklearn_softkmeans import _jit

    seen = []
    original = _jit._n_threads
    monkeypatch.setattr(_jit, "_n_threads", lambda: seen.append(original()) or seen[-1])
    monkeypatch.setattr("sklearn_softkmeans._assignment.SERIAL_WORK", 0)
    monkeypatch.setattr("sklearn_softkmeans._assignment._MAX_WIDTH", 32)
    DaskSoftKMeans(2, sigma=1.0, init=START[:2]).fit(chunked())
    assert len(seen) > 0
    assert set(seen) == {1}
    assert not getattr(_jit._caller, "alone", False)


# --------------------------------------------------------------------------------- bad input


def test_a_plain_estimator_names_those_for_dask():
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    fitted = SoftKMeans(2).fit(X)
    for rows in (chunked(), frame, delayed(X), [delayed(X)]):
        for method in (SoftKMeans(2).fit, EntmaxKMeans(2).fit, fitted.predict, fitted.score):
            with pytest.raises(TypeError, match="DaskSoftKMeans or DaskEntmaxKMeans"):
                method(rows)
    with pytest.raises(TypeError, match="DaskSoftKMeans"):
        SoftKMeans(2).fit_blocks(lambda: iter([chunked()]))


@pairs
def test_bad_input_is_named(lazy, plain):
    with pytest.raises(ValueError, match="two-dimensional"):
        lazy(2).fit(da.zeros(9))
    with pytest.raises(ValueError, match="no rows in any block"):
        lazy(2).fit(da.zeros((0, 2)))
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=8"):
        lazy().fit(da.zeros((3, 2)))
    with pytest.raises(ValueError, match="NaN"):
        lazy(2).fit(da.full((9, 2), np.nan))
    with pytest.raises(ValueError, match="sample_weight has 1 blocks, X has 11"):
        lazy(2).fit(chunked(), sample_weight=da.ones(5))
    other = [delayed(X[:50]), delayed(X[50:, :2])]
    with pytest.raises(ValueError, match="same features: one has 4, another 2"):
        lazy(2).fit(other)
    with pytest.raises(ValueError, match=r"sample_weight\.shape"):
        lazy(2).fit(chunked(), sample_weight=np.ones(5))
    with pytest.raises(ValueError, match="Negative"):
        lazy(2).fit(chunked(), sample_weight=-WEIGHTS)
    with pytest.raises(ValueError, match="all zero"):
        lazy(2).fit(chunked(), sample_weight=0.0 * WEIGHTS)
    with pytest.raises(NotFittedError):
        lazy(2).transform(chunked())
    model = lazy(2).fit(chunked())
    with pytest.raises(ValueError, match="all zero"):
        model.score(chunked(), sample_weight=0.0 * WEIGHTS)
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict(da.zeros((3, 2)))
    assert not hasattr(model, "fit_blocks")
    with pytest.raises(ValueError, match=r"sample_weight\.shape"):
        lazy(2).fit(chunked(), sample_weight=[])
    with pytest.raises(ValueError, match="list of delayed blocks"):
        lazy(2).fit(delayed(X))
    with pytest.raises(ValueError, match="two-dimensional"):
        lazy(2).fit(dd.from_pandas(pd.DataFrame(X), npartitions=2)[0])
    for huge in (np.full(3000, 1e306), np.r_[np.full(2999, 1.0), 1.7e308]):
        with pytest.raises(ValueError, match="must be finite"):
            model.score(chunked(), sample_weight=np.maximum(huge, 1e305))


@pairs
def test_columns_of_unknown_number_and_types_that_only_pandas_has(lazy, plain):
    expected = plain(6, init=START).fit(X)
    unknown = da.from_delayed(delayed(X), shape=(np.nan, np.nan), dtype=float)
    model = lazy(6, init=START).fit(unknown)
    assert_same_fit(model, expected)
    assert model.n_features_in_ == 4
    lists = [delayed(X[part].tolist()) for part in BLOCKS]
    assert_same_fit(lazy(6, init=START).fit(lists), expected)
    frame = pd.DataFrame(X, columns=list("abcd"))
    nullable = dd.from_pandas(frame.astype("Float64"), npartitions=3)
    model = lazy(6, init=START).fit(nullable)
    assert_same_fit(model, expected)
    assert model.transform(nullable).dtype == np.float64
    texts = dd.from_pandas(frame.assign(a="x"), npartitions=3)
    with pytest.raises(ValueError, match="convert string to float"):
        lazy(6, init=START).fit(texts)


@pairs
def test_a_data_frame_in_memory_keeps_its_names(lazy, plain):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = lazy(6, init=START).fit(frame)
    assert_same_fit(model, plain(6, init=START).fit(frame))
    assert list(model.feature_names_in_) == list("abcd")


@pairs
@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_data_frames_would_read_lazy_results_into_memory(container, lazy, plain):
    model = lazy(6, init=START).set_output(transform=container).fit(chunked())
    with pytest.raises(ValueError, match="would read into memory"):
        model.transform(chunked())
    assert isinstance(model.predict_proba(chunked()), da.Array)  # `set_output` is about transform
    assert model.set_output(transform="pandas").transform(X).shape == (3000, 6)


@pytest.mark.parametrize("function", [
    lambda X: soft_kmeans_path(X, 2),
    lambda X: objective_and_gradient(X, [[0.0, 0.0]], sigma=1.0),
    lambda X: hard_sigma(X, [[0.0, 0.0]]),
    lambda X: critical_sigma(X, 2),
])  # fmt: skip
def test_functions_read_no_collection_into_memory(function):
    with pytest.raises(TypeError, match="would have to be read into memory"):
        function(da.ones((9, 2)))


def test_without_dask_an_error_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name == "dask" or name.startswith(("dask.", "sklearn_softkmeans._dask")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "sklearn_softkmeans.dask")
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"pip install .sklearn-softkmeans\[dask\]"):
        importlib.import_module("sklearn_softkmeans.dask")


def test_the_package_does_not_import_dask():
    code = "import json, sys, sklearn_softkmeans; print(json.dumps('dask' in sys.modules))"
    assert run_python(code) is False


# --------------------------------------------------------------------------------- a cluster


def test_on_a_cluster():
    """In a process of its own, with a worker that dies while others go on."""
    script = Path(__file__).with_name("cluster.py")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-o", "addopts="]
    command = [sys.executable, "-m", "pytest", *options, str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout

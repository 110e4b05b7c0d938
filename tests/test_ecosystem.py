"""At home among scikit-learn's tools: pipelines, searches, frames, pickles, memmaps."""

import copy
import inspect

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_clusterer
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import reference
from models import fit_quietly
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
X = reference.data("iris")
TARGET = np.repeat([0, 1, 2], 50)
WEIGHT = np.where(TARGET == 2, 20.0, 0.05)
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


# --------------------------------------------------------- pipelines and searches


@every
def test_memberships_are_features_for_a_classifier(make):
    pipeline = make_pipeline(
        StandardScaler(), make(6, random_state=0), LogisticRegression(max_iter=1000)
    )
    assert pipeline.fit(X, TARGET).score(X, TARGET) > 0.9
    labels = make_pipeline(StandardScaler(), make(3, random_state=0)).fit_predict(X)
    assert labels.shape == (150,)


@every
def test_a_search_tunes_a_pipeline(make):
    pipeline = make_pipeline(
        StandardScaler(), make(random_state=0), LogisticRegression(max_iter=1000)
    )
    name = make.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__n_clusters": [2, 9]}, cv=3)
    search.fit(X, TARGET)
    assert search.best_params_ == {f"{name}__n_clusters": 9}


def three_blobs():
    """100 normal rows around each of three points; even rows train, odd rows test."""
    rng = np.random.RandomState(0)
    rows = np.vstack([rng.normal(size=(100, 2)) + at for at in ([0, 0], [10, 0], [0, 10])])
    return rows, [(np.arange(0, 300, 2), np.arange(1, 300, 2))]


@every
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_default_score_finds_the_true_spread(make):
    rows, split = three_blobs()
    grid = [0.1, 0.3, 1.0, 3.0, 10.0]
    search = GridSearchCV(make(3, n_init=5, random_state=0), {"sigma": grid}, cv=split).fit(rows)
    assert search.best_params_ == {"sigma": 1.0}
    expected = [-99.3, -11.75, -3.946, -5.23, -6.67]
    if make is SoftKMeans:
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=2e-3)


@every
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_default_score_finds_the_true_number(make):
    rows, split = three_blobs()
    grid = [1, 2, 3, 4, 6, 10]
    estimator = make(sigma=1.0, n_init=10, random_state=0)
    search = GridSearchCV(estimator, {"n_clusters": grid}, cv=split).fit(rows)
    assert search.best_params_ == {"n_clusters": 3}
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores[:3], [-24.5, -11.6, -3.946], rtol=5e-3)


@every
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_records_folds_that_are_too_small(make):
    rows = X[::13]
    assert len(rows) == 12
    search = GridSearchCV(make(random_state=0), {"n_clusters": [2, 10]}, cv=5)
    with (
        pytest.warns(FitFailedWarning, match="should be >= n_clusters=10"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(rows)
    assert search.best_params_ == {"n_clusters": 2}
    assert np.isnan(search.cv_results_["mean_test_score"][1])


# ----------------------------------------------------------------------- weights


@every
def test_weights_reach_fit_through_a_pipeline(make):
    name = make.__name__.lower()
    pipeline = make_pipeline(StandardScaler(), make(2, random_state=0))
    plain = clone(pipeline).fit(X)[-1].cluster_centers_
    weighted = clone(pipeline).fit(X, **{f"{name}__sample_weight": WEIGHT})[-1].cluster_centers_
    scaled = StandardScaler().fit_transform(X)
    direct = make(2, random_state=0).fit(scaled, sample_weight=WEIGHT).cluster_centers_
    np.testing.assert_array_equal(weighted, direct)
    assert np.abs(plain - weighted).max() > 0.1


@every
def test_weights_are_routed_where_they_are_requested(make):
    with config_context(enable_metadata_routing=True):
        estimator = make(2, random_state=0)
        estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = Pipeline([("scale", scaler), ("cluster", estimator)])
        pipeline.fit(X, sample_weight=WEIGHT)
        scaled = StandardScaler().fit_transform(X)
        direct = make(2, random_state=0).fit(scaled, sample_weight=WEIGHT)
        np.testing.assert_array_equal(pipeline["cluster"].cluster_centers_, direct.cluster_centers_)
        score = pipeline.score(X, sample_weight=WEIGHT)
        assert score == pytest.approx(direct.score(scaled, sample_weight=WEIGHT))
        assert score != pytest.approx(direct.score(scaled))


@every
def test_prediction_takes_no_weights(make):
    for method in ("predict", "predict_proba", "transform", "score_samples"):
        assert "sample_weight" not in inspect.signature(getattr(make, method)).parameters
    for method in ("fit", "fit_predict", "fit_transform", "score"):
        assert "sample_weight" in inspect.signature(getattr(make, method)).parameters


# ------------------------------------------------------------------------ frames


@every
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_go_in_and_come_out(make, library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    estimator = make(3, random_state=0).set_output(transform=library)
    out = estimator.fit_transform(frame)
    names = [f"{make.__name__.lower()}{j}" for j in range(3)]
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == names
    assert list(estimator.get_feature_names_out()) == names
    # Names of columns are those that scikit-learn reads; old versions know pandas alone.
    expected = getattr(StandardScaler().fit(frame), "feature_names_in_", None)
    assert library == "polars" or list(expected) == NAMES
    np.testing.assert_array_equal(getattr(estimator, "feature_names_in_", None), expected)
    np.testing.assert_array_equal(out.to_numpy(), estimator.transform(frame))
    estimator.predict(frame)
    estimator.score(frame)
    estimator.score_samples(frame)
    clone(estimator).fit_predict(frame)


@every
def test_the_index_of_a_frame_is_kept_and_its_columns_are_checked(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=NAMES, index=np.arange(150)[::-1] * 2)
    estimator = make(2, random_state=0).set_output(transform="pandas").fit(frame)
    assert estimator.transform(frame).index.equals(frame.index)
    for wrong in (frame[NAMES[::-1]], frame.rename(columns={NAMES[0]: "other"})):
        with pytest.raises(ValueError, match="feature names"):
            estimator.predict(wrong)
    with pytest.warns(UserWarning, match="valid feature names"):
        estimator.predict(X)
    numbered = pandas.DataFrame(X)
    again = make(2, random_state=0).fit(numbered)
    assert not hasattr(again, "feature_names_in_")
    again.predict(numbered)


@every
def test_given_centres_keep_the_names_of_their_columns(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=NAMES)
    fitted = make.from_centers(frame.iloc[[0, 60, 120]], sigma=0.5)
    assert list(fitted.feature_names_in_) == NAMES
    unnamed = make.from_centers(X[[0, 60, 120]], sigma=0.5)
    np.testing.assert_array_equal(fitted.predict(frame), unnamed.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[NAMES[::-1]])
    assert not hasattr(unnamed, "feature_names_in_")


@every
def test_columns_are_named_in_unions(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=NAMES)
    columns = ColumnTransformer([("first", make(2, random_state=0), NAMES[:2])])
    out = columns.set_output(transform="pandas").fit_transform(frame)
    name = make.__name__.lower()
    assert list(out.columns) == [f"first__{name}0", f"first__{name}1"]
    union = FeatureUnion([("one", make(1)), ("two", make(2, random_state=0))])
    out = union.set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == [f"one__{name}0", f"two__{name}0", f"two__{name}1"]


# ------------------------------------------------------------------ copies, pickles


@every
def test_a_clone_is_unfitted_and_keeps_its_parameters(make):
    start = X[:3].copy()
    estimator = make(3, init=start, sigma=0.5, tol=1e-3).fit(X)
    copied = clone(estimator)
    with pytest.raises(NotFittedError):
        copied.predict(X)
    np.testing.assert_array_equal(copied.init, start)
    assert "init=array" in repr(estimator)
    copied.set_params(init="random", n_clusters=2)
    assert copied.fit(X).cluster_centers_.shape == (2, 4)
    assert estimator.cluster_centers_.shape == (3, 4)


@every
def test_fit_never_writes_a_parameter(make):
    estimator = make(3, random_state=0)
    before = estimator.get_params()
    estimator.fit(X)
    assert estimator.get_params() == before
    assert set(vars(estimator)) >= {"cluster_centers_", "sigma_", "n_iter_"}


@every
def test_a_deep_copy_is_independent(make):
    fitted = make_pipeline(StandardScaler(), make(3, random_state=0)).fit(X)
    copied = copy.deepcopy(fitted)
    np.testing.assert_array_equal(copied.transform(X), fitted.transform(X))
    copied[-1].cluster_centers_[:] = 0
    assert np.abs(fitted[-1].cluster_centers_).max() > 0


# -------------------------------------------------------------- read-only memory


@every
def test_everything_may_be_read_only(make):
    rows, weight, start = X.copy(), WEIGHT.copy(), X[::60].copy()
    expected = make(3, init=start).fit(rows, sample_weight=weight)
    for array in (rows, weight, start):
        array.flags.writeable = False
    fitted = make(3, init=start).fit(rows, sample_weight=weight)
    np.testing.assert_array_equal(fitted.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(fitted.transform(rows), expected.transform(rows))
    fitted.score(rows, sample_weight=weight)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_may_be_a_memory_map(make, dtype, tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, X.astype(dtype))
    mapped = np.load(path, mmap_mode="r")
    fitted = make(3, random_state=0).fit(mapped)
    expected = make(3, random_state=0).fit(X.astype(dtype))
    np.testing.assert_array_equal(fitted.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(fitted.predict(mapped), fitted.labels_)


@every
def test_sparse_data_may_be_read_only(make):
    rows = sparse.csr_array(np.where(X > 1, X, 0))
    expected = make(3, random_state=0).fit(rows)
    for part in (rows.data, rows.indices, rows.indptr):
        part.flags.writeable = False
    fitted = make(3, random_state=0).fit(rows)
    np.testing.assert_array_equal(fitted.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(fitted.transform(rows), expected.transform(rows))


@every
def test_a_model_may_be_mapped_into_memory(make, tmp_path):
    fitted = make(3, random_state=0).fit(X)
    joblib.dump(fitted, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    np.testing.assert_array_equal(mapped.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(mapped.predict(X), fitted.labels_)
    assert mapped.score(X) == fitted.score(X)


# -------------------------------------------------------------------------- sparse


@every
@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr"])
def test_other_sparse_forms_are_converted(make, form):
    rows = sparse.csr_array(np.where(X > 1, X, 0))
    expected = make(3, random_state=0).fit(rows)
    fitted = make(3, random_state=0).fit(rows.asformat(form))
    np.testing.assert_array_equal(fitted.cluster_centers_, expected.cluster_centers_)


@every
def test_stored_zeros_duplicates_and_unsorted_indices_change_nothing(make):
    dense = np.array([[0.0, 2, 0], [0, 3, 0], [9, 0, 1], [8, 0, 1], [0, 2.5, 0], [9.5, 0, 0]])
    data = np.array([0.0, 2, 1.5, 1.5, 1, 9, 1, 8, 2.5, 9.5])
    columns = np.array([0, 1, 1, 1, 2, 0, 2, 0, 1, 0])
    untidy = sparse.csr_array((data, columns, [0, 2, 4, 6, 8, 9, 10]), shape=(6, 3))
    np.testing.assert_array_equal(untidy.toarray(), dense)
    fitted = make(2, sigma=0.7, init=dense[[0, 2]]).fit(untidy)
    expected = make(2, sigma=0.7, init=dense[[0, 2]]).fit(dense)
    np.testing.assert_allclose(fitted.cluster_centers_, expected.cluster_centers_, rtol=1e-12)
    np.testing.assert_allclose(
        fitted.transform(untidy), expected.transform(dense), rtol=0, atol=1e-12
    )


@every
def test_rows_without_entries_are_rows_at_the_origin(make):
    dense = np.zeros((40, 4))
    dense[20:] = np.random.RandomState(0).uniform(5, 6, size=(20, 4))
    rows = sparse.csr_array(dense)
    fitted = make(2, sigma=0.5, random_state=0).fit(rows)
    np.testing.assert_allclose(
        np.sort(fitted.cluster_centers_, axis=0),
        [np.zeros(4), dense[20:].mean(axis=0)],
        rtol=0,
        atol=1e-9,
    )
    empty = sparse.csr_array((10, 4))
    np.testing.assert_array_equal(make(1).fit(empty).cluster_centers_, np.zeros((1, 4)))


@every
def test_sparse_data_are_never_made_dense(make, monkeypatch):
    n_rows = []

    def toarray(self, *args, **options):
        n_rows.append(self.shape[0])
        return sparse.coo_array(self).toarray(*args, **options)

    for form in (sparse.csr_array, sparse.csc_array):
        monkeypatch.setattr(form, "toarray", toarray)
    rng = np.random.RandomState(0)
    entries = (
        rng.uniform(size=12_000),
        (rng.randint(2000, size=12_000), rng.randint(3000, size=12_000)),
    )
    rows = sparse.csr_array(entries, shape=(2000, 3000))
    fitted = fit_quietly(make(6, random_state=0), rows)
    fitted.transform(rows)
    fitted.score(rows)
    assert max(n_rows) <= 6 + 4
    assert sum(n_rows) <= 100


# ---------------------------------------------------------------------------- tags


@every
def test_the_estimator_says_what_it_is(make):
    tags = get_tags(make())
    assert is_clusterer(make())
    assert tags.input_tags.sparse
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert not tags.non_deterministic
    assert not tags.target_tags.required

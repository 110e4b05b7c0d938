"""The contract of the two estimators: agreement between methods, invariances, score."""

import inspect

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from models import at_centers, fit_quietly, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

CHECKED = [
    SoftKMeans(),
    EntmaxKMeans(),
    EntmaxKMeans(alpha=1),
    EntmaxKMeans(alpha=1.3),
    EntmaxKMeans(alpha=2),
    SoftKMeans(sigma=0),
    EntmaxKMeans(sigma=0),
    EntmaxKMeans(alpha=1, sigma=0),
    EntmaxKMeans(alpha=1.3, sigma=0),
    EntmaxKMeans(alpha=2, sigma=0),
]

ALPHAS = [1.0, 1.3, 1.5, 2.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
temperatures = pytest.mark.parametrize("sigma", ["auto", 0, 0.8])
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

IRIS = reference.data("iris")
WEIGHT = reference.weights(len(IRIS))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CHECKED)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_parameters_and_their_defaults():
    shared = {
        "sigma": "auto",
        "perplexity": None,
        "init": "k-means++",
        "n_init": "auto",
        "solver": "auto",
        "max_iter": 300,
        "tol": 1e-4,
        "batch_size": None,
        "verbose": 0,
        "random_state": None,
        "copy_x": True,
    }
    assert SoftKMeans().get_params() == {"n_clusters": 8, **shared}
    own = {"alpha": 1.5, "sparse_output": False}
    assert EntmaxKMeans().get_params() == {"n_clusters": 8, **own, **shared}
    assert EntmaxKMeans(3, 2.0).alpha == 2.0
    for make, positional in ((SoftKMeans, 1), (EntmaxKMeans, 2)):
        kinds = [p.kind for p in inspect.signature(make).parameters.values()]
        assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) == positional


# ------------------------------------------------------------- fitted attributes


@every_alpha
@temperatures
@dtypes
def test_attributes_describe_the_final_centres(alpha, sigma, dtype):
    X = IRIS.astype(dtype)
    fitted = model(alpha, 3, sigma=sigma, random_state=0).fit(X, sample_weight=WEIGHT)
    centers = fitted.cluster_centers_
    resp = reference.responsibilities(X, centers, fitted.sigma_, alpha)
    assert centers.shape == (3, 4)
    assert centers.dtype == dtype
    assert fitted.labels_.dtype == np.int32
    np.testing.assert_array_equal(fitted.labels_, resp.argmax(axis=1))
    np.testing.assert_allclose(fitted.cluster_mass_, WEIGHT @ resp, rtol=1e-5)
    assert fitted.cluster_mass_.sum() == pytest.approx(WEIGHT.sum(), rel=1e-6)
    energy = reference.free_energy(X, centers, fitted.sigma_, alpha, WEIGHT)
    assert fitted.objective_ == pytest.approx(energy, rel=1e-5 if dtype == np.float32 else 1e-9)
    hard = reference.distortion(X, centers, WEIGHT)
    assert fitted.inertia_ == pytest.approx(hard, rel=1e-5 if dtype == np.float32 else 1e-9)
    assert fitted.objective_path_.shape == (fitted.n_iter_ + 1,)
    assert fitted.objective_path_.dtype == np.float64
    assert fitted.objective_path_[-1] == fitted.objective_
    assert fitted.n_distinct_clusters_ == 3
    assert fitted.n_features_in_ == 4
    assert fitted.stop_reason_ in ("tol", "stagnation")
    assert fitted.converged_ is True
    assert isinstance(fitted.n_iter_, int)
    assert isinstance(fitted.sigma_, float)
    assert isinstance(fitted.objective_, float)


@every_alpha
@pytest.mark.parametrize("max_iter", [1, 2, 3])
def test_an_early_stop_leaves_labels_and_sums_of_the_returned_centres(alpha, max_iter):
    estimator = model(alpha, 3, sigma=0.5, max_iter=max_iter, tol=0, random_state=1)
    fitted = fit_quietly(estimator, IRIS)
    centers = fitted.cluster_centers_
    assert fitted.n_iter_ == max_iter
    assert fitted.converged_ is False
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(IRIS))
    energy = reference.free_energy(IRIS, centers, 0.5, alpha)
    assert fitted.objective_ == pytest.approx(energy, rel=1e-10)
    assert fitted.inertia_ == pytest.approx(reference.distortion(IRIS, centers), rel=1e-10)
    mass = fitted.transform(IRIS).sum(axis=0)
    np.testing.assert_allclose(fitted.cluster_mass_, mass, rtol=1e-10)


@every
def test_the_best_of_several_runs_is_kept(make):
    """Every attribute is of the run with the lowest F."""
    X = reference.blobs(6, n_samples=120, box=8.0, seed=2)
    runs = [
        make(6, sigma=0.3, init="random", n_init=1, random_state=seed, max_iter=1000).fit(X)
        for seed in range(8)
    ]
    objectives = [run.objective_ for run in runs]
    assert max(objectives) > 1.05 * min(objectives)
    best = make(6, sigma=0.3, init="random", n_init=40, random_state=0, max_iter=1000).fit(X)
    assert best.objective_ <= min(objectives) * (1 + 1e-9)
    energy = reference.free_energy(
        X, best.cluster_centers_, 0.3, 1.0 if make is SoftKMeans else 1.5
    )
    assert best.objective_ == pytest.approx(energy, rel=1e-10)
    assert best.objective_path_.shape == (best.n_iter_ + 1,)


# ---------------------------------------------------------- agreement of methods


@every_alpha
@temperatures
@dtypes
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_all_ways_to_the_same_answer_agree(alpha, sigma, dtype, container):
    X = container(IRIS.astype(dtype))
    estimator = model(alpha, 3, sigma=sigma, random_state=0)
    fitted = clone(estimator).fit(X, sample_weight=WEIGHT)
    resp = fitted.transform(X)
    assert resp.dtype == dtype
    assert fitted.predict(X).dtype == np.int32
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(X), resp.argmax(axis=1))
    np.testing.assert_array_equal(fitted.transform(X), resp)
    fit_transform = clone(estimator).fit_transform(X, sample_weight=WEIGHT)
    np.testing.assert_array_equal(fit_transform, resp)
    labels = clone(estimator).fit_predict(X, sample_weight=WEIGHT)
    np.testing.assert_array_equal(labels, fitted.labels_)
    sums = resp.sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(sums, 1, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-6)


@every_alpha
@pytest.mark.parametrize("sigma", [0, 1e-3, 0.1, 1.0, 10.0, 1e4])
def test_responsibilities_equal_the_reference(alpha, sigma):
    rng = np.random.RandomState(0)
    X, centers = rng.normal(size=(300, 4)), rng.normal(size=(7, 4))
    fitted = at_centers(alpha, centers, sigma)
    resp = fitted.transform(X)
    expected = reference.responsibilities(X, centers, sigma, alpha)
    np.testing.assert_allclose(resp, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(resp.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), resp.argmax(axis=1))


@every_alpha
def test_label_is_the_largest_share_on_many_random_rows(alpha):
    rng = np.random.RandomState(3)
    X, centers = rng.normal(size=(5000, 3)), rng.normal(size=(9, 3))
    for sigma in (0.05, 0.5, 5.0):
        fitted = at_centers(alpha, centers, sigma)
        resp = fitted.transform(X)
        np.testing.assert_array_equal(fitted.predict(X), resp.argmax(axis=1))


@every_alpha
@dtypes
def test_a_row_is_answered_alike_alone_and_in_a_batch(alpha, dtype):
    rng = np.random.RandomState(1)
    X = (rng.normal(size=(700, 5)) * [1, 1, 1, 1, 30] + 100).astype(dtype)
    error = 1e-12 if dtype == np.float64 else 1e-6
    for sigma in (2.0, 30.0):
        fitted = at_centers(alpha, X[:6].copy(), sigma)
        together = fitted.transform(X)
        scores = fitted.score_samples(X)
        for row in (0, 5, 63, 64, 255, 256, 699):
            alone = X[row : row + 1]
            resp = fitted.transform(alone)[0]
            np.testing.assert_allclose(resp, together[row], rtol=0, atol=error)
            assert fitted.score_samples(alone)[0] == pytest.approx(scores[row], rel=error)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_alpha_one_of_entmax_is_softmax(alpha):
    soft = SoftKMeans(3, random_state=0).fit(IRIS)
    other = EntmaxKMeans(3, alpha=alpha, random_state=0).fit(IRIS)
    same = np.array_equal(soft.cluster_centers_, other.cluster_centers_)
    assert same == (alpha == 1.0)


# ------------------------------------------------------------------------- score


@every_alpha
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_score_is_the_mean_log_density_of_the_mixture(alpha, container):
    fitted = model(alpha, 3, sigma=0.6, random_state=0).fit(container(IRIS))
    other = IRIS[::3] + 0.1
    expected = reference.mixture_log_likelihood(other, fitted.cluster_centers_, 0.6)
    weight = WEIGHT[::3]
    rows = container(other)
    np.testing.assert_allclose(fitted.score_samples(rows), expected, rtol=1e-10)
    assert fitted.score(rows) == pytest.approx(expected.mean(), rel=1e-10)
    weighted = np.average(expected, weights=weight)
    assert fitted.score(rows, sample_weight=weight) == pytest.approx(weighted, rel=1e-10)
    assert fitted.score(rows, None, weight) == pytest.approx(weighted, rel=1e-10)
    assert isinstance(fitted.score(rows), float)


@every
def test_score_is_minus_infinity_without_temperature(make):
    fitted = make(3, sigma=0, random_state=0).fit(IRIS)
    assert fitted.score(IRIS) == -np.inf
    assert fitted.score(IRIS, sample_weight=WEIGHT) == -np.inf


def test_score_of_far_rows_is_finite():
    fitted = at_centers(1.0, np.array([[0.0], [1.0]]), 1e-3)
    expected = -0.5 * (1e6 - 1) ** 2 / 1e-6 - np.log(2) - 0.5 * np.log(2 * np.pi * 1e-6)
    assert fitted.score([[1e6]]) == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------ from_centers


@every_alpha
@dtypes
def test_from_centers_predicts_without_a_fit(alpha, dtype):
    centers = IRIS[[0, 60, 120]].astype(dtype)
    before = centers.copy()
    fitted = at_centers(alpha, centers, 0.7)
    assert fitted.n_clusters == 3
    assert fitted.sigma_ == 0.7
    assert fitted.n_features_in_ == 4
    np.testing.assert_array_equal(fitted.cluster_centers_, centers)
    X = IRIS.astype(dtype)
    expected = reference.responsibilities(X, centers, 0.7, alpha)
    np.testing.assert_allclose(fitted.transform(X), expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(fitted.predict(X), expected.argmax(axis=1))
    assert np.isfinite(fitted.score(X))
    assert list(fitted.get_feature_names_out()) == [
        f"{type(fitted).__name__.lower()}{j}" for j in range(3)
    ]
    centers[:] = -5
    np.testing.assert_array_equal(fitted.cluster_centers_, before)


@pytest.mark.parametrize("given", [{"n_clusters": 5}, {"init": "random"}])
def test_from_centers_takes_no_parameter_that_the_centers_set(given):
    with pytest.raises(TypeError, match="leave them out"):
        SoftKMeans.from_centers([[0.0], [1.0]], sigma=1.0, **given)


def test_from_centers_takes_lists_and_integers_and_can_be_fitted_afterwards():
    fitted = EntmaxKMeans.from_centers([[0, 0], [4, 4]], sigma=0, alpha=2)
    assert fitted.cluster_centers_.dtype == np.float64
    np.testing.assert_array_equal(fitted.predict([[1, 0], [5, 5]]), [0, 1])
    assert fitted.alpha == 2
    with pytest.raises(NotFittedError):
        clone(fitted).predict([[1, 0]])
    fitted.fit([[0.0, 0], [0, 1], [9, 9], [9, 8]])
    assert fitted.cluster_centers_.shape == (2, 2)
    assert fitted.cluster_centers_.max() > 8


@pytest.mark.parametrize(
    "centers, sigma",
    [
        ([[0.0, np.nan]], 1.0),
        ([[0.0, np.inf]], 1.0),
        ([0.0, 1.0], 1.0),
        (np.empty((0, 2)), 1.0),
        ([[0.0, 1.0]], -1.0),
        ([[0.0, 1.0]], np.nan),
        ([[0.0, 1.0]], np.inf),
        ([[0.0, 1.0]], "auto"),
        ([[0.0, 1.0]], None),
    ],
)
@every
def test_from_centers_rejects_what_cannot_be_a_model(make, centers, sigma):
    with pytest.raises(ValueError):
        make.from_centers(centers, sigma=sigma)


# ------------------------------------------------------------------- invariances


@every_alpha
@pytest.mark.parametrize("factor", [1000.0, 0.001])
@pytest.mark.parametrize("sigma", [0.5, "auto"])
def test_scaling_data_and_sigma_scales_the_centres_alone(alpha, factor, sigma):
    start = IRIS[[0, 60, 120]]
    scaled_sigma = sigma if sigma == "auto" else factor * sigma
    one = model(alpha, 3, sigma=sigma, init=start).fit(IRIS)
    other = model(alpha, 3, sigma=scaled_sigma, init=factor * start).fit(factor * IRIS)
    assert other.n_iter_ == one.n_iter_
    assert other.sigma_ == pytest.approx(factor * one.sigma_, rel=1e-9)
    np.testing.assert_array_equal(other.labels_, one.labels_)
    np.testing.assert_allclose(other.cluster_centers_, factor * one.cluster_centers_, rtol=1e-9)
    np.testing.assert_allclose(
        other.transform(factor * IRIS), one.transform(IRIS), rtol=0, atol=1e-9
    )
    assert other.objective_ == pytest.approx(factor**2 * one.objective_, rel=1e-9)


@every_alpha
@pytest.mark.parametrize("offset", [1e2, -1e4, 1e6])
def test_translating_the_data_translates_the_centres_alone(alpha, offset):
    X = np.round(IRIS * 64) / 64  # exact after the shift
    start = X[[0, 60, 120]]
    one = model(alpha, 3, sigma=0.5, init=start).fit(X)
    other = model(alpha, 3, sigma=0.5, init=start + offset).fit(X + offset)
    assert other.n_iter_ == one.n_iter_
    np.testing.assert_array_equal(other.labels_, one.labels_)
    np.testing.assert_allclose(
        other.cluster_centers_ - offset, one.cluster_centers_, rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(other.transform(X + offset), one.transform(X), rtol=0, atol=1e-7)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-8)


@every
def test_probabilities_of_dense_rows_are_the_features_and_sparse_rows_name_the_remedy(make):
    fitted = make(3, random_state=0).fit(IRIS)
    np.testing.assert_array_equal(fitted.predict_proba(IRIS), fitted.transform(IRIS))
    for container in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
        with pytest.raises(ValueError, match=r"predict_proba takes no sparse X\. Use transform"):
            fitted.predict_proba(container(IRIS))
        with pytest.raises(NotFittedError):
            make(3).predict_proba(container(IRIS))


# ----------------------------------------------------------------- fitted or not


@every
@pytest.mark.parametrize(
    "method",
    [
        "predict",
        "predict_proba",
        "transform",
        "score",
        "score_samples",
        "get_feature_names_out",
    ],
)
def test_unfitted_use_is_a_not_fitted_error(make, method):
    arguments = () if method == "get_feature_names_out" else (IRIS,)
    with pytest.raises(NotFittedError):
        getattr(make(), method)(*arguments)


@every
def test_asking_does_not_change_the_model(make):
    fitted = make(3, random_state=0).fit(IRIS)
    state = {
        name: np.array(value, copy=True)
        for name, value in vars(fitted).items()
        if name.endswith("_") and not callable(value)
    }
    answers = [fitted.transform(IRIS[:1]) for _ in range(5)]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])
    fitted.predict(IRIS)
    fitted.transform(IRIS)
    fitted.score(IRIS)
    fitted.score_samples(IRIS)
    assert len(state) >= 10
    for name, value in state.items():
        np.testing.assert_array_equal(value, getattr(fitted, name))


@every
def test_a_second_fit_forgets_the_first(make):
    again = make(3, random_state=0).fit(reference.data("wine")).fit(IRIS)
    fresh = make(3, random_state=0).fit(IRIS)
    assert again.n_features_in_ == 4
    np.testing.assert_array_equal(again.cluster_centers_, fresh.cluster_centers_)


@every
@dtypes
@pytest.mark.parametrize("other", [np.float32, np.float64, np.int64])
def test_data_of_another_dtype_is_answered_like_the_cast_data(make, dtype, other):
    X = np.round(IRIS * 8)
    fitted = make(3, sigma=2.0, random_state=0).fit(X.astype(dtype))
    rows = X.astype(other)
    expected = other if other == np.float32 else np.float64
    assert fitted.transform(rows).dtype == expected
    np.testing.assert_array_equal(fitted.predict(rows), fitted.labels_)
    np.testing.assert_allclose(
        fitted.transform(rows), fitted.transform(X.astype(dtype)), rtol=0, atol=1e-6
    )
    assert fitted.score(rows) == pytest.approx(fitted.score(X.astype(dtype)), rel=1e-5)


@every
@pytest.mark.parametrize("n_samples", [1, 30])
def test_a_single_cluster_is_the_weighted_mean(make, n_samples):
    X = np.random.RandomState(0).normal(size=(n_samples, 3))
    weight = np.arange(1.0, n_samples + 1)
    for sigma in ("auto", 0, 1.0):
        fitted = make(1, sigma=sigma, random_state=0).fit(X, sample_weight=weight)
        mean = np.average(X, axis=0, weights=weight)
        np.testing.assert_allclose(fitted.cluster_centers_, mean[None], rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(fitted.transform(X), 1.0)
        np.testing.assert_array_equal(fitted.labels_, 0)
        assert np.isfinite(fitted.objective_)
        assert fitted.n_iter_ <= 2


# ------------------------------------------------------------------------ model selection


def test_information_criteria_are_those_of_the_mixture():
    X = reference.blobs(3, n_samples=90, seed=3)
    model = SoftKMeans(3, sigma=0.8, random_state=0).fit(X)
    log_likelihood = reference.mixture_log_likelihood(X, model.cluster_centers_, 0.8).sum()
    np.testing.assert_allclose(model.bic(X), -2 * log_likelihood + 7 * np.log(90))
    np.testing.assert_allclose(model.aic(X), -2 * log_likelihood + 14)
    hard = SoftKMeans(3, sigma=0, random_state=0).fit(X)
    assert hard.bic(X) == hard.aic(X) == np.inf


def test_a_warning_on_the_number_of_runs_points_at_the_caller():
    X = reference.blobs(3, n_samples=30, seed=3)
    with pytest.warns(RuntimeWarning, match="performing only one run") as caught:
        SoftKMeans(3, init=X[:3], n_init=4).fit(X)
    assert caught[0].filename == __file__

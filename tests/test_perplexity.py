"""The temperature that belongs to a perplexity."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import entr
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import reference
from models import fit_quietly, model
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, _perplexity
from sklearn_softkmeans._centers import problem_for_fit
from sklearn_softkmeans._perplexity import mean_perplexity, sigma_of_perplexity
from sklearn_softkmeans._reports import unreached_perplexity

IRIS = load_iris().data
WINE = scale(load_wine().data)
alphas = pytest.mark.parametrize("alpha", [1, 1.25, 1.5, 2, 3])


def perplexity_of(estimator, X, sample_weight=None):
    entropy = entr(np.asarray(estimator.transform(X), dtype=float)).sum(axis=1)
    return np.average(np.exp(entropy), weights=sample_weight)


@alphas
@pytest.mark.parametrize("perplexity", [1.05, 1.2, 1.5, 2])
def test_the_fitted_model_has_the_perplexity(perplexity, alpha):
    estimator = model(alpha, 3, perplexity=perplexity, random_state=0)
    fit_quietly(estimator, WINE)
    assert abs(perplexity_of(estimator, WINE) / perplexity - 1.0) < 0.01
    assert estimator.n_distinct_clusters_ == 3


@pytest.mark.parametrize("alpha", [1, 1.5])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_and_containers(dtype, container, alpha):
    weights = np.random.RandomState(0).randint(0, 4, len(IRIS)).astype(float)
    X = container(IRIS.astype(dtype))
    weighted = model(alpha, 3, perplexity=1.3, random_state=0).fit(X, sample_weight=weights)
    assert abs(perplexity_of(weighted, X, weights) / 1.3 - 1.0) < 0.01
    repeated = model(alpha, 3, perplexity=1.3, random_state=0)
    repeated.fit(np.repeat(IRIS.astype(dtype), weights.astype(int), axis=0))
    np.testing.assert_allclose(weighted.sigma_, repeated.sigma_, rtol=1e-3)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_unit_of_X_does_not_matter(factor):
    first = SoftKMeans(3, perplexity=1.4, random_state=0).fit(WINE)
    second = SoftKMeans(3, perplexity=1.4, random_state=0).fit(factor * WINE)
    np.testing.assert_allclose(second.sigma_, factor * first.sigma_, rtol=1e-3)


@pytest.mark.parametrize(
    "params", [{"n_init": 3}, {"init": "annealing"}, {"init": WINE[[0, 70, 150]]}]
)
def test_any_start(params):
    estimator = EntmaxKMeans(3, perplexity=1.5, random_state=0, **params).fit(WINE)
    assert abs(perplexity_of(estimator, WINE) / 1.5 - 1.0) < 0.01


def test_the_model_is_a_fit_at_its_sigma():
    estimator = SoftKMeans(3, perplexity=1.5, random_state=0).fit(WINE)
    again = SoftKMeans(3, sigma=estimator.sigma_, init=estimator.cluster_centers_).fit(WINE)
    np.testing.assert_allclose(again.cluster_centers_, estimator.cluster_centers_, atol=1e-3)
    np.testing.assert_allclose(again.objective_, estimator.objective_, rtol=1e-6)


@pytest.mark.parametrize("alpha", [1, 1.5])
def test_a_jump_is_reported_with_both_sides(alpha):
    """Unequal groups come apart at once as they cool, far from where they merge."""
    X = np.repeat([[0.0], [5.0]], [95, 5], axis=0)
    with pytest.warns(ConvergenceWarning, match=r"cannot be reached: .* to 2\.") as caught:
        estimator = model(alpha, 2, perplexity=1.5, random_state=0).fit(X)
    assert len(caught) == 1
    found = perplexity_of(estimator, X)
    assert f"The model has {found:.4g}." in str(caught[0].message)
    hotter = fit_quietly(model(alpha, 2, sigma=1.002 * estimator.sigma_, random_state=0), X)
    assert found < 1.5 < perplexity_of(hotter, X)


@pytest.mark.parametrize("alpha", [1, 1.5])
def test_rows_that_are_shared_at_any_sigma_are_reported(alpha):
    """The middle row has two clusters however cold it is: 4/3 on average."""
    estimator = model(alpha, 2, perplexity=1.2, init=[[-0.6], [0.6]])
    with pytest.warns(
        ConvergenceWarning, match=r"=1.2 cannot be reached: .* than 1\.333"
    ) as caught:
        estimator.fit([[-1.0], [0.0], [1.0]])
    assert len(caught) == 1


@alphas
@pytest.mark.parametrize("perplexity", [1.001, 1.01])
def test_a_perplexity_close_to_one_is_told_from_hard(perplexity, alpha):
    estimator = model(alpha, 3, perplexity=perplexity, random_state=0).fit(IRIS)
    assert perplexity_of(estimator, IRIS) - 1.0 == pytest.approx(perplexity - 1.0, rel=0.11)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"perplexity": 3}, "below n_clusters=3"),
        ({"perplexity": 7.5}, "below n_clusters=3"),
        ({"perplexity": 1}, "'perplexity' parameter"),
        ({"perplexity": -2}, "'perplexity' parameter"),
        ({"perplexity": "low"}, "'perplexity' parameter"),
        ({"perplexity": np.nan}, "perplexity"),
        ({"perplexity": 2, "sigma": 1.0}, "Both sigma=1.0 and perplexity=2"),
    ],
)
def test_what_cannot_be_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        SoftKMeans(3, **params).fit(IRIS)


def test_equal_rows_end():
    estimator = fit_quietly(SoftKMeans(3, perplexity=2), np.full((12, 2), 3.0))
    np.testing.assert_array_equal(estimator.cluster_centers_, 3.0)


@alphas
def test_mean_perplexity_equals_the_reference(alpha):
    weights = np.random.RandomState(0).randint(0, 3, len(IRIS)).astype(float)
    problem = problem_for_fit(IRIS, weights, alpha, resident=True)
    centers = IRIS[[0, 60, 140]]
    found = mean_perplexity(problem, problem.into_frame(centers), 0.7 / problem.unit)
    resp = reference.responsibilities(IRIS, centers, 0.7, alpha)
    expected = np.average(np.exp(entr(resp).sum(axis=1)), weights=weights)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@alphas
def test_sigma_of_fixed_centres(alpha):
    problem = problem_for_fit(IRIS, None, alpha, resident=True)
    centers = problem.rows_in_frame(np.array([0, 60, 140]))
    for perplexity in [1.01, 1.5, 2.9]:
        sigma = sigma_of_perplexity(problem, centers, perplexity)
        found = mean_perplexity(problem, centers, sigma)
        np.testing.assert_allclose(found, perplexity, rtol=3e-3)


@pytest.mark.parametrize("alpha", [1, 1.5])
def test_a_search_that_ends_on_one_side_says_so(alpha, monkeypatch):
    monkeypatch.setattr(_perplexity, "_MAX_TRIALS", 1)
    with pytest.warns(ConvergenceWarning, match="cannot be reached: down to .* larger") as caught:
        estimator = model(alpha, 3, perplexity=1.7, random_state=0).fit(WINE)
    assert f"{perplexity_of(estimator, WINE):.4g}, which the model has" in str(caught[-1].message)


def test_the_advice_depends_on_the_side():
    estimator = SimpleNamespace(perplexity=1.5, sigma_=2.0)
    (message,) = unreached_perplexity(estimator, [SimpleNamespace(perplexity=1.2)])
    assert "up to sigma=2 " in message
    assert "Ask for a perplexity that is smaller" in message

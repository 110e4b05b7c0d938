"""objective_and_gradient: values against the definitions, gradients against differences."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, minimize

import reference
from models import fit_quietly, model
from sklearn_softkmeans import _gradient, objective_and_gradient

LOSSES = ["free_energy", "weighted_distortion"]
ALPHAS = [1.0, 1.25, 1.5, 2.0, 3.0]
every_loss = pytest.mark.parametrize("loss", LOSSES)
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def setting(seed=0, n_samples=60, n_clusters=4, offset=0.0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_samples, 3)) * [3.0, 1.0, 0.5]
    centers = 2.0 * rng.normal(size=(n_clusters, 3))
    return X + offset, rng.uniform(0.1, 2.0, n_samples), centers + offset


def weighted_distortion(X, centers, sigma, alpha, weight):
    resp = reference.responsibilities(X, centers, sigma, alpha)
    return weight @ (resp * reference.sq_distances(X, centers)).sum(axis=1)


def central_differences(function, centers, step=1e-5):
    result = np.empty(centers.shape)
    for index in np.ndindex(centers.shape):
        above, below = centers.copy(), centers.copy()
        above[index] += step
        below[index] -= step
        result[index] = (function(above) - function(below)) / (above[index] - below[index])
    return result


# ----------------------------------------------------------------------------- the numbers


@every_alpha
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.5, 4.0])
def test_values_are_those_of_the_definitions(alpha, sigma):
    X, weight, centers = setting()
    options = {"sigma": sigma, "alpha": alpha, "sample_weight": weight}
    free, _ = objective_and_gradient(X, centers, **options)
    expected = reference.free_energy(X, centers, sigma, alpha, weight)
    assert free == pytest.approx(expected, rel=1e-11)
    soft, _ = objective_and_gradient(X, centers, loss="weighted_distortion", **options)
    assert soft == pytest.approx(weighted_distortion(X, centers, sigma, alpha, weight), rel=1e-11)
    hard = reference.distortion(X, centers, weight)
    assert free <= hard * (1 + 1e-12) <= soft * (1 + 2e-12)
    if sigma == 0:
        assert free == pytest.approx(hard, rel=1e-13)
        assert soft == pytest.approx(hard, rel=1e-13)


@every_loss
@every_alpha
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.5, 4.0])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_gradient_equals_central_differences(loss, alpha, sigma, offset):
    X, weight, centers = setting(1, offset=offset)

    def both(mu):
        return objective_and_gradient(
            X, mu, sigma=sigma, alpha=alpha, loss=loss, sample_weight=weight
        )

    measured = central_differences(lambda mu: both(mu)[0], centers)
    gradient = both(centers)[1]
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, measured, rtol=0, atol=1e-6 * np.abs(measured).max())


@every_loss
def test_gradient_equals_scipys_differences(loss):
    X, weight, centers = setting(2)

    def value(flat):
        mu = flat.reshape(centers.shape)
        return objective_and_gradient(X, mu, sigma=1.2, loss=loss, sample_weight=weight)[0]

    _, gradient = objective_and_gradient(X, centers, sigma=1.2, loss=loss, sample_weight=weight)
    measured = approx_fprime(centers.ravel(), value, 1e-7).reshape(centers.shape)
    np.testing.assert_allclose(gradient, measured, rtol=0, atol=1e-6 * np.abs(measured).max())


def test_a_responsibility_at_the_edge_of_its_support_leaves_the_gradient_finite():
    """For alpha > 2 its slope is unbounded there, but not that of the loss."""
    sigma, alpha = 1.0, 10.0
    edge = np.sqrt(1.0 + 2.0 * sigma**2 / (alpha - 1.0))
    X = np.array([[0.0]])
    inside = np.array([[1.0], [-edge * (1.0 - 1e-13)]])
    options = {"sigma": sigma, "alpha": alpha, "loss": "weighted_distortion"}
    _, near = objective_and_gradient(X, inside, **options)
    _, within = objective_and_gradient(X, [[1.0], [-edge * (1.0 - 1e-7)]], **options)
    np.testing.assert_allclose(near, within, rtol=1e-3)


def test_an_optimiser_finds_the_solution_of_the_estimator():
    X, weight, _ = setting(3)
    start = X[:3]
    fitted = fit_quietly(model(1.5, 3, sigma=0.8, init=start, tol=1e-10), X, weight)

    def both(flat):
        value, gradient = objective_and_gradient(
            X, flat.reshape(start.shape), sigma=0.8, alpha=1.5, sample_weight=weight
        )
        return value, gradient.ravel()

    found = minimize(both, fitted.cluster_centers_.ravel() + 1e-3, jac=True, options={"gtol": 1e-8})
    assert found.fun == pytest.approx(fitted.objective_, rel=1e-12)
    _, gradient = both(fitted.cluster_centers_)
    assert np.abs(gradient).max() < 1e-6


# -------------------------------------------------------------------- what it is invariant to


@every_loss
def test_rows_in_blocks_are_the_rows_at_once(loss, monkeypatch):
    X, weight, centers = setting(4)
    options = {"sigma": 1.0, "alpha": 1.5, "loss": loss, "sample_weight": weight}
    value, gradient = objective_and_gradient(X, centers, **options)
    monkeypatch.setattr(_gradient, "_BLOCK_SIZE", 7 * len(centers))
    parts, gradient_of_parts = objective_and_gradient(X, centers, **options)
    assert parts == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(gradient_of_parts, gradient, rtol=1e-11)


@every_loss
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
def test_sparse_data_have_the_same_result_and_stay_sparse(loss, container, monkeypatch):
    X, weight, centers = setting(5)
    X[np.abs(X) < 0.5] = 0.0
    options = {"sigma": 1.0, "alpha": 1.5, "loss": loss, "sample_weight": weight}
    value, gradient = objective_and_gradient(X, centers, **options)
    given = container(X)

    def refuse(*args, **kwargs):
        raise AssertionError("X was made dense")

    for kind in (sparse.csr_matrix, sparse.csr_array):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, refuse)
    of_sparse, gradient_of_sparse = objective_and_gradient(given, centers, **options)
    assert of_sparse == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(gradient_of_sparse, gradient, rtol=1e-9)


@every_loss
def test_weights_are_repetitions_and_zero_is_removal(loss):
    X, _, centers = setting(6)
    counts = np.arange(len(X)) % 3
    options = {"sigma": 0.9, "alpha": 1.5, "loss": loss}
    repeated, gradient = objective_and_gradient(np.repeat(X, counts, axis=0), centers, **options)
    far = np.where(counts[:, None] > 0, X, 1e200)
    value, of_weights = objective_and_gradient(far, centers, sample_weight=counts, **options)
    assert value == pytest.approx(repeated, rel=1e-13)
    np.testing.assert_allclose(of_weights, gradient, rtol=1e-10)


@every_loss
@pytest.mark.parametrize("scale", [1e-120, 1e-3, 1e100])
def test_the_unit_of_the_data_does_not_matter(loss, scale):
    X, weight, centers = setting(7)
    options = {"alpha": 1.5, "loss": loss, "sample_weight": weight}
    value, gradient = objective_and_gradient(X, centers, sigma=1.1, **options)
    scaled, of_scaled = objective_and_gradient(
        scale * X, scale * centers, sigma=1.1 * scale, **options
    )
    assert scaled == pytest.approx(value * scale**2, rel=1e-12)
    np.testing.assert_allclose(of_scaled / scale, gradient, rtol=1e-9)


@every_loss
def test_single_precision_rows_are_summed_in_double(loss):
    X, weight, centers = setting(8)
    X = X.astype(np.float32)
    options = {"sigma": 1.0, "alpha": 1.5, "loss": loss, "sample_weight": weight}
    value, gradient = objective_and_gradient(X, centers, **options)
    exact, exact_gradient = objective_and_gradient(X.astype(np.float64), centers, **options)
    assert gradient.dtype == np.float64
    assert value == pytest.approx(exact, rel=1e-13)
    np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-11)


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("change, message", [
    ({"sigma": -1.0}, "'sigma' parameter of objective_and_gradient"),
    ({"sigma": np.nan}, "'sigma' parameter of objective_and_gradient"),
    ({"alpha": 0.9}, "'alpha' parameter of objective_and_gradient"),
    ({"loss": "F"}, "'loss' parameter of objective_and_gradient"),
    ({"centers": [[0.0, 0.0]]}, "X has 3 features, but centers have 2"),
    ({"centers": [[0.0, 0.0, np.nan]]}, "Input centers contains NaN"),
    ({"X": [[0.0, 0.0, np.inf]], "sample_weight": None}, "Input X contains infinity"),
    ({"sample_weight": np.zeros(60)}, "all zero"),
    ({"sample_weight": np.ones(5)}, "sample_weight.shape"),
    ({"X": np.full((60, 3), 1e160), "sample_weight": np.ones(60)}, "overflow"),
    ({"sample_weight": np.full(60, 1e306)}, "overflows float64 with sigma=1"),
])  # fmt: skip
def test_bad_input_is_an_error_that_says_why(change, message):
    X, weight, centers = setting()
    given = {"X": X, "centers": centers, "sigma": 1.0, "sample_weight": weight, **change}
    with pytest.raises(ValueError, match=message):
        objective_and_gradient(given.pop("X"), given.pop("centers"), **given)


@every_loss
def test_what_underflows_is_no_error_to_callers_who_ask_for_errors(loss):
    X, weight, centers = setting()
    with np.errstate(all="raise"):
        objective_and_gradient(X, centers, sigma=1.0, loss=loss, sample_weight=5e-324 + 0 * weight)

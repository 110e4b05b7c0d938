"""What the mathematics promises, checked on the estimators.

Notation as in reference.py: F is the free energy, J the distortion of K-means
and L the distortion weighted by the responsibilities.
"""

import numpy as np
import pytest
from scipy.special import lambertw
from sklearn.cluster import KMeans

import reference
from models import at_centers, fit_quietly, model, one_step
from sklearn_softkmeans import objective_and_gradient, soft_kmeans_path
from sklearn_softkmeans.inspection import critical_sigma, hard_sigma
from sklearn_softkmeans.projections import entmax

ALPHAS = [1.0, 1.3, 1.5, 2.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def problem(seed, n_clusters=4, n_samples=40, n_features=3):
    """Rows, weights and centres at random."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_samples, n_features)) * [3.0, 1.0, 0.5]
    weight = rng.uniform(0.1, 2.0, size=n_samples)
    centers = 2.0 * rng.normal(size=(n_clusters, n_features))
    return X, weight, centers


def package_f(alpha, X, centers, sigma, weight=None):
    return one_step(alpha, X, centers, sigma, weight).objective_path_[0]


def package_l(alpha, X, centers, sigma, weight):
    resp = at_centers(alpha, centers, sigma).transform(X)
    return weight @ (resp * reference.sq_distances(X, centers)).sum(axis=1)


def gradient(function, centers, step=1e-5):
    """Central differences of a function of the centres."""
    result = np.zeros_like(centers)
    for index in np.ndindex(centers.shape):
        moved = centers.copy()
        moved[index] += step
        above = function(moved)
        moved[index] -= 2 * step
        result[index] = (above - function(moved)) / (2 * step)
    return result


# -------------------------------------------------------------- 1: the sandwich


@every_alpha
@pytest.mark.parametrize("sigma", [0.05, 0.7, 3.0])
def test_statement_1_free_energy_distortion_weighted_distortion_are_ordered(alpha, sigma):
    temperature = 2.0 * sigma**2
    for seed in range(5):
        X, weight, centers = problem(seed)
        f = package_f(alpha, X, centers, sigma, weight)
        hard = reference.distortion(X, centers, weight)
        soft = package_l(alpha, X, centers, sigma, weight)
        rounding = 1e-12 * hard
        assert f <= hard + rounding
        assert hard <= soft + rounding
        bound = temperature * weight.sum() * reference.max_entropy(4, alpha)
        assert hard - f <= bound + rounding


def largest_excess(n_clusters, alpha):
    """Largest sum_j p_j t over the common gap t of n_clusters - 1 scores."""
    gap = np.linspace(0.0, 8.0, 80001)
    scores = np.zeros((len(gap), n_clusters))
    scores[:, 1:] = -gap[:, None]
    return ((1.0 - entmax(scores, alpha)[:, 0]) * gap).max()


@pytest.mark.parametrize("n_clusters, softmax, entmax15", [
    (2, 0.2785, 0.1833), (3, 0.4631, 0.2722), (5, 0.7178, 0.3675)
])  # fmt: skip
def test_statement_1_constants_of_the_upper_bound(n_clusters, softmax, entmax15):
    exact = lambertw((n_clusters - 1) / np.e).real
    assert exact == pytest.approx(softmax, abs=5e-5)
    assert largest_excess(n_clusters, 1.0) == pytest.approx(exact, abs=1e-7)
    assert largest_excess(n_clusters, 1.5) == pytest.approx(entmax15, abs=5e-5)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_statement_1_weighted_distortion_exceeds_the_distortion_by_the_constant_at_most(alpha):
    constant = largest_excess(4, alpha)
    for seed in range(5):
        X, weight, centers = problem(seed)
        hard = reference.distortion(X, centers, weight)
        for sigma in (0.1, 0.5, 1.0, 2.0, 5.0):
            excess = package_l(alpha, X, centers, sigma, weight) - hard
            assert excess <= 2.0 * sigma**2 * weight.sum() * constant


LARGEST_ENTROPY = {
    1.0: np.log,
    1.3: lambda n_clusters: (1 - n_clusters**-0.3) / 0.39,
    1.5: lambda n_clusters: 4 / 3 * (1 - n_clusters**-0.5),
    2.0: lambda n_clusters: (1 - 1 / n_clusters) / 2,
}


@every_alpha
@pytest.mark.parametrize("n_clusters", [2, 3, 5])
def test_statement_1_bound_is_reached_where_all_distances_are_equal(alpha, n_clusters):
    """Rows at the origin, centres at distance 1."""
    f = package_f(alpha, np.zeros((7, n_clusters)), np.eye(n_clusters), 0.6)
    entropy = LARGEST_ENTROPY[alpha](n_clusters)
    assert f == pytest.approx(7 * (1.0 - 2 * 0.6**2 * entropy), rel=1e-13)
    assert reference.max_entropy(n_clusters, alpha) == pytest.approx(entropy, rel=1e-13)


# ------------------------------------------------------- 2: cooling at fixed centres


@every_alpha
def test_statement_2_cooling_raises_f_and_lowers_l_to_the_distortion(alpha):
    X, weight, centers = problem(7)
    cooling = np.geomspace(5.0, 0.01, 12)
    f = [package_f(alpha, X, centers, sigma, weight) for sigma in cooling]
    soft = [package_l(alpha, X, centers, sigma, weight) for sigma in cooling]
    hard = reference.distortion(X, centers, weight)
    rounding = 1e-12 * hard
    assert (np.diff(f) >= -rounding).all()
    assert (np.diff(soft) <= rounding).all()
    assert f[-1] == pytest.approx(hard, rel=1e-4)
    assert soft[-1] == pytest.approx(hard, rel=1e-4)
    assert f[0] < 0.5 * hard
    assert soft[0] > 1.5 * hard


# --------------------------------------------------------------- 3: the gradient


@every_alpha
@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_statement_3_the_step_is_the_gradient_step_of_f(alpha, sigma):
    """grad_j F = 2 N_j (mu_j - m_j), and one iteration lands on the means m_j."""
    X, weight, centers = problem(3)
    resp = at_centers(alpha, centers, sigma).transform(X)
    mass = weight @ resp
    assert (mass > 0).all()
    means = one_step(alpha, X, centers, sigma, weight).cluster_centers_
    np.testing.assert_allclose(means, (resp * weight[:, None]).T @ X / mass[:, None], rtol=1e-9)
    measured = gradient(lambda mu: package_f(alpha, X, mu, sigma, weight), centers)
    np.testing.assert_allclose(
        2 * mass[:, None] * (centers - means), measured, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_statement_3_full_gradient_of_the_weighted_distortion(alpha):
    """How the estimator's responsibilities move with the centres is part of it."""
    X, weight, centers = problem(5)
    sigma = 1.5
    resp = reference.responsibilities(X, centers, sigma, alpha)
    squares = reference.sq_distances(X, centers)
    s = np.where(resp > 0, np.where(resp > 0, resp, 1.0) ** (2 - alpha), 0.0)
    average = (s * squares).sum(axis=1, keepdims=True) / s.sum(axis=1, keepdims=True)
    factor = weight[:, None] * (resp - s * (squares - average) / (2 * sigma**2))
    formula = 2 * (factor.sum(axis=0)[:, None] * centers - factor.T @ X)
    measured = gradient(lambda mu: package_l(alpha, X, mu, sigma, weight), centers)
    np.testing.assert_allclose(measured, formula, rtol=1e-5, atol=1e-5)


@every_alpha
@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_statement_3_a_gradient_step_of_1_over_2n_is_the_centroid_update(alpha, sigma):
    for seed in range(5):
        X, weight, _ = problem(seed)
        centers = X[:4]
        options = {"sigma": sigma, "alpha": alpha, "sample_weight": weight}
        mass = weight @ reference.responsibilities(X, centers, sigma, alpha)
        assert (mass > 1e-3).all()
        _, slope = objective_and_gradient(X, centers, **options)
        stepped = centers - slope / (2 * mass[:, None])
        updated = one_step(alpha, X, centers, sigma, weight).cluster_centers_
        np.testing.assert_allclose(stepped, updated, rtol=0, atol=1e-12 * np.abs(X).max())


@every_alpha
def test_statement_3_gradient_descent_with_these_steps_is_the_fit(alpha):
    X, weight, _ = problem(1)
    start, stepped = X[:4], X[:4]
    for n_steps in range(1, 8):
        mass = weight @ reference.responsibilities(X, stepped, 1.0, alpha)
        options = {"sigma": 1.0, "alpha": alpha, "sample_weight": weight}
        _, slope = objective_and_gradient(X, stepped, **options)
        stepped = stepped - slope / (2 * mass[:, None])
        estimator = model(alpha, 4, sigma=1.0, init=start, max_iter=n_steps, solver="em")
        fitted = fit_quietly(estimator, X, weight)
        np.testing.assert_allclose(fitted.cluster_centers_, stepped, rtol=0, atol=1e-11)


# ----------------------------------------------------------------- 4: the descent


def random_fit(alpha, seed, start, **params):
    rng = np.random.RandomState(seed)
    n_clusters = rng.randint(1, 6)
    X, weight, centers = problem(seed, n_clusters, n_samples=50)
    if start == "rows":
        centers = X[rng.choice(50, n_clusters, replace=False)]
    sigma = 10 ** rng.uniform(-1.5, 0.7)
    weight = weight if seed % 2 else None
    params = {"sigma": sigma, "init": centers, "max_iter": 60, "tol": 1e-9, **params}
    estimator = model(alpha, n_clusters, **params)
    return fit_quietly(estimator, X, weight), X, centers, weight


@every_alpha
@pytest.mark.parametrize("start", ["rows", "anywhere"])
@pytest.mark.parametrize("solver", ["em", "auto", "lbfgs"])
def test_statement_4_no_step_of_200_random_fits_raises_f(solver, alpha, start):
    for seed in range(25):
        fitted, *_ = random_fit(alpha, seed, start, solver=solver)
        path = fitted.objective_path_
        assert path.shape == (fitted.n_iter_ + 1,)
        assert path[-1] == fitted.objective_
        assert (np.diff(path) <= 1e-10 * np.abs(path[:-1])).all(), seed


@pytest.mark.parametrize("solver", ["em", "auto", "lbfgs"])
def test_statement_4_holds_in_single_precision(solver):
    for seed in range(40):
        X = np.random.RandomState(seed).normal(size=(300, 3)).astype(np.float32)
        options = {"sigma": 0.8, "tol": 1e-6, "random_state": seed, "max_iter": 500}
        fitted = fit_quietly(model(1.0, 3, solver=solver, **options), X)
        assert (np.diff(fitted.objective_path_) <= 0.0).all(), seed


@every_alpha
def test_statement_4_the_path_is_f_recomputed_step_by_step(alpha):
    for seed in range(8):
        fitted, X, centers, weight = random_fit(alpha, seed, "rows", solver="em")
        expected = []
        for _ in range(fitted.n_iter_):
            expected.append(reference.free_energy(X, centers, fitted.sigma_, alpha, weight))
            centers = reference.em_step(X, centers, fitted.sigma_, alpha, weight)
        expected.append(reference.free_energy(X, centers, fitted.sigma_, alpha, weight))
        scale = np.abs(X).max() ** 2
        np.testing.assert_allclose(fitted.objective_path_, expected, rtol=1e-9, atol=1e-9 * scale)
        np.testing.assert_allclose(fitted.cluster_centers_, centers, rtol=0, atol=1e-8)


def test_statement_4_is_about_f_alone_distortions_do_rise():
    """Log F: both J and L may grow along the steps that lower it."""
    X = np.random.RandomState(6).normal(size=(40, 2)) * [2.0, 0.7]
    hard, soft = [], []
    for n_steps in range(1, 12):
        estimator = model(1, 3, sigma=2.2, init=X[:3], max_iter=n_steps, solver="em")
        centers = fit_quietly(estimator, X).cluster_centers_
        hard.append(reference.distortion(X, centers))
        soft.append(package_l(1, X, centers, 2.2, np.ones(40)))
    assert max(np.diff(hard)) > 1.0
    assert max(np.diff(soft)) > 1.0


# ---------------------------------------------------------- 5: hardness is exact


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0, 3.0])
def test_statement_5_one_hot_exactly_from_the_gap_on(alpha):
    """d_(2)^2 - d_(1)^2 >= 2 sigma^2 / (alpha - 1)."""
    margin = 2.0 * 0.7**2 / (alpha - 1.0)
    x = 1.0
    for factor, hard in ((0.98, False), (1.02, True)):
        centers = np.array([[0.0], [x + np.sqrt(x**2 + factor * margin)]])
        resp = at_centers(alpha, centers, 0.7).transform([[x]])
        assert (resp[0, 1] == 0.0) == hard
        assert (resp[0, 0] == 1.0) == hard


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_statement_5_a_kmeans_solution_is_a_fixed_point_below_hard_sigma(alpha):
    X = reference.data("wine")
    solution = KMeans(3, n_init=5, random_state=0, tol=0).fit(X)
    centers = solution.cluster_centers_
    gap = reference.gaps(X, centers).min()
    sigma = 0.999 * reference.hard_sigma(gap, alpha)
    fitted = model(alpha, 3, sigma=sigma, init=centers).fit(X)
    np.testing.assert_allclose(fitted.cluster_centers_, centers, rtol=0, atol=1e-12)
    resp = fitted.transform(X)
    np.testing.assert_array_equal(resp, reference.one_hot(solution.labels_, 3))
    weighted = (resp * reference.sq_distances(X, centers)).sum()
    assert fitted.objective_ == pytest.approx(solution.inertia_, rel=1e-12)
    assert fitted.inertia_ == pytest.approx(solution.inertia_, rel=1e-12)
    assert weighted == pytest.approx(solution.inertia_, rel=1e-12)
    # Above it at least one row is shared.
    softer = at_centers(alpha, centers, 1.01 * reference.hard_sigma(gap, alpha))
    assert (softer.transform(X).max(axis=1) < 1.0).any()


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
def test_statement_5_below_the_certificate_of_every_step_gradient_descent_is_lloyd(alpha):
    """The whole trajectory: gradient steps of F, of L, and the steps of Lloyd's algorithm."""
    X = reference.data("iris")
    start = reference.spread_start(X, 3)
    run = reference.lloyd_run(X, start)
    sigma = 0.999 * reference.hard_sigma(run.smallest_gap, alpha)
    centers, n_steps = start, 0
    while True:
        assert sigma < hard_sigma(X, centers, alpha)
        options = {"sigma": sigma, "alpha": alpha}
        free, slope = objective_and_gradient(X, centers, **options)
        soft, same = objective_and_gradient(X, centers, loss="weighted_distortion", **options)
        assert free == pytest.approx(reference.distortion(X, centers), rel=1e-12)
        assert soft == pytest.approx(free, rel=1e-12)
        np.testing.assert_allclose(same, slope, rtol=0, atol=1e-9)
        sizes = reference.responsibilities(X, centers, 0.0).sum(axis=0)
        stepped = centers - slope / (2 * sizes[:, None])
        moved = reference.lloyd_step(X, centers)
        np.testing.assert_allclose(stepped, moved, rtol=0, atol=1e-12)
        if np.array_equal(moved, centers):
            break
        centers, n_steps = moved, n_steps + 1
    assert n_steps > 4
    np.testing.assert_array_equal(centers, run.centers)


# ------------------------------------------------- 6: softmax error falls exponentially


def test_statement_6_softmax_error_falls_like_exp_of_the_smallest_gap():
    X = reference.blobs(3, n_samples=90, std=1.0, box=4.0, seed=47)
    solution = reference.lloyd_run(X, KMeans(3, random_state=0, n_init=5).fit(X).cluster_centers_)
    smallest, second = np.sort(reference.gaps(X, solution.centers))[:2]
    assert second > 2 * smallest  # one row rules the error
    inverse = np.array([10.0, 14.0, 18.0]) / smallest  # 1 / (2 sigma^2)
    errors = [
        np.abs(
            model(1, 3, sigma=np.sqrt(0.5 / value), init=solution.centers, tol=1e-13)
            .fit(X)
            .cluster_centers_
            - solution.centers
        ).max()
        for value in inverse
    ]
    slope = np.polyfit(inverse, np.log(errors), 1)[0]
    assert -slope == pytest.approx(smallest, rel=0.05)


# ------------------------------------------------------------- 7: the EM identity


@pytest.mark.parametrize("sigma", [0.2, 1.0, 4.0])
def test_statement_7_f_is_the_likelihood_of_a_mixture(sigma):
    X, weight, _ = problem(11)
    for sample_weight in (None, weight):
        total = len(X) if sample_weight is None else sample_weight.sum()
        fitted = model(1, 4, sigma=sigma, random_state=0, tol=1e-8, max_iter=1000)
        fit_quietly(fitted, X, sample_weight)
        log_density = fitted.score_samples(X)
        expected = reference.mixture_log_likelihood(X, fitted.cluster_centers_, sigma)
        np.testing.assert_allclose(log_density, expected, rtol=1e-10)
        nll = -total * fitted.score(X, sample_weight=sample_weight)
        constant = total * np.log(4) + total * 3 / 2 * np.log(2 * np.pi * sigma**2)
        assert fitted.objective_ == pytest.approx(2 * sigma**2 * (nll - constant), rel=1e-9)


# --------------------------------------------------------- 8: critical temperature


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_statement_8_centres_at_the_mean_split_below_the_critical_sigma(alpha, weighted):
    """sigma_c^2 = K^(alpha - 1) lambda_max of the biased covariance."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 3)) * [2.0, 0.7, 0.3]
    weight = rng.uniform(0.2, 2.0, 400) if weighted else np.ones(400)
    mean = weight @ X / weight.sum()
    largest = np.linalg.eigvalsh(np.cov(X.T, bias=True, aweights=weight))[-1]
    critical = np.sqrt(3 ** (alpha - 1) * largest)
    start = mean + 1e-3 * rng.normal(size=(3, 3))
    spread = {}
    for factor in (0.95, 1.05):
        estimator = model(alpha, 3, sigma=factor * critical, init=start, tol=0, max_iter=400)
        fitted = fit_quietly(estimator, X, weight)
        spread[factor] = np.abs(fitted.cluster_centers_ - mean).max()
    assert spread[1.05] < 1e-6
    assert spread[0.95] > 0.1


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("factor, parted", [(0.95, True), (1.05, False)])
def test_statement_8_centres_that_share_a_cluster_part_at_their_own_critical_sigma(
    alpha, factor, parted
):
    """Of three centres two own the wide cluster: sigma^2 = 2^(alpha - 1) lambda_max of it."""
    rng = np.random.RandomState(1)
    wide = rng.normal(size=(200, 2)) * [1.5, 0.5]
    far = [200.0, 0.0] + 0.01 * rng.normal(size=(200, 2))
    X = np.concatenate([wide, far])
    sigma = factor * critical_sigma(wide, 2, alpha)
    start = np.array([wide.mean(axis=0), wide.mean(axis=0), far.mean(axis=0)])
    start[:2] += 1e-3 * rng.normal(size=(2, 2))
    estimator = model(alpha, 3, sigma=sigma, init=start, tol=1e-8, max_iter=1000)
    centers = fit_quietly(estimator, X).cluster_centers_
    assert (np.linalg.norm(centers[0] - centers[1]) > 0.3) == parted
    assert parted or np.linalg.norm(centers[0] - centers[1]) < 1e-4


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_statement_8_exactly_equal_centres_never_part(alpha):
    X = np.random.RandomState(0).normal(size=(200, 2)) * [2.0, 0.5]
    start = np.zeros((3, 2))
    sigma = 0.3 * critical_sigma(X, 3, alpha)
    centers = fit_quietly(model(alpha, 3, sigma=sigma, init=start), X).cluster_centers_
    np.testing.assert_allclose(centers, np.tile(X.mean(axis=0), (3, 1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_statement_8_cooling_parts_below_and_heating_may_overshoot_on_skewed_data(alpha):
    X = np.append(np.linspace(-1.0, 1.0, 50), 10.0)[:, None]
    critical = critical_sigma(X, 2, alpha)
    grid = critical * np.array([1.2, 1.02, 0.98])
    cooling = soft_kmeans_path(X, 2, alpha=alpha, sigmas=grid)
    np.testing.assert_array_equal(cooling.n_distinct, [1, 1, 2])
    heating = soft_kmeans_path(
        X, 2, alpha=alpha, sigmas=grid, direction="heating", init=[[0.0], [10.0]]
    )
    np.testing.assert_array_equal(heating.n_distinct, [2, 2, 2])


# ------------------------------------------------ 9: softness depends on alpha


def perplexity(resp):
    return np.exp(-reference.negative_entropy(resp, 1)).mean()


def test_statement_9_entmax_is_sharper_than_softmax_at_equal_sigma():
    X, _, centers = problem(2)
    for sigma in (0.3, 0.8, 1.5):
        softness = [
            perplexity(at_centers(alpha, centers, sigma).transform(X))
            for alpha in (1.0, 1.25, 1.5, 2.0)
        ]
        assert (np.diff(softness) < -0.01).all()


@pytest.mark.parametrize("alpha, merging", [(1.0, 1.0), (1.5, 2**0.25), (2.0, 2**0.5)])
def test_statement_9_two_points_merge_at_a_sigma_that_grows_with_alpha(alpha, merging):
    X = np.array([[-1.0], [1.0]])
    for factor, merged in ((0.97, False), (1.03, True)):
        estimator = model(alpha, 2, sigma=factor * merging, init=0.01 * X, tol=0, max_iter=3000)
        centers = fit_quietly(estimator, X).cluster_centers_
        assert (np.abs(centers).max() < 1e-3) == merged


# ------------------------------------------------------------------ 10: pruning


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
def test_statement_10_far_centres_have_no_mass_and_no_influence(alpha):
    X, _, centers = problem(4, n_clusters=12, n_samples=60)
    sigma = 0.9
    squares = reference.sq_distances(X, centers)
    outside = squares >= squares.min(axis=1, keepdims=True) + 2 * sigma**2 / (alpha - 1)
    assert 0.2 < outside.mean() < 0.95
    resp = at_centers(alpha, centers, sigma).transform(X)
    assert (resp[outside] == 0).all()
    for row in range(0, 60, 10):
        kept = ~outside[row]
        alone = at_centers(alpha, centers[kept], sigma).transform(X[row : row + 1])
        np.testing.assert_allclose(alone[0], resp[row, kept], rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------- a caution


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_a_symmetric_start_on_an_exact_tie_stays_where_kmeans_would_not(alpha):
    """Rows -1, 0, 1: the middle one is shared equally at any sigma, so nothing moves."""
    X = np.array([[-1.0], [0.0], [1.0]])
    for sigma in (1e-6, 0.05):
        estimator = model(alpha, 2, sigma=sigma, init=[[-0.6], [0.6]], tol=0)
        fitted = estimator.fit(X)
        np.testing.assert_allclose(fitted.cluster_centers_, [[-2 / 3], [2 / 3]], rtol=1e-12)
    hard = model(alpha, 2, sigma=0, init=[[-0.6], [0.6]]).fit(X)
    assert hard.inertia_ == pytest.approx(0.5)
    assert fitted.inertia_ == pytest.approx(2 / 3)

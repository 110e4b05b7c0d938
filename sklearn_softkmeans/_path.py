"""Centers along a grid of temperatures, each fit started from the one before."""

import warnings
from numbers import Integral, Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch, check_array, check_random_state

from ._assignment import for_prediction
from ._centers import count_distinct, critical, problem_for_fit, resolution
from ._compat import Interval, StrOptions, validate_params
from ._compiled import one_blas_thread
from ._gradient import in_units, weighted_distortion
from ._seeding import initial_centers
from ._solver import solve
from ._typing import MatrixLike, Seed, Solver
from ._validation import check_counted_rows, check_enough_rows, check_initial_centers

# Before centers that have merged are let go, in units of sigma: the disturbance that lets them
# part. Large against the tolerance, small against what parts.
_DISTURBANCE = 1e-2


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 1, None, closed="left")],
        "sigmas": ["array-like", None],
        "n_sigmas": [Interval(Integral, 1, None, closed="left")],
        "eps": [Interval(Real, 0, 1, closed="neither")],
        "direction": [StrOptions({"cooling", "heating"})],
        "init": [StrOptions({"mean", "k-means++", "random"}), "array-like", None],
        "sample_weight": ["array-like", None],
        "solver": [StrOptions({"auto", "em", "anderson", "lbfgs"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def soft_kmeans_path(
    X: MatrixLike,
    n_clusters: int,
    *,
    alpha: float = 1.0,
    sigmas: ArrayLike | None = None,
    n_sigmas: int = 50,
    eps: float = 1e-2,
    direction: Literal["cooling", "heating"] = "cooling",
    init: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    solver: Solver = "auto",
    max_iter: int = 1000,
    tol: float = 1e-6,
    random_state: Seed = None,
) -> Bunch:
    r"""Centers along a grid of temperatures, from one cluster to K-means or back.

    Each fit starts where the one before it ended. Cooling begins above the critical temperature,
    where all centers are one, and follows them as they part; heating begins at a solution of
    K-means. Where centers have merged, cooling moves all of them by a hundredth of sigma, in fixed
    directions, before each fit: exactly equal centers never part by themselves.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to cluster, dense or CSR; CSR is never made dense.
    n_clusters : int
        Number of clusters, at least 1.
    alpha : float, default=1.0
        Order of the map from scores to responsibilities, at least 1: 1 is that of
        :class:`SoftKMeans`, 1.5 the default of :class:`EntmaxKMeans`, 2 sparsemax.
    sigmas : array-like of shape (n_sigmas,), default=None
        Temperatures as lengths in the unit of X, at least 0, in any order. None takes `n_sigmas`
        from 1.05 times the critical temperature down, in geometric steps.
    n_sigmas : int, default=50
        Number of temperatures where `sigmas` is None, at least 1.
    eps : float, default=1e-2
        Length of that grid: the lowest temperature over the highest, between 0 and 1.
    direction : {"cooling", "heating"}, default="cooling"
        Whether fits run from the highest temperature to the lowest, or up from K-means.
    init : {"mean", "k-means++", "random"} or array-like of shape (n_clusters, n_features), \
            default=None
        Where the first fit starts. "mean" is the mean of the rows for all centers, the others are
        those of :class:`SoftKMeans`. None is "mean" for cooling and "k-means++" for heating,
        which runs K-means from there first.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows, not all zero and of a finite sum.
    solver : {"auto", "em", "anderson", "lbfgs"}, default="auto"
        As in :class:`SoftKMeans`.
    max_iter : int, default=1000
        Largest number of iterations at each temperature, at least 1.
    tol : float, default=1e-6
        Each fit stops at this estimated distance of the centers to the fixed point, relative to
        the square root of the total variance of X. At least 0. Just below a critical temperature
        a large tolerance hides that centers part.
    random_state : int, RandomState instance or None, default=None
        Seed of "k-means++" and "random"; nothing else is random.

    Returns
    -------
    path : :class:`~sklearn.utils.Bunch`
        The temperatures, in decreasing order whatever the direction, and what was found at each:

        sigmas : ndarray of shape (n_sigmas,)
            Temperatures.
        centers : ndarray of shape (n_sigmas, n_clusters, n_features)
            Centers, in the precision of X.
        objective : ndarray of shape (n_sigmas,)
            Free energy F, which the fit minimises, in the squared unit of X.
        weighted_distortion : ndarray of shape (n_sigmas,)
            L, the sum of squared distances weighted by responsibilities.
        inertia : ndarray of shape (n_sigmas,)
            Sum of squared distances to the nearest center, never below F nor above L.
        mass : ndarray of shape (n_sigmas, n_clusters)
            Sum of the responsibilities of each cluster.
        n_distinct : ndarray of shape (n_sigmas,)
            Number of centers that hold mass and lie apart from each other.
        n_iter : ndarray of shape (n_sigmas,)
            Passes over X.
        alpha : float
            As given.

    Raises
    ------
    ValueError
        If a parameter is out of its range, an array is not finite or of the wrong shape, or a
        result does not fit into float64.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` was reached, with the temperatures at which it was.

    See Also
    --------
    objective_and_gradient : F and L of given centers.
    sklearn_softkmeans.inspection.CollapsePathDisplay : Pictures of a path.
    sklearn_softkmeans.inspection.critical_sigma : Where the default grid begins.

    Notes
    -----
    All `n_clusters` centers exist from the start. That shows how solutions change, but is no way
    to better ones: which centers part together is decided early, and with many clusters the end of
    the path is often worse than the best of a few runs of K-means.

    References
    ----------
    K. Rose, "Deterministic annealing for clustering, compression, classification, regression, and
    related optimization problems", Proceedings of the IEEE 86, 1998.

    Examples
    --------
    >>> from sklearn_softkmeans import soft_kmeans_path
    >>> X = [[-3.0], [-2.0], [2.0], [3.0]]
    >>> path = soft_kmeans_path(X, 2, sigmas=[3.0, 2.0, 1.0, 0.0])
    >>> path.n_distinct
    array([1, 2, 2, 2])
    >>> abs(path.centers[:, 0, 0]).round(2)
    array([0.  , 2.19, 2.5 , 2.5 ])
    """
    X, weights = check_counted_rows(X, sample_weight)
    check_enough_rows(X.shape[0], n_clusters)
    cooling = direction == "cooling"
    if init is None:
        init = "mean" if cooling else "k-means++"
    given = None if sigmas is None else _checked(sigmas)
    options = {"solver": solver, "max_iter": max_iter, "tol": tol}
    # More threads of BLAS would round differently; what underflows is nothing beside the rest.
    with one_blas_thread(), np.errstate(under="ignore"):
        highest = 0.0 if given is None else given[0]
        problem = problem_for_fit(X, weights, alpha, sigma=highest, resident=True)
        sigmas = _grid(problem, n_clusters, n_sigmas, eps) if given is None else given
        start = _start(problem, n_clusters, init, check_random_state(random_state))
        solutions = _follow(problem, start, sigmas, cooling, options)
        path = _describe(problem, sigmas, solutions, tol)
    _warn(path.sigmas, solutions, options)
    return path


def _checked(sigmas):
    sigmas = check_array(sigmas, ensure_2d=False, dtype=np.float64, input_name="sigmas")
    if sigmas.ndim != 1 or sigmas.min() < 0.0:
        raise ValueError(
            f"sigmas must be numbers of at least 0 in one dimension, got {sigmas.ndim} dimensions "
            f"and {sigmas.min():.3g} as the smallest."
        )
    return np.sort(sigmas)[::-1]


def _grid(problem, n_clusters, n_sigmas, eps):
    highest = 1.05 * critical(problem, n_clusters) * problem.unit
    if highest == 0.0:
        raise ValueError("All rows of X are equal and have no critical sigma. Pass sigmas.")
    if highest * highest == np.inf:
        raise ValueError(
            f"The square of the critical sigma overflows float64 with alpha={problem.alpha:.3g}, "
            f"n_clusters={n_clusters}. Pass sigmas, or take a smaller alpha."
        )
    return highest * np.geomspace(1.0, eps, n_sigmas)


def _start(problem, n_clusters, init, random_state):
    if not isinstance(init, str):
        return problem.into_frame(check_initial_centers(init, n_clusters, problem.n_features))
    if init == "mean":
        statistics = problem.statistics(np.zeros((1, problem.n_features)), 0.0)
        return np.repeat(statistics.sums / statistics.mass[:, None], n_clusters, axis=0)
    return initial_centers(problem, n_clusters, init, random_state)


def _follow(problem, centers, sigmas, cooling, options):
    """Solutions at all temperatures, in decreasing order of these."""
    if not cooling:
        centers = solve(problem, centers, sigma=0.0, **options).centers
    directions = np.random.RandomState(0).uniform(-1.0, 1.0, centers.shape)
    solutions = []
    for sigma in (sigmas if cooling else sigmas[::-1]) / problem.unit:
        if cooling and _n_distinct(problem, centers, options["tol"]) < len(centers):
            centers = centers + _DISTURBANCE * sigma * directions
        solutions.append(solve(problem, centers, sigma=sigma, **options))
        centers = solutions[-1].centers
    return solutions if cooling else solutions[::-1]


def _n_distinct(problem, centers, tol, mass=None):
    mass = np.ones(len(centers)) if mass is None else mass
    return count_distinct(centers, mass, resolution(problem, tol * problem.spread))


def _describe(problem, sigmas, solutions, tol):
    """The path, with sums that belong to the centers as they are stored."""
    path = Bunch(
        sigmas=sigmas,
        centers=np.array([problem.out_of_frame(solution.centers) for solution in solutions]),
        n_iter=np.array([solution.n_iter for solution in solutions]),
        alpha=float(problem.alpha),
    )
    path.centers = path.centers.astype(problem.X.dtype)
    rows = [_sums(problem, *each) for each in zip(path.centers, sigmas, strict=True)]
    for name, column in zip(_SUMS, zip(*rows, strict=True), strict=True):
        path[name] = np.array(column)
    path.n_distinct = np.array(
        [
            _n_distinct(problem, solution.centers, tol, mass)
            for solution, mass in zip(solutions, path.mass, strict=True)
        ]
    )
    return path


_SUMS = ["objective", "weighted_distortion", "inertia", "mass"]


def _sums(problem, centers, sigma):
    final = for_prediction(problem.X, centers, sigma, problem.alpha, problem.sample_weight)
    in_frame, sigma_ = final.into_frame(centers), sigma / final.unit
    with np.errstate(over="ignore", invalid="ignore"):  # reported here
        result = final.assign(in_frame, sigma_)
        soft = in_units(weighted_distortion(final, in_frame, sigma_), final)
    if not np.isfinite([result.objective, soft, result.inertia]).all():
        raise ValueError(
            f"The objective overflows float64 with sigma={sigma:.3g} and weights up to "
            f"{problem.weight_unit:.3g}. Scale X and sigmas, or sample_weight, down."
        )
    return result.objective, soft, result.inertia, result.mass


def _warn(sigmas, solutions, options):
    stopped = [solution.stop_reason == "max_iter" for solution in solutions]
    if any(stopped):
        named = ", ".join(f"{sigma:.4g}" for sigma in sigmas[stopped][:3])
        warnings.warn(
            f"soft_kmeans_path stopped after max_iter={options['max_iter']} iterations at "
            f"{sum(stopped)} of {len(sigmas)} temperatures (sigma={named}"
            f"{', ...' if sum(stopped) > 3 else ''}), before the centers were within "
            f"tol={options['tol']} of a fixed point. Increase max_iter or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )

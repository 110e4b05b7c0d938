"""The two losses of given centers and their gradients: arrays in, arrays out."""

from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._assignment import Problem, for_prediction
from ._compat import Interval, StrOptions, validate_params
from ._compiled import one_blas_thread
from ._ranges import precision_of
from ._typing import MatrixLike
from ._validation import check_counted_rows, check_given_centers

# Numbers in each of the arrays of rows times clusters that the weighted distortion needs.
_BLOCK_SIZE = 2**19


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "centers": ["array-like"],
        "sigma": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 1, None, closed="left")],
        "loss": [StrOptions({"free_energy", "weighted_distortion"})],
        "sample_weight": ["array-like", None],
    },
    prefer_skip_nested_validation=True,
)
def objective_and_gradient(
    X: MatrixLike,
    centers: ArrayLike,
    *,
    sigma: float,
    alpha: float = 1.0,
    loss: Literal["free_energy", "weighted_distortion"] = "free_energy",
    sample_weight: ArrayLike | None = None,
) -> tuple[float, NDArray[np.float64]]:
    r"""Loss of given centers and its gradient, as optimisers take them.

    With the squared distances :math:`d_{ij}^2 = |x_i - c_j|^2`, weights :math:`w_i` and the
    responsibilities :math:`r_i` that entmax of order `alpha` makes of
    :math:`-d_{ij}^2 / (2 \sigma^2)`, the losses are

    .. math:: F = \sum_{i,j} w_i r_{ij} d_{ij}^2 + 2 \sigma^2 \sum_i w_i \Omega_\alpha(r_i)
              \quad\text{and}\quad L = \sum_{i,j} w_i r_{ij} d_{ij}^2.

    The responsibilities move with the centers, in the gradients too. They minimise F, so that its
    gradient is that for fixed responsibilities,

    .. math:: \partial F / \partial c_j = 2 N_j (c_j - m_j),

    with the mass :math:`N_j = \sum_i w_i r_{ij}` and the weighted mean :math:`m_j`: a gradient
    step of length :math:`1 / (2 N_j)` is the step of :class:`SoftKMeans` and
    :class:`EntmaxKMeans`. That of L has another part,

    .. math:: \frac{\partial L}{\partial c_j} = 2 \sum_i w_i (c_j - x_i) \left[
              r_{ij} - s_{ij} \frac{d_{ij}^2 - \tilde d_i^2}{2 \sigma^2} \right], \quad
              \tilde d_i^2 = \frac{\sum_l s_{il} d_{il}^2}{\sum_l s_{il}},

    where :math:`s_{ij} = r_{ij}^{2 - \alpha}` if :math:`r_{ij} > 0`, and 0 otherwise.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows, dense or CSR; CSR is never made dense.
    centers : array-like of shape (n_clusters, n_features)
        Cluster centers.
    sigma : float
        Temperature as a length in the unit of X, at least 0. At 0 both losses are the inertia of
        K-means.
    alpha : float, default=1.0
        Order of the map from scores to responsibilities, at least 1: 1 is softmax, 1.5 the default
        of :class:`EntmaxKMeans`, 2 sparsemax.
    loss : {"free_energy", "weighted_distortion"}, default="free_energy"
        F, which a fit minimises, or L.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the rows, not all zero and of a finite sum.

    Returns
    -------
    objective : float
        The loss, in the squared unit of X times that of the weights.
    gradient : ndarray of shape (n_clusters, n_features), float64
        Its derivatives with respect to the centers.

    Raises
    ------
    ValueError
        If a parameter is out of its range, an array is not finite or of the wrong shape, or a
        result does not fit into float64.

    See Also
    --------
    soft_kmeans_path : Minima of F along a grid of temperatures.

    Notes
    -----
    All sums are in float64. No array of rows times clusters is larger than some MiB. For `alpha`
    above 1 the gradient of L jumps where a responsibility becomes zero, if `alpha` is at least 2,
    and is continuous below.

    References
    ----------
    F. Félix Arredondo, A. Ucan-Puc and C. Astengo Noguez, "K-Means as a Radial Basis Function
    Network: a Variational and Gradient-based Equivalence", arXiv:2603.04625, 2026.

    Examples
    --------
    >>> from sklearn_softkmeans import objective_and_gradient
    >>> X = [[-1.0], [0.0], [1.0]]
    >>> value, gradient = objective_and_gradient(X, [[-0.5], [0.5]], sigma=0.5)
    >>> round(value, 3)
    0.385
    >>> gradient.round(3)
    array([[ 0.428],
           [-0.428]])
    """
    X, weights = check_counted_rows(X, sample_weight)
    centers = check_given_centers(centers, X)
    function = _free_energy if loss == "free_energy" else _weighted_distortion
    # More threads of BLAS would round differently; what underflows is nothing beside the rest.
    with one_blas_thread(), np.errstate(under="ignore", over="ignore", invalid="ignore"):
        problem = for_prediction(X, centers, sigma, alpha, weights)
        in_frame = problem.into_frame(centers)
        value, gradient = function(problem, in_frame, sigma / problem.unit)
        gradient = gradient * problem.unit * problem.weight_unit
        value = in_units(value, problem)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise ValueError(
            f"The {loss} or its gradient overflows float64 with sigma={sigma:.3g} and weights up "
            f"to {problem.weight_unit:.3g}. Scale X, centers and sigma, or sample_weight, down."
        )
    return value, gradient


def in_units(value, problem):
    """A squared length of the frame, in the units of X and of the weights."""
    with np.errstate(over="ignore"):
        return float(np.float64(value) * problem.unit * problem.unit * problem.weight_unit)


def weighted_distortion(problem, centers, sigma):
    """L at the given centers, in the frame."""
    return sum(
        problem.weights[rows] @ (resp * sq_distances).sum(axis=1)
        for rows, resp, sq_distances in _blocks(problem, centers, sigma)
    )


def _free_energy(problem, centers, sigma):
    statistics = problem.statistics(centers, sigma)
    gradient = 2.0 * (statistics.mass[:, None] * centers - statistics.sums)
    return statistics.objective, gradient


def _weighted_distortion(problem, centers, sigma):
    value = 0.0
    pull = np.zeros(len(centers))
    sums = np.zeros(centers.shape)
    for rows, resp, sq_distances in _blocks(problem, centers, sigma):
        weights = problem.weights[rows]
        value += weights @ (resp * sq_distances).sum(axis=1)
        factors = resp - _response(resp, sq_distances, sigma, problem.alpha)
        factors *= weights[:, None]
        pull += factors.sum(axis=0)
        sums += _sums(problem, rows, factors)
    return value, 2.0 * (pull[:, None] * centers - sums)


def _blocks(problem, centers, sigma):
    """Slices of rows with their responsibilities and squared distances, in float64."""
    n_rows = max(_BLOCK_SIZE // len(centers), 1)
    for start in range(0, problem.n_samples, n_rows):
        rows = slice(start, start + n_rows)
        block = Problem(problem.X[rows].astype(np.float64), **problem.frame)
        unbounded = np.full(block.n_samples, np.inf)
        sq_distances = block.sq_distances(centers, unbounded).T
        yield rows, block.responsibilities(centers, sigma), sq_distances


def _response(resp, sq_distances, sigma, alpha):
    """How the responsibilities of a row answer: their Jacobian times the scores, negated."""
    if sigma == 0.0:
        return np.zeros_like(resp)
    support = resp > 0.0
    slopes = support * np.where(support, resp, 1.0) ** (2.0 - alpha)
    # Relative to the steepest, whose slope may be huge where alpha > 2: its own part is exactly 0.
    steepest = slopes.argmax(axis=1)[:, None]
    excess = sq_distances - np.take_along_axis(sq_distances, steepest, axis=1)
    mean = (slopes * excess).sum(axis=1) / slopes.sum(axis=1)
    return slopes * (excess - mean[:, None]) * (0.5 * precision_of(sigma))


def _sums(problem, rows, factors):
    """Sums of rows in the frame, weighted by the factors of each cluster."""
    if problem.is_sparse:
        return (problem.X[rows].T @ factors).T / problem.unit
    return factors.T @ problem.rows_in_frame(rows)

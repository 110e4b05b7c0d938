"""Centres from sums: the M-step, centres without mass, and what is read off data and centres."""

import numpy as np
from scipy.sparse import coo_array, issparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.spatial import KDTree

from ._assignment import Problem
from ._ranges import frame_size, precision_of

# The E-step leaves out responsibilities below exp(-50) = 2e-22. They matter to 1e-14 of a mean
# only where a cluster holds less than this share of the total weight.
_STARVED = 1e-8

# Quantile of the gaps d_(2)^2 - d_(1)^2 below which sigma="auto" makes rows soft.
_SOFT_SHARE = 0.1


# --------------------------------------------------------------------------------- the data


def problem_for_fit(X, sample_weight, alpha, *, sigma=0.0, resident):
    """The `Problem` of a fit: its frame has the data's mean and standard deviation.

    The unit is larger where `sigma`, in the unit of X, would be out of range.
    """
    # A row that counts: one without weight may lie anywhere.
    first = [0 if sample_weight is None else np.argmax(sample_weight > 0.0)]
    start = (X[first].toarray() if issparse(X) else X[first])[0]
    problem = Problem(X, sample_weight, alpha=alpha, origin=start, size=1.0, single=False)
    problem, spread = _recentred(problem)
    if spread < 1e-100:  # squares may have underflowed
        counted = X if sample_weight is None else X[sample_weight > 0.0]
        largest = float(max(counted.max(), -counted.min()))
        size = largest or 1.0
        problem = Problem(
            X, sample_weight, alpha=alpha, origin=problem.origin, size=size, single=False
        )
        problem, spread = _recentred(problem)
    size = spread or problem.size
    return Problem(
        X,
        sample_weight,
        alpha=alpha,
        origin=problem.origin,
        size=frame_size(size, sigma),
        spread=spread,
        resident=resident,
    )


def _recentred(problem):
    """Move the origin to the weighted mean; also return the root of the variance about it."""
    zero = np.zeros((1, problem.n_features))
    statistics = problem.statistics(zero, 0.0)
    mean = statistics.sums / statistics.mass[:, None]
    size = np.sqrt(statistics.objective / statistics.mass[0]) * problem.unit or problem.size
    mean = problem.out_of_frame(mean)
    X, weights = problem.X, problem.sample_weight
    moved = Problem(X, weights, alpha=problem.alpha, origin=mean[0], size=size, single=False)
    at_mean = moved.statistics(moved.into_frame(mean), 0.0)
    return moved, np.sqrt(at_mean.objective / at_mean.mass[0]) * moved.unit


# ------------------------------------------------------------------------------- the M-step


def update_centers(problem, statistics, centers, sigma):
    """Weighted means of the clusters, also of those that (almost) no row belongs to."""
    sums, mass = statistics.sums, statistics.mass
    if sigma > 0 and problem.alpha == 1.0:
        starved = np.flatnonzero(mass < _STARVED * mass.sum())
    else:
        starved = np.empty(0, dtype=np.intp)
        dead = np.flatnonzero(mass <= 0.0)
        if len(dead) > 0:
            sums, mass = _relocate(problem, statistics, centers, dead, sigma)
    updated = centers.copy()
    alive = mass > 0.0
    updated[alive] = sums[alive] / mass[alive, None]
    if len(starved) > 0:
        updated[starved] = _log_space_means(problem, centers, starved, sigma)
    return updated


def _log_space_means(problem, centers, starved, sigma):
    """Means under softmax responsibilities that may all underflow.

    log r_ij = (F_i - d_ij^2) / (2 sigma^2), with F_i the free energy of the row.
    """
    counted = np.flatnonzero(problem.weights > 0.0)
    objective = problem.row_objective(centers, sigma)[counted]
    log_weights = np.log(problem.weights[counted])
    unbounded = np.full(problem.n_samples, np.inf)
    means = np.empty((len(starved), problem.n_features))
    for row, j in enumerate(starved):
        sq_distances = problem.sq_distances(centers[[j]], unbounded)[0][counted]
        lead = objective - sq_distances
        with np.errstate(over="ignore"):  # log_resp is only wanted up to a constant, near its top
            log_resp = 0.5 * precision_of(sigma) * (lead - lead.max()) + log_weights
        resp = np.exp(log_resp - log_resp.max())
        members = resp > 1e-20
        total = problem.weighted_sum(resp[members], counted[members])
        means[row] = total / resp[members].sum()
    return means


def _relocate(problem, statistics, centers, dead, sigma):
    """Give each centre without mass the row with the largest weighted squared distance.

    As in K-means the row leaves its old clusters. That cannot raise the free energy, since at a
    centre of its own the row's part is at most 0; a row whose part is negative already stays.
    """
    sums, mass = statistics.sums.copy(), statistics.mass.copy()
    sq_distances = problem.row_objective(centers, 0.0)
    counted = problem.weights > 0.0
    badness = problem.weights * np.where(counted, sq_distances, 0.0)
    ids = np.argsort(-badness, kind="stable")[: len(dead)]
    # Fewer where there are more centres than different rows: on a centre but for its rounding.
    rounding = 64.0 * np.finfo(np.float64).eps * problem.spread
    ids = ids[(badness[ids] > 0.0) & (sq_distances[ids] > rounding * rounding)]
    if len(ids) == 0:
        return sums, mass
    few = Problem(problem.X[ids], **problem.frame)
    weights = problem.weights[ids]
    resp = np.asarray(few.responsibilities(centers, sigma), dtype=np.float64)
    leaves = few.row_objective(centers, sigma) >= 0.0
    taken = resp * (weights * leaves)[:, None]
    rows = problem.rows_in_frame(ids)
    sums -= np.einsum("ij,if->jf", taken, rows)
    mass -= taken.sum(axis=0)
    # A cluster that lost all it had keeps its centre: what is left are rounding errors.
    mass[mass < 16.0 * np.finfo(problem.X.dtype).eps * statistics.mass] = 0.0
    sums[dead[: len(ids)]] = weights[:, None] * rows
    mass[dead[: len(ids)]] = weights
    return sums, mass


# ------------------------------------------------------------------------ read off the data


def auto_sigma(problem, centers):
    """The temperature sigma="auto", in the frame: some rows are soft, all centres distinct.

    After one step of K-means, with gap = d_(2)^2 - d_(1)^2 of a row, the smallest of

    - half the root of the lower tenth of all gaps: few rows are soft;
    - a quarter of the root of the median gap in each cluster: the gap is the squared distance D^2
      of two tight clusters, which merge at sigma = D / 2;
    - half the standard deviation of the first principal axis.
    """
    centers = update_centers(problem, problem.statistics(centers, 0.0), centers, 0.0)
    variance = problem.spread**2
    if variance == 0.0:  # any positive number will do, and a small one keeps later rows apart
        return np.finfo(np.float64).eps
    limit = _gap_limit(problem, centers) if len(centers) > 1 else np.inf
    mean_variance = variance / min(problem.n_samples, problem.n_features)  # over axes
    if limit > mean_variance:  # the largest is no smaller, but for rounding errors
        limit = min(limit, max(_largest_variance(problem), mean_variance))
    return 0.5 * np.sqrt(limit)


def _gap_limit(problem, centers):
    # Of equal centres one is kept: gaps of zero say nothing about the others.
    _, first = np.unique(merged(centers, 1e-9 * problem.spread), return_index=True)
    if len(first) == 1:
        return np.inf
    cells = problem.cells(centers[first])
    labels, gaps = cells.labels, cells.gaps
    rounding = 4.0 * np.finfo(np.float64).eps * problem.spread**2
    apart = (gaps > rounding) & (problem.weights > 0.0)
    labels, gaps, weights = labels[apart], gaps[apart], problem.weights[apart]
    if len(gaps) == 0:
        return np.inf
    limit = _weighted_quantile(gaps, weights, _SOFT_SHARE)
    order = np.argsort(labels, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        limit = min(limit, 0.25 * _weighted_quantile(gaps[members], weights[members], 0.5))
    return limit


def _weighted_quantile(values, weights, share):
    """Inverse of the weighted CDF: a weight counts as so many repetitions."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    # Rounding must not carry a share that ends at a step beyond it.
    reached = share * cumulated[-1] * (1.0 - 1e-12)
    return values[order[np.searchsorted(cumulated, reached, side="left")]]


def critical(problem, n_clusters):
    """The temperature above which all centres at the mean are stable, in the frame."""
    if problem.spread == 0.0:
        return 0.0
    return float(np.sqrt(n_clusters ** (problem.alpha - 1.0) * _largest_variance(problem)))


def _largest_variance(problem):
    """Largest eigenvalue of the weighted covariance, in the frame, matrix-free."""
    zero = np.zeros((1, problem.n_features))
    statistics = problem.statistics(zero, 0.0)
    mean = statistics.sums / statistics.mass
    labels = np.zeros(problem.n_samples, dtype=np.int32)

    def covariance_times(vector):
        direction = np.ascontiguousarray(vector.reshape(1, -1))
        return problem.scatter_along(labels, direction, mean)[0] / statistics.mass[0]

    size = problem.n_features
    if size <= 16:
        covariance = np.stack([covariance_times(unit) for unit in np.eye(size)])
        return float(np.linalg.eigvalsh(covariance)[-1])
    operator = LinearOperator((size, size), matvec=covariance_times, dtype=np.float64)
    start = np.random.RandomState(0).uniform(-1.0, 1.0, size)
    return float(eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])


def resolution(problem, distance):
    """How far apart two centres at most are that are one, if up to `distance` off the fixed point.

    Merging centres were stopped on their way to the same point, from which they are at most
    `distance` away, and sqrt(2) times as far from each other.
    """
    rounding = 64.0 * np.finfo(problem.X.dtype).eps * problem.spread
    return max(rounding, min(2.0 * distance, 1e-3 * problem.spread))


def count_distinct(centers, mass, distance):
    """Number of centres with mass that lie further apart than `distance`."""
    return len(np.unique(merged(centers[mass > 0.0], distance)))


def merged(centers, distance):
    """Group of each centre, where centres that are within `distance` of each other form one."""
    pairs = KDTree(centers).query_pairs(distance, output_type="ndarray")
    if len(pairs) == 0:
        return np.arange(len(centers))
    ones = np.ones(len(pairs))
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(len(centers), len(centers)))
    return connected_components(graph, directed=False)[1]

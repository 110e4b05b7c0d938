"""Centres from sums: the M-step, centres without mass, and what is read off data and centres."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_array, issparse
from scipy.sparse import vstack as sparse_vstack
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.spatial import KDTree

from ._arrays import blocks_of
from ._assignment import Problem
from ._gaps import SOFT_SHARE, gaps_apart, narrowed_gap_limit
from ._ranges import frame_size, precision_of

# The E-step leaves out responsibilities below exp(-50) = 2e-22. They matter to 1e-14 of a mean
# only where a cluster holds less than this share of the total weight.
_STARVED = 1e-8

# Features up to which the covariance is a matrix, for a single pass over rows: of 8 MiB for rows in
# blocks, which are slow to read, and where it costs less than a few products with vectors.
_LARGE_MATRIX = 1024
_SMALL_MATRIX = 64


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
    if mass.min() > _STARVED * mass.sum():
        return sums / mass[:, None]
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
    found = problem.reduce(
        partial(_log_space_sums, centers=centers, starved=starved, sigma=sigma),
        partial(_add_in_log_space, precision=precision_of(sigma)),
    )
    return found.sums / found.mass[:, None]


class _LogSums(NamedTuple):
    """Sums of rows with weights exp(log_resp), relative to the largest of them."""

    lead: np.ndarray  # (n_starved,) largest F_i - d_ij^2
    log_resp: np.ndarray  # (n_starved,) largest log_resp, less what `lead` contributes
    mass: np.ndarray  # (n_starved,)
    sums: np.ndarray  # (n_starved, n_features)


def _log_space_sums(problem, centers, starved, sigma):
    counted = np.flatnonzero(problem.weights > 0.0)
    shape = len(starved), problem.n_features
    found = _LogSums(np.full(shape[0], -np.inf), *np.zeros((2, shape[0])), np.zeros(shape))
    if len(counted) == 0:
        return found
    objective = problem.row_objective(centers, sigma)[counted]
    log_weights = np.log(problem.weights[counted])
    unbounded = np.full(problem.n_samples, np.inf)
    for row, j in enumerate(starved):
        sq_distances = problem.sq_distances(centers[[j]], unbounded)[0][counted]
        lead = objective - sq_distances
        found.lead[row] = lead.max()
        with np.errstate(over="ignore"):  # log_resp is only wanted up to a constant, near its top
            log_resp = 0.5 * precision_of(sigma) * (lead - lead.max()) + log_weights
        found.log_resp[row] = log_resp.max()
        resp = np.exp(log_resp - log_resp.max())
        members = resp > 1e-20
        found.sums[row] = problem.weighted_sum(resp[members], counted[members])
        found.mass[row] = resp[members].sum()
    return found


def _add_in_log_space(first, second, precision):
    lead = np.maximum(first.lead, second.lead)
    with np.errstate(over="ignore", invalid="ignore"):
        logs = [part.log_resp + 0.5 * precision * (part.lead - lead) for part in (first, second)]
    # Neither part has rows that count.
    logs = [np.where(lead == -np.inf, 0.0, log_resp) for log_resp in logs]
    top = np.maximum(*logs)
    shares = [np.exp(log_resp - top) for log_resp in logs]
    mass = shares[0] * first.mass + shares[1] * second.mass
    sums = shares[0][:, None] * first.sums + shares[1][:, None] * second.sums
    return _LogSums(lead, top, mass, sums)


class _Worst(NamedTuple):
    """Rows that lie far from their nearest centre, the furthest first."""

    badness: np.ndarray  # (n_rows,) weighted squared distance
    weights: np.ndarray  # (n_rows,)
    X: np.ndarray  # (n_rows, n_features) as they were given


def worst_rows(problem, centers, count):
    sq_distances = problem.row_objective(centers, 0.0)
    counted = problem.weights > 0.0
    badness = problem.weights * np.where(counted, sq_distances, 0.0)
    ids = np.argsort(-badness, kind="stable")[:count]
    # Fewer where there are more centres than different rows: on a centre but for its rounding.
    rounding = 64.0 * np.finfo(np.float64).eps * problem.spread
    ids = ids[(badness[ids] > 0.0) & (sq_distances[ids] > rounding * rounding)]
    return _Worst(badness[ids], problem.weights[ids], problem.X[ids])


def worst_of_both(first, second, count):
    badness = np.concatenate([first.badness, second.badness])
    ids = np.argsort(-badness, kind="stable")[:count]
    weights = np.concatenate([first.weights, second.weights])
    parts = [first.X, second.X]
    rows = sparse_vstack(parts, format="csr") if issparse(first.X) else np.concatenate(parts)
    return _Worst(badness[ids], weights[ids], rows[ids])


def _relocate(problem, statistics, centers, dead, sigma):
    """Give each centre without mass the row with the largest weighted squared distance.

    As in K-means the row leaves its old clusters. That cannot raise the free energy, since at a
    centre of its own the row's part is at most 0; a row whose part is negative already stays.
    """
    sums, mass = statistics.sums.copy(), statistics.mass.copy()
    worst = problem.reduce(
        partial(worst_rows, centers=centers, count=len(dead)),
        partial(worst_of_both, count=len(dead)),
    )
    weights = worst.weights
    if len(weights) == 0:
        return sums, mass
    few = Problem(worst.X, **problem.frame)
    resp = np.asarray(few.responsibilities(centers, sigma), dtype=np.float64)
    leaves = few.row_objective(centers, sigma) >= 0.0
    taken = resp * (weights * leaves)[:, None]
    rows = few.rows_in_frame(slice(None))
    sums -= np.einsum("ij,if->jf", taken, rows)
    mass -= taken.sum(axis=0)
    # A cluster that lost all it had keeps its centre: what is left are rounding errors.
    mass[mass < 16.0 * np.finfo(problem.dtype).eps * statistics.mass] = 0.0
    sums[dead[: len(weights)]] = weights[:, None] * rows
    mass[dead[: len(weights)]] = weights
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
    statistics = problem.statistics(centers, 0.0)
    centers = update_centers(problem, statistics, centers, 0.0)
    variance = problem.spread**2
    if variance == 0.0:  # any positive number will do, and a small one keeps later rows apart
        return np.finfo(np.float64).eps
    limit = _gap_limit(problem, centers) if len(centers) > 1 else np.inf
    mean_variance = variance / min(problem.n_samples, problem.n_features)  # over axes
    # The largest is no smaller, but for rounding errors, nor than that of the means of clusters.
    if limit > mean_variance and limit > _variance_between(statistics):
        limit = min(limit, max(_largest_variance(problem), mean_variance))
    return 0.5 * np.sqrt(limit)


def _gap_limit(problem, centers):
    # Of equal centres one is kept: gaps of zero say nothing about the others.
    _, first = np.unique(merged(centers, 1e-9 * problem.spread), return_index=True)
    if len(first) == 1:
        return np.inf
    rounding = 4.0 * np.finfo(np.float64).eps * problem.spread**2
    if problem.in_blocks:
        return narrowed_gap_limit(problem, centers[first], rounding)
    labels, gaps, weights = gaps_apart(problem, centers[first], rounding)
    if len(gaps) == 0:
        return np.inf
    equal = problem.sample_weight is None
    limit = _quantile(gaps, None if equal else weights, SOFT_SHARE)
    # To sort takes longer than all else: only in clusters that have half of their gaps below.
    below = 0.25 * gaps < limit
    held = np.bincount(labels, weights)
    within = np.bincount(labels[below], weights[below], minlength=len(held))
    rows = np.flatnonzero((within > 0.499 * held)[labels])
    rows = rows[np.argsort(labels[rows], kind="stable")]
    for members in np.split(rows, np.flatnonzero(np.diff(labels[rows])) + 1):
        if len(members) > 0:
            median = _quantile(gaps[members], None if equal else weights[members], 0.5)
            limit = min(limit, 0.25 * median)
    return limit


def _quantile(values, weights, share):
    """Inverse of the weighted CDF: a weight counts as so many repetitions; None if all are 1."""
    if weights is None:
        place = max(math.ceil(share * len(values) * (1.0 - 1e-12)) - 1, 0)
        return np.partition(values, place)[place]
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    # Rounding must not carry a share that ends at a step beyond it.
    reached = share * cumulated[-1] * (1.0 - 1e-12)
    return values[order[np.searchsorted(cumulated, reached, side="left")]]


def critical(problem, n_clusters):
    """The temperature above which all centres at the mean are stable, in the frame; may be inf."""
    if problem.spread == 0.0:
        return 0.0
    with np.errstate(over="ignore"):
        factor = np.float64(n_clusters) ** (0.5 * (problem.alpha - 1.0))
        return float(factor * np.sqrt(_largest_variance(problem)))


def _largest_variance(problem):
    """Largest eigenvalue of the weighted covariance, in the frame."""
    size = problem.n_features
    zero = np.zeros((1, size))
    statistics = problem.statistics(zero, 0.0)
    mass, mean = statistics.mass[0], statistics.sums[0] / statistics.mass[0]
    if size <= (_LARGE_MATRIX if problem.in_blocks else _SMALL_MATRIX):
        scatter = problem.reduce(partial(_scatter, mean=mean), np.add)
        return float(np.linalg.eigvalsh(scatter)[-1] / mass)

    def covariance_times(vector):
        products = problem.reduce(partial(_scatter_times, mean=mean, vector=vector), np.add) / mass
        return products[:-1] - mean * products[-1]

    operator = LinearOperator((size, size), matvec=covariance_times, dtype=np.float64)
    start = np.random.RandomState(0).uniform(-1.0, 1.0, size)
    return float(eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])


def _variance_between(statistics):
    """Largest variance of the means of clusters along an axis: a part of that of the rows."""
    alive = statistics.mass > 0.0
    mass = statistics.mass[alive, None]
    means = statistics.sums[alive] / mass
    weighted = np.sqrt(mass) * (means - np.average(means, axis=0, weights=mass[:, 0]))
    gram = weighted.T @ weighted if weighted.shape[1] < len(weighted) else weighted @ weighted.T
    last = len(gram) - 1
    return float(eigh(gram, eigvals_only=True, subset_by_index=[last, last])[0] / mass.sum())


def _scatter_times(problem, mean, vector):
    products = problem.weights * (problem.times(vector) - mean @ vector)
    return np.append(problem.weighted_sum(products), products.sum())


def _scatter(problem, mean):
    """Sum of (x - mean) (x - mean)^T over rows: one pass, where a matrix is not too large."""
    scatter = np.zeros((len(mean), len(mean)))
    counted = np.flatnonzero(problem.weights > 0.0)
    for block in blocks_of(len(counted)):
        rows = problem.rows_in_frame(counted[block]) - mean
        scatter += rows.T @ (rows * problem.weights[counted[block]][:, None])
    return scatter


def resolution(problem, distance):
    """How far apart two centres at most are that are one, if up to `distance` off the fixed point.

    Merging centres were stopped on their way to the same point, from which they are at most
    `distance` away, and sqrt(2) times as far from each other.
    """
    rounding = 64.0 * np.finfo(problem.dtype).eps * problem.spread
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

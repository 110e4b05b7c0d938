"""Starts that seldom need a second one: deterministic annealing, and the exchange of clusters.

**Annealing** (Rose 1998) begins with one centre at the mean and cools. A centre whose cluster
varies more than sigma along some direction stands for two, so it is split there, and centres that
have merged count once. Here this goes on until there are twice as many centres as asked for; those
that are of least use are then taken away, and an exchange is tried. Random numbers play no part.

**Exchange** improves a solution of K-means: centres are added where the error is large, and as many
taken away where they are of least use; the result is kept if it is better.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from ._arrays import fixed_direction
from ._block_seeding import initial_centers_over_blocks
from ._cells import cells_of, scatter_along
from ._centers import merged, problem_for_fit, resolution, update_centers
from ._seeding import initial_centers

_COOLING = 0.5  # of sigma^2, from one temperature to the next
_STEPS = 3  # EM steps at a temperature
_SURPLUS = 2  # centres to stop at, in units of n_clusters
_LAST_TEMPERATURES = 8  # with that many centres
_POWER_STEPS = 6
_SPLIT = 0.3  # of sigma, from a centre to each of its halves
_MERGED = 0.16  # of sigma, between two centres that count as one

_REMOVED = 0.2  # share of the surplus that is taken away at a time
_EXCHANGED = 0.1  # share of the clusters, at first
_ENOUGH = 1e-4  # relative change of inertia that is none


class Stage(NamedTuple):
    """What annealing found at one temperature."""

    sigma: float
    centers: np.ndarray  # (n_centers, n_features)
    objective: float  # free energy, where each of these centres counts once


def start(problem, n_clusters, init, random_state):
    """Centres in the frame by the method `init`."""
    if problem.in_blocks:
        return initial_centers_over_blocks(problem, n_clusters, init, random_state)
    if init == "annealing":
        return anneal(problem, n_clusters)
    if init == "exchange":
        centers = initial_centers(problem, n_clusters, "k-means++", random_state)
        return exchange(problem, centers)
    return initial_centers(problem, n_clusters, init, random_state)


def annealing_stages(X, n_clusters, sample_weight=None):
    """The stages of ``init="annealing"``, from hot to cold, in the unit of X.

    `X` and `sample_weight` are validated arrays, as estimators pass them on.
    """
    problem = problem_for_fit(X, sample_weight, 1.0, resident=True)
    square = problem.unit * problem.unit * problem.weight_unit
    stages = []

    def report(sigma, centers, objective):
        centers = problem.out_of_frame(centers)
        stages.append(Stage(sigma * problem.unit, centers, objective * square))

    anneal(problem, n_clusters, report)
    return stages


def anneal(problem, n_clusters, report=None):
    """Centres in the frame by deterministic annealing, whatever the map of the problem.

    `report(sigma, centers, objective)` is called at each temperature.
    """
    problem = problem.with_map(1.0)
    sq_sigma = np.inf
    centers = _steps(problem, np.zeros((1, problem.n_features)), 0.0, 1)  # the mean
    enough = _SURPLUS * n_clusters
    smallest = max(resolution(problem, 0.0) ** 2, np.finfo(np.float64).tiny)
    while len(centers) < enough and sq_sigma > smallest:
        cells = cells_of(problem, centers)
        variances, directions = principal_axes(problem, cells)
        if variances.max() <= smallest:  # as many centres as different rows
            break
        if sq_sigma == np.inf:  # the temperature at which the first one splits
            sq_sigma = variances.max()
            _report_to(report, problem, centers, np.sqrt(sq_sigma))
        sq_sigma = _COOLING * min(sq_sigma, variances.max())
        ratios = variances / sq_sigma
        n_split = min(enough - len(centers), np.count_nonzero(ratios > 1.0))
        split = np.argsort(-ratios, kind="stable")[:n_split]
        centers = _split(centers, split, _SPLIT * np.sqrt(sq_sigma) * directions[split])
        centers = _steps(problem, centers, np.sqrt(sq_sigma), _STEPS)
        centers = _merge(centers, _MERGED * np.sqrt(sq_sigma))
        _report_to(report, problem, centers, np.sqrt(sq_sigma))
    if len(centers) >= enough:
        for _ in range(_LAST_TEMPERATURES):
            sq_sigma *= _COOLING
            centers = _steps(problem, centers, np.sqrt(sq_sigma), 1)
            _report_to(report, problem, centers, np.sqrt(sq_sigma))
    while len(centers) > n_clusters:
        n_removed = max(1, int(_REMOVED * (len(centers) - n_clusters)))
        centers = _remove(problem, centers, n_removed)
        centers = _steps(problem, centers, 0.0, 1)
    centers = np.resize(centers, (n_clusters, problem.n_features))  # repeat some where rows do
    return exchange(problem, centers)


def exchange(problem, centers):
    """Centres of lower inertia, from given ones, in the frame."""
    centers, inertia = _lloyd(problem, centers)
    n_exchanged = max(1, int(_EXCHANGED * len(centers))) if len(centers) > 1 else 0
    while n_exchanged > 0:
        proposal, lower = _lloyd(problem, _exchanged(problem, centers, n_exchanged))
        if lower < (1.0 - _ENOUGH) * inertia:
            centers, inertia = proposal, lower
        else:
            n_exchanged //= 2
    return centers


def _exchanged(problem, centers, n_exchanged):
    """Split the centres of the largest errors, and take away as many."""
    cells = cells_of(problem, centers)
    variances, directions = principal_axes(problem, cells)
    errors = _sums(problem, cells.labels, cells.sq_distances, len(centers))
    split = np.argsort(-errors, kind="stable")[:n_exchanged]
    steps = 0.5 * np.sqrt(variances[split])[:, None] * directions[split]
    centers = _lloyd(problem, _split(centers, split, steps), n_steps=4)[0]
    return _remove(problem, centers, n_exchanged)


# ---------------------------------------------------------------------------------- steps


def _steps(problem, centers, sigma, n_steps):
    """Some steps at one temperature: of EM, or of K-means where it is 0."""
    for _ in range(n_steps):
        statistics = problem.statistics(centers, sigma)
        centers = update_centers(problem, statistics, centers, sigma)
    return centers


def _report_to(report, problem, centers, sigma):
    if report is not None:
        report(sigma, centers, problem.statistics(centers, sigma).objective)


def _lloyd(problem, centers, n_steps=300):
    """Steps of K-means until they gain little; also the inertia before the last one."""
    inertia = np.inf
    for _ in range(n_steps):
        statistics = problem.statistics(centers, 0.0)
        centers = update_centers(problem, statistics, centers, 0.0)
        gained = inertia - statistics.inertia
        inertia = statistics.inertia
        if gained <= _ENOUGH * inertia:
            break
    return centers, inertia


def principal_axes(problem, cells):
    """Largest variance in each cell, and its direction, by a power iteration in all of them."""
    mass = np.maximum(cells.mass, np.finfo(np.float64).tiny)[:, None]
    means = cells.sums / mass
    directions = np.tile(fixed_direction(problem.n_features), (len(means), 1))
    for _ in range(_POWER_STEPS):
        directions /= np.maximum(_lengths(directions), 1e-300)[:, None]
        directions = scatter_along(problem, cells.labels, directions, means) / mass
    variances = _lengths(directions)
    return variances, directions / np.maximum(variances, 1e-300)[:, None]


def _lengths(vectors):
    """Euclidean norms, where squares may overflow: rows of next to no weight may be far away."""
    exponents = np.frexp(np.abs(vectors).max(axis=1))[1]
    return np.ldexp(np.linalg.norm(np.ldexp(vectors, -exponents[:, None]), axis=1), exponents)


def _split(centers, ids, steps):
    """Replace some centres by two each."""
    halves = centers.copy()
    halves[ids] -= steps
    return np.concatenate([halves, centers[ids] + steps])


def _merge(centers, distance):
    """Replace centres that are close together by their mean."""
    groups = merged(centers, distance)
    sums = np.zeros((groups.max() + 1, centers.shape[1]))
    np.add.at(sums, groups, centers)
    return sums / np.bincount(groups)[:, None]


def _remove(problem, centers, n_removed):
    """Leave out the centres whose rows are nearly as close to their second one.

    A centre whose nearest neighbour has gone takes over its rows, so it stays if others are left.
    """
    costs = _sums(problem, *problem.labels_and_gaps(centers), len(centers))
    neighbours = KDTree(centers).query(centers, k=2)[1][:, 1]
    kept = np.ones(len(centers), dtype=bool)
    needed = np.zeros(len(centers), dtype=bool)
    for also_needed in (False, True):
        for j in np.argsort(costs, kind="stable"):
            too_many = kept.sum() > len(centers) - n_removed
            if too_many and kept[j] and (also_needed or not needed[j]):
                kept[j] = False
                needed[neighbours[j]] = True
                needed[neighbours == j] = True
    return centers[kept]


def _sums(problem, labels, values, n_clusters):
    """Weighted sums of the rows' values in each cluster; rows without weight may have any."""
    weighted = np.zeros(problem.n_samples)
    np.multiply(problem.weights, values, out=weighted, where=problem.weights > 0.0)
    return np.bincount(labels, weighted, n_clusters)

"""Initial centres that depend on the weighted measure alone.

Random draws go by inverse CDF over the rows in a canonical order, one that their content defines.
So a weight counts as so many repetitions, a weight of zero as removal, and the order of the rows
does not matter.
"""

import numpy as np

from ._arrays import blocks_of


def initial_centers(problem, n_clusters, init, random_state):
    """Centres in the frame by the method `init`: "k-means++" or "random"."""
    order, repeats = _canonical_order(problem)
    if init == "k-means++":
        ids = _kmeans_plusplus(problem, n_clusters, order, random_state)
    else:
        ids = _distinct_rows(problem, n_clusters, order, repeats, random_state)
    return problem.rows_in_frame(ids)


# ------------------------------------------------------------------------- canonical order


def _canonical_order(problem):
    """Order the rows by content; also which rows, in that order, repeat the one before them.

    Rows are sorted by their projection on a fixed direction, which scaling and translation of X
    preserve, and lexicographically where different rows have the same projection.
    """
    keys = problem.row_keys()
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    tied = keys[1:] == keys[:-1]
    equal = tied.copy()
    if tied.any():
        equal[tied] = _equal_rows(problem.X, order[:-1][tied], order[1:][tied])
    if not np.array_equal(equal, tied):
        order, equal = _break_ties(problem, order, tied, equal)
    return order, np.concatenate([[False], equal])


def _equal_rows(X, first, second):
    result = np.empty(len(first), dtype=bool)
    for block in blocks_of(len(first)):
        different = X[first[block]] != X[second[block]]
        result[block] = np.asarray(different.sum(axis=1)).ravel() == 0
    return result


def _break_ties(problem, order, tied, equal):
    """Sort the groups of tied rows that are not all equal."""
    groups = np.cumsum(~np.concatenate([[False], tied]))
    mixed = np.isin(groups, groups[1:][tied & ~equal])
    order = order.copy()
    for positions in np.split(np.flatnonzero(mixed), np.flatnonzero(np.diff(groups[mixed])) + 1):
        rows = problem.dense_rows(order[positions])
        order[positions] = order[positions][np.lexsort(rows.T[::-1])]
    equal = tied.copy()
    equal[tied] = _equal_rows(problem.X, order[:-1][tied], order[1:][tied])
    return order, equal


# ----------------------------------------------------------------------------------- draws


def _draw(cumulated, uniform):
    """Positions drawn by inverse CDF; never one without mass, whatever the rounding."""
    total = cumulated[-1]
    last = np.searchsorted(cumulated, total, side="left")
    return np.minimum(np.searchsorted(cumulated, uniform * total, side="right"), last)


@np.errstate(over="ignore")  # an error of the pass that follows
def _kmeans_plusplus(problem, n_clusters, order, random_state):
    """Greedy k-means++ (Arthur & Vassilvitskii 2007): of a few candidates, take the best."""
    n_trials = 2 + int(np.log(n_clusters))
    weights = problem.weights
    ids = np.empty(n_clusters, dtype=np.intp)
    by_weight = np.cumsum(weights[order])
    ids[0] = order[_draw(by_weight, random_state.uniform())]
    # The bound keeps rows without weight, which may lie anywhere, from having a distance.
    bound = np.where(weights > 0.0, np.inf, 0.0)
    closest = problem.sq_distances(problem.rows_in_frame(ids[:1]), bound)[0]
    for c in range(1, n_clusters):
        cumulated = np.cumsum((weights * closest)[order])
        if cumulated[-1] <= 0.0:  # all rows are on a centre: repeat some
            cumulated = by_weight
        candidates = order[np.sort(_draw(cumulated, random_state.uniform(size=n_trials)))]
        sq_distances = problem.sq_distances(problem.rows_in_frame(candidates), closest)
        potentials = np.array([np.sum(weights * row) for row in sq_distances])
        # The first in canonical order of those that are best to rounding.
        best = np.flatnonzero(potentials <= potentials.min() * (1.0 + 1e-9))[0]
        ids[c] = candidates[best]
        closest = sq_distances[best]
    return ids


def _distinct_rows(problem, n_clusters, order, repeats, random_state):
    """Weighted draw of different rows without replacement (Efraimidis & Spirakis 2006)."""
    groups = np.cumsum(~repeats) - 1
    mass = np.bincount(groups, weights=problem.weights[order])
    first = order[~repeats][mass > 0]
    mass = mass[mass > 0]
    keys = -np.log1p(-random_state.uniform(size=len(mass))) / mass
    # With fewer different rows than clusters, all are taken more than once.
    return np.resize(first[np.argsort(keys, kind="stable")], n_clusters)

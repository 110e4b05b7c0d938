"""Gaps between the two smallest squared distances of rows, and their quantiles over blocks."""

from functools import partial
from typing import NamedTuple

import numpy as np

# Quantile of the gaps d_(2)^2 - d_(1)^2 below which sigma="auto" makes rows soft.
SOFT_SHARE = 0.1

# Bins into which a pass over blocks divides the values that are still possible.
_N_BINS = 512


def gaps_apart(problem, centers, rounding):
    """(labels, gaps, weights) of the rows that count and lie nearer to one of the centres."""
    labels, gaps = problem.labels_and_gaps(centers)
    apart = (gaps > rounding) & (problem.weights > 0.0)
    return labels[apart], gaps[apart], problem.weights[apart]


class _Counts(NamedTuple):
    """Weights of gaps up to each edge, and the range of the values between edges."""

    all: np.ndarray  # (n_bins,)
    by_cluster: np.ndarray  # (n_clusters, n_bins), of a quarter of the gaps
    lowest: np.ndarray  # (n_bins,) of both
    highest: np.ndarray  # (n_bins,)


def narrowed_gap_limit(problem, centers, rounding):
    """The smallest of the lower tenth of all gaps and a quarter of the median of any cluster.

    It is the smallest number at which one of these quantiles is reached. Each pass divides the
    range of what it may be by the number of bins, so that a few are enough, and no gap is stored.
    """
    edges = np.append(np.geomspace(0.25 * rounding, 1e4 * problem.spread**2, _N_BINS), np.inf)
    while True:
        counts = problem.reduce(
            partial(_count, centers=centers, rounding=rounding, edges=edges), _add_counts
        )
        if counts.all.sum() == 0.0:
            return np.inf
        reached = _reached(counts.all, SOFT_SHARE)
        for row in counts.by_cluster[counts.by_cluster.any(axis=1)]:
            reached |= _reached(row, 0.5)
        found = np.argmax(reached)
        low, high = counts.lowest[found], counts.highest[found]
        if low == high or found == 0:  # below the first edge there is only what was ruled out
            return edges[0] if found == 0 else low
        edges = np.linspace(low, high, _N_BINS)
        edges[-1] = high


def _count(problem, centers, rounding, edges):
    labels, gaps, weights = gaps_apart(problem, centers, rounding)
    size = len(edges) + 1
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    quarters = 0.25 * gaps
    places = np.searchsorted(edges, gaps), np.searchsorted(edges, quarters)
    for values, place in zip((gaps, quarters), places, strict=True):
        np.minimum.at(lowest, place, values)
        np.maximum.at(highest, place, values)
    in_cluster = np.bincount(labels * size + places[1], weights, minlength=len(centers) * size)
    return _Counts(
        np.bincount(places[0], weights, minlength=size),
        in_cluster.reshape(len(centers), size),
        lowest,
        highest,
    )


def _add_counts(first, second):
    return _Counts(
        first.all + second.all,
        first.by_cluster + second.by_cluster,
        np.minimum(first.lowest, second.lowest),
        np.maximum(first.highest, second.highest),
    )


def _reached(weights, share):
    """Whether the quantile is at most the upper edge, for each bin; as in the weighted CDF."""
    cumulated = np.cumsum(weights)
    return cumulated >= share * cumulated[-1] * (1.0 - 1e-12)

"""Stochastic EM: means of what is remembered of rows, which come one batch after another."""

from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from ._centers import worst_rows

# What came at a total weight t counts (t / T)^_FORGETTING at T, so that T / (1 + _FORGETTING) of it
# is remembered. Larger numbers forget early rows, of worse centres, sooner, and average over fewer.
_FORGETTING = 3.0

# Share of the mean mass below which a centre may move to a row that lies far from all others, and
# the share that it counts then: it is to last until rows have found it.
_DEAD_SHARE = 0.01
_NEW_SHARE = 0.02
_ROWS_TO_JUDGE = 1.0 / _DEAD_SHARE  # remembered, for each cluster: the share is a row then

# Steps that the objective is averaged over, and steps without a lower average that end a fit.
_WINDOW = 50
_PATIENCE = 50


class Running(NamedTuple):
    """Centres in some frame, and the weight of what they are the means of."""

    centers: np.ndarray  # (n_clusters, n_features)
    mass: np.ndarray  # (n_clusters,) in the unit of the weights


def step(problem, running, sigma):
    """Running centres after the batch of a problem, in its frame; also the batch's statistics.

    Each centre moves to the mean of what it remembers and its share of the batch: by a step of its
    own size, its mass in the batch over its mass in both.
    """
    statistics = problem.statistics(running.centers, sigma)
    found = statistics.mass * problem.weight_unit
    weight = float(problem.total_weight) * problem.weight_unit
    mass = kept_share(float(running.mass.sum()), weight) * running.mass + found
    centers = running.centers.copy()
    alive = statistics.mass > 0.0
    means = statistics.sums[alive] / statistics.mass[alive, None]
    centers[alive] += (found[alive] / mass[alive])[:, None] * (means - centers[alive])
    if mass.mean() / _ROWS_TO_JUDGE >= weight / problem.n_samples:
        _revive(problem, running.centers, centers, mass)
    return Running(centers, mass), statistics


def kept_share(remembered, weight):
    """Share of what is remembered that still is after a batch of some weight."""
    if remembered == 0.0:
        return 0.0
    return (1.0 + weight / remembered / (1.0 + _FORGETTING)) ** -_FORGETTING


def _revive(problem, before, centers, mass):
    """Move centres of (almost) no mass to the rows of the batch that lie furthest from all.

    Only where the row, as one of `_ROWS_TO_JUDGE` for each cluster, adds more to the inertia than
    the rows of the centre would at the next one: a small cluster that lies apart is kept.
    """
    dead = np.flatnonzero(mass < _DEAD_SHARE * mass.mean())
    if len(dead) == 0:
        return
    gaps = KDTree(centers).query(centers[dead], 2)[0][:, 1]
    n_rows = mass[dead] / mass.mean() * _ROWS_TO_JUDGE
    losses = n_rows * (problem.total_weight / problem.n_samples) * gaps * gaps
    worst = worst_rows(problem, before, len(dead))
    order = np.argsort(losses, kind="stable")[: len(worst.weights)]
    better = worst.badness > losses[order]
    dead = dead[order[better]]
    rows = worst.X.toarray() if problem.is_sparse else worst.X
    centers[dead] = problem.into_frame(rows[better])
    mass[dead] = _NEW_SHARE * mass.mean()


class Smoothed:
    """Ends a stream when the average objective of the last steps has stopped falling.

    The average is exponential, over about as many steps as the window. It has to fall below the
    lowest so far, by `tol` times the inertia, within the steps of the patience.
    """

    def __init__(self, tol):
        self._tol = tol
        self._n_steps = 0
        self._mean = 0.0
        self._lowest = np.inf
        self._waited = 0

    def ends_with(self, objective, inertia):
        """Take another step's numbers, per unit of weight; True if that is enough."""
        self._n_steps += 1
        self._mean += (objective - self._mean) / min(self._n_steps, _WINDOW)
        if self._n_steps < _WINDOW:
            return False
        if self._mean < self._lowest - self._tol * inertia or self._lowest == np.inf:
            self._lowest, self._waited = self._mean, 0
        else:
            self._waited += 1
        return self._waited >= _PATIENCE


def start_size(batch_size, n_clusters):
    """Rows that the initial centres and the temperature come from."""
    return max(3 * batch_size, 50 * n_clusters)


def drawn_by_weight(sample_weight, n_samples, random_state):
    """Rows of an epoch in random order, each as often as it is heavier than the mean.

    That often on average, that is: no more than one time off, without weight never, and once each
    where all weights are equal. All those drawn count alike.
    """
    offset = random_state.uniform()  # also where it does not matter: None is equal weights
    if sample_weight is None:
        return random_state.permutation(n_samples)
    ids = np.flatnonzero(sample_weight > 0.0)
    cumulated = np.cumsum(sample_weight[ids] / sample_weight.max())
    shares = (offset + np.arange(len(ids))) / len(ids)
    places = np.searchsorted(cumulated, shares * cumulated[-1], side="right")
    return random_state.permutation(ids[np.minimum(places, len(ids) - 1)])

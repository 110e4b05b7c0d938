"""The temperature at which a fitted model has the perplexity that was asked for.

The perplexity of a row is exp(H), with H the Shannon entropy of its responsibilities: the number of
clusters it belongs to. The mean over the rows rises with sigma where the centres stand still, from
1 to the number of clusters. Where they follow sigma it may jump, when centres merge.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import entr

from ._arrays import blocks_of
from ._assignment import Problem
from ._centers import update_centers
from ._solver import Solution

_EXACT = 2e-3  # relative difference to the perplexity asked for that will do,
_SHARE = 0.1  # and relative to what it is away from 1 and from the number of clusters
_NARROW = 1e-3  # relative width of a bracket of sigma across which the perplexity jumps
_MAX_TRIALS = 40
_FIRST_STEP = 0.02  # at least, in log(sigma), and twice as much each time, towards a bracket


class Trial(NamedTuple):
    """A fit and the perplexity it has."""

    sigma: float
    perplexity: float
    solution: Solution


def mean_perplexity(problem, centers, sigma):
    """Weighted mean over rows of exp(entropy of their responsibilities)."""
    add = partial(_add_perplexities, centers=centers, sigma=sigma)
    return problem.reduce(add, np.add) / problem.total_weight


def _add_perplexities(problem, centers, sigma):
    total = 0.0
    for block in blocks_of(problem.n_samples):
        rows = Problem(problem.X[block], **problem.frame)
        entropy = entr(rows.responsibilities(centers, sigma).astype(np.float64)).sum(axis=1)
        counted = problem.weights[block] > 0.0
        total += problem.weights[block][counted] @ np.exp(entropy[counted])
    return total


def sigma_of_perplexity(problem, centers, perplexity):
    """The sigma at which the given centres have that perplexity, in the frame."""

    def excess(log_sigma):
        return mean_perplexity(problem, centers, np.exp(log_sigma)) - perplexity

    low = high = np.log(problem.spread or 1.0)
    for _ in range(60):  # far enough for any data whose centres are not all equal
        if excess(low) <= 0.0 <= excess(high):
            return float(np.exp(brentq(excess, low, high, xtol=1e-3)))
        low, high = (low, high + 1.0) if excess(high) < 0.0 else (low - 1.0, high)
    return float(np.exp(high))


def first_sigma(problem, centers, perplexity):
    """Where to begin: that of the centres after one step of K-means."""
    centers = update_centers(problem, problem.statistics(centers, 0.0), centers, 0.0)
    return sigma_of_perplexity(problem, centers, perplexity)


def search(problem, solution, sigma, perplexity, fit):
    """Fit until the model has the perplexity: (the trial that has it, no others).

    `fit(centers, sigma)` returns a `Solution`. Merged centres do not come apart again when sigma
    falls, so each fit starts from the centres of the last one that was too cold, if there is one.
    The result is a trial, and the trials around the perplexity where none has it: those on both
    sides of a jump, or one where all trials are on its side. Of a jump it is the cold one.
    """
    start = solution.centers
    margin = min(perplexity - 1.0, len(start) - perplexity)
    allowed = min(_EXACT * perplexity, _SHARE * margin)
    sides = {}  # the last trial that was too cold, and the last that was too hot
    for n_trials in range(_MAX_TRIALS):
        trial = Trial(sigma, mean_perplexity(problem, solution.centers, sigma), solution)
        met = abs(trial.perplexity - perplexity) <= allowed
        if met or problem.spread == 0.0:  # centres at equal rows: no temperature tells them apart
            return trial, []
        sides["cold" if trial.perplexity < perplexity else "hot"] = trial
        cold, hot = sides.get("cold"), sides.get("hot")
        if cold and hot and hot.sigma < (1.0 + _NARROW) * cold.sigma:
            break
        sigma = _next_sigma(problem, cold, hot, perplexity, n_trials)
        solution = fit(cold.solution.centers if cold else start, sigma)
    around = [side for side in (cold, hot) if side]
    return around[0], around


def _next_sigma(problem, cold, hot, perplexity, n_trials):
    if cold and hot:
        # False position on logarithms, and every third time the middle.
        share = np.log(perplexity / cold.perplexity) / np.log(hot.perplexity / cold.perplexity)
        share = 0.5 if n_trials % 3 == 0 else np.clip(share, 0.1, 0.9)
        return float(cold.sigma * (hot.sigma / cold.sigma) ** share)
    # What would do if the centres stood still, and a little more.
    last = cold or hot
    proposal = sigma_of_perplexity(problem, last.solution.centers, perplexity)
    step = np.exp(_FIRST_STEP * 2 ** min(n_trials, 6))
    return max(proposal, last.sigma * step) if cold else min(proposal, last.sigma / step)

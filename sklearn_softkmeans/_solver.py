"""The iteration: arrays in, a `Solution` out. It knows no estimator."""

from typing import NamedTuple

import numpy as np

from ._centers import update_centers

# Steps without a smaller shift after which the centres only move by rounding errors.
_PATIENCE = 20


class Solution(NamedTuple):
    """Where an iteration ended, in the frame of its problem."""

    centers: np.ndarray  # (n_clusters, n_features)
    objective_path: list  # free energy at the centres of each E-step but the last
    n_iter: int
    stop_reason: str  # "tol", "stagnation" or "max_iter"
    distance: float  # estimate of the distance to the fixed point


def solve_em(problem, centers, *, sigma, max_iter, tol, report=None):
    """Alternate E-step and M-step until the centres are within `tol` of a fixed point.

    `report(n_iter, objective, shift)` is called once for each iteration.
    """
    rule = StoppingRule(tol, problem.spread, centers, np.finfo(problem.X.dtype).eps)
    path = []
    reason = None
    n_iter = 0
    while reason is None and n_iter < max_iter:
        statistics = problem.statistics(centers, sigma)
        centers_new = update_centers(problem, statistics, centers, sigma)
        shift = float(np.linalg.norm(centers_new - centers))
        path.append(statistics.objective)
        reason = rule.check(shift)
        centers = centers_new
        n_iter += 1
        if report is not None:
            report(n_iter, statistics.objective, shift)
    return Solution(centers, path, n_iter, reason or "max_iter", rule.distance)


class StoppingRule:
    """Stop when the *distance to the fixed point* is at most tol times the spread of the data.

    Soft steps converge linearly, slowly near a critical temperature: a small step says little. If
    each shift is a factor q of the one before, the steps to come add up to shift q / (1 - q). The
    largest of the last two factors is taken, and at least 1/2. Distances are Frobenius norms over
    all centres; the spread is the square root of the total weighted variance.

    With tol = 0 the iteration ends by stagnation: the shift is rounding error.
    """

    def __init__(self, tol, spread, centers, eps=2.0**-52):
        self.distance = np.inf
        self._enough = tol * spread
        self._rounding = 4.0 * eps * max(spread, np.abs(centers).max())
        self._shift = None
        self._factor = 0.0
        self._smallest = np.inf
        self._waited = 0

    def check(self, shift):
        """Reason to stop after a step of this size, or None."""
        if self._shift is not None:
            last, self._factor = self._factor, shift / self._shift
            factor = max(self._factor, last, 0.5)
            self.distance = shift * factor / (1.0 - factor) if factor < 1.0 else np.inf
        if shift <= self._rounding:
            self.distance = shift
            return "tol" if self._enough >= shift and self._enough > 0.0 else "stagnation"
        if self._shift is not None and self.distance <= self._enough:
            return "tol"
        self._shift = shift
        self._waited = 0 if shift < self._smallest else self._waited + 1
        self._smallest = min(shift, self._smallest)
        noise = shift <= 1e3 * self._rounding and self._waited >= _PATIENCE
        return "stagnation" if noise else None


def monotone(problem, sigma, centers, path):
    """Free energies in the units of X and the weights, where a rise by rounding is none.

    All but the last are in the frame. Rounding errors are those of the sum, in which those of equal
    rows add up, and of the centers as they are stored: relative to their distance from 0, and no
    finer than the smallest numbers of their kind.
    """
    scale = problem.unit * problem.unit * problem.weight_unit
    path = np.append(np.array(path[:-1]) * scale, path[-1])
    kind = np.finfo(problem.X.dtype)
    eps = float(kind.eps)
    # As Python numbers: the unit of float32 data may be no float32.
    position = max(float(np.abs(centers).max()), float(kind.tiny)) / problem.unit
    of_row = 4.0 * eps * (problem.spread**2 + sigma * sigma) + (eps * position) ** 2
    rounding = of_row * problem.weights.sum() * scale
    lowest = np.minimum.accumulate(path)
    return np.where(path - lowest <= np.maximum(rounding, 1e-12 * np.abs(lowest)), lowest, path)

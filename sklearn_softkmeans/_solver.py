"""The iteration: arrays in, a `Solution` out. It knows no estimator."""

import math
from collections import deque
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ._arrays import sq_norms
from ._centers import update_centers

# Steps without a smaller shift after which the centres only move by rounding errors.
_PATIENCE = 20

# Differences of steps that Anderson acceleration combines, and factors that the stop looks back at.
_MEMORY = 5


class Solution(NamedTuple):
    """Where an iteration ended, in the frame of its problem."""

    centers: np.ndarray  # (n_clusters, n_features)
    objective_path: list  # free energy after each pass but the last; a rejected one repeats it
    n_iter: int  # passes over the data
    stop_reason: str  # "tol", "stagnation", "callback" or "max_iter"


def solve(problem, centers, *, solver, sigma, max_iter, tol, report=None):
    """Move the centres until they are within `tol` of a fixed point.

    `report(n_iter, statistics, shift, centers)` is called once for each pass over the data, with
    what it found, the length of the plain step and where that leads; None is the length where the
    centres of the pass were discarded. A true result ends the iteration.
    """
    if solver == "auto":
        # K-means ends after finitely many steps, with nothing to extrapolate.
        solver = "anderson" if sigma > 0 else "em"
    path = []
    if solver == "lbfgs":
        options = {"sigma": sigma, "max_iter": max_iter, "tol": tol, "report": report}
        centers = _descend(problem, centers, path, **options)
    rule = StoppingRule(tol, problem.spread, np.finfo(problem.dtype).eps)
    anderson = None
    if solver != "em":
        anderson = _Anderson(problem, centers.shape, min(path, default=np.inf))
    reason = None
    last = plain = centers
    bound = np.inf
    while reason is None and len(path) < max_iter:
        statistics = problem.statistics(centers, sigma)
        if statistics.objective > bound:
            shift = None
            path.append(path[-1])
            centers, bound = plain, np.inf
            anderson.restart()
            rule.restart()
        else:
            plain_new = update_centers(problem, statistics, centers, sigma)
            shift = _length(plain_new - centers)
            factor = None
            if centers is not plain:
                step = _length(centers - last)
                factor = _length(plain_new - plain) / step if step > 0.0 else 1.0
            path.append(statistics.objective)
            reason = rule.check(shift, np.abs(plain_new).max(), factor)
            last, plain = centers, plain_new
            centers, bound = plain, np.inf
            if anderson is not None:
                centers, bound = anderson.propose(last, plain, statistics, rule.factors)
        if report is not None and report(len(path), statistics, shift, plain):
            reason = reason or "callback"
    return Solution(plain, path, len(path), reason or "max_iter")


class StoppingRule:
    """Stop when the *distance to the fixed point* is at most tol times the spread of the data.

    Soft steps converge linearly, slowly near a critical temperature: a small step says little. If
    each shift is a factor q of the one before, the steps to come add up to shift q / (1 - q). The
    largest of the last factors is taken, and at least 1/2. Distances are Frobenius norms over
    all centres; the spread is the square root of the total weighted variance.

    With tol = 0 the iteration ends by stagnation: the shift is rounding error.
    """

    def __init__(self, tol, spread, eps=2.0**-52):
        self.distance = np.inf
        self.factors = deque(maxlen=_MEMORY)
        self._enough = tol * spread
        self._spread = spread
        self._eps = eps
        self._shift = None
        self._smallest = np.inf
        self._waited = 0

    def restart(self):
        """Forget the last steps: the next one is not their successor."""
        self.factors.clear()
        self._shift = None

    def check(self, shift, largest, factor=None):
        """Reason to stop after a plain step of length `shift` to centres up to `largest`, or None.

        `factor` says how much the plain step shortened the last difference of centres. It is the
        ratio of the last two shifts where the centres came from a plain step.
        """
        window = 2 if factor is None else _MEMORY
        if self._shift is not None:
            self.factors.append(shift / self._shift if factor is None else factor)
            slowest = max(*list(self.factors)[-window:], 0.5)
            self.distance = shift * slowest / (1.0 - slowest) if slowest < 1.0 else np.inf
        rounding = 4.0 * self._eps * max(self._spread, largest)
        if shift <= rounding:
            self.distance = shift
            return "tol" if self._enough >= shift and self._enough > 0.0 else "stagnation"
        if self._shift is not None and self.distance <= self._enough:
            return "tol"
        self._shift = shift
        self._waited = 0 if shift < self._smallest else self._waited + 1
        self._smallest = min(shift, self._smallest)
        noise = shift <= 10.0 * rounding and self._waited >= _PATIENCE
        return "stagnation" if noise else None


class _Anderson:
    """Centres to try instead of those of the plain step, extrapolated from the last steps.

    Near its fixed point the plain step shrinks all differences by factors that depend on their
    direction alone. Of all affine combinations of the last centres, Anderson's has the smallest
    shift; the same combination of the steps' results is tried. Shifts are weighted by the mass of
    the clusters, the metric in which the step is symmetric.

    The free energy keeps it safe. A plain step from c to g lowers F by sum_j N_j |g_j - c_j|^2 at
    least; what lowers it less is rejected, at the price of one pass, and plain steps follow until
    they converge steadily again. Nothing is extrapolated while centres still find their clusters,
    where differences grow, as they do near a saddle point, and where all rows are hard: there the
    steps are those of K-means.
    """

    def __init__(self, problem, shape, lowest):
        self._lowest = lowest
        self._spread = problem.spread
        self._eps = np.finfo(problem.dtype).eps
        # Of the last shifts and of the plain steps that they led to.
        self._differences = np.empty((2, _MEMORY, *shape))
        self.restart()

    def restart(self):
        self._n_differences = 0
        self._last = None
        self._active = False

    def propose(self, centers, plain, statistics, factors):
        """The next centres, and the free energy that they must not exceed."""
        self._lowest = min(self._lowest, statistics.objective)
        hard = statistics.inertia - statistics.objective <= 1e-12 * statistics.inertia
        if hard or not factors or factors[-1] >= 1.0:
            self.restart()
        elif not self._active and len(factors) > 1:
            last, this = factors[-2], factors[-1]
            self._active = (
                min(last, this) > 0.5 and max(last, this) < 1.0 and abs(last - this) < 0.2
            )
        shift = plain - centers
        self._remember(shift, plain)
        if not self._active:
            return plain, np.inf
        proposal = self._extrapolate(shift, plain, statistics.mass)
        # As far as that the objective might overflow; no fixed point is there.
        if not np.abs(proposal - plain).max() <= 10.0 * self._spread:
            self.restart()
            return plain, np.inf
        guaranteed = statistics.mass @ sq_norms(shift)
        # No more than `monotone` takes for rounding, and not again in every step.
        noise = 4.0 * self._eps * statistics.mass.sum() * self._spread**2
        return proposal, min(statistics.objective - guaranteed, self._lowest) + noise

    def _remember(self, shift, plain):
        if self._last is not None:
            place = self._n_differences % _MEMORY  # the oldest makes room
            np.subtract(shift, self._last[0], out=self._differences[0, place])
            np.subtract(plain, self._last[1], out=self._differences[1, place])
            self._n_differences += 1
        self._last = shift, plain

    def _extrapolate(self, shift, plain, mass):
        known = self._differences[:, : self._n_differences]
        weighted = (known[0] * mass[:, None]).reshape(known.shape[1], shift.size)
        shifts, plains = known.reshape(2, known.shape[1], shift.size)
        gram = weighted @ shifts.T
        gram.flat[:: len(gram) + 1] += 1e-10 * gram.trace()
        coefficients = np.linalg.solve(gram, weighted @ shift.ravel())
        return plain - (coefficients @ plains).reshape(plain.shape)


def _length(difference):
    """Frobenius norm."""
    return math.sqrt(np.vdot(difference, difference))


class _Enough(Exception):
    """Ends L-BFGS from within."""


def _descend(problem, centers, path, *, sigma, max_iter, tol, report):
    """L-BFGS on the free energy until a plain step is far below the tolerance.

    The gradient is 2 N_j (c_j - g_j) with g the plain step. In units of 1 / sqrt(2 N_j), as they
    are at the start, a step along the negative gradient is the plain step.
    """
    if max_iter == 1:
        return centers
    known = [problem.statistics(centers, sigma)]
    mass = known[0].mass
    scale = np.sqrt(2.0 * np.maximum(mass, 1e-3 * mass.mean()))[:, None]
    lowest = np.inf
    best = centers

    def objective_and_gradient(flat):
        nonlocal lowest, best
        if len(path) == max_iter - 1:  # one pass is left for the plain step
            raise _Enough
        current = flat.reshape(centers.shape) / scale
        statistics = known.pop() if known else problem.statistics(current, sigma)
        half = statistics.mass[:, None] * current - statistics.sums
        alive = statistics.mass > 0.0
        shift = _length(half[alive] / statistics.mass[alive, None])
        if statistics.objective <= lowest:
            lowest, best = statistics.objective, current
        path.append(lowest)
        if report is not None and report(len(path), statistics, shift, current):
            raise _Enough
        if shift <= 1e-2 * tol * problem.spread:
            raise _Enough
        return statistics.objective, (2.0 * half / scale).ravel()

    options = {"maxfun": max_iter, "maxiter": max_iter, "ftol": 0.0, "gtol": 0.0}
    try:
        start = (centers * scale).ravel()
        minimize(objective_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    except _Enough:
        pass
    return best


def monotone(problem, sigma, centers, path):
    """Free energies in the units of X and the weights, where a rise by rounding is none.

    All but the last are in the frame. Rounding errors are those of the sum, in which those of equal
    rows add up, and of the centers as they are stored: relative to their distance from 0, and no
    finer than the smallest numbers of their kind.
    """
    scale = problem.unit * problem.unit * problem.weight_unit
    path = np.append(np.array(path[:-1]) * scale, path[-1])
    kind = np.finfo(problem.dtype)
    eps = float(kind.eps)
    # As Python numbers: the unit of float32 data may be no float32.
    position = max(float(np.abs(centers).max()), float(kind.tiny)) / problem.unit
    of_row = 4.0 * eps * (problem.spread**2 + sigma * sigma) + (eps * position) ** 2
    rounding = of_row * problem.total_weight * scale
    lowest = np.minimum.accumulate(path)
    return np.where(path - lowest <= np.maximum(rounding, 1e-12 * np.abs(lowest)), lowest, path)

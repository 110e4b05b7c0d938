"""How times are taken. Nothing here knows what is measured."""

from time import perf_counter

import numpy as np


def seconds(call):
    start = perf_counter()
    call()
    return perf_counter() - start


def alternate(repeats, *measurements):
    """Measure A B A B ...; an array of shape (repeats, number of measurements).

    Whatever slows the machine down for a while then hits both sides alike, and the ratio within
    a repetition is more stable than the times.
    """
    return np.array([[measure() for measure in measurements] for _ in range(repeats)])


def ratios(times):
    """Second measurement over the first, for each repetition."""
    return times[:, 1] / times[:, 0]


def iteration_seconds(make, X, few, many):
    """Time of one iteration: a fit with `many` of them less a fit with `few`.

    `make(max_iter)` gives an estimator. The difference leaves what each further iteration costs a
    user: the pass over the data, the new centres, and the check for convergence. Validation,
    copies, the last labels and the inertia happen once in a fit and cancel, as do the first
    iterations, which are unlike the later ones. Timing the pass alone would be less noisy, but it
    would set a private function of one library against one of another, each with some part of
    the iteration outside it. And the difference exists for every estimator that has `max_iter`.

    A fit may stop early: KMeans does as soon as no label changes, whatever its `tol`. So the
    iterations that took place are what the difference is divided by.
    """
    short, long = make(few), make(many)
    difference = -seconds(lambda: short.fit(X)) + seconds(lambda: long.fit(X))
    n_iter = long.n_iter_ - short.n_iter_
    return difference / n_iter if n_iter > 0 else np.nan


def call_seconds(call, number):
    """Time of one call, the mean over many: for calls that the clock hardly resolves."""

    def repeat():
        for _ in range(number):
            call()

    return seconds(repeat) / number

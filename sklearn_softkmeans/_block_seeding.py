"""Initial centres for rows in blocks: k-means|| (Bahmani et al. 2012), in a few passes.

Random numbers are made from the content of the rows, so that neither their order nor how they are
cut into blocks matters.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ._centers import problem_for_fit
from ._seeding import initial_centers
from ._solver import solve

_N_ROUNDS = 4


def initial_centers_over_blocks(problem, n_clusters, init, random_state):
    """Centres in the frame: "k-means||", which "k-means++" stands for too, or "random"."""
    if init in ("annealing", "exchange"):
        raise ValueError(
            f"init={init!r} needs all rows in memory. Fit it to a part of the rows, and pass its "
            "cluster_centers_ as init."
        )
    if init == "random":
        drawn = _draw(problem, None, n_clusters, random_state)
        # With fewer different rows than clusters, all are taken more than once.
        return drawn[np.arange(n_clusters) % len(drawn)]
    candidates = _draw(problem, None, 1, random_state)
    for _ in range(_N_ROUNDS):
        drawn = _draw(problem, candidates, n_clusters, random_state)
        candidates = np.vstack([candidates, drawn])
    mass = problem.statistics(candidates, 0.0).mass
    return _cluster(candidates[mass > 0.0], mass[mass > 0.0], n_clusters, random_state)


def _cluster(candidates, mass, n_clusters, random_state):
    """K-means of the candidates, which stand for the rows that they are nearest to."""
    few = problem_for_fit(candidates, mass, 1.0, resident=False)
    start = initial_centers(few, n_clusters, "k-means++", random_state)
    solution = solve(few, start, solver="em", sigma=0.0, max_iter=30, tol=1e-4)
    return few.out_of_frame(solution.centers)


# ----------------------------------------------------------------------------- one pass


class _Drawn(NamedTuple):
    keys: np.ndarray  # (n_rows,) the smallest of all, ascending
    marks: np.ndarray  # (n_rows,) equal for equal rows
    rows: np.ndarray  # (n_rows, n_features) in the frame


def _draw(problem, centers, count, random_state):
    """Different rows in the frame, by weight times squared distance to the nearest centre.

    The weighted draw without replacement is that of Efraimidis & Spirakis (2006): of exponential
    numbers, each divided by its row's weight, the smallest. Rows on a centre are never drawn.
    """
    seed = random_state.randint(2**31 - 1)
    drawn = problem.reduce(
        partial(_draw_from, centers=centers, count=count, seed=seed),
        partial(_smallest_of_both, count=count),
    )
    return drawn.rows


def _draw_from(problem, centers, count, seed):
    measure = problem.weights
    if centers is not None:
        sq_distances = problem.row_objective(centers, 0.0)
        measure = np.where(problem.weights > 0.0, problem.weights * sq_distances, 0.0)
    marks = problem.row_keys()
    ids = np.flatnonzero(measure > 0.0)
    with np.errstate(over="ignore"):
        keys = -np.log1p(-_uniform(marks[ids], seed)) / measure[ids]
    chosen = _smallest(keys, marks[ids], count)
    ids = ids[chosen]
    return _Drawn(keys[chosen], marks[ids], problem.rows_in_frame(ids))


def _smallest_of_both(first, second, count):
    parts = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    both = _Drawn(*parts)
    chosen = _smallest(both.keys, both.marks, count)
    return _Drawn(*(part[chosen] for part in both))


def _smallest(keys, marks, count):
    """Indices of the smallest keys in ascending order, one for equal rows."""
    order = np.argsort(keys, kind="stable")
    _, first = np.unique(marks[order], return_index=True)
    return order[np.sort(first)[:count]]


def _uniform(marks, seed):
    """A number in [0, 1) for each mark, by the finaliser of SplitMix64 (Steele et al. 2014)."""
    start = np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    bits = (marks + 0.0).view(np.uint64) + start  # + 0.0 makes -0.0 the same number
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return (bits >> np.uint64(11)) * 2.0**-53

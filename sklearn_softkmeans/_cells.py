"""Rows by their nearest centre, and what each group looks like."""

from typing import NamedTuple

import numpy as np

from ._arrays import add_in_order
from ._compiled import kernels


class Cells(NamedTuple):
    """Rows by their nearest centre, in the frame."""

    labels: np.ndarray  # (n_samples,)
    sq_distances: np.ndarray  # (n_samples,) to the nearest centre
    sums: np.ndarray  # (n_clusters, n_features)
    mass: np.ndarray  # (n_clusters,)


def cells_of(problem, centers):
    """Rows by their nearest centre, in one pass."""
    labels = np.empty(problem.n_samples, dtype=np.int32)
    sq_distances = np.empty(problem.n_samples)
    outputs = problem._run(centers, 0.0, sums=True, labels=labels, objective=sq_distances)
    return Cells(labels, sq_distances, add_in_order(outputs.sums), add_in_order(outputs.mass))


def scatter_along(problem, labels, directions, means):
    """Sum of w (x - m) (x - m).v over the rows x of each cluster, of mean m and direction v."""
    n_tasks = problem._n_summed(problem._n_tasks(problem.n_samples, 1), len(means))
    sums, totals = np.zeros((n_tasks, *means.shape)), np.zeros((n_tasks, len(means)))
    shifts = np.einsum("ij,ij->i", directions, means)
    arguments = problem._read_only_weights, labels, directions, shifts, sums, totals
    kernels().rows.add_along(n_tasks, problem._rows(), *arguments)
    return add_in_order(sums) - add_in_order(totals)[:, None] * means

"""Small helpers on arrays."""

from functools import cache

import numpy as np


def blocks_of(n_rows, size=1024):
    """Slices of rows, of which an intermediate result in another precision takes little memory."""
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


@cache
def fixed_direction(n_features):
    """One vector for each number of features, the same in every process."""
    return np.random.RandomState(0).uniform(-1.0, 1.0, n_features)


def read_only(array):
    """A view that is read-only: another type to numba, which all arrays are, to compile once."""
    view = array.view()
    view.flags.writeable = False
    return view


def sq_norms(centers):
    """Squared norm of each row."""
    return np.einsum("ij,ij->i", centers, centers)


def add_in_order(parts):
    """Sum over the first axis, in NumPy's order, which depends on the shape alone."""
    return np.add.reduce(parts, axis=0)


def floor_power_of_two(number):
    """Largest power of two that is no larger than a positive number."""
    return 1 << (max(number, 1).bit_length() - 1)

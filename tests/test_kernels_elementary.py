"""The vectorised exponential and logarithm against NumPy's."""

import numpy as np
import pytest

from sklearn_softkmeans._jit import entry
from sklearn_softkmeans._kernels.elementary import exp, log

# Where the result would be subnormal it is 0.
LOWEST = {np.float64: -707.0, np.float32: -87.0}
ROUNDING = {np.float64: 2e-15, np.float32: 2e-7}

dtypes = pytest.mark.parametrize("dtype", LOWEST)


@entry
def _exp_all(x, result):
    for i in range(x.shape[0]):
        result[i] = exp(x[i])


def over_all(entry, x):
    """Results of a compiled loop over x."""
    result = np.empty_like(x)
    entry(x, result)
    return result


def exp_all(x):
    return over_all(_exp_all, x)


@dtypes
def test_relative_error_is_rounding_over_the_whole_range(dtype):
    x = np.r_[
        np.linspace(LOWEST[dtype], 0, 4001),
        -np.logspace(-20, 1.9, 2001),
        -np.log(2.0) * np.arange(0.5, 125),  # where the nearest power of two changes
    ].astype(dtype)
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(exp_all(x).astype(np.float64), exact, rtol=ROUNDING[dtype])


@dtypes
def test_exp_of_zero_is_exactly_one(dtype):
    assert exp_all(np.array([0.0, -0.0], dtype)).tolist() == [1.0, 1.0]


@dtypes
def test_below_the_range_the_result_is_exactly_zero(dtype):
    lowest = dtype(LOWEST[dtype])
    below = [np.nextafter(lowest, dtype(-np.inf)), -1e4, np.finfo(dtype).min, -np.inf]
    np.testing.assert_array_equal(exp_all(np.array(below, dtype)), 0)
    assert exp_all(np.array([lowest], dtype))[0] >= np.finfo(dtype).tiny


@dtypes
def test_position_and_length_of_the_array_do_not_change_a_bit(dtype):
    values = -np.random.RandomState(0).uniform(0, 80, size=40).astype(dtype)
    alone = np.array([exp_all(values[i : i + 1])[0] for i in range(len(values))])
    for length in range(1, len(values) + 1):
        np.testing.assert_array_equal(exp_all(values[:length]), alone[:length])


# ------------------------------------------------------------------------------------- log


@entry
def _log_all(x, result):
    for i in range(x.shape[0]):
        result[i] = log(x[i])


def log_all(x):
    return over_all(_log_all, x)


def test_error_of_the_logarithm_is_rounding_over_the_whole_range():
    root = np.sqrt(2.0)
    x = np.r_[
        np.linspace(1, 4, 4001),
        np.logspace(0, 15.6, 2001),
        1 + np.logspace(-15.9, -1, 501),
        [1.0, 2.0, 1024.0, root, np.nextafter(root, 0), np.nextafter(root, 2), 2.0**52 - 1],
    ]
    np.testing.assert_allclose(log_all(x), np.log(x), rtol=5e-16, atol=1e-300)
    assert log_all(np.array([1.0]))[0] == 0.0

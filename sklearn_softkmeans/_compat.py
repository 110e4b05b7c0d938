"""The one module that touches what scikit-learn does not promise to keep."""

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import _param_validation
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight
from sklearn.utils.validation import _num_samples as n_rows_of

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # before 1.9

    class CallbackSupportMixin:
        """Callbacks are not known."""


__all__ = [
    "CallbackSupportMixin",
    "Interval",
    "StrOptions",
    "check_raw_weights",
    "fit_context",
    "n_rows_of",
    "output_container",
    "validate_parameters",
    "validate_params",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

# From 1.9 on, weights that are all zero are an error; before, they passed.
_KNOWN = signature(_check_sample_weight).parameters
_ZEROS_PASS = {"allow_all_zero_weights": True} if "allow_all_zero_weights" in _KNOWN else {}


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Function], _Function]:
    """scikit-learn's decorator of `fit`, which keeps its type."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


def validate_params(
    constraints: dict[str, list[Any]], *, prefer_skip_nested_validation: bool
) -> Callable[[_Function], _Function]:
    """scikit-learn's decorator of functions, which keeps their type."""
    return _param_validation.validate_params(
        constraints, prefer_skip_nested_validation=prefer_skip_nested_validation
    )


def check_raw_weights(sample_weight, X):
    """Weights of all rows as float64, finite and at least 0; they may all be zero."""
    return _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True, **_ZEROS_PASS
    )


def output_container(estimator):
    """What `set_output` asked for: "default", "pandas" or "polars"."""
    return _get_output_config("transform", estimator)["dense"]


def validate_parameters(estimator, *names):
    """Raise InvalidParameterError where a parameter, of those named if any, is out of its range."""
    if not names:
        estimator._validate_params()
        return
    constraints = estimator._parameter_constraints
    _param_validation.validate_parameter_constraints(
        {name: constraints[name] for name in names},
        {name: getattr(estimator, name) for name in names},
        caller_name=type(estimator).__name__,
    )

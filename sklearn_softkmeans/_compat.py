"""The one module that touches what scikit-learn does not promise to keep."""

from inspect import signature

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight

__all__ = [
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "validate_parameters",
]

# From 1.9 on, weights that are all zero are an error; before, they passed.
_NAME = "allow_all_zero_weights"
_LET_ZEROS_PASS = {_NAME: True} if _NAME in signature(_check_sample_weight).parameters else {}


def check_sample_weight(sample_weight, X):
    """Weights as a non-negative array of float64, one for each row."""
    options = {"dtype": np.float64, "ensure_non_negative": True, **_LET_ZEROS_PASS}
    return _check_sample_weight(sample_weight, X, **options)


def validate_parameters(estimator):
    """Raise InvalidParameterError where a parameter is out of its range."""
    estimator._validate_params()

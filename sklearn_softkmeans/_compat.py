"""The one module that touches what scikit-learn does not promise to keep."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = [
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "validate_parameters",
]


def validate_parameters(estimator):
    """Raise InvalidParameterError where a parameter is out of its range."""
    estimator._validate_params()

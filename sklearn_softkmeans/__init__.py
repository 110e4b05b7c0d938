"""Soft K-means for scikit-learn: K-means as the zero-temperature limit of soft assignments."""

from . import inspection, metrics, projections
from ._entmax_kmeans import EntmaxKMeans
from ._gradient import objective_and_gradient
from ._path import soft_kmeans_path
from ._soft_kmeans import SoftKMeans
from ._version import __version__ as __version__

__all__ = [
    "EntmaxKMeans",
    "SoftKMeans",
    "inspection",
    "metrics",
    "objective_and_gradient",
    "projections",
    "soft_kmeans_path",
]

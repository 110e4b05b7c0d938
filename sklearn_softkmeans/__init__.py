"""Soft K-means for scikit-learn: K-means as the zero-temperature limit of soft assignments."""

from . import projections
from ._entmax_kmeans import EntmaxKMeans
from ._soft_kmeans import SoftKMeans

__all__ = ["EntmaxKMeans", "SoftKMeans", "projections"]

__version__ = "0.1.0.dev0"

"""Soft K-means inside a network: layers, losses and maps for PyTorch.

Needs the extra "torch": ``pip install "sklearn-softkmeans[torch]"``.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sklearn_softkmeans.nn needs PyTorch, which is not installed. Install it with "
        'pip install "sklearn-softkmeans[torch]", or as https://pytorch.org says for your machine.'
    ) from error

from ._deep import DeepSoftKMeans
from ._distances import sq_distances
from ._layer import SoftKMeansLayer
from ._losses import FreeEnergyLoss, WeightedDistortionLoss, free_energy, weighted_distortion
from ._modules import Entmax, Entmax15, Softmax, Sparsemax
from ._projections import entmax, entmax15, softmax, sparsemax
from ._schedules import GeometricSchedule, LinearSchedule

__all__ = [
    "DeepSoftKMeans",
    "Entmax",
    "Entmax15",
    "FreeEnergyLoss",
    "GeometricSchedule",
    "LinearSchedule",
    "SoftKMeansLayer",
    "Softmax",
    "Sparsemax",
    "WeightedDistortionLoss",
    "entmax",
    "entmax15",
    "free_energy",
    "softmax",
    "sparsemax",
    "sq_distances",
    "weighted_distortion",
]

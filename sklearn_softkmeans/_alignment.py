"""Numbers of clusters that stay the same from one fit to the next."""

from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ._validation import FLOATS


class AlignmentMixin:
    """Part of the estimators: the order of their clusters."""

    def align_to(self, reference: Any) -> Self:
        """Number the clusters as in an earlier fit.

        The order of clusters depends on the initial centers. This reorders the fitted attributes so
        that each cluster has the number of the cluster of `reference` it is paired with: the pairs
        are those with the least sum of squared distances between centers. A fit stays what it is
        but for the order.

        Parameters
        ----------
        reference : estimator or array-like of shape (n_clusters, n_features)
            Centers, or what has `cluster_centers_`, such as a fitted `sklearn.cluster.KMeans`.

        Returns
        -------
        self : object
            This estimator, with its clusters in the order of `reference`.

        Raises
        ------
        ValueError
            If `reference` has another number of clusters or features.

        Examples
        --------
        >>> from sklearn_softkmeans import SoftKMeans
        >>> X = [[-1.0], [-1.2], [4.0], [4.2]]
        >>> monday = SoftKMeans(n_clusters=2, init=[[0.0], [3.0]]).fit(X)
        >>> tuesday = SoftKMeans(n_clusters=2, init=[[3.0], [0.0]]).fit(X)
        >>> tuesday.labels_
        array([1, 1, 0, 0], dtype=int32)
        >>> tuesday.align_to(monday).labels_
        array([0, 0, 1, 1], dtype=int32)
        """
        check_is_fitted(self)
        centers = getattr(reference, "cluster_centers_", reference)
        centers = check_array(centers, dtype=FLOATS, input_name="reference")
        if centers.shape != self.cluster_centers_.shape:
            raise ValueError(
                f"reference must have {self.cluster_centers_.shape} centers and features, as this "
                f"fit does, got {centers.shape}."
            )
        self._reorder(paired(centers, self.cluster_centers_))
        return self

    def _reorder(self, order):
        """Put the cluster `order[j]` in place j."""
        self.cluster_centers_ = self.cluster_centers_[order]
        if hasattr(self, "cluster_mass_"):  # not from given centers
            self.cluster_mass_ = self.cluster_mass_[order]
        if hasattr(self, "labels_"):
            self.labels_ = renumbered(self.labels_, np.argsort(order).astype(np.int32))


def paired(reference, centers):
    """Index of the center that is paired with each of `reference`."""
    scale = max(np.abs(reference).max(), np.abs(centers).max()) or 1.0
    costs = cdist(reference / scale, centers / scale, "sqeuclidean")
    return linear_sum_assignment(costs)[1]


def renumbered(labels, numbers):
    """Labels with `numbers[j]` in place of j, not computed here where they are those of dask."""
    if hasattr(labels, "map_blocks"):
        return labels.map_blocks(numbers.take, dtype=numbers.dtype)
    return numbers[labels]

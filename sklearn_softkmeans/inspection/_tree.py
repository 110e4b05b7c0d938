"""The bifurcation tree of deterministic annealing."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.utils import check_scalar

from .._annealing import annealing_stages
from .._compiled import one_blas_thread
from .._typing import Array, MatrixLike
from .._validation import check_counted_rows, check_enough_rows
from ._collapse import axes_of_picture
from ._drawing import axes_for, color, names_of_columns


class AnnealingDisplay:
    """How ``init="annealing"`` splits one center into many as it cools.

    Use :meth:`from_data`. Its arrays are attributes, and :meth:`plot` draws them again.

    Parameters
    ----------
    sigmas : ndarray of shape (n_stages,)
        Temperatures in decreasing order, the first the critical one.
    centers : list of ndarray of shape (n_centers, n_axes)
        Centers found at each of them, on the axes of the picture.
    objectives : ndarray of shape (n_stages,)
        Free energy at each of them, where each of these centers counts once.
    axis_names : list of str, default=None
        Names of the axes.

    Attributes
    ----------
    n_centers : ndarray of shape (n_stages,)
        Number of centers at each temperature.
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that the axes belong to.
    lines_ : list of matplotlib Line2D
        One for each center at each temperature but the first, from its origin.

    See Also
    --------
    CollapsePathDisplay : The path of a fixed number of centers.

    References
    ----------
    K. Rose, "Deterministic annealing for clustering, compression, classification, regression, and
    related optimization problems", Proceedings of the IEEE 86, 1998.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_softkmeans.inspection import AnnealingDisplay
    >>> display = AnnealingDisplay.from_data(load_iris().data, 3)
    >>> display.n_centers.tolist()[:3]
    [1, 2, 4]
    """

    def __init__(
        self,
        *,
        sigmas: Array,
        centers: Sequence[Array],
        objectives: Array,
        axis_names: Sequence[str] | None = None,
    ) -> None:
        self.sigmas = sigmas
        self.centers = centers
        self.objectives = objectives
        self.axis_names = axis_names

    @property
    def n_centers(self) -> Array:
        return np.array([len(centers) for centers in self.centers])

    @classmethod
    def from_data(
        cls,
        X: MatrixLike,
        n_clusters: int,
        *,
        sample_weight: ArrayLike | None = None,
        axis: int = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Anneal, and draw the tree.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, dense or CSR.
        n_clusters : int
            Number of clusters that are wanted in the end, at least 1 and at most `n_samples`. The
            tree goes on to twice as many.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.
        axis : {0, 1}, default=0
            Which coordinate to draw: a feature, or with more than two features a principal
            component.
        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.
        **kwargs : dict
            Passed to the `plot` method of the axes.

        Returns
        -------
        display : AnnealingDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If `n_clusters` is no integer.
        ValueError
            If a parameter is out of its range, or an array is not finite or of the wrong shape.
        ImportError
            If matplotlib is not installed.
        """
        names = names_of_columns(X)
        X, weights = check_counted_rows(X, sample_weight)
        check_scalar(n_clusters, "n_clusters", Integral, min_val=1)
        check_enough_rows(X.shape[0], n_clusters)
        _check_axis(axis, X.shape[1])
        with one_blas_thread(), np.errstate(under="ignore"):
            stages = annealing_stages(X, n_clusters, weights)
        onto_axes, axis_names = axes_of_picture(X, names)
        display = cls(
            sigmas=np.array([stage.sigma for stage in stages]),
            centers=[onto_axes(stage.centers) for stage in stages],
            objectives=np.array([stage.objective for stage in stages]),
            axis_names=axis_names,
        )
        return display.plot(axis=axis, ax=ax, **kwargs)

    def plot(self, *, axis: int = 0, ax: Any = None, **kwargs: Any) -> Self:
        """Draw one coordinate of the centers against the temperature, each with its origin.

        Parameters
        ----------
        axis : {0, 1}, default=0
            Which coordinate to draw.
        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.
        **kwargs : dict
            Passed to the `plot` method of the axes.

        Returns
        -------
        display : AnnealingDisplay
            The display itself.

        Raises
        ------
        ValueError
            If there is no such coordinate.
        ImportError
            If matplotlib is not installed.
        """
        _check_axis(axis, self.centers[0].shape[1])
        self.ax_ = axes_for(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        options = {"color": color(0), "linewidth": 1.2, **kwargs}
        self.lines_ = []
        for stage in range(1, len(self.centers)):
            before, after = self.centers[stage - 1], self.centers[stage]
            origins = cdist(after, before).argmin(axis=1)
            heights = np.stack([before[origins, axis], after[:, axis]])
            self.lines_ += self.ax_.plot(self.sigmas[stage - 1 : stage + 1], heights, **options)
        self.ax_.set_xscale("log")
        self.ax_.invert_xaxis()  # it cools to the right
        self.ax_.set_xlabel("sigma")
        name = f"axis {axis}" if self.axis_names is None else self.axis_names[axis]
        self.ax_.set_ylabel(f"centers: {name}")
        return self


def _check_axis(axis, n_features):
    known = list(range(min(n_features, 2)))
    if axis not in known:
        raise ValueError(
            f"axis must be one of {known} where X has {n_features} features, got {axis!r}."
        )

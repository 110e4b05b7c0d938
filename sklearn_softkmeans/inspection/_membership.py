"""Pictures of responsibilities in the plane."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr
from sklearn.utils import check_array

from .._typing import Array
from ._drawing import axes_for, color, marker, names_of_columns, rgb_of

# Contours of the effective number of clusters; not 2, which it is all along a border.
_LEVELS = [1.1, 1.5, 2.5, 4.0, 8.0]
_WHITE = 0.45  # added to the colors of the regions, so that rows stand out


class MembershipDisplay:
    """Regions of the plane, colored by the responsibilities there.

    Use :meth:`from_estimator`. Its arrays are attributes, and :meth:`plot` draws them again.

    Parameters
    ----------
    xx0 : ndarray of shape (grid_resolution,)
        Grid of the first feature.
    xx1 : ndarray of shape (grid_resolution,)
        Grid of the second feature.
    responsibilities : ndarray of shape (grid_resolution, grid_resolution, n_clusters)
        Share of each cluster at each point; the first axis is that of `xx1`.
    points : ndarray of shape (n_samples, 2)
        Rows to show.
    labels : ndarray of shape (n_samples,)
        Their clusters.
    centers : ndarray of shape (n_clusters, 2), default=None
        Centers to show.
    axis_names : list of str, default=None
        Names of the features.

    Attributes
    ----------
    perplexity : ndarray of shape (grid_resolution, grid_resolution)
        Effective number of clusters at each point, the exponential of the Shannon entropy of its
        responsibilities: 1 where it belongs to one cluster.
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that the axes belong to.
    surface_ : matplotlib AxesImage
        The colored regions.
    contours_ : matplotlib QuadContourSet or None
        Lines of equal perplexity; None where it is 1 everywhere.

    See Also
    --------
    CollapsePathDisplay : Centers along a path of temperatures.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn_softkmeans import EntmaxKMeans
    >>> from sklearn_softkmeans.inspection import MembershipDisplay
    >>> X, _ = make_blobs(centers=3, random_state=0)
    >>> model = EntmaxKMeans(3, sigma=1.0, random_state=0).fit(X)
    >>> display = MembershipDisplay.from_estimator(model, X)
    >>> display.responsibilities.shape
    (200, 200, 3)
    """

    def __init__(
        self,
        *,
        xx0: Array,
        xx1: Array,
        responsibilities: Array,
        points: Array,
        labels: Array,
        centers: Array | None = None,
        axis_names: Sequence[str] | None = None,
    ) -> None:
        self.xx0 = xx0
        self.xx1 = xx1
        self.responsibilities = responsibilities
        self.perplexity = np.exp(entr(responsibilities).sum(axis=-1))
        self.points = points
        self.labels = labels
        self.centers = centers
        self.axis_names = axis_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        kind: Literal["shares", "perplexity"] = "shares",
        grid_resolution: int = 200,
        margin: float = 0.1,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the responsibilities of a fitted estimator around some rows.

        Parameters
        ----------
        estimator : object
            Fitted to two features, with `predict_proba`: :class:`~sklearn_softkmeans.SoftKMeans`,
            :class:`~sklearn_softkmeans.EntmaxKMeans`, a mixture, or a pipeline that ends with one.
            `cluster_centers_` are shown where it has them.
        X : array-like of shape (n_samples, 2)
            Rows to show; they define the part of the plane that is drawn.
        kind : {"shares", "perplexity"}, default="shares"
            What to draw, see :meth:`plot`.
        grid_resolution : int, default=200
            Number of points on each axis, at least 2.
        margin : float, default=0.1
            What is drawn around the rows, relative to their range; at least 0.
        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.
        **kwargs : dict
            Passed to the `imshow` method of the axes.

        Returns
        -------
        display : MembershipDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If X does not have two features, or a parameter is out of its range.
        ImportError
            If matplotlib is not installed.
        """
        if not grid_resolution >= 2 or not margin >= 0:
            raise ValueError(
                "grid_resolution must be at least 2 and margin at least 0, got "
                f"{grid_resolution!r} and {margin!r}."
            )
        points = check_array(X, dtype=np.float64, input_name="X")
        if points.shape[1] != 2:
            raise ValueError(
                f"MembershipDisplay draws two features, but X has {points.shape[1]}. Fit the "
                "estimator to two of them, or to two principal components."
            )
        low, high = points.min(axis=0), points.max(axis=0)
        around = margin * np.where(high > low, high - low, 1.0)
        xx0, xx1 = np.linspace(low - around, high + around, grid_resolution).T
        grid = np.stack(np.meshgrid(xx0, xx1), axis=-1).reshape(-1, 2)
        shares = np.asarray(estimator.predict_proba(_like(X, grid)))
        display = cls(
            xx0=xx0,
            xx1=xx1,
            responsibilities=shares.reshape(len(xx1), len(xx0), -1),
            points=points,
            labels=np.asarray(estimator.predict_proba(X)).argmax(axis=1),
            centers=getattr(estimator, "cluster_centers_", None),
            axis_names=names_of_columns(X),
        )
        return display.plot(kind, ax=ax, **kwargs)

    def plot(
        self,
        kind: Literal["shares", "perplexity"] = "shares",
        *,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the responsibilities.

        Parameters
        ----------
        kind : {"shares", "perplexity"}, default="shares"
            "shares": every cluster has a color, and every point the mixture of them by its
            shares, with lines of equal perplexity. "perplexity": that number as a color, with a
            color bar.
        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.
        **kwargs : dict
            Passed to the `imshow` method of the axes.

        Returns
        -------
        display : MembershipDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `kind` is none of these.
        ImportError
            If matplotlib is not installed.
        """
        if kind not in ("shares", "perplexity"):
            raise ValueError(f"kind must be 'shares' or 'perplexity', got {kind!r}.")
        self.ax_ = axes_for(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        if kind == "shares":
            palette = _WHITE + (1.0 - _WHITE) * rgb_of(self.responsibilities.shape[-1])
            colors = np.clip(self.responsibilities @ palette, 0.0, 1.0)
            self.surface_ = self._image(colors, **kwargs)
            self._draw_points()
            self._draw_contours("0.15")
            if self.contours_ is not None:
                self.ax_.clabel(self.contours_, fmt="%g", fontsize=8)
        else:
            highest = max(self.perplexity.max(), 2.0)
            options = {"cmap": "cividis", "vmin": 1.0, "vmax": highest, **kwargs}
            self.surface_ = self._image(self.perplexity, **options)
            label = "effective number of clusters"
            self.figure_.colorbar(self.surface_, ax=self.ax_, label=label)
            self.ax_.scatter(*self.points.T, s=6, color="white", alpha=0.5, linewidths=0)
            self._draw_contours("white")
        if self.centers is not None:
            style = {"marker": "X", "s": 90, "color": "black", "edgecolors": "white"}
            self.ax_.scatter(*self.centers.T, label="centers", **style)
        names = self.axis_names or ["feature 0", "feature 1"]
        self.ax_.set_xlabel(names[0])
        self.ax_.set_ylabel(names[1])
        return self

    def _image(self, values, **kwargs):
        extent = [self.xx0[0], self.xx0[-1], self.xx1[0], self.xx1[-1]]
        options = {"extent": extent, "origin": "lower", "aspect": "auto", **kwargs}
        return self.ax_.imshow(values, **options)

    def _draw_points(self):
        for j in range(self.responsibilities.shape[-1]):
            members = self.points[self.labels == j]
            style = {"marker": marker(j), "s": 14, "color": color(j), "edgecolors": "0.25"}
            self.ax_.scatter(*members.T, linewidths=0.4, **style)

    def _draw_contours(self, line_color):
        highest = self.perplexity.max()
        levels = [level for level in _LEVELS if level < highest]
        self.contours_ = None
        if levels:
            style = {"colors": line_color, "linewidths": 0.9}
            grid = self.xx0, self.xx1, self.perplexity
            self.contours_ = self.ax_.contour(*grid, levels=levels, **style)


def _like(X, grid):
    """The grid as a data frame where X is one."""
    if not hasattr(X, "columns"):
        return grid
    return type(X)(dict(zip(X.columns, grid.T, strict=True)))

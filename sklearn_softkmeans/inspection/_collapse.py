"""Pictures of a path: how centers become one, or those of K-means."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.sparse import issparse
from scipy.spatial.distance import cdist
from sklearn.utils import check_array

from .._typing import Array, MatrixLike
from ._drawing import axes_for, color, names_of_columns

# Errors in a fit of the slope: above what rounding leaves, relative to the spread of the centers,
# and well below the largest.
_ROUNDING = 1e-9
_SMALL = 0.1


class CollapsePathDisplay:
    """Centers along a path of temperatures, drawn in one of three ways.

    Use :meth:`from_path`. Its arrays are attributes, and :meth:`plot` draws them again.

    Parameters
    ----------
    sigmas : ndarray of shape (n_sigmas,)
        Temperatures in decreasing order.
    centers : ndarray of shape (n_sigmas, n_clusters, n_axes)
        Centers on the axes of the picture: two, or one where the data have one feature.
    errors : ndarray of shape (n_sigmas,)
        Largest distance of a center to the one it is compared with, in all features.
    points : ndarray of shape (n_samples, n_axes), default=None
        Rows on the axes of the picture.
    axis_names : list of str, default=None
        Names of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that the axes belong to.
    lines_ : list of matplotlib Line2D
        One for each center, or the one of the errors.
    slope_ : float
        After ``kind="error"``: slope of the logarithm of the errors against that of sigma; NaN
        where fewer than two errors could be used.

    See Also
    --------
    sklearn_softkmeans.soft_kmeans_path : The path.
    MembershipDisplay : Responsibilities in the plane at one temperature.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_softkmeans import soft_kmeans_path
    >>> from sklearn_softkmeans.inspection import CollapsePathDisplay
    >>> X = load_iris().data
    >>> path = soft_kmeans_path(X, 3, n_sigmas=20)
    >>> display = CollapsePathDisplay.from_path(path, X, kind="bifurcation")
    >>> display.ax_.get_xlabel()
    'sigma'
    """

    def __init__(
        self,
        *,
        sigmas: Array,
        centers: Array,
        errors: Array,
        points: Array | None = None,
        axis_names: Sequence[str] | None = None,
    ) -> None:
        self.sigmas = sigmas
        self.centers = centers
        self.errors = errors
        self.points = points
        self.axis_names = axis_names

    @classmethod
    def from_path(
        cls,
        path: Any,
        X: MatrixLike | None = None,
        *,
        kind: Literal["trajectories", "bifurcation", "error"] = "trajectories",
        reference: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a path that `soft_kmeans_path` returned.

        Parameters
        ----------
        path : :class:`~sklearn.utils.Bunch`
            What :func:`~sklearn_softkmeans.soft_kmeans_path` returned; `sigmas` and `centers` of
            it are used.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to show behind the centers. With more than two features the axes are their first
            two principal components, or those of the centers where X is None.
        kind : {"trajectories", "bifurcation", "error"}, default="trajectories"
            What to draw, see :meth:`plot`.
        reference : array-like of shape (n_clusters, n_features), default=None
            Centers that the errors are distances to, in any order, such as those of
            :class:`~sklearn.cluster.KMeans`. None takes those of the lowest temperature.
        name : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.
        **kwargs : dict
            Passed to the `plot` method of the axes.

        Returns
        -------
        display : CollapsePathDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If a parameter is out of its range, or the shapes do not fit.
        ImportError
            If matplotlib is not installed.
        """
        sigmas, centers = np.asarray(path["sigmas"]), np.asarray(path["centers"], dtype=np.float64)
        names = names_of_columns(X)
        if X is not None:
            X = _check_rows(X, centers.shape[2])
        rows = centers.reshape(-1, centers.shape[2]) if X is None else X
        onto_axes, axis_names = axes_of_picture(rows, names)
        drawn = onto_axes(centers.reshape(-1, centers.shape[2]))
        display = cls(
            sigmas=sigmas,
            centers=drawn.reshape(*centers.shape[:2], -1),
            errors=_errors(centers, reference),
            points=None if X is None else onto_axes(X),
            axis_names=axis_names,
        )
        return display.plot(kind, name=name, ax=ax, **kwargs)

    def plot(
        self,
        kind: Literal["trajectories", "bifurcation", "error"] = "trajectories",
        *,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the path.

        Parameters
        ----------
        kind : {"trajectories", "bifurcation", "error"}, default="trajectories"
            "trajectories": centers in the plane, from a ring at the highest temperature to a
            cross at the lowest, over the rows. "bifurcation": their first coordinate against
            sigma. "error": the largest distance of a center to its reference against sigma, on
            logarithmic axes, with a slope that is fitted to the errors above rounding that are
            below a tenth of the largest.
        name : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw on. None makes a figure.
        **kwargs : dict
            Passed to the `plot` method of the axes.

        Returns
        -------
        display : CollapsePathDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `kind` is none of these, or needs two features where there is one.
        ImportError
            If matplotlib is not installed.
        """
        kinds = {
            "trajectories": self._plot_trajectories,
            "bifurcation": self._plot_bifurcation,
            "error": self._plot_error,
        }
        if kind not in kinds:
            raise ValueError(f"kind must be one of {list(kinds)}, got {kind!r}.")
        if kind == "trajectories" and self.centers.shape[2] == 1:
            raise ValueError(
                'kind="trajectories" needs two features, got one. Take kind="bifurcation".'
            )
        self.ax_ = axes_for(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        self.lines_ = kinds[kind](self.ax_, name, kwargs)
        if name is not None or kind != "bifurcation":
            self.ax_.legend()
        return self

    def _plot_trajectories(self, ax, name, kwargs):
        if self.points is not None:
            ax.scatter(*self.points.T, s=8, color="0.75", linewidths=0)
        lines = []
        for j in range(self.centers.shape[1]):
            track = self.centers[:, j]
            options = {"color": color(j), "linewidth": 1.8, "label": None, **kwargs}
            lines += ax.plot(*track.T, **options)
            drawn = lines[-1].get_color()
            ax.plot(*track[0], "o", color=drawn, markersize=9, fillstyle="none")
            ax.plot(*track[-1], "X", color=drawn, markersize=10, markeredgecolor="black")
        label = "" if name is None else f"{name}, "
        ends = [("o", "none", f"{label}sigma = {self.sigmas[0]:.3g}"),
                ("X", "full", f"sigma = {self.sigmas[-1]:.3g}")]  # fmt: skip
        for shape, fill, text in ends:  # for the legend
            ax.plot([], [], shape, color="0.3", fillstyle=fill, label=text)
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_xlabel(self._axis_name(0))
        ax.set_ylabel(self._axis_name(1))
        return lines

    def _plot_bifurcation(self, ax, name, kwargs):
        positive = self.sigmas > 0
        lines = []
        for j in range(self.centers.shape[1]):
            options = {"color": color(j), "linewidth": 1.8, **kwargs}
            label = name if j == 0 else None
            lines += ax.plot(
                self.sigmas[positive], self.centers[positive, j, 0], label=label, **options
            )
        ax.set_xscale("log")
        ax.set_xlabel("sigma")
        ax.set_ylabel(f"centers: {self._axis_name(0)}")
        return lines

    def _plot_error(self, ax, name, kwargs):
        drawn = (self.sigmas > 0) & (self.errors > 0)
        self.slope_ = self._slope()
        label = "errors" if name is None else name
        if np.isfinite(self.slope_):
            label = f"{label}, slope {self.slope_:.2g}"
        options = {"marker": ".", "color": color(len(ax.lines)), "label": label, **kwargs}
        lines = ax.plot(self.sigmas[drawn], self.errors[drawn], **options)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("sigma")
        ax.set_ylabel("distance to the reference centers")
        return lines

    def _slope(self):
        spread = np.ptp(self.centers[-1], axis=0).max()
        used = (self.sigmas > 0) & (self.errors > _ROUNDING * spread)
        used &= self.errors <= _SMALL * self.errors.max()
        if used.sum() < 2:
            return np.nan
        return float(np.polyfit(np.log(self.sigmas[used]), np.log(self.errors[used]), 1)[0])

    def _axis_name(self, axis):
        return f"axis {axis}" if self.axis_names is None else self.axis_names[axis]


def _check_rows(X, n_features):
    X = check_array(X, accept_sparse="csr", dtype=np.float64, input_name="X")
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but the centers of the path have {n_features}. Pass the "
            "X that the path was computed of."
        )
    return X


def axes_of_picture(rows, names):
    """A function from rows to their coordinates in the picture, and the names of these."""
    n_features = rows.shape[1]
    if n_features <= 2:
        default = [f"feature {axis}" for axis in range(n_features)]
        return _as_dense, names or default
    from sklearn.decomposition import PCA  # slow to import

    solver = "arpack" if issparse(rows) else "auto"  # the one for sparse rows
    if not issparse(rows) and len(rows) == 1:  # too few for two components
        rows = np.repeat(rows, 2, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # shares of the variance, where it is 0
        components = PCA(2, svd_solver=solver, random_state=0).fit(rows)
    return components.transform, ["first principal component", "second principal component"]


def _as_dense(rows):
    return rows.toarray() if issparse(rows) else rows


def _errors(centers, reference):
    """Largest distance of a center to its own reference, at each temperature."""
    coldest = centers[-1]
    if reference is None:
        reference = coldest
    else:
        reference = check_array(reference, dtype=np.float64, input_name="reference")
        if reference.shape != coldest.shape:
            raise ValueError(
                f"The shape of reference {reference.shape} does not match that of the centers of "
                f"the path at each temperature, {coldest.shape}."
            )
        reference = reference[linear_sum_assignment(cdist(coldest, reference))[1]]
    return np.linalg.norm(centers - reference, axis=2).max(axis=1)

"""Maps from scores to the probability simplex: softmax and the sparse entmax family."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from ._typing import Array

__all__ = ["entmax", "entmax15", "softmax", "sparsemax"]


def softmax(scores: ArrayLike, *, axis: int = -1) -> Array:
    """Exponentials of scores, normalised to sum to one.

    Parameters
    ----------
    scores : array-like of shape (..., n_clusters)
        Real numbers; -inf marks entries without mass. At least one entry of each slice along
        `axis` must be finite.
    axis : int, default=-1
        Axis along which the result sums to one.

    Returns
    -------
    responsibilities : ndarray of the shape of `scores`
        float32 if `scores` is, else float64.

    Raises
    ------
    ValueError
        If `scores` has NaN, +inf, or a slice of nothing but -inf.

    See Also
    --------
    entmax : The family to which softmax belongs as alpha = 1.

    Examples
    --------
    >>> from sklearn_softkmeans.projections import softmax
    >>> softmax([0.0, 0.0, 1.0]).round(3)
    array([0.212, 0.212, 0.576])
    """
    return _project(scores, 1.0, axis)


def sparsemax(scores: ArrayLike, *, axis: int = -1) -> Array:
    """Euclidean projection of scores on the simplex; small scores get exactly zero.

    Parameters
    ----------
    scores : array-like of shape (..., n_clusters)
        Real numbers; -inf marks entries without mass. At least one entry of each slice along
        `axis` must be finite.
    axis : int, default=-1
        Axis along which the result sums to one.

    Returns
    -------
    responsibilities : ndarray of the shape of `scores`
        float32 if `scores` is, else float64.

    Raises
    ------
    ValueError
        If `scores` has NaN, +inf, or a slice of nothing but -inf.

    See Also
    --------
    entmax : The family to which sparsemax belongs as alpha = 2.

    References
    ----------
    A. F. T. Martins and R. F. Astudillo, "From Softmax to Sparsemax: A Sparse Model of Attention
    and Multi-Label Classification", ICML 2016.

    Examples
    --------
    >>> from sklearn_softkmeans.projections import sparsemax
    >>> sparsemax([0.0, 0.5, 1.0])
    array([0.  , 0.25, 0.75])
    """
    return _project(scores, 2.0, axis)


def entmax15(scores: ArrayLike, *, axis: int = -1) -> Array:
    """Entmax of order 3/2, between softmax and sparsemax: sparse, and smooth at its edges.

    Parameters
    ----------
    scores : array-like of shape (..., n_clusters)
        Real numbers; -inf marks entries without mass. At least one entry of each slice along
        `axis` must be finite.
    axis : int, default=-1
        Axis along which the result sums to one.

    Returns
    -------
    responsibilities : ndarray of the shape of `scores`
        float32 if `scores` is, else float64.

    Raises
    ------
    ValueError
        If `scores` has NaN, +inf, or a slice of nothing but -inf.

    See Also
    --------
    entmax : The family to which this map belongs as alpha = 3/2.

    References
    ----------
    B. Peters, V. Niculae and A. F. T. Martins, "Sparse Sequence-to-Sequence Models", ACL 2019.

    Examples
    --------
    >>> from sklearn_softkmeans.projections import entmax15
    >>> entmax15([0.0, 0.0, 4.0])
    array([0., 0., 1.])
    """
    return _project(scores, 1.5, axis)


def entmax(scores: ArrayLike, alpha: float = 1.5, *, axis: int = -1) -> Array:
    r"""Entmax of any order: the p on the simplex that maximises <p, scores> - Omega(p).

    The regulariser is Tsallis' negative entropy
    :math:`\Omega_\alpha(p) = (\sum_j p_j^\alpha - 1) / (\alpha (\alpha - 1))`, and the solution
    :math:`p_j = [(\alpha - 1) z_j - \tau]_+^{1 / (\alpha - 1)}`.

    Parameters
    ----------
    scores : array-like of shape (..., n_clusters)
        Real numbers; -inf marks entries without mass. At least one entry of each slice along
        `axis` must be finite.
    alpha : float, default=1.5
        Order, at least 1. 1 is softmax, 2 is sparsemax; the larger, the sparser: the result is
        one-hot where the best score leads by 1 / (alpha - 1) or more.
    axis : int, default=-1
        Axis along which the result sums to one.

    Returns
    -------
    responsibilities : ndarray of the shape of `scores`
        float32 if `scores` is, else float64.

    Raises
    ------
    ValueError
        If `alpha` is not a finite number of at least 1, or if `scores` has NaN, +inf, or a slice
        of nothing but -inf.

    References
    ----------
    B. Peters, V. Niculae and A. F. T. Martins, "Sparse Sequence-to-Sequence Models", ACL 2019.

    M. Blondel, A. F. T. Martins and V. Niculae, "Learning with Fenchel-Young losses", Journal of
    Machine Learning Research 21, 2020.

    Examples
    --------
    >>> from sklearn_softkmeans.projections import entmax
    >>> entmax([0.0, 0.0, 1.0], alpha=1.1).round(4)
    array([0.1985, 0.1985, 0.6031])
    """
    if not isinstance(alpha, Real) or not 1.0 <= alpha < np.inf:
        raise ValueError(f"alpha must be a finite number of at least 1, got {alpha!r}.")
    return _project(scores, float(alpha), axis)


def _project(scores, alpha, axis):
    scores = _as_scores(scores)
    moved = np.moveaxis(scores, axis, -1)
    if scores.size == 0:
        return np.empty_like(scores)
    rows = np.ascontiguousarray(moved.reshape(-1, moved.shape[-1]))
    result = np.moveaxis(_map_rows(rows, alpha).reshape(moved.shape), -1, axis)
    return np.ascontiguousarray(result)


def _as_scores(scores):
    scores = np.asarray(scores)
    if scores.dtype.kind not in "biuf":
        raise ValueError(f"scores must be a dense array of real numbers, got {scores.dtype}.")
    if scores.dtype not in (np.float32, np.float64):
        scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 0:
        raise ValueError("scores must have at least one dimension, got a scalar.")
    return scores


def _map_rows(rows, alpha):
    from ._kernels.simplex import map_of, project_rows

    n_tasks = max(1, min(64, rows.size // 2**15))
    rows = rows.view()
    rows.flags.writeable = False  # as the caller's array may be: one type, compiled once
    responsibilities = np.empty_like(rows)
    faults = np.zeros((n_tasks, 2), dtype=np.intp)
    project_rows(n_tasks, map_of(alpha), rows, responsibilities, faults)
    not_numbers, empty = faults.sum(axis=0)
    if not_numbers:
        raise ValueError("scores must not have NaN or +inf.")
    if empty:
        raise ValueError("scores must have a finite entry in each slice along axis.")
    return responsibilities

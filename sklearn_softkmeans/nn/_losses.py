"""Free energy and weighted distortion: what K-means minimises, at a positive temperature."""

import torch

from ._distances import batch_first, relative_scores
from ._projections import check_alpha, entmax
from ._simplex import regulariser, regulariser_slope

_REDUCTIONS = {
    "mean": torch.mean,
    "sum": torch.sum,
    "none": lambda values: values,
}


class _Conjugate(torch.autograd.Function):
    """max_p <p, z> - Omega(p), attained at p = r. By the envelope theorem its gradient is r.

    r comes in with its graph, so that a second derivative finds the Jacobian of the map.
    """

    @staticmethod
    def forward(scores, responsibilities, alpha):
        products = torch.where(responsibilities > 0.0, responsibilities * scores, 0.0)
        return products.sum(-1) - regulariser(responsibilities, alpha, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, responsibilities, alpha = inputs
        learnable = (alpha,) if isinstance(alpha, torch.Tensor) else ()
        ctx.save_for_backward(responsibilities, *learnable)

    @staticmethod
    def backward(ctx, grad):
        responsibilities, *learnable = ctx.saved_tensors
        grad_alpha = None
        if ctx.needs_input_grad[2]:
            slope = regulariser_slope(responsibilities, learnable[0], -1)
            grad_alpha = -(grad * slope).sum_to_size(learnable[0].shape)
        return grad.unsqueeze(-1) * responsibilities, None, grad_alpha

    @staticmethod
    def vmap(info, in_dims, scores, responsibilities, alpha):
        if in_dims[2] is not None:
            raise NotImplementedError("free_energy cannot be batched over alpha.")
        batched = batch_first(info, in_dims[:2], scores, responsibilities)
        return _Conjugate.apply(*batched, alpha), 0


def row_free_energy(sq_distances, sigma, alpha, mask=None):
    """Free energy of each row, and its responsibilities."""
    nearest, scores = relative_scores(sq_distances, sigma, mask)
    responsibilities = entmax(scores, alpha)
    if isinstance(alpha, torch.Tensor):
        alpha = alpha.to(scores.dtype)
    value = _Conjugate.apply(scores, responsibilities, alpha)
    return nearest - 2.0 * sigma**2 * value, responsibilities


def row_weighted_distortion(sq_distances, sigma, alpha, mask=None):
    """Weighted distortion of each row, and its responsibilities."""
    _, scores = relative_scores(sq_distances, sigma, mask)
    responsibilities = entmax(scores, alpha)
    return (responsibilities * sq_distances).sum(-1), responsibilities


def reduce(values, reduction):
    """Mean, sum, or all values."""
    check_reduction(reduction)
    return _REDUCTIONS[reduction](values)


def check_reduction(reduction):
    """The name of a reduction, or an error."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {list(_REDUCTIONS)}, got {reduction!r}.")
    return reduction


# ------------------------------------------------------------------------------------ criteria


def free_energy(sq_distances, sigma, alpha=1.0, reduction="mean"):
    r"""Free energy of rows: their distortion less what the temperature grants for sharing.

    .. math:: F_i = \min_{p \in \Delta} \sum_j p_j d_{ij}^2 + 2 \sigma^2 \Omega_\alpha(p)

    The minimum is at the responsibilities. For softmax it is
    :math:`-2 \sigma^2 \log \sum_j \exp(-d_{ij}^2 / (2 \sigma^2))`. A step of gradient descent on
    the sum over all rows, with the rate 1 / (2 N_j) for a center of mass N_j, is the centroid
    update of K-means.

    Parameters
    ----------
    sq_distances : torch.Tensor of shape (..., n_clusters)
        Squared distances of rows to centers.
    sigma : float or torch.Tensor
        Temperature as a length in the unit of the rows, above 0.
    alpha : float or torch.Tensor, default=1.0
        Order of the map, at least 1: see `entmax`.
    reduction : {"mean", "sum", "none"}, default="mean"
        What becomes of the rows.

    Returns
    -------
    objective : torch.Tensor
        A scalar, or of shape (...) with "none"; in the squared unit of the data.

    Raises
    ------
    ValueError
        If `alpha` or `reduction` is none of the above.

    See Also
    --------
    weighted_distortion : Lies above the distortion of K-means, where this lies below.

    Notes
    -----
    Never train sigma on this alone: F falls without bound as sigma grows. With the volume term of
    a Gaussian it is balanced: ``free_energy(...) / (2 * sigma**2) + n_features * log(sigma)`` is,
    for softmax and up to a constant, the negative log-likelihood of a mixture with equal weights.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import free_energy
    >>> free_energy(torch.tensor([[0.0, 1.0]]), sigma=1.0)
    tensor(-0.9482)
    """
    values, _ = row_free_energy(sq_distances, sigma, check_alpha(alpha))
    return reduce(values, reduction)


def weighted_distortion(sq_distances, sigma, alpha=1.0, reduction="mean"):
    r"""Squared distances weighted by responsibilities.

    .. math:: L_i = \sum_j r_{ij}(\sigma) d_{ij}^2

    The gradient is the full one: responsibilities depend on the distances. A centroid step does
    lower the free energy, not always this.

    Parameters
    ----------
    sq_distances : torch.Tensor of shape (..., n_clusters)
        Squared distances of rows to centers.
    sigma : float or torch.Tensor
        Temperature as a length in the unit of the rows, above 0.
    alpha : float or torch.Tensor, default=1.0
        Order of the map, at least 1: see `entmax`.
    reduction : {"mean", "sum", "none"}, default="mean"
        What becomes of the rows.

    Returns
    -------
    objective : torch.Tensor
        A scalar, or of shape (...) with "none"; in the squared unit of the data.

    Raises
    ------
    ValueError
        If `alpha` or `reduction` is none of the above.

    See Also
    --------
    free_energy : Lies below the distortion of K-means, where this lies above.

    Notes
    -----
    Never train sigma on this alone: L falls with sigma, down to the distortion of K-means, so that
    sigma shrinks to 0. `free_energy` says what balances.

    References
    ----------
    M. Moradi Fard, T. Thonet and E. Gaussier, "Deep k-Means: Jointly Clustering with k-Means and
    Learning Representations", Pattern Recognition Letters 138, 2020.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import weighted_distortion
    >>> weighted_distortion(torch.tensor([[0.0, 1.0]]), sigma=1.0)
    tensor(0.3775)
    """
    values, _ = row_weighted_distortion(sq_distances, sigma, check_alpha(alpha))
    return reduce(values, reduction)


class _Criterion(torch.nn.Module):
    """Base of the criteria; a subclass has `_function`."""

    def __init__(self, alpha=1.0, reduction="mean"):
        super().__init__()
        self.alpha = check_alpha(alpha)
        self.reduction = check_reduction(reduction)

    def forward(self, sq_distances, sigma):
        """Loss of rows.

        Parameters
        ----------
        sq_distances : torch.Tensor of shape (..., n_clusters)
            Squared distances of rows to centers.
        sigma : float or torch.Tensor
            Temperature as a length in the unit of the rows, above 0.

        Returns
        -------
        objective : torch.Tensor
            A scalar, or of shape (...) if nothing is reduced.
        """
        return self._function(sq_distances, sigma, self.alpha, self.reduction)


class FreeEnergyLoss(_Criterion):
    """Module of `free_energy`.

    Parameters
    ----------
    alpha : float, default=1.0
        Order of the map, at least 1.
    reduction : {"mean", "sum", "none"}, default="mean"
        What becomes of the rows.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Never train sigma on this loss alone, see `free_energy`.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import FreeEnergyLoss, SoftKMeansLayer
    >>> layer = SoftKMeansLayer(3, 2, sigma=1.0)
    >>> FreeEnergyLoss()(layer.distances(torch.zeros(5, 2)), layer.sigma).shape
    torch.Size([])
    """

    _function = staticmethod(free_energy)


class WeightedDistortionLoss(_Criterion):
    """Module of `weighted_distortion`.

    Parameters
    ----------
    alpha : float, default=1.0
        Order of the map, at least 1.
    reduction : {"mean", "sum", "none"}, default="mean"
        What becomes of the rows.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Never train sigma on this loss alone, see `weighted_distortion`.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import SoftKMeansLayer, WeightedDistortionLoss
    >>> layer = SoftKMeansLayer(3, 2, sigma=1.0)
    >>> WeightedDistortionLoss()(layer.distances(torch.zeros(5, 2)), layer.sigma).shape
    torch.Size([])
    """

    _function = staticmethod(weighted_distortion)

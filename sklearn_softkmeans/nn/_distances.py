"""Squared distances with gradients, and the scores that are made of them."""

import math

import torch


class _SqDistances(torch.autograd.Function):
    """Sums of squared differences, never the expanded form: it cancels far from the origin.

    The gradient is in closed form, since that of a root would be infinite for a row on a center.
    """

    @staticmethod
    def forward(X, centers):
        return torch.cdist(X, centers, compute_mode="donot_use_mm_for_euclid_dist").square_()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        X, centers = ctx.saved_tensors
        origin = centers.detach().mean(-2, keepdim=True)  # any point serves; near ones round less
        X, centers = X - origin, centers - origin
        of_rows, of_centers = grad.sum(-1).unsqueeze(-1), grad.sum(-2).unsqueeze(-1)
        grad_X = 2.0 * (of_rows * X - grad @ centers)
        return grad_X, 2.0 * (of_centers * centers - grad.mT @ X)

    @staticmethod
    def vmap(info, in_dims, X, centers):
        return _SqDistances.apply(*batch_first(info, in_dims, X, centers)), 0


def batch_first(info, in_dims, *tensors):
    """Tensors of a `vmap` rule with the batch as their first dimension."""
    return [
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, in_dims, strict=True)
    ]


def sq_distances(X, centers):
    """Squared Euclidean distances of rows to centers, exact to rounding far from the origin.

    They are sums of squared differences in float64, so that no offset of the data costs a digit,
    and no root is taken: gradients are finite, and zero, for a row on a center.

    Parameters
    ----------
    X : torch.Tensor of shape (..., n_features)
        Rows, of any floating type.
    centers : torch.Tensor of shape (n_clusters, n_features)
        Centers.

    Returns
    -------
    sq_distances : torch.Tensor of shape (..., n_clusters)
        In float64, whatever the input; in float32 on devices without float64.

    Raises
    ------
    ValueError
        If X and the centers differ in their number of features.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import sq_distances
    >>> sq_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[25.,  0.]], dtype=torch.float64)
    """
    if X.ndim == 0 or X.shape[-1] != centers.shape[-1]:
        raise ValueError(
            f"X must have n_features={centers.shape[-1]} in its last dimension, as the centers "
            f"do, got shape {tuple(X.shape)}."
        )
    wide = torch.float32 if X.device.type == "mps" else torch.float64
    with torch.autocast(X.device.type, enabled=False):
        rows = X.reshape(-1, X.shape[-1]).to(wide)
        return _SqDistances.apply(rows, centers.to(wide)).reshape(*X.shape[:-1], len(centers))


def relative_scores(sq_distances, sigma, mask=None):
    """Smallest squared distance of each row, and the scores less that of the nearest center.

    Relative to the best, scores survive rounding to lower precision where it matters. Nothing is
    propagated through the smallest distance: no map depends on a shift.
    """
    sq_distances = sq_distances.to(at_least_single(sq_distances.dtype))
    counted = sq_distances.detach()
    if mask is not None:
        counted = counted.masked_fill(~mask, math.inf)
    nearest = counted.amin(-1, keepdim=True)
    nearest = torch.where(nearest == math.inf, 0.0, nearest)  # a row without any center
    scores = (nearest - sq_distances) / (2.0 * sigma**2)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return nearest.squeeze(-1), scores


def at_least_single(dtype):
    """The type itself, but float32 in place of half precision."""
    return torch.float64 if dtype == torch.float64 else torch.float32

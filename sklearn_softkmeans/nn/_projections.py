"""Maps from scores to the probability simplex, with gradients, as functions."""

import math
from numbers import Real

import torch

from ._simplex import any_of, jacobian_product, project, slope_in_alpha

# --------------------------------------------------------------------------- autograd.Function


class EntmaxFunction(torch.autograd.Function):
    """Entmax as an operation of autograd: ``EntmaxFunction.apply(scores, alpha, dim)``.

    The backward pass is the closed form of the Jacobian, in differentiable operations.
    """

    @staticmethod
    def forward(scores, alpha, dim):
        """Entmax of float32 or float64 scores, for alpha above 1."""
        return project(scores, alpha, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep the result, which is all that derivatives need."""
        _, alpha, ctx.dim = inputs
        ctx.fixed_alpha = None if isinstance(alpha, torch.Tensor) else alpha
        saved = (output,) if ctx.fixed_alpha is not None else (output, alpha)
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)

    @staticmethod
    def backward(ctx, grad):
        """Gradients with respect to scores and, if it is a tensor, alpha."""
        responsibilities, alpha = _saved(ctx)
        grad_alpha = None
        if ctx.needs_input_grad[1]:
            slope = slope_in_alpha(responsibilities, alpha, ctx.dim)
            grad_alpha = (grad * slope).sum_to_size(alpha.shape)
        return jacobian_product(responsibilities, grad, alpha, ctx.dim), grad_alpha, None

    @staticmethod
    def vmap(info, in_dims, scores, alpha, dim):
        """Batches of slices are slices: nothing but the position of the dimension changes."""
        scores_dim, alpha_dim, _ = in_dims
        if scores_dim is not None:
            scores = scores.movedim(scores_dim, 0)
        else:
            scores = scores.expand(info.batch_size, *scores.shape)
        if alpha_dim is not None:
            alpha = alpha.movedim(alpha_dim, 0)
            alpha = alpha.reshape(len(alpha), *[1] * (scores.ndim - alpha.ndim), *alpha.shape[1:])
        return _apply(scores, alpha, dim), 0


class _WithForwardMode(EntmaxFunction):
    """The same with forward-mode derivatives, which torch.compile does not admit."""

    @staticmethod
    def jvp(ctx, scores, alpha, dim):
        """Directional derivative."""
        responsibilities, fixed = _saved(ctx)
        result = jacobian_product(responsibilities, scores, fixed, ctx.dim)
        if alpha is not None:
            result = result + alpha * slope_in_alpha(responsibilities, fixed, ctx.dim)
        return result


def _saved(ctx):
    responsibilities, *learnable = ctx.saved_tensors
    return responsibilities, learnable[0] if learnable else ctx.fixed_alpha


def _apply(scores, alpha, dim):
    function = EntmaxFunction if torch.compiler.is_compiling() else _WithForwardMode
    return function.apply(scores, alpha, dim)


# ----------------------------------------------------------------------------------- functions


def softmax(scores, dim=-1):
    """Exponentials of scores, normalised to sum to one: torch.softmax, but for masked slices.

    Parameters
    ----------
    scores : torch.Tensor
        Floating point numbers; -inf marks entries without mass.
    dim : int, default=-1
        Dimension along which the result sums to one.

    Returns
    -------
    responsibilities : torch.Tensor of the shape and dtype of `scores`
        Half precision is computed in float32. A slice of nothing but -inf becomes zeros.

    Raises
    ------
    TypeError
        If `scores` is not a tensor of floating point numbers.
    IndexError
        If `dim` is out of range.

    See Also
    --------
    entmax : The family to which softmax belongs as alpha = 1.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import softmax
    >>> softmax(torch.tensor([0.0, 0.0, 1.0]))
    tensor([0.2119, 0.2119, 0.5761])
    """
    return entmax(scores, 1.0, dim)


def sparsemax(scores, dim=-1):
    """Euclidean projection of scores on the simplex; small scores get exactly zero.

    Parameters
    ----------
    scores : torch.Tensor
        Floating point numbers; -inf marks entries without mass.
    dim : int, default=-1
        Dimension along which the result sums to one.

    Returns
    -------
    responsibilities : torch.Tensor of the shape and dtype of `scores`
        Half precision is computed in float32. A slice of nothing but -inf becomes zeros.

    Raises
    ------
    TypeError
        If `scores` is not a tensor of floating point numbers.
    IndexError
        If `dim` is out of range.

    See Also
    --------
    entmax : The family to which sparsemax belongs as alpha = 2.

    References
    ----------
    A. F. T. Martins and R. F. Astudillo, "From Softmax to Sparsemax: A Sparse Model of Attention
    and Multi-Label Classification", ICML 2016.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import sparsemax
    >>> sparsemax(torch.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.2500, 0.7500])
    """
    return entmax(scores, 2.0, dim)


def entmax15(scores, dim=-1):
    """Entmax of order 3/2, between softmax and sparsemax: sparse, and smooth at its edges.

    Parameters
    ----------
    scores : torch.Tensor
        Floating point numbers; -inf marks entries without mass.
    dim : int, default=-1
        Dimension along which the result sums to one.

    Returns
    -------
    responsibilities : torch.Tensor of the shape and dtype of `scores`
        Half precision is computed in float32. A slice of nothing but -inf becomes zeros.

    Raises
    ------
    TypeError
        If `scores` is not a tensor of floating point numbers.
    IndexError
        If `dim` is out of range.

    See Also
    --------
    entmax : The family to which this map belongs as alpha = 3/2.

    References
    ----------
    B. Peters, V. Niculae and A. F. T. Martins, "Sparse Sequence-to-Sequence Models", ACL 2019.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import entmax15
    >>> entmax15(torch.tensor([0.0, 0.0, 4.0]))
    tensor([0., 0., 1.])
    """
    return entmax(scores, 1.5, dim)


def entmax(scores, alpha=1.5, dim=-1):
    r"""Entmax of any order: the p on the simplex that maximises <p, scores> - Omega(p).

    The regulariser is Tsallis' negative entropy
    :math:`\Omega_\alpha(p) = (\sum_j p_j^\alpha - 1) / (\alpha (\alpha - 1))`. The Jacobian is
    :math:`\mathrm{diag}(s) - s s^T / \sum_j s_j` with :math:`s_j = p_j^{2 - \alpha}` on the
    support; it can be differentiated again, and batched by `torch.vmap`.

    Parameters
    ----------
    scores : torch.Tensor
        Floating point numbers; -inf marks entries without mass. A slice with NaN or +inf becomes
        NaN, and leaves the others alone.
    alpha : float or torch.Tensor, default=1.5
        Order. A float of at least 1: 1 is softmax, 2 is sparsemax; the larger, the sparser. Or a
        tensor of values above 1 and up to 2 that broadcasts against `scores`, of size 1 along
        `dim`: it gets a gradient.
    dim : int, default=-1
        Dimension along which the result sums to one.

    Returns
    -------
    responsibilities : torch.Tensor of the shape and dtype of `scores`
        Half precision is computed in float32. A slice of nothing but -inf becomes zeros, with
        zeros for a gradient.

    Raises
    ------
    ValueError
        If `alpha` is out of its range. Values of a tensor on the CPU are checked, outside of
        compiled graphs and of `torch.vmap`.
    TypeError
        If `scores` is not a tensor of floating point numbers.
    IndexError
        If `dim` is out of range.

    References
    ----------
    B. Peters, V. Niculae and A. F. T. Martins, "Sparse Sequence-to-Sequence Models", ACL 2019.

    G. M. Correia, V. Niculae and A. F. T. Martins, "Adaptively Sparse Transformers", EMNLP 2019.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import entmax
    >>> entmax(torch.tensor([0.0, 0.0, 1.0]), alpha=1.1)
    tensor([0.1985, 0.1985, 0.6031])
    """
    wide, dim = _prepare(scores, dim)
    alpha = check_alpha(alpha)
    if not isinstance(alpha, torch.Tensor):
        result = _softmax(wide, dim) if alpha == 1.0 else _apply(wide, alpha, dim)
        return result.to(scores.dtype)
    if alpha.ndim > wide.ndim or (alpha.ndim >= -dim and alpha.shape[dim] != 1):
        raise ValueError(
            f"alpha of shape {tuple(alpha.shape)} does not broadcast against scores of shape "
            f"{tuple(scores.shape)} with size 1 along dim={dim}."
        )
    return _apply(wide, alpha.to(wide.dtype), dim).to(scores.dtype)


def _prepare(scores, dim):
    """Scores in float32 or float64, and the dimension counted from the last."""
    if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
        kind = scores.dtype if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise TypeError(f"scores must be a tensor of floating point numbers, got {kind}.")
    if not -scores.ndim <= dim < scores.ndim:
        raise IndexError(f"dim={dim} is out of range for scores of {scores.ndim} dimensions.")
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide, dim - scores.ndim if dim >= 0 else dim


def check_alpha(alpha):
    """A float of at least 1, or a tensor of which no value is known to lie outside (1, 2]."""
    if isinstance(alpha, torch.Tensor):
        if any_of(~((alpha > 1.0) & (alpha <= 2.0)), unknown=False):
            raise ValueError("A tensor alpha must have values above 1 and up to 2.")
        return alpha
    return check_float_alpha(alpha)


def check_float_alpha(alpha):
    """A float of at least 1."""
    if not isinstance(alpha, Real) or not 1.0 <= alpha < math.inf:
        raise ValueError(f"alpha must be a finite number of at least 1, got {alpha!r}.")
    return float(alpha)


def _softmax(scores, dim):
    responsibilities = torch.softmax(scores, dim)
    if scores.numel() == 0:
        return responsibilities
    # One entry of a slice is NaN where all are: the others need no look.
    first = responsibilities.detach().select(dim, 0)
    if not any_of(first.isnan(), unknown=True):
        return responsibilities
    empty = (scores == -math.inf).all(dim, keepdim=True)
    return torch.softmax(scores.masked_fill(empty, 0.0), dim).masked_fill(empty, 0.0)

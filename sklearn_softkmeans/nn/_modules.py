"""Maps from scores to the probability simplex, as modules."""

import math

import torch

from ._projections import check_float_alpha, entmax, entmax15, softmax, sparsemax

# A learnable alpha stays this far inside (1, 2).
_MARGIN = 1e-3


class _Map(torch.nn.Module):
    """Base of the maps without parameters; a subclass has `_function`."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, scores):
        """Map scores to the simplex.

        Parameters
        ----------
        scores : torch.Tensor
            Floating point numbers; -inf marks entries without mass.

        Returns
        -------
        responsibilities : torch.Tensor of the shape and dtype of `scores`
            Sum to one along `dim`.
        """
        return self._function(scores, self.dim)

    def extra_repr(self):
        """Parameters, for the representation as text.

        Returns
        -------
        text : str
            What stands between the parentheses.
        """
        return f"dim={self.dim}"


class Softmax(_Map):
    """Module of `softmax`.

    Parameters
    ----------
    dim : int, default=-1
        Dimension along which the result sums to one.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import Softmax
    >>> Softmax()(torch.tensor([0.0, 0.0, 1.0]))
    tensor([0.2119, 0.2119, 0.5761])
    """

    _function = staticmethod(softmax)


class Sparsemax(_Map):
    """Module of `sparsemax`.

    Parameters
    ----------
    dim : int, default=-1
        Dimension along which the result sums to one.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import Sparsemax
    >>> Sparsemax()(torch.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.2500, 0.7500])
    """

    _function = staticmethod(sparsemax)


class Entmax15(_Map):
    """Module of `entmax15`.

    Parameters
    ----------
    dim : int, default=-1
        Dimension along which the result sums to one.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import Entmax15
    >>> Entmax15()(torch.tensor([0.0, 0.0, 4.0]))
    tensor([0., 0., 1.])
    """

    _function = staticmethod(entmax15)


class Entmax(torch.nn.Module):
    """Module of `entmax`, whose order may be learned.

    Parameters
    ----------
    alpha : float, default=1.5
        Order, at least 1; where it is learned, its start in (1.001, 1.999).
    dim : int, default=-1
        Dimension along which the result sums to one.
    learn_alpha : bool, default=False
        Make the order a parameter. It is a sigmoid of a free number, so that it stays between 1.001
        and 1.999 whatever an optimiser does.

    Attributes
    ----------
    raw_alpha : torch.nn.Parameter
        The free number, if `learn_alpha`.

    Raises
    ------
    ValueError
        If `alpha` is out of its range.

    References
    ----------
    G. M. Correia, V. Niculae and A. F. T. Martins, "Adaptively Sparse Transformers", EMNLP 2019.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans.nn import Entmax
    >>> Entmax(alpha=2.0)(torch.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.2500, 0.7500])
    """

    def __init__(self, alpha=1.5, dim=-1, *, learn_alpha=False):
        super().__init__()
        self.dim = dim
        self.fixed_alpha = None if learn_alpha else check_float_alpha(alpha)
        if learn_alpha:
            self.raw_alpha = torch.nn.Parameter(torch.tensor(_raw_alpha(alpha)))

    @property
    def alpha(self):
        """The order: a float, or a tensor with gradient if it is learned."""
        if self.fixed_alpha is not None:
            return self.fixed_alpha
        return 1.0 + _MARGIN + (1.0 - 2.0 * _MARGIN) * self.raw_alpha.sigmoid()

    def forward(self, scores):
        """Map scores to the simplex.

        Parameters
        ----------
        scores : torch.Tensor
            Floating point numbers; -inf marks entries without mass.

        Returns
        -------
        responsibilities : torch.Tensor of the shape and dtype of `scores`
            Sum to one along `dim`.
        """
        return entmax(scores, self.alpha, self.dim)

    def extra_repr(self):
        """Parameters, for the representation as text.

        Returns
        -------
        text : str
            What stands between the parentheses.
        """
        alpha = self.alpha if self.fixed_alpha is not None else self.alpha.detach()
        return f"alpha={float(alpha):.4g}, dim={self.dim}"


def _raw_alpha(alpha):
    """The number whose sigmoid gives `alpha`."""
    share = (check_float_alpha(alpha) - 1.0 - _MARGIN) / (1.0 - 2.0 * _MARGIN)
    if not 0.0 < share < 1.0:
        raise ValueError(
            f"A learned alpha must start between {1 + _MARGIN} and {2 - _MARGIN}, got {alpha}."
        )
    return math.log(share / (1.0 - share))

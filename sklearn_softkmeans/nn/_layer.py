"""Soft K-means as a layer."""

import math
import warnings
from numbers import Integral, Real

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._base import BaseSoftKMeans
from .._entmax_kmeans import EntmaxKMeans
from .._soft_kmeans import SoftKMeans
from ._distances import at_least_single, relative_scores, sq_distances
from ._losses import reduce, row_free_energy, row_weighted_distortion
from ._modules import Entmax

# Share of the rows below which a cluster is reported.
_SMALL_SHARE = 0.01


class SoftKMeansLayer(torch.nn.Module):
    r"""Responsibilities of clusters for rows: a layer whose weights are the centers.

    Scores are :math:`-d_j^2 / (2 \sigma^2)`, with d_j the distance to center j, and
    responsibilities their softmax, or entmax of order `alpha`. Distances are sums of squared
    differences in float64: for the same centers the layer gives what `SoftKMeans` and
    `EntmaxKMeans` give.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, at least 1.
    n_features : int
        Number of features, at least 1.
    sigma : float
        Temperature as a length in the unit of X, above 0.
    alpha : float, default=1.0
        Order of the map, at least 1: 1 is softmax, 1.5 entmax-1.5, 2 sparsemax.
    learn_sigma : bool, default=False
        Make sigma a parameter, by its logarithm. Not on the free energy or the weighted distortion
        alone: sigma grows without bound on the former and shrinks to 0 on the latter. The notes of
        `free_energy` say what balances.
    learn_alpha : bool, default=False
        Make alpha a parameter, between 1.001 and 1.999.
    schedule : callable, default=None
        Gives sigma for a step, for `anneal`: `GeometricSchedule`, `LinearSchedule` or any function.
    track_mass : bool, default=True
        In training mode, add up the responsibilities in `cluster_mass`. Inside `torch.vmap` it must
        be off, or the layer in evaluation mode.
    device : torch.device, default=None
        Where the centers live.
    dtype : torch.dtype, default=None
        Type of the centers.

    Attributes
    ----------
    centers : torch.nn.Parameter of shape (n_clusters, n_features)
        Cluster centers. They start as standard normal numbers; `init_centers` and `from_estimator`
        start from data.
    cluster_mass : torch.Tensor of shape (n_clusters,)
        Sum of responsibilities since the last `end_epoch`, a buffer.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or `schedule` comes with `learn_sigma`.

    See Also
    --------
    DeepSoftKMeans : An estimator that trains this layer with an autoencoder.

    References
    ----------
    F. Félix Arredondo, A. Ucan-Puc and C. Astengo Noguez, "K-Means as a Radial Basis Function
    Network: a Variational and Gradient-based Equivalence", arXiv:2603.04625, 2026.

    Examples
    --------
    >>> import torch
    >>> from sklearn_softkmeans import SoftKMeans
    >>> from sklearn_softkmeans.nn import SoftKMeansLayer
    >>> estimator = SoftKMeans.from_centers([[-1.0], [1.0]], sigma=1.0)
    >>> layer = SoftKMeansLayer.from_estimator(estimator)
    >>> layer(torch.tensor([[0.0], [1.0]])).detach()
    tensor([[0.5000, 0.5000],
            [0.1192, 0.8808]])
    """

    def __init__(
        self,
        n_clusters,
        n_features,
        *,
        sigma,
        alpha=1.0,
        learn_sigma=False,
        learn_alpha=False,
        schedule=None,
        track_mass=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        for name, size in (("n_clusters", n_clusters), ("n_features", n_features)):
            if not isinstance(size, Integral) or size < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {size!r}.")
        if learn_sigma and schedule is not None:
            raise ValueError("sigma is either learned or scheduled: leave schedule out.")
        self.n_clusters, self.n_features = n_clusters, n_features
        self.schedule = schedule
        self.track_mass = track_mass
        self.map = Entmax(alpha, learn_alpha=learn_alpha).to(device)
        self.centers = torch.nn.Parameter(
            torch.randn(n_clusters, n_features, device=device, dtype=dtype)
        )
        wide = torch.float32 if self.centers.device.type == "mps" else torch.float64
        self.register_buffer("sigma_unit", torch.zeros((), device=device, dtype=wide))
        self.register_buffer("cluster_mass", torch.zeros(n_clusters, device=device, dtype=wide))
        if learn_sigma:
            self.log_sigma = torch.nn.Parameter(torch.zeros((), device=device))
        else:
            self.register_parameter("log_sigma", None)
        self.set_sigma(sigma)

    def extra_repr(self):
        """Parameters, for the representation as text.

        Returns
        -------
        text : str
            What stands between the parentheses.
        """
        return f"{self.n_clusters}, {self.n_features}, sigma={float(self.sigma.detach()):.4g}"

    # -------------------------------------------------------------------------- temperature

    @property
    def alpha(self):
        """Order of the map: a float, or a tensor if it is learned."""
        return self.map.alpha

    @property
    def sigma(self):
        """The temperature, a tensor without dimensions."""
        if self.log_sigma is None:
            return self.sigma_unit
        return self.sigma_unit * self.log_sigma.to(self.sigma_unit.dtype).exp()

    def set_sigma(self, sigma):
        """Set the temperature.

        Parameters
        ----------
        sigma : float
            Temperature as a length in the unit of X, above 0.

        Raises
        ------
        ValueError
            If sigma is not a positive finite number.
        """
        if not isinstance(sigma, Real) or not 0.0 < sigma < math.inf:
            raise ValueError(f"sigma must be a positive finite number, got {sigma!r}.")
        self.sigma_unit.fill_(float(sigma))
        if self.log_sigma is not None:
            torch.nn.init.zeros_(self.log_sigma)

    def anneal(self, step):
        """Set the temperature that the schedule has for a step.

        Parameters
        ----------
        step : int
            Argument of the schedule, at least 0.

        Returns
        -------
        sigma : float
            The new temperature.

        Raises
        ------
        ValueError
            If the layer has no schedule, or it gives no positive number.
        """
        if self.schedule is None:
            raise ValueError("anneal needs a schedule: give one to the layer.")
        sigma = self.schedule(step)
        self.set_sigma(sigma)
        return sigma

    # ------------------------------------------------------------------------------ results

    def forward(self, X, mask=None):
        """Responsibilities of the clusters.

        Parameters
        ----------
        X : torch.Tensor of shape (..., n_features)
            Rows.
        mask : torch.Tensor of bool that broadcasts to (..., n_clusters), default=None
            True where a row may belong to a cluster.

        Returns
        -------
        responsibilities : torch.Tensor of shape (..., n_clusters)
            Rows sum to one, in the precision of X. They are zeros where all clusters are masked.
        """
        _, scores = relative_scores(sq_distances(X, self.centers), self.sigma, mask)
        responsibilities = self.map(scores.to(at_least_single(X.dtype)))
        self._count(responsibilities)
        return responsibilities.to(X.dtype)

    def distances(self, X):
        """Squared distances of rows to the centers.

        Parameters
        ----------
        X : torch.Tensor of shape (..., n_features)
            Rows.

        Returns
        -------
        sq_distances : torch.Tensor of shape (..., n_clusters)
            In the precision of X, but at least float32.
        """
        return sq_distances(X, self.centers).to(at_least_single(X.dtype))

    def free_energy(self, X, mask=None, reduction="mean"):
        """Free energy of rows, see the function of that name.

        Parameters
        ----------
        X : torch.Tensor of shape (..., n_features)
            Rows.
        mask : torch.Tensor of bool that broadcasts to (..., n_clusters), default=None
            True where a row may belong to a cluster. A row without any has an energy of 0.
        reduction : {"mean", "sum", "none"}, default="mean"
            What becomes of the rows.

        Returns
        -------
        objective : torch.Tensor
            In the precision of X, but at least float32.
        """
        return self._objective(row_free_energy, X, mask, reduction)

    def weighted_distortion(self, X, mask=None, reduction="mean"):
        """Squared distances weighted by responsibilities, see the function of that name.

        Parameters
        ----------
        X : torch.Tensor of shape (..., n_features)
            Rows.
        mask : torch.Tensor of bool that broadcasts to (..., n_clusters), default=None
            True where a row may belong to a cluster. A row without any has a distortion of 0.
        reduction : {"mean", "sum", "none"}, default="mean"
            What becomes of the rows.

        Returns
        -------
        objective : torch.Tensor
            In the precision of X, but at least float32.
        """
        return self._objective(row_weighted_distortion, X, mask, reduction)

    def _objective(self, of_rows, X, mask, reduction):
        values, responsibilities = of_rows(
            sq_distances(X, self.centers), self.sigma, self.alpha, mask
        )
        self._count(responsibilities)
        return reduce(values, reduction).to(at_least_single(X.dtype))

    # ------------------------------------------------------------------------------- guards

    def _count(self, responsibilities):
        if self.training and self.track_mass:
            rows = responsibilities.detach().reshape(-1, self.n_clusters)
            self.cluster_mass.add_(rows.sum(0, dtype=self.cluster_mass.dtype))

    def end_epoch(self, X=None):
        """Masses of the clusters since the last call; warns of small ones, and moves dead ones.

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features), default=None
            Rows for centers that hold less than one row: each moves to the row that is farthest
            from all centers. Without it none moves.

        Returns
        -------
        cluster_mass : torch.Tensor of shape (n_clusters,)
            Sums of responsibilities; `cluster_mass` starts again from zero.

        Warns
        -----
        ConvergenceWarning
            If a cluster holds less than 1 % of the rows.
        """
        mass = self.cluster_mass.clone()
        self.cluster_mass.zero_()
        small = (mass < _SMALL_SHARE * mass.sum()).nonzero().flatten().tolist()
        if small:
            warnings.warn(
                f"Clusters {small} hold less than {_SMALL_SHARE:.0%} of the rows at sigma="
                f"{float(self.sigma.detach()):.4g}. Decrease sigma, ask for fewer clusters, or "
                "give end_epoch rows for those that are dead.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if X is not None and mass.sum() > 0.0:
            self.relocate(X, (mass < 1.0).nonzero().flatten().tolist())
        return mass

    @torch.no_grad()
    def relocate(self, X, clusters):
        """Move centers, one after the other, to the row that is farthest from all other centers.

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Rows.
        clusters : sequence of int
            Indices of the centers to move.
        """
        kept = [j for j in range(self.n_clusters) if j not in set(clusters)]
        for j in clusters:
            others = self.centers[kept] if kept else X.mean(0, keepdim=True)
            farthest = sq_distances(X, others).amin(-1).argmax()
            self.centers[j] = X[farthest].to(self.centers.dtype)
            kept.append(j)

    # -------------------------------------------------------------------------------- starts

    @torch.no_grad()
    def init_centers(self, batches, random_state=None):
        """Start from rows by k-means++: each is drawn by its squared distance to those before.

        Parameters
        ----------
        batches : torch.Tensor of shape (n_samples, n_features) or iterable of such batches
            Rows. It is read once for each center, as a DataLoader can be; of a tuple, as a
            TensorDataset gives, the first entry counts. The draws depend on the order of rows.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws. The global generator of torch is not used.

        Returns
        -------
        self : SoftKMeansLayer
            The layer, with new centers.

        Raises
        ------
        ValueError
            If `batches` can be read only once, or has no rows.

        References
        ----------
        D. Arthur and S. Vassilvitskii, "k-means++: The Advantages of Careful Seeding", SODA 2007.
        """
        if isinstance(batches, torch.Tensor):
            batches = [batches]
        elif iter(batches) is batches:
            raise ValueError("batches must be readable more than once: a list or a DataLoader.")
        random_state = check_random_state(random_state)
        for j in range(self.n_clusters):
            row = _draw_row(batches, self.centers[:j], random_state)
            self.centers[j] = row.to(self.centers.dtype)
        return self

    @classmethod
    def from_estimator(cls, estimator, **params):
        """Layer with the centers, sigma and alpha of a fitted estimator.

        Parameters
        ----------
        estimator : SoftKMeans or EntmaxKMeans
            Fitted, at a sigma above 0.
        **params : dict
            Other parameters of the layer.

        Returns
        -------
        layer : SoftKMeansLayer
            Has the numbers of the estimator, bit by bit.

        Raises
        ------
        TypeError
            If `estimator` is something else.
        ValueError
            If its sigma is 0, for which there is no gradient.
        """
        if not isinstance(estimator, BaseSoftKMeans):
            raise TypeError(
                f"estimator must be SoftKMeans or EntmaxKMeans, got {type(estimator).__name__}. "
                "SoftKMeans.from_centers makes one of any centers."
            )
        if estimator.sigma_ == 0.0:
            raise ValueError("The estimator has sigma=0. A layer needs a positive sigma.")
        centers = torch.from_numpy(estimator.cluster_centers_)
        params = {"dtype": centers.dtype, "alpha": getattr(estimator, "alpha", 1.0), **params}
        layer = cls(*centers.shape, sigma=estimator.sigma_, **params)
        with torch.no_grad():
            layer.centers.copy_(centers)
        return layer

    def to_estimator(self):
        """Fitted estimator with the centers, sigma and alpha of the layer.

        Returns
        -------
        estimator : SoftKMeans or EntmaxKMeans
            SoftKMeans if alpha is 1; its numbers are those of the layer, bit by bit.
        """
        centers = self.centers.detach().cpu()
        centers = centers.to(at_least_single(centers.dtype)).numpy()
        sigma = float(self.sigma.detach())
        alpha = self.alpha.item() if isinstance(self.alpha, torch.Tensor) else self.alpha
        if alpha == 1.0:
            return SoftKMeans.from_centers(centers, sigma=sigma)
        return EntmaxKMeans.from_centers(centers, sigma=sigma, alpha=alpha)


def _draw_row(batches, chosen, random_state):
    """A row, with a probability in proportion to its squared distance to the chosen ones.

    The winner of a race in which each row arrives after an exponential time of that rate: one pass,
    and no more than a batch in memory.
    """
    winner, earliest = None, math.inf
    for batch in batches:
        rows = batch[0] if isinstance(batch, (tuple, list)) else batch
        if len(rows) == 0:
            continue
        times = torch.from_numpy(random_state.exponential(size=len(rows))).to(rows.device)
        if len(chosen) > 0:
            times = times / sq_distances(rows, chosen).amin(-1)
        first = int(times.argmin())
        # Where all rows are on a center, some repeats.
        if winner is None or times[first] < earliest:
            winner, earliest = rows[first], float(times[first])
    if winner is None:
        raise ValueError("batches has no rows.")
    return winner

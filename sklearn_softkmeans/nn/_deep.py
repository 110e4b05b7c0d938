"""An autoencoder and soft K-means, trained together."""

import copy
import warnings
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._compat import Interval, fit_context
from .._entmax_kmeans import EntmaxKMeans
from .._soft_kmeans import SoftKMeans
from .._validation import FLOATS, check_enough_rows
from .._version import VersionedState
from ._layer import SoftKMeansLayer
from ._schedules import GeometricSchedule
from ._training import JointTraining, embed_rows, pretrain

_SMALL_SHARE = 0.01


class DeepSoftKMeans(
    VersionedState, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    r"""Soft K-means of what an encoder makes of the rows, trained together with the encoder.

    An autoencoder is trained to reconstruct the rows, K-means of the embedded rows gives the first
    centers, and then encoder and decoder are trained on

    .. math:: \frac{|x - \hat x|^2}{V} + w \; L(p, z),

    with V the total variance of X, w the `cluster_weight`, z the scores of an embedded row, and L
    the Fenchel-Young loss of the map (for softmax the Kullback-Leibler divergence), whose gradient
    in z are the responsibilities less their targets p.

    Before each epoch an E-step over *all* rows computes responsibilities, a centroid step moves the
    centers to the weighted means of the embedded rows, and the targets are the squares of the
    responsibilities, normalised: a row that leans to a cluster is drawn to it. Targets, centers and
    labels never come from a mini-batch.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, at least 1.
    encoder : sequence of int or torch.nn.Module, default=(256, 64, 10)
        Sizes of the layers after the input, the last of which is the embedding: linear layers with
        ReLU between them. Or a module from rows to embedded rows; a copy of it is trained.
    decoder : torch.nn.Module, default=None
        From embedded rows to rows; a copy is trained. It goes with an encoder that is a module.
        None mirrors the sizes of the encoder.
    cluster_weight : float, default=0.2
        Weight of the clustering term, at least 0.
    sigma : float, default=0.3
        Temperature at the end, relative to the root mean square distance of embedded rows to their
        mean, above 0. So the scale of the embedding, which is free, does not matter; the loss
        measures it in each batch, and cannot fall by shrinking or growing the embedding.
    sigma_start : float, default=None
        Temperature at the start, on the same scale, above 0. It goes to `sigma` geometrically over
        the first half of the epochs. None means `sigma`.
    alpha : float, default=1.0
        Order of the map, at least 1: 1 is softmax, 1.5 entmax-1.5.
    pretrain_epochs : int, default=50
        Epochs of the autoencoder alone, at least 0.
    max_epochs : int, default=60
        Largest number of epochs of joint training, at least 0.
    tol : float, default=0.001
        Training ends when no more than this share of the labels changed in an epoch, once
        `sigma_start` has gone to `sigma`. At least 0.
    batch_size : int, default=256
        Largest number of rows in a batch, at least 1.
    learning_rate : float, default=0.002
        Rate of Adam, above 0.
    device : str or torch.device, default=None
        Where to train and predict. None is the CPU.
    verbose : int, default=0
        Print a line for each epoch if not 0.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, batches and centers. The global generator of torch is left as it was.

    Attributes
    ----------
    encoder_ : torch.nn.Module
        Trained encoder, in the precision of X.
    decoder_ : torch.nn.Module
        Trained decoder.
    cluster_centers_ : ndarray of shape (n_clusters, n_embedded)
        Centers among the embedded rows.
    sigma_ : float
        Temperature as a length in the unit of the embedding.
    labels_ : ndarray of shape (n_samples,), int32
        Cluster with the largest responsibility for each row of X.
    cluster_mass_ : ndarray of shape (n_clusters,)
        Sum of the responsibilities of each cluster.
    n_iter_ : int
        Number of epochs of joint training.
    stop_reason_ : {"tol", "max_epochs"}
        Why training ended.
    history_ : list of dict
        For each joint epoch: "reconstruction" and "clustering", the means of both terms (without
        weight); "sigma", relative as the parameter; "label_change", a share of the rows; and
        "smallest_share", the mass of the smallest cluster over the number of rows.
    pretrain_history_ : list of float
        Mean reconstruction term of each epoch of pretraining.
    initial_labels_ : ndarray of shape (n_samples,), int32
        Labels of K-means on the pretrained embedding.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string column names.

    Warns
    -----
    ConvergenceWarning
        If a cluster holds less than 1 % of the rows in the end, or K-means of the pretrained
        embedding finds fewer than `n_clusters` distinct centers.

    See Also
    --------
    SoftKMeansLayer : The layer alone, for networks of your own.
    sklearn_softkmeans.SoftKMeans : Without a network.

    Notes
    -----
    Scale the rows so that their entries are of the order of one, as for any network. float32 rows
    are trained in float32, which is faster; others in float64.

    A center that holds less than one row moves to the row that is farthest from all centers.

    References
    ----------
    J. Xie, R. Girshick and A. Farhadi, "Unsupervised Deep Embedding for Clustering Analysis", ICML
    2016.

    M. Moradi Fard, T. Thonet and E. Gaussier, "Deep k-Means: Jointly Clustering with k-Means and
    Learning Representations", Pattern Recognition Letters 138, 2020.

    M. Blondel, A. F. T. Martins and V. Niculae, "Learning with Fenchel-Young losses", Journal of
    Machine Learning Research 21, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_softkmeans.nn import DeepSoftKMeans
    >>> X = np.repeat([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]], 20, axis=0)
    >>> X += np.random.RandomState(0).normal(scale=0.1, size=X.shape)
    >>> deep = DeepSoftKMeans(2, encoder=(8, 2), max_epochs=5, random_state=0).fit(X)
    >>> bool((deep.labels_[:20] == deep.labels_[0]).all()), len(set(deep.labels_.tolist()))
    (True, 2)
    """

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "encoder": ["array-like", torch.nn.Module],
        "decoder": [torch.nn.Module, None],
        "cluster_weight": [Interval(Real, 0, None, closed="left")],
        "sigma": [Interval(Real, 0, None, closed="neither")],
        "sigma_start": [Interval(Real, 0, None, closed="neither"), None],
        "alpha": [Interval(Real, 1, None, closed="left")],
        "pretrain_epochs": [Interval(Integral, 0, None, closed="left")],
        "max_epochs": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "device": [str, torch.device, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        encoder=(256, 64, 10),
        decoder=None,
        cluster_weight=0.2,
        sigma=0.3,
        sigma_start=None,
        alpha=1.0,
        pretrain_epochs=50,
        max_epochs=60,
        tol=0.001,
        batch_size=256,
        learning_rate=0.002,
        device=None,
        verbose=0,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.decoder = decoder
        self.cluster_weight = cluster_weight
        self.sigma = sigma
        self.sigma_start = sigma_start
        self.alpha = alpha
        self.pretrain_epochs = pretrain_epochs
        self.max_epochs = max_epochs
        self.tol = tol
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    # ---------------------------------------------------------------------------------- fit

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Train the autoencoder, then autoencoder and clusters together.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster; float32 is kept, anything else becomes float64.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        X = validate_data(self, X, dtype=FLOATS)
        check_enough_rows(len(X), self.n_clusters)
        random_state = check_random_state(self.random_state)
        device = torch.device(self.device or "cpu")
        rows = torch.tensor(X, device=device)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(int(random_state.randint(2**31 - 1)))
            self._train(rows, random_state)
        self._warn()
        return self

    def _train(self, rows, random_state):
        encoder, decoder = self._networks(rows.shape[1])
        networks = torch.nn.ModuleList([encoder, decoder]).to(rows)
        optimizer = torch.optim.Adam(networks.parameters(), lr=self.learning_rate)
        self.pretrain_history_ = pretrain(
            networks, optimizer, rows, self.batch_size, self.pretrain_epochs
        )
        self.encoder_, self.decoder_ = networks
        embedded = self._embed(rows).cpu().numpy()
        start = SoftKMeans(self.n_clusters, sigma=0.0, n_init=10, random_state=random_state)
        start.fit(embedded)
        self.initial_labels_ = start.labels_
        layer = SoftKMeansLayer(
            *start.cluster_centers_.shape,
            sigma=self.sigma,
            alpha=self.alpha,
            device=rows.device,
            dtype=torch.float64,
        )
        layer.centers.data = torch.tensor(start.cluster_centers_).to(layer.centers)
        self._train_jointly(JointTraining(networks, optimizer, layer, rows, self.batch_size))

    def _train_jointly(self, training):
        """Epochs until few labels change; then the attributes of the final state."""
        self.history_ = []
        self.stop_reason_ = "max_epochs"
        for epoch in range(self.max_epochs):
            sigma = self._sigma_at(epoch)
            change = training.full_step(sigma)
            if epoch > 0 and change <= self.tol and sigma == self.sigma:
                self.stop_reason_ = "tol"
                break
            losses = training.network_steps(self.cluster_weight)
            self._report(epoch, sigma, change, training, losses)
        training.full_step(self.sigma)
        self.n_iter_ = len(self.history_)
        dtype = training.rows.cpu().numpy().dtype
        self.cluster_centers_ = training.layer.centers.detach().cpu().numpy().astype(dtype)
        self.sigma_ = float(training.layer.sigma)
        self.cluster_mass_ = training.responsibilities.sum(0).cpu().numpy()
        self.labels_ = self.predict(training.rows.cpu().numpy())

    def _sigma_at(self, epoch):
        start = self.sigma if self.sigma_start is None else self.sigma_start
        return GeometricSchedule(start, self.sigma, max(1, self.max_epochs // 2))(epoch)

    def _report(self, epoch, sigma, change, training, losses):
        record = {
            "reconstruction": losses[0],
            "clustering": losses[1],
            "sigma": sigma,
            "label_change": change,
            "smallest_share": float(training.responsibilities.mean(0).min()),
        }
        self.history_.append(record)
        if self.verbose:
            values = ", ".join(f"{name} {value:.4g}" for name, value in record.items())
            print(f"epoch {epoch}: {values}")

    def _networks(self, n_features):
        """Copies of the modules, or new ones of the sizes."""
        if isinstance(self.encoder, torch.nn.Module):
            if self.decoder is None:
                raise ValueError("An encoder that is a module needs a decoder that is one too.")
            return copy.deepcopy(self.encoder), copy.deepcopy(self.decoder)
        sizes = list(self.encoder)
        if not sizes or not all(isinstance(size, Integral) and size > 0 for size in sizes):
            raise ValueError(f"encoder must be positive sizes or a module, got {self.encoder!r}.")
        sizes = [n_features, *map(int, sizes)]
        decoder = _perceptron(sizes[::-1]) if self.decoder is None else copy.deepcopy(self.decoder)
        return _perceptron(sizes), decoder

    def _warn(self):
        small = np.flatnonzero(self.cluster_mass_ < _SMALL_SHARE * self.cluster_mass_.sum())
        if len(small):
            warnings.warn(
                f"Clusters {small.tolist()} hold less than {_SMALL_SHARE:.0%} of the rows. "
                "Decrease sigma or cluster_weight, or ask for fewer clusters.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # --------------------------------------------------------------------- what fitted ones do

    def embed(self, X):
        """Rows as the encoder sees them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        embedded : ndarray of shape (n_samples, n_embedded)
            Output of the encoder, in the precision of X.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        parameter = next(self.encoder_.parameters())
        return self._embed(torch.tensor(X).to(parameter)).cpu().numpy().astype(X.dtype)

    def _embed(self, rows):
        return embed_rows(self.encoder_, rows, self.batch_size)

    def predict(self, X):
        """Index of the cluster with the largest responsibility, the lowest among equals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to assign; they need not be those of the fit.

        Returns
        -------
        labels : ndarray of shape (n_samples,), int32
            Index of the cluster each row belongs to.
        """
        embedded = self.embed(X)
        return self._clusters().predict(embedded)

    def transform(self, X):
        """Responsibilities of the clusters for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to assign; they need not be those of the fit.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_clusters)
            Share of each cluster in each row, in the precision of X; rows sum to one.
        """
        embedded = self.embed(X)
        return self._clusters().transform(embedded)

    def predict_proba(self, X):
        """Responsibilities of the clusters for each row, the same as `transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to assign; they need not be those of the fit.

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_clusters)
            Share of each cluster in each row, in the precision of X; rows sum to one.
        """
        return self.transform(X)

    def _clusters(self):
        """The estimator that assigns embedded rows."""
        if self.alpha == 1:
            return SoftKMeans.from_centers(self.cluster_centers_, sigma=self.sigma_)
        return EntmaxKMeans.from_centers(self.cluster_centers_, sigma=self.sigma_, alpha=self.alpha)

    @property
    def _n_features_out(self):
        return len(self.cluster_centers_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _perceptron(sizes):
    """Linear layers with ReLU between them."""
    layers = []
    for n_in, n_out in pairwise(sizes):
        layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])

"""K-means with entmax responsibilities."""

from numbers import Real
from typing import Literal

from ._base import BaseSoftKMeans
from ._batch_fits import BatchMixin
from ._compat import Interval, output_container
from ._sparse_shares import sparse_responsibilities
from ._streams import StreamMixin
from ._typing import Init, Seed, Solver


class EntmaxKMeans(BatchMixin, StreamMixin, BaseSoftKMeans):
    r"""K-means with sparse responsibilities from the entmax family.

    Every row x belongs to cluster j with the responsibility

    .. math:: r_j = [(\alpha - 1) z_j - \tau]_+^{1 / (\alpha - 1)}, \quad
              z_j = -d_j^2 / (2 \sigma^2),

    with d_j its distance to center j and :math:`\tau` such that they sum to one. A cluster that is
    far enough gets exactly zero, and a row whose two smallest squared distances differ by
    ``2 * sigma**2 / (alpha - 1)`` or more belongs to one cluster alone. The centers minimise the
    free energy

    .. math:: F = \sum_i w_i \min_r \left(\sum_j r_j d_{ij}^2
              + 2 \sigma^2 \frac{\sum_j r_j^\alpha - 1}{\alpha (\alpha - 1)}\right),

    by alternating responsibilities and weighted means, which never raises F. Where all rows belong
    to one cluster the solution is one of K-means, exactly, at a positive `sigma`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, at least 1.
    alpha : float, default=1.5
        Order of the entmax family, at least 1: 1 is softmax (:class:`SoftKMeans`), 2 sparsemax. The
        larger, the sparser at the same `sigma`.
    sigma : float or "auto", default="auto"
        Temperature as a length, in the unit of X, at least 0. The scores that responsibilities are
        made of are ``-d**2 / (2 * sigma**2)``. 0 is exact K-means (Lloyd's algorithm): with
        ``tol=0`` on both sides the labels and centers of :class:`~sklearn.cluster.KMeans` from the
        same start. "auto" takes, after one step of K-means, the smallest of half the root of the
        lower tenth of the gaps between the two smallest squared distances of a row, a quarter of
        the root of the median gap in each cluster, and half the standard deviation of the first
        principal axis. So few rows are shared, and no centers merge. All runs use the value of
        the first.
    perplexity : float, default=None
        Instead of `sigma`: the number of clusters that a row of the fitted model belongs to, as the
        weighted mean over rows of exp(Shannon entropy of the responsibilities); above 1 and below
        `n_clusters`. `sigma` is solved for. Other than `sigma` it has no unit, and means the same
        for every map. Where centers merge the mean may jump; the fit then warns, and ends on the
        cold side.
    init : {"k-means++", "random", "annealing", "exchange"}, array-like of shape \
            (n_clusters, n_features) or callable, default="k-means++"
        Initial centers. "k-means++" is the greedy form that
        :class:`~sklearn.cluster.KMeans` uses; "random" takes different rows. Both draw by weight
        from the rows in an order that their content defines, so that weights equal repetition and
        the order of the rows does not matter. "annealing" cools from one center at the mean, splits
        centers as they become critical, beyond `n_clusters`, and takes away those of least use: no
        random numbers, and for about the price of a few runs seldom worse than the best of ten.
        "exchange" improves "k-means++" centers: it splits some where the error is large, and takes
        away as many of least use, while that lowers the inertia; half the price of "annealing".
        A callable gets ``(X, n_clusters, random_state=...)`` and returns an array.
    n_init : "auto" or int, default="auto"
        Number of runs from different initial centers, at least 1, of which the one with the lowest
        objective is kept. "auto" is 1 for "k-means++" and "exchange", and 10 for "random" or a
        callable; "annealing" and an array always mean one run.
    solver : {"auto", "em", "anderson", "lbfgs"}, default="auto"
        "em" alternates responsibilities and weighted means. "anderson" does the same, and
        extrapolates from the last steps once they converge steadily: fewer passes over X where
        convergence is slow, as near a critical `sigma`. An extrapolation that does not lower the
        objective by what a plain step guarantees is discarded. "lbfgs" minimises the objective by
        L-BFGS and ends with "anderson". "auto" is "anderson", and "em" where `sigma` is 0.
    max_iter : int, default=300
        Largest number of iterations of a run, at least 1. Each is one pass over X.
    tol : float, default=1e-4
        The iteration stops when the estimated distance of the centers to the fixed point, the
        Frobenius norm over all of them, is at most `tol` times the square root of the total
        (weighted) variance of X. At least 0; with 0 it ends when the centers only move by rounding
        errors.
    batch_size : int or None, default=None
        Rows of a batch, at least 1, for stochastic EM where passes over all rows take too long;
        None for full passes. Rows come in random order. Those up to ``max(3 * batch_size, 50 *
        n_clusters)`` are fitted first, by `init`, with "exchange" in place of "k-means++", `n_init`
        and `solver`, which determines `sigma_` as well, also for a `perplexity`. Each batch after
        them is a step of `partial_fit`. The steps end when the objective of batches, averaged over
        about 50 of them, has not fallen by `tol` times their inertia for 50 steps, or after
        `max_iter` epochs. Then labels, `inertia_`, `objective_` and `cluster_mass_` are found for
        all rows. Rows are drawn by weight: in an epoch as often as they are heavier than the mean
        row, and once each where weights are equal. Where there are no rows beyond the first ones,
        all are fitted by full passes, as with None.
    verbose : int, default=0
        Print a line for each iteration if not 0: sigma, objective, inertia, softness (how much of
        the inertia the objective is below it) and how far the centers moved. Callbacks of
        scikit-learn 1.9 (`set_callbacks`) are told of each iteration too, and may end the fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial centers.
    copy_x : bool, default=True
        Keep a centered copy of dense X during `fit`, which makes iterations faster; with 64
        clusters or more it may be two, in an order that lets iterations leave out far centers. With
        False rows are centered block by block in every iteration, without a second copy of a
        C-contiguous float X. X itself is never changed, and the result is the same to rounding,
        with fewer clusters bitwise.
    sparse_output : bool, default=False
        Return responsibilities as a CSR array, of which only the shares above zero are stored. It
        is made without a dense one, so that with many clusters it takes a fraction of the memory
        and the time. `set_output` to data frames is an error then.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Cluster centers, in the precision of X.
    labels_ : ndarray of shape (n_samples,), int32
        Cluster with the largest responsibility for each row of X.
    inertia_ : float
        Sum of the weighted squared distances of rows to their nearest center, as in K-means.
    objective_ : float
        Free energy at the final centers, in the squared unit of X.
    objective_path_ : ndarray of shape (n_iter_ + 1,)
        Free energy after each pass over X, the last value is `objective_`. It never increases;
        differences within rounding are recorded as equal, and a pass whose centers were discarded
        repeats the value before it. After steps over batches only the last value.
    sigma_ : float
        The temperature that was used.
    n_iter_ : int
        Number of iterations, which are passes over X, of the run that was kept; with batches the
        number of epochs that were begun.
    converged_ : bool
        Whether the run ended at a fixed point: neither at `max_iter` nor by a callback.
    stop_reason_ : {"tol", "stagnation", "callback", "max_iter"}
        Why the run ended: within `tol`; because centers only move by rounding errors; because a
        callback asked for it; or at `max_iter`.
    n_steps_ : int
        Number of batches, of `fit` with `batch_size` or by `partial_fit`; otherwise not set.
    cluster_mass_ : ndarray of shape (n_clusters,)
        Sum of the weighted responsibilities of each cluster; after `partial_fit` of what is
        remembered.
    n_distinct_clusters_ : int
        Number of centers that hold mass and lie apart from each other.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string column names.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` was reached, if fewer than `n_clusters` distinct centers were found, or if
        the perplexity cannot be reached.
    RuntimeWarning
        If `n_init` is a number above 1 although `init` is an array.

    See Also
    --------
    SoftKMeans : Responsibilities that are positive for all clusters.
    sklearn.cluster.KMeans : The limit of small sigma, reached at a positive one.

    Notes
    -----
    At the same `sigma` a larger `alpha` is harder. A center that no row belongs to moves to the
    row with the largest weighted squared distance to its nearest center, as in
    :class:`~sklearn.cluster.KMeans`; that cannot raise the free energy. Results are bitwise equal
    for any number of threads.

    References
    ----------
    F. Félix Arredondo, A. Ucan-Puc and C. Astengo Noguez, "K-Means as a Radial Basis Function
    Network: a Variational and Gradient-based Equivalence", arXiv:2603.04625, 2026.

    B. Peters, V. Niculae and A. F. T. Martins, "Sparse Sequence-to-Sequence Models", ACL 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_softkmeans import EntmaxKMeans
    >>> X = np.array([[-1.2], [-0.8], [0.1], [0.8], [1.2]])
    >>> sparse = EntmaxKMeans(n_clusters=2, sigma=0.6, init=[[-1.0], [1.0]]).fit(X)
    >>> sparse.cluster_centers_.round(2)
    array([[-0.88],
           [ 0.75]])
    >>> sparse.predict_proba(X).round(2)
    array([[1.  , 0.  ],
           [1.  , 0.  ],
           [0.25, 0.75],
           [0.  , 1.  ],
           [0.  , 1.  ]])
    """

    _parameter_constraints = {
        **BaseSoftKMeans._parameter_constraints,
        "alpha": [Interval(Real, 1, None, closed="left")],
        "sparse_output": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        alpha: float = 1.5,
        *,
        sigma: float | Literal["auto"] = "auto",
        perplexity: float | None = None,
        init: Init = "k-means++",
        n_init: int | Literal["auto"] = "auto",
        solver: Solver = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        batch_size: int | None = None,
        verbose: int = 0,
        random_state: Seed = None,
        copy_x: bool = True,
        sparse_output: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.sigma = sigma
        self.perplexity = perplexity
        self.init = init
        self.n_init = n_init
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x
        self.sparse_output = sparse_output

    @property
    def _alpha(self):
        return float(self.alpha)

    def _check_container(self):
        container = output_container(self)
        if self.sparse_output and container != "default":
            raise ValueError(
                f"sparse_output=True gives CSR, which set_output(transform={container!r}) cannot "
                "hold. Set sparse_output=False, or call set_output(transform='default')."
            )

    def _responsibilities(self, X):
        if not self.sparse_output:
            return super()._responsibilities(X)
        problem, centers, sigma = self._in_frame(self._validate_fitted(X), self._alpha)
        return sparse_responsibilities(problem, centers, sigma)

"""K-means with entmax responsibilities."""

from numbers import Real

from ._base import BaseSoftKMeans
from ._compat import Interval


class EntmaxKMeans(BaseSoftKMeans):
    """TODO"""

    _parameter_constraints = {
        **BaseSoftKMeans._parameter_constraints,
        "alpha": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters=8,
        alpha=1.5,
        *,
        sigma="auto",
        init="k-means++",
        n_init="auto",
        max_iter=300,
        tol=1e-4,
        verbose=0,
        random_state=None,
        copy_x=True,
    ):
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.sigma = sigma
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x

    @property
    def _alpha(self):
        return float(self.alpha)

"""The E-step on arrays: rows, centres and sigma in, responsibilities and their sums out."""

import math
from contextlib import nullcontext
from copy import copy
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ._arrays import (
    add_in_order,
    blocks_of,
    fixed_direction,
    floor_power_of_two,
    read_only,
    sq_norms,
)
from ._compiled import kernels, one_blas_thread
from ._ranges import (
    accuracy,
    check_overflow,
    error_in_single,
    frame_size,
    margin_of,
    power_of_two,
    precision_of,
    underflows_in_single,
    unit_of_weights,
)

# What the rows of a chunk and their scores may take, each at most half of a usual L2 cache.
_ROW_BYTES = 2**18
_SCORE_BYTES = 2**20
_MAX_WIDTH = 512
LANES = 32  # every row is computed in a full vector, so that equal rows give equal bits

# Groups of chunks: enough for any number of threads, and bounded in the memory of their sums.
_MAX_TASKS = 64
_MAX_TASK_BYTES = 2**26
SERIAL_WORK = 2**19  # operations below which one thread is faster
_TINY_PRODUCT = 2**13  # multiplications for which no BLAS starts threads
_SINGLE_WORK = 2**22  # multiplications below which double precision costs next to nothing


class Statistics(NamedTuple):
    """Sums over rows, in the frame: all that the M-step needs."""

    sums: np.ndarray  # (n_clusters, n_features)
    mass: np.ndarray  # (n_clusters,)
    objective: float  # free energy
    inertia: float  # squared distances to the nearest centres; equal where all rows are hard


class Assignment(NamedTuple):
    """Labels of rows with the totals that belong to them, in the units of X and the weights."""

    labels: np.ndarray
    mass: np.ndarray
    inertia: float
    objective: float


class Problem:
    """Rows of X, their weights, the map, and the frame (x - origin) / unit of the kernels.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_samples, n_features)
        float32 or float64; C-contiguous, or CSR in canonical format.
    sample_weight : ndarray of shape (n_samples,), optional
        float64; None stands for unit weights.
    alpha : float
        Order of the map from scores to responsibilities. Where sigma = 0 it does not matter.
    origin : ndarray of shape (n_features,)
        A point near the rows, ignored where X is sparse.
    size : float
        A length of the order of the distances between rows and origin.
    spread : float
        Square root of the total variance, the scale that `tol` refers to.
    resident : bool
        Keep a copy of dense rows in the frame, for many passes.
    single : bool
        Allow single precision where X has it and the result allows it.
    given_centers : ndarray of shape (n_clusters, n_features), optional
        The centres of all passes, in the unit of X, if they do not change.
    """

    in_blocks = False  # all rows are at hand

    def __init__(
        self,
        X,
        sample_weight=None,
        *,
        alpha,
        origin,
        size,
        spread=0.0,
        resident=False,
        single=True,
        given_centers=None,
    ):
        self.X = X
        self.sample_weight = sample_weight
        self.weight_unit = unit_of_weights(1.0 if sample_weight is None else sample_weight.max())
        self.alpha = alpha
        self.is_sparse = sparse.issparse(X)
        self.n_samples, self.n_features = X.shape
        origin = np.zeros(self.n_features) if self.is_sparse else origin
        self.origin = np.asarray(origin, dtype=np.float64)
        self.size = float(size)
        self.unit = power_of_two(self.size)
        self.spread = spread / self.unit  # in the frame
        self.resident = resident and not self.is_sparse
        self._single = single and not self.is_sparse and X.dtype == np.float32
        if self._single and sample_weight is not None:  # shares times weights are normal numbers
            least = sample_weight.min(where=sample_weight > 0.0, initial=np.inf)
            self._single = least > 1e-20 * self.weight_unit
        self._blocks = {}
        self.given_centers = given_centers

    @property
    def dtype(self):
        return self.X.dtype

    @property
    def total_weight(self):
        """Sum of the weights in `weight_unit`."""
        return self.weights.sum()

    def reduce(self, function, combine):
        """Value of `function` for all rows, of a problem or its blocks: here they are one block."""
        return function(self)

    # --------------------------------------------------------------------------- frame

    @property
    def frame(self):
        """Arguments of another `Problem` in the same frame, with the same map."""
        return {
            "alpha": self.alpha,
            "origin": self.origin,
            "size": self.size,
            "spread": self.spread * self.unit,
        }

    @property
    def anchor(self):
        """Origin of exact distances: that of the frame, or 0 where centres are given as numbers.

        Differences x - c of given numbers are exact more often than those of shifted ones, so that
        a row halfway between two centres is shared equally.
        """
        return np.zeros(self.n_features) if self.given_centers is not None else self.origin

    def with_map(self, alpha):
        """The same rows, with another map."""
        other = copy(self)
        other.alpha = alpha
        other.__dict__.pop("_map", None)
        return other

    def into_frame(self, centers):
        return (np.asarray(centers, dtype=np.float64) - self.origin) / self.unit

    def out_of_frame(self, centers):
        return centers * self.unit + self.origin

    def rows_in_frame(self, ids):
        """Some rows as a dense array in the frame."""
        return self.into_frame(self.dense_rows(ids))

    def dense_rows(self, ids):
        """Some rows as a dense array as they were given."""
        return self.X[ids].toarray() if self.is_sparse else self.X[ids]

    def times(self, vector):
        """Products of all rows in the frame with a vector."""
        result = np.empty(self.n_samples)
        for block in blocks_of(self.n_samples):
            if self.is_sparse:
                result[block] = self.X[block] @ vector / self.unit
            else:
                result[block] = np.einsum("ij,j->i", self.rows_in_frame(block), vector)
        return result

    def row_keys(self):
        """One number for each row that depends on its content alone: equal rows, equal keys."""
        direction = fixed_direction(self.n_features)
        keys = np.empty(self.n_samples)
        with np.errstate(over="ignore", invalid="ignore"):  # rows without weight lie anywhere
            for block in blocks_of(self.n_samples):
                rows = self.X[block]
                # Not BLAS, whose result for a row depends on the row's place among the others.
                keys[block] = rows @ direction if self.is_sparse else (rows * direction).sum(axis=1)
        return keys

    def weighted_sum(self, weights, ids=None):
        """Weighted sum of rows in the frame, bitwise the same for any number of threads."""
        result = np.zeros(self.n_features)
        for block in blocks_of(len(weights)):
            rows = block if ids is None else ids[block]
            if self.is_sparse:
                result += self.X[rows].T @ weights[block] / self.unit
            else:  # not BLAS: it threads
                result += np.einsum("i,ij->j", weights[block], self.rows_in_frame(rows))
        return result

    @cached_property
    def _map(self):
        return kernels().simplex.map_of(self.alpha)

    @cached_property
    def weights(self):
        """Weights of all rows in `weight_unit`; ones, without memory, where none were given."""
        if self.sample_weight is None:
            return np.broadcast_to(1.0, self.n_samples)
        return self.sample_weight / self.weight_unit

    # ---------------------------------------------------------------------- the passes

    def statistics(self, centers, sigma):
        """E-step of a fit: sums, mass and free energy. All in the frame, sigma too."""
        return statistics_of(self._run(centers, sigma, sums=True))

    def row_objective(self, centers, sigma):
        """Free energy of each row, in the frame; the squared distance where sigma = 0."""
        return self._run(centers, sigma, objective=np.empty(self.n_samples)).objective

    def labels_and_gaps(self, centers, sigma=0.0):
        """Cluster of each row, and d_(2)^2 - d_(1)^2 in the frame; negative if it may be shared."""
        labels = np.empty(self.n_samples, dtype=np.int32)
        outputs = self._run(centers, sigma, labels=labels, gaps=np.empty(self.n_samples))
        return outputs.labels, outputs.gaps

    def assign(self, centers, sigma):
        """Labels, mass, inertia and free energy at the given centres, in the unit of X."""
        labels = np.empty(self.n_samples, dtype=np.int32)
        outputs = self._run(centers, sigma, labels=labels, sums=True)
        square = self.unit * self.unit * self.weight_unit  # may overflow; `**` would raise
        objective, inertia, _ = outputs.totals.sum(axis=0) * square
        mass = add_in_order(outputs.mass) * self.weight_unit
        return Assignment(labels, mass, float(inertia), float(objective))

    def assigned(self, centers, sigma):
        """The `Assignment` at centres and sigma in the unit of X, as they are stored."""
        final = for_prediction(self.X, centers, sigma, self.alpha, self.sample_weight)
        return final.assign(final.into_frame(centers), sigma / final.unit)

    def labels(self, centers, sigma):
        labels = np.empty(self.n_samples, dtype=np.int32)
        return self._run(centers, sigma, labels=labels).labels

    def responsibilities(self, centers, sigma):
        resp = np.empty((self.n_samples, len(centers)), dtype=self.X.dtype)
        return self._run(centers, sigma, responsibilities=resp).responsibilities

    def sq_distances(self, centers, closest):
        """min(closest, squared distances) to a few centres, in the frame, from differences."""
        result = np.empty((len(centers), self.n_samples))
        n_tasks = self._n_tasks(self.n_samples, len(centers))
        centers = np.ascontiguousarray(centers)
        norms = sq_norms(centers)
        kernels().rows.sq_distances_to(n_tasks, self._rows(), centers, norms, closest, result)
        return result

    # ---------------------------------------------------------------------- machinery

    def _run(self, centers, sigma, *, sums=False, **wanted):
        n_features = self.n_features
        if centers.shape[1] != n_features:
            raise ValueError(
                f"X has {n_features} features, but the cluster centers have {centers.shape[1]}."
            )
        model = self._model(np.ascontiguousarray(centers), sigma, wanted)
        width, n_tasks = self._layout(len(centers), model.bias.dtype.itemsize, sums)
        outputs = self._outputs(n_tasks, centers.shape, wanted, sums)
        rows, weights = self._rows(model.bias.dtype, width), self._read_only_weights
        shape = self.n_samples, int(not self.is_sparse), width
        listing = kernels().shares.listing(0 if wanted else len(centers))
        tiny = self.is_sparse or width * len(centers) * n_features <= _TINY_PRODUCT
        with nullcontext() if tiny else one_blas_thread():
            kernels().steps.pass_over_rows(
                n_tasks, *shape, rows, weights, model, self._map, listing, outputs
            )
        check_overflow(outputs)
        return outputs

    def _outputs(self, n_tasks, shape, wanted, sums=True):
        return kernels().steps.Outputs(
            **{**_unwanted(self.X.dtype), **wanted},
            sums=np.zeros((n_tasks if sums else 0, *shape)),
            mass=np.zeros((n_tasks if sums else 0, shape[0])),
            totals=np.zeros((n_tasks, 3)),
        )

    @cached_property
    def _read_only_weights(self):
        return read_only(np.empty(0) if self.sample_weight is None else self.weights)

    @cached_property
    def _read_only_rows(self):
        if self.is_sparse:
            return tuple(map(read_only, (self.X.data, self.X.indices, self.X.indptr)))
        return (read_only(self.X),)

    def _model(self, centers, sigma, wanted):
        distances = kernels().distances
        norms = sq_norms(centers)
        radius = math.sqrt(norms.max())
        given = self.given_centers
        points = centers if given is None else given / self.unit
        by_row, precision, margin = len(wanted) > 0, 1.0, 0.0
        if sigma > 0:
            precision = precision_of(sigma)
            # In `transform` even responsibilities far below rounding are written.
            by_share = not wanted.keys().isdisjoint(["responsibilities", "gaps"])
            kind = None if by_share else np.float64 if by_row else self.dtype
            margin = margin_of(self.alpha, len(centers), kind)
        dtype = self._working_precision(len(centers), sigma, precision, radius, by_row)
        limits = accuracy(dtype, self.n_features, by_row)
        with np.errstate(under="ignore", over="ignore"):  # harmless, or found by the guard
            factors = np.asarray(precision * centers, dtype=dtype)
            bias = np.asarray(-0.5 * precision * norms, dtype=dtype)
        if self.is_sparse:
            factors = np.ascontiguousarray(factors.T)
        return distances.Model(
            points=points,
            norms=norms if given is None else sq_norms(points),
            factors=factors,
            bias=bias,
            precision=precision,
            radius=radius,
            hard=sigma == 0,
            margin=margin,
            by_row=by_row,
            **limits._asdict(),
        )

    def _working_precision(self, n_clusters, sigma, precision, radius, by_row):
        """float32 where X has it, it is faster, and its rounding is not expected to matter.

        Maps of alpha > 2 rise steeply from the edge of their support. Centres far beyond the data's
        scale are rows of hardly any weight, which may be beyond float32 in the frame.
        """
        enough = self._single and radius < 1e9 and not underflows_in_single(radius, precision)
        if sigma > 0.0 and enough:
            reach = max(1.5 * radius, self.size / self.unit)
            enough = error_in_single(radius, reach, precision, self.n_features, by_row) <= 1.0
            work = self.n_samples * n_clusters * self.n_features
            enough &= self.alpha <= 2.0 and work >= _SINGLE_WORK
        return np.dtype(np.float32 if enough else np.float64)

    @cached_property
    def _row_kind(self):
        kinds = kernels().rows
        if self.is_sparse:
            return kinds.SparseRows
        return kinds.ColumnRows if self.n_features <= kinds.FEW_FEATURES else kinds.DenseRows

    def _rows(self, dtype=np.float64, width=None):
        scale = np.float64(1.0 / self.unit)  # single precision times it is double, as compiled
        if self.is_sparse:
            return self._row_kind(*self._read_only_rows, scale)
        frame = self.origin, self.anchor, scale
        rows = self._row_kind(*self._read_only_rows, *frame, *np.empty((2, 0), dtype))
        if self.resident and width is not None and self.n_samples > width:
            return self._loaded(rows, dtype, width)
        return rows

    def _loaded(self, rows, dtype, width):
        if (dtype, width) not in self._blocks:
            n_chunks = -(-self.n_samples // width)
            rows = rows._replace(
                blocks=np.empty(n_chunks * width * self.n_features, dtype),
                norms=np.empty(n_chunks * width, dtype),
            )
            n_tasks = self._n_tasks(n_chunks, 1)
            kernels().distances.load_rows(n_tasks, width, rows)
            self._blocks.clear()  # shared with the same rows under another map
            self._blocks[dtype, width] = rows
        return self._blocks[dtype, width]

    def _layout(self, n_clusters, itemsize, sums):
        """Rows in a chunk and number of tasks; they depend on nothing but shapes."""
        width = min(_ROW_BYTES // self.n_features, _SCORE_BYTES // n_clusters) // itemsize
        width = min(max(floor_power_of_two(width), LANES), _MAX_WIDTH)
        width = min(width, -(-self.n_samples // LANES) * LANES)
        n_tasks = self._n_tasks(-(-self.n_samples // width), n_clusters)
        return width, self._n_summed(n_tasks, n_clusters) if sums else n_tasks

    def _n_summed(self, n_tasks, n_clusters):
        """As many tasks as may have sums of their own."""
        task_bytes = 8 * n_clusters * (self.n_features + 1)
        return max(1, min(n_tasks, _MAX_TASKS, _MAX_TASK_BYTES // task_bytes))

    def _n_tasks(self, n_chunks, n_clusters):
        if self.n_samples * n_clusters * (self.n_features + 8) < SERIAL_WORK:
            return 1
        return min(n_chunks, _MAX_TASKS)


def statistics_of(outputs):
    """The sums of all tasks."""
    objective, inertia, _ = outputs.totals.sum(axis=0)
    sums, mass = add_in_order(outputs.sums), add_in_order(outputs.mass)
    return Statistics(sums, mass, float(objective), float(inertia))


def for_prediction(X, centers, sigma, alpha, sample_weight=None):
    """A `Problem` whose frame and precision depend on the centres alone, not on the rows.

    So the result for a row does not depend on the rows it comes with. In many dimensions rows lie
    much further out than the centres, so that single precision is not worth a guess.
    """
    centers = np.asarray(centers, dtype=np.float64)
    with np.errstate(under="ignore"):
        origin = (centers / len(centers)).sum(axis=0)  # the mean might overflow
    spread = np.abs(centers - origin).max()
    # Not so small that rows of ordinary size overflow.
    size = max(spread or np.abs(origin).max() or 1.0, 1e-100)
    return Problem(
        X,
        sample_weight,
        alpha=alpha,
        origin=origin,
        size=frame_size(size, sigma),
        single=False,
        given_centers=centers,
    )


@cache
def _unwanted(dtype):
    """What stands for outputs of single rows that are not wanted."""
    return {
        "responsibilities": np.empty((0, 0), dtype),
        "labels": np.empty(0, np.int32),
        "objective": np.empty(0),
        "gaps": np.empty(0),
    }

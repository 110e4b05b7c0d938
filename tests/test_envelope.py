"""The numerical envelope: rows of any size, offset, weight and type have the right answer.

Cases are drawn from a few numbers and judged by exact arithmetic: fractions for squared distances
of the numbers as they are given, decimals of 40 digits for maps, means and logarithms. Where an
answer does not fit into float64 there is an error that says what to scale. No floating point
warning is left to the caller, not even of an underflow.
"""

import math
import re
import warnings
from contextlib import contextmanager
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial, wraps
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from models import at_centers, model

ALPHAS = [1.0, 1.3, 1.5, 2.0, 3.0]
EPS = {np.float64: 2.0**-52, np.float32: 2.0**-23}

examples = partial(settings, suppress_health_check=[HealthCheck.filter_too_much])


@contextmanager
def no_warnings():
    """Floating point errors and warnings are errors, but for those of the iteration."""
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def or_error(function, *args, match, **kwargs):
    """The result, or None where there is an error that says what to change."""
    try:
        return function(*args, **kwargs)
    except ValueError as error:
        assert re.search(match, str(error)), error
        return None


# ----------------------------------------------------------------------- exact references


def in_decimals(function):
    """Run with decimals of 40 digits."""

    @wraps(function)
    def run(*args, **kwargs):
        with localcontext(prec=40):
            return function(*args, **kwargs)

    return run


def decimal(number):
    if isinstance(number, Fraction):
        return Decimal(number.numerator) / Decimal(number.denominator)
    return Decimal(float(number))


def exact_sq_distances(X, centers):
    """Squared distances of the numbers as they are given, one list of fractions for each row."""
    rows = [[Fraction(x) for x in row] for row in dense(X).tolist()]
    points = [[Fraction(x) for x in point] for point in np.asarray(centers).tolist()]
    return [
        [sum((x - c) ** 2 for x, c in zip(row, point, strict=True)) for point in points]
        for row in rows
    ]


@in_decimals
def exact_shares(sq_distances, sigma, alpha):
    """Responsibilities of each row as decimals; ties for the first centre where sigma = 0."""
    return [_exact_row(row, sigma, alpha) for row in sq_distances]


def _exact_row(sq_distances, sigma, alpha):
    nearest = min(sq_distances)
    if sigma == 0:
        first = sq_distances.index(nearest)
        return [Decimal(int(j == first)) for j in range(len(sq_distances))]
    temperature = 2 * Fraction(sigma) ** 2
    scores = [-decimal((row - nearest) / temperature) for row in sq_distances]
    if alpha == 1:
        powers = [score.exp() for score in scores]
        return [power / sum(powers) for power in powers]
    step = Decimal(alpha) - 1
    high = (1 - Decimal(len(scores)) ** (-step)) / step  # the threshold of equal scores
    low = Decimal(0)  # and that of one score far ahead
    while high - low > Decimal("1e-35"):
        middle = (low + high) / 2
        total = sum(_powers(scores, middle, step))
        low, high = (middle, high) if total > 1 else (low, middle)
    return _powers(scores, (low + high) / 2, step)


def _powers(scores, threshold, step):
    bases = [1 + step * (score - threshold) for score in scores]
    return [base ** (1 / step) if base > 0 else Decimal(0) for base in bases]


@in_decimals
def exact_row_objective(sq_distances, sigma, alpha):
    """Free energy of each row: <p, d^2> + 2 sigma^2 Omega(p)."""
    result = []
    for row, shares in zip(sq_distances, exact_shares(sq_distances, sigma, alpha), strict=True):
        energy = sum(p * decimal(d) for p, d in zip(shares, row, strict=True))
        result.append(energy + 2 * decimal(sigma) ** 2 * negative_entropy(shares, alpha))
    return result


def negative_entropy(shares, alpha):
    positive = [p for p in shares if p > 0]
    if alpha == 1:
        return sum(p * p.ln() for p in positive)
    order = Decimal(alpha)
    return (sum(p**order for p in positive) - 1) / (order * (order - 1))


@in_decimals
def exact_log_density(sq_distances, sigma, n_features):
    """Natural logarithm of the equal mixture of N(c_j, sigma^2 I), for each row."""
    temperature = 2 * Fraction(sigma) ** 2
    volume = (2 * decimal(math.pi)).ln() / 2 + decimal(sigma).ln()
    result = []
    for row in sq_distances:
        nearest = min(row)
        total = sum((-decimal((d - nearest) / temperature)).exp() for d in row)
        log_sum = total.ln() - decimal(nearest / temperature)
        result.append(log_sum - Decimal(len(row)).ln() - n_features * volume)
    return result


@in_decimals
def exact_means(X, shares, weights):
    """Weighted mean of the rows for each cluster, and its part of the total weight."""
    rows = dense(X).tolist()
    means, parts = [], []
    for column in zip(*shares, strict=True):
        mass = [p * decimal(w) for p, w in zip(column, weights, strict=True)]
        total = sum(mass)
        parts.append(total / sum(map(decimal, weights)))
        if total > 0:
            means.append(
                [
                    sum(m * decimal(x) for m, x in zip(mass, feature, strict=True)) / total
                    for feature in zip(*rows, strict=True)
                ]
            )
    return means, parts


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


@in_decimals
def assert_within(found, exact, bound):
    """Finite numbers within a bound of decimals, however large or small both are."""
    found, exact = np.ravel(found).tolist(), np.ravel(np.array(exact, dtype=object)).tolist()
    bounds = np.broadcast_to(np.array(bound, dtype=object), len(exact)).tolist()
    assert len(found) == len(exact)
    for number, wanted, allowed in zip(found, exact, bounds, strict=True):
        assert math.isfinite(number), (number, wanted)
        # The last term is some units of the smallest float64.
        most = Decimal(allowed) + Decimal("1e-322")
        assert abs(Decimal(number) - wanted) <= most, (number, float(wanted), float(most))


# ---------------------------------------------------------------------------------- cases


class Case(NamedTuple):
    """What defines the rows, in numbers that say what is special about them."""

    seed: int
    n_samples: int
    n_clusters: int
    n_features: int
    dtype: type
    exponent: int  # the rows differ by about 10^exponent
    offset: float  # times as much they are from 0
    kind: str
    on_rows: bool  # whether the centres are some of the rows
    is_sparse: bool

    @property
    def scale(self):
        return 10.0**self.exponent

    def tables(self):
        """Rows in their container, and centres."""
        rng = np.random.RandomState(self.seed)
        rows = rng.normal(size=(self.n_samples, self.n_features))
        if self.is_sparse:
            rows[rng.uniform(size=rows.shape) < 0.4] = 0.0
        if self.kind == "duplicates":
            rows = rows[rng.randint(min(2, self.n_samples), size=self.n_samples)]
        elif self.kind == "constant":
            rows[:] = rows[0]
        elif self.kind == "constant feature":
            rows[:, 0] = rows[0, 0]
        elif self.kind == "uneven":
            rows[1:] *= 1e-7
        centers = rows[rng.permutation(self.n_samples)[: self.n_clusters]]
        if not self.on_rows:
            centers = centers + 0.5 * rng.normal(size=centers.shape)
        rows, centers = (
            ((values + self.offset) * self.scale).astype(self.dtype) for values in (rows, centers)
        )
        return sparse.csr_array(rows) if self.is_sparse else rows, centers


@st.composite
def _cases(draw, dtypes):
    dtype = draw(st.sampled_from(dtypes))
    n_samples = draw(st.integers(1, 6))
    offset = draw(st.sampled_from([0.0, 1.0, -1e3, 1e6, 1e9]))
    # float64 whose squares are in its range; all of float32, with its subnormal numbers.
    lowest, highest = (-150, 150) if dtype is np.float64 else (-44, 37)
    highest -= round(math.log10(max(1.0, abs(offset))))
    return Case(
        seed=draw(st.integers(0, 2**16)),
        n_samples=n_samples,
        n_clusters=draw(st.integers(1, min(n_samples, 3))),
        n_features=draw(st.integers(1, 3)),
        dtype=dtype,
        exponent=draw(st.integers(lowest, highest)),
        offset=offset,
        kind=draw(
            st.sampled_from(["other", "duplicates", "constant feature", "constant", "uneven"])
        ),
        on_rows=draw(st.booleans()),
        is_sparse=draw(st.booleans()),
    )


# Where a draw would seldom arrive: the starting point of cases that are given in full.
plain = Case(0, 1, 1, 1, np.float64, 0, 0.0, "other", False, False)
cases = _cases([np.float64, np.float32])
alphas = st.sampled_from(ALPHAS)
# sigma times the scale of the rows, or as it is.
sigmas = st.one_of(
    st.sampled_from([0.0, 1e-9, 0.01, 0.2, 0.5, 1.0, 3.0, 1e3, 1e8]).map(lambda x: ("times", x)),
    st.integers(-150, 150).map(lambda x: ("absolute", 10.0**x)),
)


def length(sigma, case):
    kind, value = sigma
    return value if kind == "absolute" else min(value * case.scale, 1e150)


def weights_of(case):
    """Weights over 16 orders of magnitude, some of them zero."""
    rng = np.random.RandomState(case.seed + 1)
    weights = 10.0 ** rng.uniform(-8.0, 8.0, size=case.n_samples)
    weights[1:][rng.uniform(size=case.n_samples - 1) < 0.3] = 0.0
    return weights


# ---------------------------------------------------------------- rows at given centres


@examples(max_examples=150)
@given(cases, sigmas, alphas)
def test_responsibilities_are_exact_to_rounding(case, sigma, alpha):
    X, centers = case.tables()
    sigma = length(sigma, case)
    with no_warnings():
        fitted = at_centers(alpha, centers, sigma)
        resp = fitted.transform(X)
        labels = fitted.predict(X)
    assert resp.dtype == X.dtype
    sq_distances = exact_sq_distances(X, centers)
    expected = exact_shares(sq_distances, sigma, alpha)
    assert_within(resp, expected, 1e-12 if case.dtype is np.float64 else 2e-6)
    np.testing.assert_array_equal(labels, resp.argmax(axis=1))


@examples(max_examples=100)
@given(cases, sigmas, alphas)
@example(plain, ("absolute", 1e-140), 1.0)
@example(plain, ("absolute", 1e-145), 1.0)
@example(plain, ("absolute", 1e-150), 1.5)
@example(plain._replace(exponent=20), ("absolute", 1e-140), 1.0)
def test_log_likelihoods_are_exact_to_rounding(case, sigma, alpha):
    X, centers = case.tables()
    sigma = length(sigma, case)
    with no_warnings():
        fitted = at_centers(alpha, centers, sigma)
        found = or_error(fitted.score_samples, X, match="overflows float64: sigma=.*Increase sigma")
    if sigma == 0:
        assert (found == -np.inf).all() and fitted.score(X) == -np.inf
        return
    sq_distances = exact_sq_distances(X, centers)
    if found is None:
        diameter = max(map(max, [*sq_distances, *exact_sq_distances(centers, centers)]))
        ratio = max(diameter, Fraction(float(np.abs(centers).max())) ** 2)
        assert ratio > Fraction(10) ** 278 * Fraction(sigma) ** 2
        return
    exact = exact_log_density(sq_distances, sigma, case.n_features)
    rounding = decimal(1e-10 if case.dtype is np.float64 else 2e-6)
    assert_within(found, exact, [rounding * max(1, abs(number)) for number in exact])
    with no_warnings():
        assert fitted.score(X) == pytest.approx(found.mean(), rel=1e-12)


# ------------------------------------------------------------------------------------ fits


def fit_or_error(estimator, X, weights):
    """The fit, or None where it says that the objective is beyond the range of float64."""
    with no_warnings():
        fitted = or_error(estimator.fit, X, sample_weight=weights, match="overflow.*Scale X")
    if fitted is None:
        sigma = 0.0 if estimator.sigma == "auto" else estimator.sigma
        size = math.log10(max(np.abs(dense(X)).max(), sigma, 1e-200))
        total = len(dense(X)) if weights is None else weights.sum()
        assert 2 * size + math.log10(total) > 300
    return fitted


@examples(max_examples=150)
@given(cases, sigmas, alphas, st.booleans())
@example(plain._replace(n_samples=2, exponent=-115), ("absolute", 1e42), 1.0, False)
@example(plain._replace(n_samples=2, n_clusters=2, exponent=-150), ("absolute", 1e10), 1.5, False)
@example(plain._replace(dtype=np.float32, exponent=-20), ("absolute", 1.0), 1.0, False)
@example(plain._replace(n_samples=2, dtype=np.float32, exponent=-42), ("times", 0.0), 1.0, False)
@example(plain._replace(dtype=np.float32, exponent=-43, is_sparse=True), ("times", 0.0), 1.0, True)
def test_fitted_attributes_are_those_of_the_fitted_centers(case, sigma, alpha, weighted):
    X, init = case.tables()
    sigma = length(sigma, case)
    weights = weights_of(case) if weighted else np.ones(case.n_samples)
    estimator = model(alpha, case.n_clusters, sigma=sigma, init=init, max_iter=2)
    fitted = fit_or_error(estimator, X, weights if weighted else None)
    if fitted is None:
        return
    centers = fitted.cluster_centers_
    assert centers.dtype == case.dtype
    assert np.isfinite(centers).all()
    assert_sums(fitted, X, weights, sigma, alpha, case)


@in_decimals
def assert_sums(fitted, X, weights, sigma, alpha, case):
    sq_distances = exact_sq_distances(X, fitted.cluster_centers_)
    [mean], _ = exact_means(X, [[Decimal(1)]] * case.n_samples, weights)
    variance = sum(
        decimal(w) * (decimal(x) - m) ** 2
        for row, w in zip(dense(X).tolist(), weights, strict=True)
        for x, m in zip(row, mean, strict=True)
    )
    weights = [decimal(w) for w in weights]
    shares = exact_shares(sq_distances, sigma, alpha)
    mass = [
        sum(w * p for w, p in zip(weights, column, strict=True))
        for column in zip(*shares, strict=True)
    ]
    rounding = 1e-12 if case.dtype is np.float64 else 2e-6
    assert_within(fitted.cluster_mass_, mass, sum(weights) * decimal(rounding))
    nearest = [decimal(min(row)) for row in sq_distances]
    inertia = sum(w * d for w, d in zip(weights, nearest, strict=True))
    assert_within(fitted.inertia_, [inertia], inertia * decimal(1e-10))
    rows = exact_row_objective(sq_distances, sigma, alpha)
    objective = sum(w * f for w, f in zip(weights, rows, strict=True))
    uniform = [1 / Decimal(case.n_clusters)] * case.n_clusters
    entropy = -2 * decimal(sigma) ** 2 * negative_entropy(uniform, alpha) * sum(weights)
    # Free energies are recorded as equal within the rounding of the total variance, and of the
    # centers as they are stored.
    size = inertia + entropy + variance * decimal(1e-5)
    relative = decimal(1e-10 if case.dtype is np.float64 else 2e-6)
    ulp = decimal(EPS[case.dtype]) * decimal(np.abs(dense(X)).max())
    ulp = max(ulp, decimal(np.finfo(case.dtype).smallest_subnormal))
    stored = 4 * case.n_features * ulp**2 * sum(weights)
    assert_within(fitted.objective_, [objective], size * relative + stored)
    # The path starts at the initial centers.
    first = exact_sq_distances(X, np.asarray(case.tables()[1]))
    free = exact_row_objective(first, sigma, alpha)
    start = sum(w * f for w, f in zip(weights, free, strict=True))
    size += sum(w * decimal(min(row)) for w, row in zip(weights, first, strict=True))
    bound = size * relative + stored
    assert_within(fitted.objective_path_[0], [start], bound)
    assert (np.diff(fitted.objective_path_) <= 0).all()


@examples(max_examples=150)
@given(cases, sigmas, alphas, st.booleans())
def test_a_step_moves_centers_to_exact_means(case, sigma, alpha, weighted):
    X, init = case.tables()
    sigma = length(sigma, case)
    weights = weights_of(case) if weighted else np.ones(case.n_samples)
    shares = exact_shares(exact_sq_distances(X, init), sigma, alpha)
    expected, parts = exact_means(X, shares, weights)
    assume(min(parts) > 1e-6)  # the others move to a row, or are means in log space
    estimator = model(alpha, case.n_clusters, sigma=sigma, init=init, max_iter=1)
    fitted = fit_or_error(estimator, X, weights if weighted else None)
    if fitted is None:
        return
    assert_within(fitted.cluster_centers_, expected, step_bound(X, case))


@in_decimals
def step_bound(X, case):
    """Rounding relative to what the rows differ by, and to the numbers as they are stored."""
    rows = dense(X).astype(np.float64)
    position = decimal(np.abs(rows).max())
    if case.is_sparse:  # sums of sparse rows start from zero
        spread = position
    else:
        spread = max(max(map(decimal, f)) - min(map(decimal, f)) for f in rows.T.tolist())
    relative = decimal(1e-12 if case.dtype is np.float64 else 1e-5)
    ulp = decimal(float(np.finfo(case.dtype).smallest_subnormal))
    return relative * spread + 4 * decimal(EPS[case.dtype]) * position + ulp


@examples(max_examples=100)
@given(cases, alphas, st.sampled_from(["k-means++", "random"]), st.booleans())
@example(Case(146, 6, 1, 1, np.float64, 67, 1e9, "duplicates", False, True), 1.0, "random", False)
@example(plain._replace(exponent=125, is_sparse=True), 1.0, "k-means++", False)
def test_fits_that_find_their_own_start_and_sigma_are_finite(case, alpha, init, weighted):
    X, _ = case.tables()
    weights = weights_of(case) if weighted else None
    estimator = model(alpha, case.n_clusters, init=init, random_state=0, max_iter=20)
    fitted = fit_or_error(estimator, X, weights)
    if fitted is None:
        return
    with no_warnings():
        resp = fitted.transform(X)
        found = fitted.score(X)
    assert fitted.sigma_ > 0
    # No centre is outside the rows that count, but for rounding.
    rows = dense(X).astype(np.float64)
    counted = rows if weights is None else rows[weights > 0]
    slack = 1e-15 * np.abs(rows).max() if case.dtype is np.float64 else 1e-6 * np.abs(rows).max()
    slack += float(np.finfo(case.dtype).smallest_subnormal)
    assert (fitted.cluster_centers_ >= counted.min(axis=0) - slack).all()
    assert (fitted.cluster_centers_ <= counted.max(axis=0) + slack).all()
    np.testing.assert_allclose(
        resp.sum(axis=1), 1, rtol=0, atol=1e-12 if resp.itemsize > 4 else 1e-6
    )
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(X))
    for value in (fitted.sigma_, fitted.objective_, fitted.inertia_, found):
        assert np.isfinite(value)
    assert np.isfinite(fitted.objective_path_).all()


@examples(max_examples=40)
@given(st.integers(0, 99), st.integers(148, 156), st.integers(0, 16), st.integers(0, 156), alphas)
def test_totals_that_do_not_fit_into_float64_are_an_error(seed, size, weight, sigma, alpha):
    rng = np.random.RandomState(seed)
    X = 10.0**size * rng.normal(size=(4, 2))
    weights = np.full(4, 10.0**weight)
    estimator = model(alpha, 2, sigma=10.0**sigma, init=X[:2], max_iter=1)
    with no_warnings():
        fitted = or_error(estimator.fit, X, sample_weight=weights, match="overflow.*Scale X")
    largest = weight + 2 * max(size, sigma)
    if fitted is None:
        assert largest > 305
    else:
        assert np.isfinite(fitted.objective_path_).all()
        assert np.isfinite([fitted.objective_, fitted.inertia_]).all()
        assert largest < 310


# ----------------------------------------------------------------------------------- types

SPARSE_TYPES = ["i1", "i2", "i4", "i8", "u1", "?", "f8", "g"]  # those that scipy has
DENSE_TYPES = [*SPARSE_TYPES, "f2", ">f8", ">f4", ">i4"]
TYPES = [(np.array, name) for name in DENSE_TYPES]
TYPES += [(sparse.csr_array, name) for name in SPARSE_TYPES]


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("container, name", TYPES)
def test_other_types_give_the_bits_of_float64(alpha, container, name):
    rng = np.random.RandomState(0)
    X = rng.randint(0, 2, size=(12, 3)) * rng.randint(1, 127, size=(12, 3)) / 8
    X[0, 0] += 1 / 3  # rounded by the type, and by float64
    X = X.astype(name)
    other, same = container(X), container(X.astype(np.float64))
    with no_warnings():
        fitted = model(alpha, 3, random_state=0).fit(other)
        expected = model(alpha, 3, random_state=0).fit(same)
        resp = fitted.transform(other)
    assert resp.dtype == fitted.cluster_centers_.dtype == np.float64
    np.testing.assert_array_equal(fitted.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(resp, expected.transform(same))
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    assert fitted.objective_ == expected.objective_
    assert fitted.score(other) == expected.score(same)

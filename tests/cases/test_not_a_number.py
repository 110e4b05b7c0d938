"""Tests for NaN and infinity survive the optimiser.

Sources: https://github.com/numba/numba/issues/2919, https://github.com/numba/numba/issues/9383
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from models import at_centers, model, run_python
from sklearn_softkmeans import EntmaxKMeans

every_alpha = pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
containers = pytest.mark.parametrize("container", [np.array, sparse.csr_array])
bad_numbers = pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
X = np.random.RandomState(0).normal(size=(60, 3))


OPTIMISED = """
import json, re
import numpy as np
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from sklearn_softkmeans._kernels import rows, steps

X = np.random.RandomState(0).normal(size=(60, 3))
SoftKMeans(2, random_state=0).fit(X)
EntmaxKMeans(2, random_state=0).fit(X)
kernels = [rows.sq_distances_to.kernel, steps.pass_over_rows.kernel]
code = "".join(text for kernel in kernels for text in kernel.inspect_llvm().values())
flags = set(re.findall(r"\\b(nnan|ninf|fast|reassoc|nsz|arcp|contract)\\b", code))
print(json.dumps(sorted(flags)))
"""


def test_no_kernel_is_told_that_numbers_are_finite():
    # Code from the cache of numba cannot be inspected.
    flags = run_python(OPTIMISED, SKLEARN_SOFTKMEANS_CACHE="0")
    assert "reassoc" in flags
    assert not {"nnan", "ninf", "fast"} & set(flags)


@containers
@bad_numbers
def test_bad_numbers_are_an_error_wherever_they_are(bad, container):
    rows = X.copy()
    rows[7, 1] = bad
    weight = np.ones(60)
    weight[3] = bad
    fitted = EntmaxKMeans(3, random_state=0).fit(container(X))
    message = r"(?i)nan|infinity"
    with pytest.raises(ValueError, match=message):
        EntmaxKMeans(3).fit(container(rows))
    with pytest.raises(ValueError, match=message):
        EntmaxKMeans(3).fit(container(X), sample_weight=weight)
    with pytest.raises(ValueError, match=message):
        EntmaxKMeans(3, init=rows[6:9]).fit(container(X))
    for method in ("predict", "transform", "score", "score_samples"):
        with pytest.raises(ValueError, match=message):
            getattr(fitted, method)(container(rows))


@every_alpha
@containers
@bad_numbers
def test_with_validation_off_a_bad_row_is_still_an_error(bad, container, alpha):
    rows = X.copy()
    rows[7, 1] = bad
    fitted = at_centers(alpha, X[:3], 0.5)
    with config_context(assume_finite=True), np.errstate(all="ignore"):
        with pytest.raises(ValueError, match="overflow"):
            fitted.transform(container(rows))


@every_alpha
@pytest.mark.parametrize("size", [1e25, 1e37])
def test_squares_that_overflow_single_precision_are_computed_in_double(size, alpha):
    rows = (size * X / 8).astype(np.float32)
    fitted = model(alpha, 3, tol=1e-6, random_state=0).fit(rows)
    expected = model(alpha, 3, tol=1e-6, random_state=0).fit(rows.astype(np.float64))
    assert np.isfinite(fitted.inertia_)
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    np.testing.assert_allclose(fitted.cluster_centers_, expected.cluster_centers_, rtol=1e-5)

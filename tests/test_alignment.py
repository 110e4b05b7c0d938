"""Numbers of clusters that stay the same from fit to fit."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

IRIS = load_iris().data
ORDER = [2, 0, 4, 3, 1]


def two_fits(estimator, dtype=np.float64):
    """The same clusters twice, the second time in another order."""
    X = IRIS.astype(dtype)
    init = X[::30]
    return [estimator(5, init=start, sigma=0.3).fit(X) for start in (init, init[ORDER])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", [SoftKMeans, EntmaxKMeans])
def test_all_attributes_follow(estimator, dtype):
    first, second = two_fits(estimator, dtype)
    assert (first.labels_ != second.labels_).any()
    responsibilities = second.predict_proba(IRIS.astype(dtype))
    assert second.align_to(first) is second
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(second.cluster_centers_, first.cluster_centers_, rtol=tolerance)
    np.testing.assert_allclose(second.cluster_mass_, first.cluster_mass_, rtol=tolerance)
    np.testing.assert_array_equal(second.labels_, first.labels_)
    assert second.labels_.dtype == np.int32
    assert second.cluster_centers_.dtype == dtype
    np.testing.assert_array_equal(second.predict(IRIS.astype(dtype)), first.labels_)
    reordered = second.predict_proba(IRIS.astype(dtype))
    np.testing.assert_allclose(
        np.sort(reordered.sum(axis=0)), np.sort(responsibilities.sum(axis=0)), rtol=1e-6
    )


def test_the_pairs_are_those_of_least_cost_in_total():
    """The center that is nearest to both of the reference goes to the second of them."""
    soft = SoftKMeans.from_centers([[2.0], [9.0], [0.9]], sigma=0.1)
    soft.align_to([[0.0], [1.0], [10.0]])
    np.testing.assert_array_equal(soft.cluster_centers_, [[0.9], [2.0], [9.0]])


def test_the_reference_may_be_another_estimator():
    soft = SoftKMeans(3, sigma=0, random_state=1).fit(IRIS)
    hard = KMeans(3, n_init=1, random_state=0).fit(IRIS)
    soft.align_to(hard)
    assert (soft.labels_ == hard.labels_).mean() > 0.95


@pytest.mark.parametrize("scale", [1e-200, 1e200, 0.0])
def test_no_cost_overflows_or_vanishes(scale):
    soft = SoftKMeans.from_centers(np.array([[3.0], [1.0], [2.0]]) * scale, sigma=1.0)
    soft.align_to(np.array([[1.0], [2.0], [3.0]]) * scale)
    np.testing.assert_array_equal(soft.cluster_centers_, np.array([[1.0], [2.0], [3.0]]) * scale)


def test_dask_labels_stay_lazy():
    array = pytest.importorskip("dask.array")
    from sklearn_softkmeans.dask import DaskSoftKMeans

    X = array.from_array(IRIS, chunks=(40, 4))
    first, second = [
        DaskSoftKMeans(3, init=start, sigma=0.1).fit(X) for start in (IRIS[::50], IRIS[::-50])
    ]
    second.align_to(first)
    assert second.labels_.chunks == first.labels_.chunks
    assert second.labels_.dtype == np.int32
    np.testing.assert_array_equal(second.labels_.compute(), second.predict(X).compute())


def test_other_shapes_are_refused():
    soft = SoftKMeans(3, random_state=0).fit(IRIS)
    with pytest.raises(ValueError, match=r"must have \(3, 4\) .* got \(2, 4\)"):
        soft.align_to(IRIS[:2])
    with pytest.raises(ValueError, match=r"got \(3, 2\)"):
        soft.align_to(IRIS[:3, :2])
    with pytest.raises(ValueError, match="reference contains NaN"):
        soft.align_to(np.full((3, 4), np.nan))
    with pytest.raises(NotFittedError):
        SoftKMeans(3).align_to(soft)

"""Indices of soft memberships against their definitions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import silhouette_score
from sklearn.model_selection import GridSearchCV

import reference
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, metrics

X = reference.blobs(3, n_samples=60, seed=1)
CENTERS = X[[0, 20, 40]]
RESP = reference.responsibilities(X, CENTERS, 1.5)
WEIGHTS = np.random.RandomState(0).randint(0, 4, len(X)).astype(float)
SCORERS = {
    metrics.partition_coefficient_scorer: lambda m: metrics.partition_coefficient(m.transform(X)),
    metrics.neg_partition_entropy_scorer: lambda m: -metrics.partition_entropy(m.transform(X)),
    metrics.fuzzy_silhouette_scorer: lambda m: metrics.fuzzy_silhouette_score(X, m.transform(X)),
    metrics.neg_xie_beni_scorer: lambda m: (
        -metrics.xie_beni_index(X, m.transform(X), m.cluster_centers_)
    ),
}


def repeated(array):
    return np.repeat(array, WEIGHTS.astype(int), axis=0)


def test_hard_and_shared_memberships_are_the_ends():
    hard, shared = np.eye(4), np.full((5, 4), 0.25)
    assert metrics.partition_coefficient(hard) == 1.0
    assert metrics.partition_coefficient(shared) == 0.25
    assert metrics.partition_entropy(hard) == 0.0
    np.testing.assert_allclose(metrics.partition_entropy(shared), np.log(4), rtol=1e-15)


def test_values_equal_the_definitions():
    coefficient = np.mean([(row**2).sum() for row in RESP])
    np.testing.assert_allclose(metrics.partition_coefficient(RESP), coefficient)
    entropy = np.mean([-(row * np.log(row)).sum() for row in RESP])
    np.testing.assert_allclose(metrics.partition_entropy(RESP), entropy)
    distances = reference.sq_distances(X, CENTERS)
    apart = min(((CENTERS[i] - CENTERS[j]) ** 2).sum() for i in range(3) for j in range(i))
    index = (RESP**2 * distances).sum() / len(X) / apart
    np.testing.assert_allclose(metrics.xie_beni_index(X, RESP, CENTERS), index, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e7])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_compactness_keeps_its_digits(container, offset):
    expected = metrics.xie_beni_index(X, RESP, CENTERS)
    found = metrics.xie_beni_index(container(X + offset), RESP, CENTERS + offset)
    np.testing.assert_allclose(found, expected, rtol=1e-12 if offset == 0.0 else 1e-6)


def test_weights_equal_repetition():
    for index in [metrics.partition_coefficient, metrics.partition_entropy]:
        np.testing.assert_allclose(index(RESP, sample_weight=WEIGHTS), index(repeated(RESP)))
    found = metrics.xie_beni_index(X, RESP, CENTERS, sample_weight=WEIGHTS)
    expected = metrics.xie_beni_index(repeated(X), repeated(RESP), CENTERS)
    np.testing.assert_allclose(found, expected)


def test_the_silhouette_of_hard_memberships_is_that_of_the_labels():
    labels = RESP.argmax(axis=1)
    expected = silhouette_score(X, labels)
    hard = np.eye(3)[labels]
    np.testing.assert_allclose(metrics.fuzzy_silhouette_score(X, hard), expected)
    equal = metrics.fuzzy_silhouette_score(X, RESP, exponent=0)
    np.testing.assert_allclose(equal, expected)


def test_shared_rows_count_less_in_the_silhouette():
    from sklearn.metrics import silhouette_samples

    labels = RESP.argmax(axis=1)
    lead = np.sort(RESP, axis=1)
    lead = (lead[:, -1] - lead[:, -2]) ** 2
    expected = np.average(silhouette_samples(X, labels), weights=lead * WEIGHTS)
    found = metrics.fuzzy_silhouette_score(X, RESP, exponent=2, sample_weight=WEIGHTS)
    np.testing.assert_allclose(found, expected)


def test_without_any_lead_there_is_no_silhouette():
    shared = np.full((4, 2), 0.5)
    with pytest.raises(ValueError, match="Number of labels is 1"):
        metrics.fuzzy_silhouette_score(X[:4], shared)
    halves = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]])
    assert np.isnan(metrics.fuzzy_silhouette_score(X[:4], halves))


def test_equal_centres_are_not_separated():
    assert metrics.xie_beni_index(X, RESP, CENTERS[[0, 0, 1]]) == np.inf


@pytest.mark.parametrize("scorer", SCORERS)
def test_scorers_are_the_indices_of_a_fitted_model(scorer):
    model = EntmaxKMeans(3, random_state=0).fit(X)
    assert scorer(model, X) == SCORERS[scorer](model)
    search = GridSearchCV(SoftKMeans(random_state=0), {"n_clusters": [2, 3]}, scoring=scorer, cv=2)
    assert np.isfinite(search.fit(X).best_score_)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.partition_coefficient([[0.5, 0.4]]), "sum to one"),
        (lambda: metrics.partition_entropy([[1.5, -0.5]]), "non-negative"),
        (lambda: metrics.partition_entropy([[np.nan, 1.0]]), "NaN"),
        (lambda: metrics.partition_entropy(np.eye(2), sample_weight=[1.0]), "sample_weight"),
        (lambda: metrics.xie_beni_index(X, RESP[:5], CENTERS), "shape"),
        (lambda: metrics.xie_beni_index(X, np.ones((60, 1)), CENTERS[:1]), "at least two"),
        (lambda: metrics.fuzzy_silhouette_score(X, np.ones((60, 1))), "at least two"),
        (lambda: metrics.fuzzy_silhouette_score(X, RESP, exponent=-1), "exponent=-1"),
        (lambda: metrics.fuzzy_silhouette_score(X, RESP, exponent=np.nan), "exponent"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

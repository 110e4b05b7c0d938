"""The default score chooses temperature and number; saved models are plain.

Sources: https://github.com/scikit-learn/scikit-learn/issues/6154,
https://github.com/scikit-learn/scikit-learn/issues/20773,
https://github.com/lmcinnes/umap/issues/473
"""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import reference
from models import fit_quietly
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
merging = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def halves(rows):
    return [(np.arange(0, len(rows), 2), np.arange(1, len(rows), 2))]


def blobs_of(n_clusters, spread):
    """Normal rows around places on a line, the whole scaled by the spread."""
    rng = np.random.RandomState(1)
    places = np.column_stack([14.0 * np.arange(n_clusters), np.zeros(n_clusters)])
    rows = np.repeat(places, 80, axis=0) + rng.normal(size=(80 * n_clusters, 2))
    return spread * rows


@every
@merging
@pytest.mark.parametrize("spread", [1e-3, 1.0, 400.0])
def test_the_chosen_temperature_follows_the_unit(make, spread):
    rows = blobs_of(3, spread)
    grid = [factor * spread for factor in (0.1, 0.3, 1.0, 3.0, 10.0)]
    search = GridSearchCV(make(3, n_init=5, random_state=0), {"sigma": grid}, cv=halves(rows))
    assert search.fit(rows).best_params_ == {"sigma": spread}


@every
@merging
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_the_chosen_number_is_the_true_number(make, n_clusters):
    rows = blobs_of(n_clusters, 1.0)
    grid = {"n_clusters": [1, 2, 3, 5, 8]}
    search = GridSearchCV(make(sigma=1.0, n_init=10, random_state=0), grid, cv=halves(rows))
    assert search.fit(rows).best_params_ == {"n_clusters": n_clusters}


@every
def test_distortion_and_free_energy_would_choose_degenerate_models(make):
    """Why the score is neither: one falls with the number, the other with sigma."""
    rows = blobs_of(3, 1.0)
    fits = [fit_quietly(make(k, sigma=1.0, n_init=5, random_state=0), rows) for k in (1, 3, 10)]
    assert (np.diff([fit.inertia_ for fit in fits]) < 0).all()
    objectives = [
        fit_quietly(make(3, sigma=sigma, n_init=5, random_state=0), rows).objective_
        for sigma in (0.1, 1.0, 10.0)
    ]
    assert (np.diff(objectives) <= 1e-9 * abs(objectives[0])).all()
    assert objectives[2] < objectives[0]


@every
def test_a_model_inside_a_container_is_pickled_without_compiled_code(make):
    rows = reference.data("iris")
    models = {"fitted": make(3, random_state=0).fit(rows), "new": make(3)}
    blob = pickle.dumps(models)
    for word in (b"numba", b"llvmlite", b"_kernels", b"CPUDispatcher"):
        assert word not in blob
    again = pickle.loads(blob)
    np.testing.assert_array_equal(again["fitted"].transform(rows), models["fitted"].transform(rows))
    assert again["new"].fit(rows).cluster_centers_.shape == (3, 4)

"""Models that are saved here and loaded elsewhere.

Sources: https://github.com/lmcinnes/umap/issues/473,
https://github.com/lmcinnes/pynndescent/issues/247, https://github.com/numba/numba/issues/6143,
https://github.com/scikit-learn/scikit-learn/issues/19022
"""

import io
import pickle
from functools import partial

import cloudpickle
import joblib
import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reference
import sklearn_softkmeans
from models import run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

X = reference.data("iris")
CENTERS = X[::60].copy()
MODELS = {
    "softmax": SoftKMeans(3, random_state=0),
    "entmax": EntmaxKMeans(3, alpha=1.3, random_state=0),
    "hard": EntmaxKMeans(3, sigma=0, init=CENTERS),
    "pipeline": make_pipeline(StandardScaler(), SoftKMeans(3, random_state=0)),
}


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.getvalue()


def from_joblib(blob):
    return joblib.load(io.BytesIO(blob))


WAYS = {
    f"pickle{protocol}": (partial(pickle.dumps, protocol=protocol), pickle.loads)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
} | {
    "joblib": (by_joblib, from_joblib),
    "cloudpickle": (cloudpickle.dumps, cloudpickle.loads),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_a_round_trip_changes_no_bit_and_keeps_no_compiled_code(name, dtype, way):
    rows = X.astype(dtype)
    dump, load = WAYS[way]
    fitted = clone(MODELS[name]).fit(rows)
    blob, unfitted = dump(fitted), dump(clone(MODELS[name]))
    for word in (b"numba", b"llvmlite", b"_kernels", b"Dispatcher"):
        assert word not in blob + unfitted
    again = load(blob)
    np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))
    np.testing.assert_array_equal(again.predict(rows), fitted.predict(rows))
    assert again.score(rows) == fitted.score(rows)
    new = load(unfitted).fit(rows)
    np.testing.assert_array_equal(new.transform(rows), fitted.transform(rows))


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_the_data_are_no_part_of_a_model(container):
    rows = np.random.RandomState(0).normal(size=(5000, 40))
    fitted = EntmaxKMeans(5, max_iter=500, random_state=0).fit(container(rows))
    expected = fitted.cluster_centers_.nbytes + fitted.labels_.nbytes
    assert len(pickle.dumps(fitted)) < expected + 10_000


# Loads models, where nothing is compiled yet, before the package has been imported.
ELSEWHERE = """
import json, pickle, sys
import numpy as np
models = pickle.load(open(sys.argv[1] + "/models.pickle", "rb"))
rows = np.load(sys.argv[1] + "/rows.npy")
print(json.dumps({name: model.transform(rows).tolist() for name, model in models.items()}))
"""


def test_a_process_without_a_cache_answers_the_same(tmp_path):
    models = {name: clone(model).fit(X) for name, model in MODELS.items()}
    (tmp_path / "models.pickle").write_bytes(pickle.dumps(models))
    np.save(tmp_path / "rows.npy", X)
    found = run_python(ELSEWHERE, tmp_path, SKLEARN_SOFTKMEANS_CACHE="0")
    for name, model in models.items():
        np.testing.assert_array_equal(found[name], model.transform(X))


@pytest.mark.parametrize("name", ["softmax", "entmax"])
@pytest.mark.parametrize("version", ["0.0.1", None])
def test_a_model_of_another_version_says_so_and_works(version, name):
    fitted = clone(MODELS[name]).fit(X)
    state = fitted.__getstate__()
    assert state.pop("_version") == sklearn_softkmeans.__version__
    if version is not None:
        state["_version"] = version
    other = clone(MODELS[name])
    with pytest.warns(InconsistentVersionWarning, match=version or "unknown"):
        other.__setstate__(state)
    assert set(vars(other)) == set(vars(fitted))
    np.testing.assert_array_equal(other.transform(X), fitted.transform(X))


@pytest.mark.parametrize("name", ["softmax", "entmax", "hard"])
def test_plain_arrays_are_enough_to_restore_a_model(name, tmp_path):
    fitted = clone(MODELS[name]).fit(X)
    np.savez(tmp_path / "model.npz", centers=fitted.cluster_centers_, sigma=fitted.sigma_)
    saved = np.load(tmp_path / "model.npz")
    params = {"alpha": fitted.alpha} if isinstance(fitted, EntmaxKMeans) else {}
    again = type(fitted).from_centers(saved["centers"], sigma=float(saved["sigma"]), **params)
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))


@pytest.mark.parametrize("name", MODELS)
def test_skops_has_nothing_to_distrust_but_the_name_of_the_class(name):
    """Which it asks of every class outside scikit-learn."""
    fitted = clone(MODELS[name]).fit(X)
    blob = skops.io.dumps(fitted)
    ours = {"sklearn_softkmeans._soft_kmeans.SoftKMeans"}
    ours.add("sklearn_softkmeans._entmax_kmeans.EntmaxKMeans")
    assert set(skops.io.get_untrusted_types(data=blob)) <= ours
    again = skops.io.loads(blob, trusted=sorted(ours))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))

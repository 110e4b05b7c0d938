"""ONNX graphs, run by onnxruntime, against the estimators they come from."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from models import run_python
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

onnx = pytest.importorskip("sklearn_softkmeans.onnx")
skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

IRIS = load_iris().data
DIGITS = load_digits().data


@pytest.fixture(autouse=True)
def registered():
    onnx.register_converters()


def run(model, X, options=None):
    """Outputs of the graph."""
    graph = skl2onnx.to_onnx(model, X[:1], options=options)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: X})


def compare(model, X, tolerance):
    label, responsibilities = run(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    expected = model.predict_proba(X)
    assert responsibilities.dtype == X.dtype
    np.testing.assert_allclose(responsibilities, expected, rtol=0, atol=tolerance)
    if not isinstance(model, SoftKMeans):
        np.testing.assert_array_equal(responsibilities > 0, expected > 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [1, 1.0001, 1.25, 1.5, 2, 3, 4])
@pytest.mark.parametrize("data", [IRIS, DIGITS], ids=["iris", "digits"])
def test_the_graph_of_entmax_agrees(data, alpha, dtype):
    X = data.astype(dtype)
    model = EntmaxKMeans(5, alpha=alpha, sigma=0.1 * X.std() * X.shape[1] ** 0.5, random_state=0)
    compare(model.fit(X), X, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sigma", ["auto", 0, 1e-3, 1e3])
def test_the_graph_of_softmax_agrees(sigma, dtype):
    X = IRIS.astype(dtype)
    model = SoftKMeans(5, init=X[::30], sigma=sigma)
    if sigma == 1e3:
        model = SoftKMeans.from_centers(X[::30], sigma=sigma)
    else:
        model.fit(X)
    label, responsibilities = run(model, X)
    np.testing.assert_allclose(responsibilities, model.predict_proba(X), rtol=0, atol=1e-5)
    if sigma != 1e3:
        np.testing.assert_array_equal(label, model.predict(X))


@pytest.mark.parametrize("alpha", [1, 1.5, 2])
def test_an_offset_costs_no_digits(alpha):
    X = IRIS + 1e6
    model = EntmaxKMeans.from_centers(X[::30], sigma=1.0, alpha=alpha)
    compare(model, X, 1e-9)


@pytest.mark.parametrize("alpha", [1, 1.5, 2])
def test_one_cluster_one_column_and_far_rows(alpha):
    centers = np.array([[0.0], [1.0], [3.0]])
    far = np.array([[-1e6], [0.0], [0.4], [1e6]])
    compare(EntmaxKMeans.from_centers(centers, sigma=1.0, alpha=alpha), far, 1e-9)
    compare(EntmaxKMeans.from_centers(centers[:1], sigma=1.0, alpha=alpha), far, 0)


def test_in_a_pipeline_the_last_step_has_both_outputs():
    X = IRIS.astype(np.float32)
    model = make_pipeline(StandardScaler(), EntmaxKMeans(3, sigma=0.5, random_state=0)).fit(X)
    label, responsibilities = run(model, X)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(responsibilities, model.predict_proba(X), rtol=0, atol=1e-5)


def test_in_a_pipeline_another_step_takes_responsibilities():
    X, y = load_iris(return_X_y=True)
    soft = SoftKMeans(6, sigma=0.5, random_state=0)
    model = make_pipeline(StandardScaler(), soft, LogisticRegression(C=10)).fit(X, y)
    options = {SoftKMeans: {"labels": False}, LogisticRegression: {"zipmap": False}}
    label, probabilities = run(model, X, options)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-5)


def test_alpha_of_which_digits_would_be_lost_is_refused():
    model = EntmaxKMeans.from_centers([[0.0], [1.0]], sigma=1.0, alpha=4.5)
    with pytest.raises(ValueError, match=r"alpha=4.5 cannot be converted.*at most 4"):
        run(model, np.zeros((1, 1)))


def test_without_skl2onnx_an_error_says_what_to_install():
    code = (
        "import sys; sys.modules['skl2onnx'] = None\n"
        "import sklearn_softkmeans\n"
        "try:\n    import sklearn_softkmeans.onnx\n"
        "except ImportError as error:\n    import json; print(json.dumps(str(error)))"
    )
    assert 'pip install "sklearn-softkmeans[onnx]"' in run_python(code)

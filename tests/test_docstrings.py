"""Docstrings of everything public, by numpydoc's own checks."""

import inspect
import pydoc
import re

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

import sklearn_softkmeans
from sklearn_softkmeans import dask, inspection, metrics, nn, onnx, projections

# What numpydoc would have otherwise, and these docstrings would not.
NOT_ASKED = {
    "ES01",  # an extended summary
    "SA01",  # "See Also"
    "RT02",  # a return value without name
    "RT04",  # a capital letter where a description starts with "float32"
    "SS05",  # a verb to start with: it takes "Responsibilities" for one in the third person
}
RANGE = "at least|above|between|if not 0|along which"
TEMPERATURES = {"sigma", "sigma_start", "start", "end"}
EXAMPLES = "EX01"  # asked of classes and functions, not of each method


SUBMODULES = (dask, inspection, metrics, nn, onnx, projections)


def public_objects():
    """Names of classes, their own and inherited methods and properties, and functions."""
    modules = (sklearn_softkmeans, *SUBMODULES)
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.ismodule(thing):
                if not hasattr(thing, "__path__"):  # numpydoc looks for a function in it
                    yield thing.__name__
                continue
            full_name = f"{module.__name__}.{name}"
            yield full_name
            if inspect.isclass(thing):
                for attribute, value in inspect.getmembers(thing):
                    ours = str(getattr(value, "__module__", "")).startswith("sklearn_softkmeans")
                    if ours and not attribute.startswith("_") and callable(value):
                        yield f"{full_name}.{attribute}"


OBJECTS = sorted(set(public_objects()))


def test_the_list_has_classes_methods_and_functions():
    assert {
        "sklearn_softkmeans.SoftKMeans",
        "sklearn_softkmeans.EntmaxKMeans.fit",
        "sklearn_softkmeans.EntmaxKMeans.from_centers",
        "sklearn_softkmeans.SoftKMeans.score_samples",
        "sklearn_softkmeans.nn.SoftKMeansLayer.from_estimator",
        "sklearn_softkmeans.nn.entmax",
        "sklearn_softkmeans.projections",
        "sklearn_softkmeans.projections.entmax",
    } <= set(OBJECTS)


@pytest.mark.parametrize("name", OBJECTS)
def test_numpydoc_finds_nothing(name):
    inside = any(name.startswith(f"{module.__name__}.") for module in SUBMODULES)
    method_or_module = name.count(".") != 1 + inside
    accepted = NOT_ASKED | ({EXAMPLES} if method_or_module else set())
    errors = {code: text for code, text in validate(name)["errors"] if code not in accepted}
    assert not errors


def numbers(name):
    """Parameters that are numbers, and what is said of them."""
    for parameter in get_doc_object(pydoc.locate(name))["Parameters"]:
        if re.search(r"^(int|float)\b|or (int|float)\b", parameter.type):
            yield parameter.name, parameter.type, " ".join(parameter.desc)


@pytest.mark.parametrize("name", OBJECTS)
def test_the_range_of_every_number_is_stated(name):
    for parameter, kind, text in numbers(name):
        if "RandomState" not in kind:  # its range is NumPy's
            assert re.search(RANGE, text, re.IGNORECASE), parameter


@pytest.mark.parametrize("name", OBJECTS)
def test_the_unit_of_every_temperature_is_stated(name):
    for parameter, _, text in numbers(name):
        if parameter in TEMPERATURES:
            assert "unit" in text or "scale" in text, parameter


@pytest.mark.parametrize("make", ["SoftKMeans", "EntmaxKMeans"])
def test_attributes_of_a_fit_are_documented(make):
    estimator = getattr(sklearn_softkmeans, make)(1, sigma=1.0).fit([[0.0], [1.0]])
    fitted = {name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")}
    for name in fitted:
        assert f"\n    {name} : " in type(estimator).__doc__


def test_attributes_of_a_deep_fit_are_documented():
    deep = nn.DeepSoftKMeans(1, encoder=(2,), pretrain_epochs=1, max_epochs=1)
    for name in vars(deep.fit([[0.0], [1.0]])):
        if name.endswith("_") and not name.startswith("_"):
            assert f"\n    {name} : " in nn.DeepSoftKMeans.__doc__

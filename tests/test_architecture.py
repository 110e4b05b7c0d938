"""The shape of the package: floors, sizes, public names, and what an import costs."""

import ast
import importlib.util
from pathlib import Path

import pytest

from models import run_python

# A module imports only modules of lower floors. A kernel file not named here is on floor 1.
FLOORS = {
    "_jit": 0,
    "_version": 0,
    "_typing": 0,
    "_kernels": 1,
    "_kernels.chunks": 1,
    "_kernels.distances": 1,
    "_kernels.elementary": 1,
    "_kernels.rows": 1,
    "_kernels.simplex": 1,
    "_kernels.shares": 2,
    "_kernels.steps": 2,
    "_kernels.tiles": 2,
    "_arrays": 2,
    "_ranges": 2,
    "_compiled": 2,
    "_progress": 2,
    "_reports": 2,
    "_compat": 2,
    "_validation": 3,
    "_assignment": 3,
    "_centers": 3,
    "_gaps": 3,
    "_seeding": 3,
    "_tiles": 3,
    "_cells": 3,
    "projections": 3,
    "_alignment": 4,
    "_annealing": 4,
    "_perplexity": 4,
    "_blocks": 4,
    "_minibatch": 4,
    "_block_seeding": 4,
    "_solver": 4,
    "_gradient": 4,
    "_path": 5,
    "inspection": 6,
    "metrics": 6,
    "inspection._certificates": 4,
    "inspection._collapse": 4,
    "inspection._drawing": 3,
    "inspection._membership": 4,
    "inspection._tree": 5,
    "_sparse_shares": 4,
    "_base": 5,
    "_batch_fits": 5,
    "_prediction": 5,
    "_streams": 5,
    "_entmax_kmeans": 6,
    "_soft_kmeans": 6,
    "_dask_blocks": 5,
    "dask": 7,
    "onnx": 7,
    "": 7,  # the package itself
    "nn._distances": 8,
    "nn._schedules": 8,
    "nn._simplex": 8,
    "nn._projections": 9,
    "nn._losses": 10,
    "nn._modules": 10,
    "nn._layer": 11,
    "nn._training": 12,
    "nn._deep": 13,
    "nn": 14,
}
SAME_FLOOR = {  # (importer, imported)
    ("_base", "_prediction"),
    ("_block_seeding", "_solver"),
    ("_centers", "_assignment"),
    ("_compiled", "_kernels.shares"),
    ("_compiled", "_kernels.steps"),
    ("_compiled", "_kernels.tiles"),
    ("_annealing", "_block_seeding"),
    ("_centers", "_gaps"),
    ("_tiles", "_assignment"),
    ("_tiles", "_cells"),
    ("_perplexity", "_solver"),
    ("_kernels.distances", "_kernels.rows"),
    ("_kernels.simplex", "_kernels.elementary"),
    ("_kernels.chunks", "_kernels.distances"),
    ("_kernels.chunks", "_kernels.rows"),
    ("_kernels.steps", "_kernels.shares"),
    ("_kernels.tiles", "_kernels.shares"),
    ("_kernels.tiles", "_kernels.steps"),
}
LEAVES = {"_compat"}  # import nothing of ours
NUMBA_MODULES = {"_jit"}

PUBLIC_NAMES = {
    "": {
        "EntmaxKMeans",
        "SoftKMeans",
        "inspection",
        "metrics",
        "objective_and_gradient",
        "projections",
        "soft_kmeans_path",
    },
    "inspection": {
        "AnnealingDisplay",
        "CollapsePathDisplay",
        "MembershipDisplay",
        "critical_sigma",
        "hard_sigma",
    },
    "metrics": {
        "fuzzy_silhouette_score",
        "fuzzy_silhouette_scorer",
        "neg_partition_entropy_scorer",
        "neg_xie_beni_scorer",
        "partition_coefficient",
        "partition_coefficient_scorer",
        "partition_entropy",
        "xie_beni_index",
    },
    "dask": {"DaskEntmaxKMeans", "DaskSoftKMeans"},
    "projections": {"entmax", "entmax15", "softmax", "sparsemax"},
    "onnx": {"register_converters"},
    "nn": {
        "DeepSoftKMeans",
        "Entmax",
        "Entmax15",
        "FreeEnergyLoss",
        "GeometricSchedule",
        "LinearSchedule",
        "SoftKMeansLayer",
        "Softmax",
        "Sparsemax",
        "WeightedDistortionLoss",
        "entmax",
        "entmax15",
        "free_energy",
        "softmax",
        "sparsemax",
        "sq_distances",
        "weighted_distortion",
    },
}

MAX_FILE_LINES = 450
MAX_BODY_LINES = 80
USUAL_BODY_LINES = 35  # nine functions of ten are shorter
MAX_POSITIONAL = 6  # kernels excepted: their buffers are the caller's

# Optional, or slow to import.
LAZY_IMPORTS = ["dask", "llvmlite", "matplotlib", "numba", "onnx", "skl2onnx", "torch"]

PACKAGE = "sklearn_softkmeans"
ROOT = Path(importlib.util.find_spec(PACKAGE).origin).parent


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}


def label(module):
    return module or "__init__"


def floor(module):
    return 1 if module.startswith("_kernels.") and module not in FLOORS else FLOORS[module]


# --------------------------------------------------------------------- imports


def absolute_name(module, level, target):
    """Full name of `target` as written in `module` after `level` dots."""
    if level == 0:
        return target
    path = [PACKAGE, *module.split(".")] if module else [PACKAGE]
    if SOURCES[module].stem != "__init__":
        path = path[:-1]
    path = path[: len(path) - (level - 1)]
    return ".".join([*path, target] if target else path)


def dynamic_import(node):
    """Module named by a call of import_module or __import__, None for any other call."""
    called = getattr(node.func, "attr", getattr(node.func, "id", None))
    if called not in {"import_module", "__import__"}:
        return None
    assert isinstance(node.args[0], ast.Constant), (
        f"line {node.lineno}: an import whose name is computed hides what depends on what"
    )
    return node.args[0].value


def imported_names(module):
    """Full names that `module` imports, at its top or inside functions."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = absolute_name(module, node.level, node.module)
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and (name := dynamic_import(node)):
            target = name.lstrip(".")
            yield absolute_name(module, len(name) - len(target), target)


def imported_modules(module):
    """Modules of the package among them: `from ._solver import solve` names `_solver`."""
    for name in imported_names(module):
        package, _, target = name.partition(".")
        if package == PACKAGE:
            yield target if target in SOURCES else target.rpartition(".")[0]


def may_import(importer, imported):
    if importer in LEAVES:
        return False
    return floor(imported) < floor(importer) or (importer, imported) in SAME_FLOOR


def test_every_module_has_a_floor():
    kernels = {module for module in SOURCES if module.startswith("_kernels.")}
    assert set(SOURCES) == set(FLOORS) | kernels


@pytest.mark.parametrize("module", SOURCES, ids=label)
def test_imports_go_down(module):
    wrong = [name for name in imported_modules(module) if not may_import(module, name)]
    assert not wrong, f"{label(module)} must not import {wrong}"


@pytest.mark.parametrize("module", sorted(SOURCES.keys() - NUMBA_MODULES), ids=label)
def test_numba_stays_behind_jit(module):
    packages = {name.partition(".")[0] for name in imported_names(module)}
    assert not packages & {"llvmlite", "numba"}


# ----------------------------------------------------------------------- sizes


def functions():
    """(where, node) of every function of the package, nested ones and methods included."""
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{label(module)}.{node.name}", node


def body_lines(function):
    """Lines of the body without its docstring."""
    body = function.body if ast.get_docstring(function) is None else function.body[1:]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def positional(function):
    names = [argument.arg for argument in function.args.posonlyargs + function.args.args]
    return len(names) - (names[:1] in (["self"], ["cls"]))


@pytest.mark.parametrize("module", SOURCES, ids=label)
def test_files_are_short(module):
    n_lines = len(SOURCES[module].read_text(encoding="utf-8").splitlines())
    assert n_lines <= MAX_FILE_LINES


def test_functions_are_short():
    sizes = {where: body_lines(node) for where, node in functions()}
    long = {where: size for where, size in sizes.items() if size >= USUAL_BODY_LINES}
    assert max(sizes.values()) <= MAX_BODY_LINES, long
    assert len(long) <= 0.1 * len(sizes), long


def test_few_positional_arguments():
    counts = {
        where: positional(node) for where, node in functions() if not where.startswith("_kernels")
    }
    assert not {where: count for where, count in counts.items() if count > MAX_POSITIONAL}


@pytest.mark.parametrize("module", SOURCES, ids=label)
def test_no_code_from_text(module):
    calls = (node for node in ast.walk(TREES[module]) if isinstance(node, ast.Call))
    assert not {getattr(call.func, "id", None) for call in calls} & {"compile", "eval", "exec"}


# ------------------------------------------------------------ in a new process


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("module", PUBLIC_NAMES, ids=label)
def test_public_names(module):
    name = f"{PACKAGE}.{module}".rstrip(".")
    code = f"""
import importlib, json
module = importlib.import_module({name!r})
print(json.dumps([module.__all__, dir(module)]))
"""
    exported, visible = run_python(code)
    assert public(exported) == PUBLIC_NAMES[module]
    assert set(exported) <= set(visible)
    if module == "":  # elsewhere the modules in use are visible too
        assert public(visible) == PUBLIC_NAMES[module]


def test_import_is_light():
    code = f"import json, sys, {PACKAGE}; print(json.dumps(list(sys.modules)))"
    loaded = run_python(code)
    assert PACKAGE in loaded
    assert not set(loaded) & set(LAZY_IMPORTS)


def test_import_compiles_nothing(tmp_path):
    """Not even when every module is imported, kernels included."""
    modules = [f"{PACKAGE}.{module}".rstrip(".") for module in SOURCES]
    code = f"""
import importlib, json
from numba.core.event import install_recorder
with install_recorder("numba:compile") as compilations:
    for module in {modules!r}:
        importlib.import_module(module)
print(json.dumps([str(event) for _, event in compilations.buffer]))
"""
    # An empty folder: no cache to hide behind.
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) == []

"""Where the package lies, who may write there, and what is compiled when.

Sources: https://github.com/numba/numba/issues/4908, https://github.com/numba/numba/issues/5566,
https://github.com/numba/numba/issues/4032, https://github.com/lmcinnes/umap/issues/631,
https://github.com/lmcinnes/pynndescent/issues/111, https://github.com/lmcinnes/umap/pull/1152,
https://github.com/numba/numba/issues/4471, https://github.com/lmcinnes/umap/issues/1163
"""

import importlib.metadata
import shutil
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from models import PACKAGE_PATH, run_python

NOWHERE = "/dev/null/nowhere"  # nobody can make a folder there, not even root
NO_FOLDER = {
    "HOME": NOWHERE,
    "XDG_CACHE_HOME": NOWHERE,
    "TMPDIR": NOWHERE,
    "NUMBA_CACHE_DIR": None,
}
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="needs the paths of Unix")

# Prints where the package lies, how many functions a first call compiled, and the result.
SOFTMAX = """
import json, os
from numba.core.event import install_recorder
import sklearn_softkmeans
from sklearn_softkmeans.projections import softmax
with install_recorder("numba:compile") as compilations:
    result = softmax([[0.0, 0.0, -1000.0]])
path = os.path.dirname(sklearn_softkmeans.__file__)
print(json.dumps([path, len(compilations.buffer), result.tolist()]))
"""
RESULT = [[0.5, 0.5, 0.0]]


def install(folder):
    """A copy of the package, as an installer leaves it."""
    target = folder / "sklearn_softkmeans"
    source = PACKAGE_PATH / "sklearn_softkmeans"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def forbid_caches(package):
    """A file where the interpreter and numba would make a folder of compiled code."""
    for folder in (package, package / "_kernels"):
        (folder / "__pycache__").write_text("not a folder")


# ------------------------------------------------------------------ without a place to write

FIT = """
import json, warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from sklearn_softkmeans import SoftKMeans
    X = np.array([[-1.0], [1.0]])
    fitted = SoftKMeans(2, sigma=0.9, init=X / 2).fit(X)
    resp = fitted.transform(X)
print(json.dumps([len(caught), abs(fitted.cluster_centers_).tolist(), resp.sum(axis=1).tolist()]))
"""


@needs_unix
def test_a_folder_that_nobody_may_write_to_is_enough(tmp_path):
    forbid_caches(install(tmp_path))
    n_warnings, centers, sums = run_python(FIT, path=tmp_path, **NO_FOLDER)
    assert n_warnings == 0
    assert centers == [[pytest.approx(0.6956580, rel=0.01)]] * 2
    assert sums == [pytest.approx(1.0, abs=1e-12)] * 2


def zipped(folder):
    archive = folder / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in install(folder / "unzipped").rglob("*.py"):
            file.write(path, path.relative_to(folder / "unzipped"))
    return archive


@needs_unix
def test_the_package_works_out_of_a_zip_file(tmp_path):
    archive = zipped(tmp_path)
    path, n_compiled, result = run_python(SOFTMAX, path=archive, **NO_FOLDER)
    assert path.startswith(str(archive))
    assert n_compiled > 0
    assert result == RESULT


@needs_unix
def test_a_read_only_package_keeps_compiled_code_in_the_users_folder(tmp_path):
    forbid_caches(install(tmp_path / "package"))
    options = {**NO_FOLDER, "HOME": str(tmp_path), "XDG_CACHE_HOME": None}
    options["path"] = tmp_path / "package"
    for expected in (True, False):
        _, n_compiled, result = run_python(SOFTMAX, **options)
        assert (n_compiled > 0) == expected
        assert result == RESULT


# --------------------------------------------------------------------------- shared caches


def test_processes_that_fill_one_empty_cache_at_once_agree(tmp_path):
    def run(_):
        return run_python(SOFTMAX, NUMBA_CACHE_DIR=str(tmp_path))

    with ThreadPoolExecutor(3) as pool:
        assert [result for _, _, result in pool.map(run, range(3))] == [RESULT] * 3
    assert run(0)[1:] == [0, RESULT]


def test_an_upgrade_in_place_is_not_answered_by_old_code(tmp_path):
    """Where only a file changed that the cached function calls: numba looks at its own alone."""
    package = install(tmp_path / "package")
    options = {"path": tmp_path / "package", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run_python(SOFTMAX, **options)[1:] != [0, RESULT]
    assert run_python(SOFTMAX, **options)[1:] == [0, RESULT]
    source = package / "_kernels" / "elementary.py"
    old = "return value if x >= -707.0 else 0.0"
    assert old in source.read_text()
    source.write_text(source.read_text().replace(old, "return 4.0"))
    _, n_compiled, result = run_python(SOFTMAX, **options)
    assert n_compiled > 0
    assert result != RESULT


# ------------------------------------------------------------------------------ compilations

MANY_FITS = """
import json
import numpy as np
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from sklearn_softkmeans._kernels import distances, rows, steps

entries = [distances.load_rows, rows.sq_distances_to, steps.pass_over_rows]
numbers = np.random.RandomState(0).normal(size=(200, 10))
read_only = numbers[:, ::2].copy()
read_only.flags.writeable = False
layouts = [numbers[:, :5].copy(), np.asfortranarray(numbers[:, :5]), numbers[:, ::2], read_only]
layouts.append(numbers[::-1, 5:])
counts = []
for dtype in (np.float64, np.float32):
    for make in (SoftKMeans, EntmaxKMeans):
        for n_fits in (1, 100):
            for i in range(n_fits):
                X = layouts[i % 5].astype(dtype, order="K", copy=i % 5 != 3)
                make(3, random_state=i, max_iter=5, tol=1.0).fit(X).predict(X[:3])
            counts.append([len(entry.kernel.signatures) for entry in entries])
print(json.dumps(counts))
"""


def test_new_instances_and_layouts_compile_nothing_after_the_first_fit():
    counts = run_python(MANY_FITS)
    assert counts[0][-1] == 1 and counts[-1][-1] > 2
    assert counts[1::2] == counts[::2]


# ---------------------------------------------------------------------------------- metadata


@pytest.fixture(scope="module")
def metadata():
    try:
        return importlib.metadata.metadata("sklearn-softkmeans")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")


def test_no_resolver_can_pick_an_ancient_numba(metadata):
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    floors = {req.name: req.specifier for req in requirements if req.marker is None}
    assert floors["numba"].contains("0.61") and not floors["numba"].contains("0.60")
    for specifier in floors.values():
        assert [part.operator for part in specifier] == [">="]


def test_the_metadata_say_which_pythons_and_extras_there_are(metadata):
    supported = SpecifierSet(metadata["Requires-Python"])
    assert supported.contains("3.13") and not supported.contains("3.10")
    assert {"doc", "plot", "test"} <= set(metadata.get_all("Provides-Extra"))

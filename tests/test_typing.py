"""The public signatures have types that a strict checker accepts, and uses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from models import PACKAGE_PATH

pytest.importorskip("mypy")
SCRIPT = Path(__file__).with_name("typed_script.py")


def path_to_package():
    """For a package that is not installed; mypy finds installed ones, and refuses their path."""
    return {} if PACKAGE_PATH.name == "site-packages" else {"MYPYPATH": str(PACKAGE_PATH)}


def errors_of(path, cache):
    """What mypy finds wrong in a script that uses the package."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    ended = subprocess.run(
        [*command, f"--cache-dir={cache}", str(path)],
        env={**os.environ, **path_to_package()},
        cwd=cache,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ended.stderr
    return [line for line in ended.stdout.splitlines() if ": error: " in line]


def test_a_script_of_a_user_passes_and_a_wrong_one_does_not(tmp_path):
    assert errors_of(SCRIPT, tmp_path) == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from sklearn_softkmeans import SoftKMeans, projections\n"
        'SoftKMeans(n_clusters="three")\n'
        'SoftKMeans(sigma="warm")\n'
        "projections.softmax([1.0], dim=0)\n"
        "SoftKMeans().fit([[0.0]]).predicts([[0.0]])\n",
        encoding="utf-8",
    )
    found = "\n".join(errors_of(wrong, tmp_path))
    for words in ["wrong.py:2", "wrong.py:3", "wrong.py:4"]:
        assert words in found

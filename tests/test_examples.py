"""Examples say what they are about, and the quick ones run without a screen."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
QUICK = ["plot_quick_start", "plot_temperature_sweep"]


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_an_example_has_a_title_and_a_text(script):
    title, line, *text = ast.get_docstring(ast.parse(script.read_text("utf-8"))).splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert any(text)


def test_quick_examples_run_without_a_screen(tmp_path):
    pytest.importorskip("matplotlib")
    command = [sys.executable, EXAMPLES / "run.py", "--pictures", tmp_path, *QUICK]
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    subprocess.run(command, check=True, env=environment)
    assert {path.stem.rpartition("_")[0] for path in tmp_path.glob("*.png")} == set(QUICK)

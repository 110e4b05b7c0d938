"""The code of the README runs."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_code_of_the_readme_runs():
    pytest.importorskip("torch")
    pytest.importorskip("skl2onnx")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) > 1
    names = {}
    for block in blocks:  # later ones use what earlier ones define
        exec(compile(block, str(README), "exec"), names)
    assert names["shares"].shape == (1797, 10)
    assert names["path"].centers.shape[1:] == (10, 64)

"""The page of promises names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "doc" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def functions(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists():
    assert len(NAMED) > 40
    assert all(Path(path).name.startswith("test_") for path, _ in NAMED)
    found = {path: functions(path) for path, _ in NAMED}
    assert [f"{path}::{name}" for path, name in NAMED if name not in found[path]] == []


def test_every_promise_names_a_test():
    rows = [line for line in PAGE.splitlines() if re.match(r"\| (?!promise)", line)]
    assert len(rows) > 40
    assert [row for row in rows if "`tests/" not in row] == []

"""The page of claims shows the tables that its script prints."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "doc" / "claims.md").read_text(encoding="utf-8")
SCRIPT = ROOT / "examples" / "claims_table.py"
TABLES = ["slopes", "monotone", "hardness", "bounds", "steps", "stability", "gradients"]


def printed(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return capsys.readouterr().out


def heads(text):
    """Titles, and first lines of tables."""
    titles = re.findall(r"^## .*$", text, re.MULTILINE)
    return titles, re.findall(r"^(\|.*\|)\n\|---", text, re.MULTILINE)


@pytest.mark.parametrize("table", TABLES)
def test_the_script_prints_the_table_of_the_page(table, capsys, monkeypatch):
    text = printed(capsys, monkeypatch, "--only", table, "--data", "wine", "--seeds", "1")
    (title,), (head,) = heads(text)
    titles, tables = heads(PAGE)
    assert title in titles
    assert head in tables
    rows = re.findall(r"^\| wine .*$", text, re.MULTILINE)
    part = PAGE.split(title)[1].split("\n## ")[0]
    assert len(rows) == len(re.findall(r"^\| wine ", part, re.MULTILINE)) > 0


def test_links_of_the_page_lead_to_its_titles():
    titles = {
        re.sub(r"[^\w\- ]", "", title[3:].lower()).replace(" ", "-") for title in heads(PAGE)[0]
    }
    links = set(re.findall(r"\]\(#([^)]*)\)", PAGE))
    assert len(links) == len(TABLES)
    assert links == titles


def test_pictures_of_the_page_exist():
    pictures = re.findall(r"\]\((images/\w+\.png)\)", PAGE)
    assert len(pictures) == 2
    assert all((ROOT / "doc" / name).exists() for name in pictures)

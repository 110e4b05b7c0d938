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


# ------------------------------------------------------------ the summary and its tables


def table(title):
    """Cells of the rows of the table under a title."""
    lines = PAGE.split(f"## {title}")[1].split("\n## ")[0].splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    ]
    return rows[2:]


def stated(pattern):
    """Numbers in the summary, as the pattern finds them."""
    (found,) = re.findall(pattern, PAGE.split("\n## ")[0])
    return [float(number) for number in ([found] if isinstance(found, str) else found)]


def test_bounds_of_the_summary_hold_in_the_table():
    rows = table("The sandwich F ≤ J ≤ L")
    (ratio,) = stated(r"J − F and L − J at most (\.\d+) of")
    (below,) = stated(r"lowest J found by at most (\.\d+) of")
    largest = max(float(cell) for row in rows for cell in row[2:4])
    deepest = max(float(row[4].split(" to ")[1]) for row in rows)
    assert 0.0 <= ratio - largest < 0.01
    assert 0.0 <= below - deepest < 0.01


def test_counts_of_the_summary_are_those_of_the_table():
    columns = list(zip(*table("What is monotone as σ falls"), strict=True))[2:]
    counts = [sum(int(cell.split("/")[0]) for cell in column) for column in columns]
    fixed_f, fixed_l, errors, _, path_f, path_l, _ = counts
    assert fixed_f == fixed_l == stated(r"L falls in (\d+) of 120")[0]
    assert path_f == stated(r"F rises along (\d+) of 120 paths")[0]
    assert [errors, path_l] == stated(r"all the way in (\d+) of 120, L in (\d+)")


def test_slopes_of_the_summary_are_those_of_the_table():
    """Medians of entmax: of the shares at fixed centres."""
    found = {}
    for row in table("Slopes of errors against σ"):
        if row[2] == "entmax-1.5":
            found.setdefault(row[1], []).append(float(row[5].split(" [")[0]))
    pattern = r"median slopes of ([\d.]+) to ([\d.]+), under −d²/\(2σ²\) ([\d.]+) to ([\d.]+)"
    ranges = [end(found[scores]) for scores in ("-d²/σ", "-d²/(2σ²)") for end in (min, max)]
    assert stated(pattern) == ranges


def test_steps_and_still_rows_of_the_summary_are_those_of_the_tables():
    rows = table("Gradient steps, trajectories and the exponential rate")
    assert max(float(cell) for row in rows for cell in row[1:3]) <= stated(r"equal to (\de-\d+)")[0]
    followed = sum(int(row[3].split("/")[0]) for row in rows)
    assert followed == stated(r"1e-12 in (\d+) of 60 runs")[0]
    rows = table("Gradients kept alive")
    still = [[float(row[column].strip(" %")) for row in rows] for column in (5, 2)]
    pattern = r"the shares of (\d+) to (\d+) % of the rows .* of softmax (\d+) to (\d+) %"
    assert stated(pattern) == [end(column) for column in still for end in (min, max)]

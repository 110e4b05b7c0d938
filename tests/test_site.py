"""Pages of the site: their code runs, links lead somewhere, and nothing public is missing."""

import re
import runpy
from pathlib import Path

import pytest

from test_architecture import FLOORS, PUBLIC_NAMES

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"
PAGES = sorted([*DOC.glob("*.md"), *DOC.glob("guide/*.md")])
ELSEWHERE = sorted([*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md")])
NEEDS = {"import torch": "torch", "sklearn_softkmeans.dask": "dask"}
MADE = {"auto_examples/index"}  # by the gallery


def text(page):
    return page.read_text(encoding="utf-8")


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", text(page), flags=re.DOTALL | re.MULTILINE)


def entries(page):
    """Pages in the trees of contents of a page, relative to the folder of the site."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", text(page), flags=re.DOTALL | re.MULTILINE)
    names = [
        re.sub(r".*<(.*)>", r"\1", line)
        for tree in trees
        for line in tree.splitlines()
        if line and line[0] != ":"
    ]
    folder = page.parent.relative_to(DOC)
    return {(DOC / folder / name).resolve().relative_to(DOC.resolve()).as_posix() for name in names}


def anchors(page):
    """What titles are called in links, on a forge and on the site."""
    outside_code = re.sub(r"^```.*?^```", "", text(page), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#{1,3} (.*)$", outside_code, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def name(page):
    return page.relative_to(DOC).with_suffix("").as_posix()


@pytest.mark.parametrize("page", filter(blocks, PAGES), ids=name)
def test_the_code_of_a_page_runs(page):
    for sign, library in NEEDS.items():
        if any(sign in block for block in blocks(page)):
            pytest.importorskip(library)
    names = {}
    for block in blocks(page):  # later ones use what earlier ones define
        exec(compile(block, str(page), "exec"), names)


def test_many_pages_have_code():
    assert sum(bool(blocks(page)) for page in PAGES) > 10


@pytest.mark.parametrize("page", [*PAGES, *ELSEWHERE], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_titles(page):
    assert "<a " not in text(page)  # neither this test nor Sphinx would follow it
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)]*)\)", text(page)):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def test_every_page_is_in_a_tree_of_contents_and_every_entry_is_a_page():
    listed = set().union(*map(entries, PAGES))
    pages = {name(page) for page in PAGES} | {"api"} | MADE
    assert listed == pages - {"index"}


def test_the_reference_has_every_public_object():
    reference = (DOC / "api.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   ([\w.]+)$", reference, flags=re.MULTILINE)
    public = {
        f"{module}.{thing}".lstrip(".")
        for module, things in PUBLIC_NAMES.items()
        for thing in things
        if thing not in PUBLIC_NAMES  # a module of the package
    }
    assert len(listed) == len(set(listed))
    assert set(listed) == public


@pytest.mark.parametrize("page", ["theory", "reliability"])
def test_tests_that_a_page_names_exist(page):
    tests = Path(__file__).parent
    defined = {
        found
        for file in tests.rglob("test_*.py")
        for found in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"\b(test_\w+)`", text(DOC / f"{page}.md")))
    assert len(named) > 10
    assert named <= defined


def test_the_picture_of_the_floors_names_every_module():
    picture = runpy.run_path(str(DOC / "floors.py"))["picture"]()
    for module in FLOORS:
        assert re.search(rf"[> ]{re.escape(module or 'sklearn_softkmeans')}[< ]", picture)

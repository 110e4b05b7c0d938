"""Settings of Sphinx. `make doc` builds the site, without a connection to anything."""

import inspect
import os
import re
import runpy
from pathlib import Path

from docutils import nodes
from docutils.utils.math import pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx_gallery.sorting import ExplicitOrder

import sklearn_softkmeans
from sklearn_softkmeans import dask, inspection, metrics, nn, projections

HERE = Path(__file__).parent
ROOT = HERE.parent
project = "sklearn_softkmeans"
author = "sklearn_softkmeans developers"
version = release = sklearn_softkmeans.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates", "generated/backreferences"]
templates_path = ["_templates"]
default_role = "literal"
nitpicky = True
# What other projects document; their inventories would have to be downloaded.
nitpick_ignore_regex = [("py:.*", r"(dask|matplotlib|numpy|onnx|scipy|sklearn|torch)\..*")]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_softkmeans"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
}
html_sidebars = {"install": [], "choose": [], "changelog": []}
copybutton_exclude = ".linenos, .gp, .go"

autodoc_typehints = "none"  # the docstrings say more
toc_object_entries_show_parents = "hide"
autosummary_generate = True
numpydoc_show_class_members = False  # the template of a class lists them
# Names that differ by case alone are one file on some systems.
autosummary_filename_map = {
    f"{nn.__name__}.{name}": f"{nn.__name__}.{name}_function"
    for name in nn.__all__
    if name.islower() and name.capitalize() in nn.__all__
}

# From the first steps to networks. All have to be named.
EXAMPLES = [
    "quick_start",
    "membership_regions",
    "beside_kmeans",
    "temperature_sweep",
    "collapse_path",
    "choose_sigma_and_k",
    "boundary_rows",
    "soft_features_digits",
    "color_quantization",
    "topics_docstrings",
    "annealing_tree",
    "large_data",
    "temperature_claims",
    "layer_recovers_kmeans",
    "rbf_network",
    "deep_clustering_digits",
]
sphinx_gallery_conf = {
    "backreferences_dir": "generated/backreferences",
    "capture_repr": (),  # what a script prints, not what its last line is
    "doc_module": ("sklearn_softkmeans",),
    "download_all_examples": False,
    "examples_dirs": "../examples",
    "filename_pattern": r"/plot_",
    "gallery_dirs": "auto_examples",
    "ignore_pattern": r"^(?!(.*[/\\])?plot_)",
    "matplotlib_animations": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "show_memory": False,
    "within_subsection_order": ExplicitOrder([f"plot_{name}.py" for name in EXAMPLES]),
    "write_computation_times": False,
}

# In this order names are looked up.
MODULES = (sklearn_softkmeans, inspection, metrics, dask, projections, nn)

# Pages whose text is a file at the top of the repository.
ELSEWHERE = {
    "benchmarks": "benchmarks/README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "readme": "README.md",
}


def take_text_from_elsewhere(app, docname, source):
    """Text of a page, with links that lead to pages of the site where there are such."""
    path = ROOT / ELSEWHERE.get(docname, f"doc/{docname}.md")
    if path.suffix != ".md" or not path.exists():
        return
    if docname in ELSEWHERE:
        app.env.note_dependency(str(path))
        source[0] = path.read_text(encoding="utf-8")
    if docname != "index":
        source[0] = re.sub(
            r"(!?)\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)",
            lambda link: in_the_site(link, path.parent, (HERE / docname).parent),
            source[0],
        )


def in_the_site(link, folder, page_folder):
    """The link as a page of `page_folder` needs it; no link where the site has no such page."""
    picture, text, target, anchor = link.groups(default="")
    target = os.path.normpath(folder / target)
    pages = {str(ROOT / file): str(HERE / f"{page}.md") for page, file in ELSEWHERE.items()}
    target = pages.get(target, target)
    if target == str(ROOT / "examples"):
        target = str(HERE / "auto_examples" / "index.rst")
    if not target.startswith(str(HERE)):
        return text
    relative = os.path.relpath(target, page_folder).replace(os.sep, "/")
    return f"{picture}[{text}]({relative}{anchor})"


def mend_docstring(app, what, name, thing, options, lines):
    """What reads well in a docstring, and not to numpydoc or docutils."""
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))  # a backslash continues a line
    text = re.sub(r"(shape \(\w+)_(?=[ ,)])", r"\1\\_", text)  # "n_iter_" would be a link
    lines[:] = text.split("\n")


def skip_what_others_wrote(app, what, name, member, skip, options):
    """Members that classes inherit from scikit-learn and PyTorch are documented there."""
    function = inspect.unwrap(getattr(member, "fget", None) or member)
    module = getattr(function, "__module__", None) or ""
    return skip or (callable(function) and not module.startswith("sklearn_softkmeans"))


def inline_mathml(self, node):
    """Formulas that need neither a script nor a connection."""
    self.body.append(str(tex2mathml(node.astext())))
    raise nodes.SkipNode


def block_mathml(self, node):
    """Formulas in lines of their own."""
    tex = node.astext()
    environment = pick_math_environment(tex)
    if environment != "equation*":
        tex = rf"\begin{{{environment}}}{tex}\end{{{environment}}}"
    self.body.append(f'<div class="formula">{tex2mathml(tex, as_block=True)}</div>')
    raise nodes.SkipNode


def find_public(app, env, node, contnode):
    """A reference to a public name, wherever in the package it is."""
    name = node.get("reftarget", "")
    for module in MODULES:
        if node.get("refdomain") == "py" and name in module.__all__:
            return env.domains["py"].resolve_xref(
                env, node["refdoc"], app.builder, "obj", f"{module.__name__}.{name}", node, contnode
            )
    return None


def draw_floors(app):
    """The picture of the modules and their floors."""
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    picture = runpy.run_path(str(HERE / "floors.py"))["picture"]
    (folder / "floors.svg").write_text(picture(), encoding="utf-8")


def setup(app):
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (inline_mathml, None), (block_mathml, None))
    app.connect("autodoc-process-docstring", mend_docstring, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", skip_what_others_wrote)
    app.connect("builder-inited", draw_floors)
    app.connect("missing-reference", find_public)
    app.connect("source-read", take_text_from_elsewhere)

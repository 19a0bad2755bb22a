"""Sphinx's settings; `make docs` stages the pages and calls it."""

import gc
import os
import re
import sys
import types
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

import retrograd
from retrograd.ops.table.registry import OPERATORS

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.pages import navigation
from tools.pages.formulas import typeset
from tools.pages.reference import says

OPERATED = {entry.function for entry in OPERATORS.values()}
ENTRIES = {(entry.function.__module__, entry.function.__qualname__): entry for entry in OPERATORS.values()}

project = "Retrograd"
DESCRIPTION = (
    "PyTorch's API on plain NumPy: an automatic differentiation engine you can see inside. It tells you why your "
    "gradient is zero, where your NaN was born, and why your network does not learn."
)
author = copyright = "The Retrograd developers"
release = retrograd.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
mathjax3_config = {"startup": {"typeset": False}}  # retrograd.js does
myst_heading_anchors = 3
nitpicky = True  # names in roles must exist: a warning stops the build
nitpick_ignore = [  # internal classes, which have no page
    ("py:exc", "GuardError"),
    ("py:class", "retrograd.core.arrays.devices.Device"),
    ("py:class", "retrograd.core.graph.nodes.Node"),
]
exclude_patterns = ["conf.py"]

html_theme = "furo"
html_title = f"Retrograd {release}"
html_logo = html_favicon = "_static/logo.svg"
html_baseurl = os.environ.get("DOCS_BASEURL", "")  # social cards need absolute addresses
html_static_path = ["_static"]
html_css_files = ["retrograd.css"]
html_js_files = [("retrograd.js", {"defer": "defer"})]
html_extra_path = ["404.html"]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # which would be fetched, and files cannot be: see tools/pages/search.py
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_use_type_comments = False  # there are none, and each module would be parsed for them
autodoc_inherit_docstrings = False  # a member that has none of its own is shown with the class that describes it
napoleon_numpy_docstring = False
napoleon_use_ivar = True

SECTIONS = re.compile(r"^(Derivative|Shape|Dtype|Source|Formula|Memory|Order|Note|Kernel): ")


LITERAL = re.compile(r"(``.*?``|:math:`.*?`)")


def plain(line):
    """A line in which asterisks and bars outside of literals mean themselves, as in the terminal."""
    line_of_formulas = re.match(r" +\| (?=:math:)", line)  # which the bar keeps apart from the next
    if line_of_formulas:
        return line_of_formulas[0] + plain(line[line_of_formulas.end() :])
    parts = LITERAL.split(line)
    parts[::2] = [re.sub(r"(?<!\\)([*|])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def sections(app, what, name, obj, options, lines):
    """Set formulas, and the one-line sections of our docstrings as paragraphs that begin in bold."""
    entry = ENTRIES.get((obj.__module__, obj.__qualname__)) if what == "function" else None
    lines[:] = typeset("\n".join(lines), entry is not None or says(name)).split("\n")
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else plain(line) for line in lines]
    for number in range(len(lines) - 1, -1, -1):
        if SECTIONS.match(lines[number]):
            lines[number] = SECTIONS.sub(r"**\1.** ", lines[number])
            lines.insert(number, "")
    if what in ("attribute", "property"):  # napoleon takes a first line with a colon for a type and a description
        lines[:0] = ["..", ""]


def left_out(app, what, name, obj, skip, options):
    """Operators stand with their families; as methods they are the same functions."""
    if name.endswith("_request"):  # scikit-learn's own, which it gives to every estimator
        return True
    return True if skip or (obj in OPERATED if isinstance(obj, types.FunctionType) else False) else None


FORMULA = re.compile(r'(<span class="math[^>]*>)\\\((.*?)\\\)</span>([^\s<]*)', re.DOTALL)


def pieces(formula):
    """A formula in pieces between which a line may break, the last with the punctuation behind it."""
    *parts, last = formula[2].split(r"\allowbreak ")
    text = "".join(rf"{formula[1]}\({part}{{}}\)</span><wbr>" for part in parts)
    last = rf"{formula[1]}\({last}\)</span>"
    return text + (f'<span class="held">{last}{formula[3]}</span>' if formula[3] else last)


def broken(app, pagename, templatename, context, doctree):
    """Let long formulas go on on the next line, for which MathJax wants them in pieces."""
    if "body" in context:
        context["body"] = FORMULA.sub(pieces, context["body"])


CARD = "_static/card.png"


def described(app, pagename, templatename, context, doctree):
    """Give a page the description and the picture that searches and social networks show."""
    text = DESCRIPTION
    if doctree is not None and pagename != "index":
        paragraphs = (" ".join(node.astext().split()) for node in doctree.findall(nodes.paragraph))
        text = next((one for one in paragraphs if len(one) > 40), text)
        text = app.env.metadata[pagename].get("description", text)
    if len(text) > 160:
        text = text[:157].rpartition(" ")[0] + " ..."
    card = f"{html_baseurl.rstrip('/')}/{CARD}" if html_baseurl else context["pathto"](CARD, resource=True)
    title = re.sub("<.*?>", "", context.get("title", "") or project)
    tags = {"og:title": title, "og:description": text, "og:image": card, "og:type": "website", "og:site_name": project}
    lines = [
        f'<meta name="description" content="{escape(text)}">',
        '<meta name="twitter:card" content="summary_large_image">',
    ]
    lines += [f'<meta property="{name}" content="{escape(value)}">' for name, value in tags.items()]
    if html_baseurl:  # the versions lie beside each other: see CONTRIBUTING.md
        versions = html_baseurl.rstrip("/").rpartition("/")[0] + "/versions.js"
        lines.append(f'<meta name="versions" content="{escape(versions)}">')
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def without_source(app, modname):
    """Operators' pages show their declarations; listings of their modules would be half of all listings."""
    return ("", {}) if modname.startswith("retrograd.ops.") else None


def drop_listings(app, env):
    listings = getattr(env, "_viewcode_modules", {})
    for name in [name for name in listings if name.startswith("retrograd.ops.")]:
        del listings[name]


def unparsed():
    """Spare operators' modules from being parsed: they have no overloads, and no comments for documentation."""
    for module in {entry.function.__module__ for entry in OPERATORS.values()}:
        ModuleAnalyzer.cache["module", module] = PycodeError(f"{module} is not parsed")


def setup(app):
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)  # the collector looks through all trees again and again, and finds little
    unparsed()
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True  # it copies files, and says nothing of it
    navigation.connect(app)
    app.connect("viewcode-find-source", without_source)
    app.connect("env-updated", drop_listings, priority=100)
    app.connect("html-page-context", broken)
    app.connect("html-page-context", described)
    app.connect("autodoc-skip-member", left_out)
    app.connect("autodoc-process-docstring", sections, priority=400)

"""Sphinx's settings; `make docs` stages the pages and calls it."""

import re
import sys
import types
from pathlib import Path

import retrograd
from retrograd.ops.table.registry import OPERATORS

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.pages.formulas import typeset

OPERATED = {entry.function for entry in OPERATORS.values()}
ENTRIES = {(entry.function.__module__, entry.function.__qualname__): entry for entry in OPERATORS.values()}

project = "Retrograd"
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
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["conf.py"]

html_theme = "furo"
html_title = "Retrograd"
html_static_path = ["_static"]
html_css_files = ["retrograd.css"]
html_js_files = [("retrograd.js", {"defer": "defer"})]
html_extra_path = ["404.html"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # which would be fetched, and files cannot be
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = False  # a member that has none of its own is shown with the class that describes it
napoleon_numpy_docstring = False
napoleon_use_ivar = True

SECTIONS = re.compile(r"^(Derivative|Shape|Dtype|Source|Formula|Memory|Order|Note|Kernel): ")


LITERAL = re.compile(r"(``.*?``)")


def plain(line):
    """A line in which asterisks and bars outside of literals mean themselves, as in the terminal."""
    parts = LITERAL.split(line)
    parts[::2] = [re.sub(r"(?<!\\)([*|])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def sections(app, what, name, obj, options, lines):
    """Set the one-line sections of our docstrings as paragraphs that begin in bold."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else plain(line) for line in lines]
    for number in range(len(lines) - 1, -1, -1):
        if SECTIONS.match(lines[number]):
            lines[number] = SECTIONS.sub(r"**\1.** ", lines[number])
            lines.insert(number, "")
    if what == "function" and (entry := ENTRIES.get((obj.__module__, obj.__qualname__))):
        formulas(lines)
        lines += ["", *also(entry)]


def formulas(lines):
    """Set the formulas of an operator and of its derivative: the first paragraph, and that on the derivative."""
    setting = True
    for number, line in enumerate(lines):
        setting = line.startswith("**Derivative.**") or setting and bool(line)
        if setting:
            lines[number] = typeset(line)


def also(entry):
    """Under which other names an operator is found."""
    if entry.namespace == "Tensor":
        names = [f"Tensor.{alias}" for alias in entry.aliases]
        return ["**Other names.** " + ", ".join(f"``{name}``" for name in names) + "."] if names else []
    names = [*entry.aliases]
    names += [f"Tensor.{entry.name}"] * entry.method + [f"Tensor.{entry.name}_"] * entry.inplace
    return ["**Other names.** " + ", ".join(f"``{name}``" for name in names) + "."] if names else []


def left_out(app, what, name, obj, skip, options):
    """Operators stand with their families; as methods they are the same functions."""
    if name.endswith("_request"):  # scikit-learn's own, which it gives to every estimator
        return True
    return True if skip or (obj in OPERATED if isinstance(obj, types.FunctionType) else False) else None


FORMULA = re.compile(r'(<span class="math[^>]*>[^<]*</span>)([^\s<]+)')


def held(app, pagename, templatename, context, doctree):
    """Keep a formula and the punctuation behind it on one line."""
    if "body" in context:
        context["body"] = FORMULA.sub(r'<span class="held">\1\2</span>', context["body"])


def setup(app):
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True  # it copies files, and says nothing of it
    app.connect("html-page-context", held)
    app.connect("autodoc-skip-member", left_out)
    app.connect("autodoc-process-docstring", sections, priority=400)

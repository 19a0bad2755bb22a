"""What `make docs` refuses: broken links, public names without docstrings, pages that say something else."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import retrograd
from retrograd.ops.table.registry import OPERATORS
from tools.pages import curves, front, links, navigation, operators, reference, search, site
from tools.pages.running import Failure


def staged(tmp_path, text):
    """A site of one page."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(text)
    return source


# What it refuses


FAULTS = {
    "learn/00_no_such_page.md": "[page](learn/00_no_such_page.md)",
    "no_such_file.py": "[file](no_such_file.py)",
    "no-such-place": "[place](#no-such-place)",
    "no-place-there": "[place of a page](other.md#no-place-there)",
    "no_such_picture.svg": "![picture](no_such_picture.svg)",
    "no_such_function": "{py:func}`no_such_function`",
}


@pytest.mark.slow
@pytest.mark.parametrize("faults", [{}, FAULTS], ids=["good", "broken"])
def test_a_broken_link_between_pages_fails_the_build(tmp_path, faults, capfd):
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    good = ["[Here](#a-page)", "[there](https://example.org)", "[beside it](other.md#place)"]
    source = staged(tmp_path, "# A page\n\n" + "\n".join([*good, *faults.values()]))
    (source / "other.md").write_text("---\norphan: true\n---\n\n# Other\n\n## Place\n")
    assert bool(site.sphinx(source, tmp_path / "html", tmp_path / "trees")) is bool(faults)
    warnings = [line for line in capfd.readouterr().err.splitlines() if "WARNING" in line]
    assert len(warnings) == len(faults)
    assert [name for name in faults if not any(name in line for line in warnings)] == []


def test_a_broken_link_of_the_finished_site_is_told(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#place">1</a><a href="b.html#no">2</a><img src=\'c.svg\'>')
    (tmp_path / "b.html").write_text('<p id="place"><a href="https://example.org/x">')
    assert links.broken(tmp_path) == ["a.html: b.html#no is not an anchor of that page", "a.html: c.svg does not exist"]


def test_a_public_name_without_a_docstring_fails_the_build(tmp_path, monkeypatch):
    def documented():
        """What it does."""

    class Thing:
        """A thing."""

        def method(self): ...

    module = types.ModuleType("retrograd.invented", "A room.")
    module.__file__ = __file__
    module.documented, module.bare, module.Thing = documented, lambda: None, Thing
    for value in (documented, module.bare, Thing):
        value.__module__ = "retrograd.invented"
    monkeypatch.setitem(sys.modules, "retrograd.invented", module)
    monkeypatch.setattr(reference, "FAMILIES", {})
    monkeypatch.setattr(reference, "ROOMS", {"retrograd.invented": "Invented"})
    with pytest.raises(reference.Undocumented) as error:
        reference.write(tmp_path)
    assert str(error.value) == "without a docstring: retrograd.invented.Thing.method, retrograd.invented.bare"


# Rooms whose names are no user's.
INNER = re.compile(
    r"\._|\.(array_api|as_torch|cli|compat|core|files|kernels|ops|packing|safetensors_format|testing|compiler\.(cpu|cuda|passes|run|trace))\b"
)


@pytest.mark.slow
def test_every_public_name_has_a_docstring_and_a_place_in_the_reference(tmp_path):
    reference.write(tmp_path)
    listed = "\n".join(page.read_text() for page in tmp_path.rglob("*.rst"))
    known = set(re.findall(r"^\.\. auto\w+:: .*?(\w+)$", listed, re.MULTILINE))
    aliases = {alias for entry in OPERATORS.values() for alias in entry.aliases}
    missing = []
    for found in pkgutil.walk_packages(retrograd.__path__, "retrograd."):
        if INNER.search(found.name) or not found.ispkg and found.name.count(".") > 1:
            continue
        public = dict(reference.public(importlib.import_module(found.name)))
        names = {name for name, value in public.items() if getattr(value, "__name__", name) not in known}
        missing += [f"{found.name}.{name}" for name in sorted(names - known - aliases)]
    assert len(known) > 1000 and missing == []


def test_a_stale_output_fails_the_build(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    monkeypatch.setattr(site, "load", lambda path: None)
    monkeypatch.setattr(site, "store", lambda path, results: None)
    with pytest.raises(Failure, match="expected\n3\n\ngot\n2"):
        site.results_of(page)
    page.write_text(page.read_text().replace("3", "2"))
    assert [result.output for result in site.results_of(page)] == ["2\n"]


def test_what_is_kept_of_a_page_is_not_used_once_it_has_changed(tmp_path, monkeypatch):
    from tools.pages import cache

    monkeypatch.setattr(cache, "FOLDER", tmp_path / "cache")
    page = tmp_path / "page.md"
    page.write_text("# A page\n")
    cache.store(page, [])
    assert cache.load(page) == []
    page.write_text("# A page, changed\n")
    assert cache.load(page) is None


# Pages of operators, curves, line numbers


@pytest.mark.slow
def test_an_operators_page_has_curves_kink_declaration_and_names():
    page = operators.page("relu", OPERATORS["relu"], "../operators_nn", "Neural network operators")
    assert ".. autofunction:: retrograd.relu" in page and '<svg class="curves"' in page
    assert "Kink at 0: the derivative is 0 from the left and 1 from the right; at 0 it is 0." in page
    assert "* PyTorch: ``torch.relu``, ``torch.nn.functional.relu``" in page
    listing = re.search(r"``src/retrograd/([\w/.]+)``, line (\d+):\n\n.*?\n\n(   RELU = unary\(.*)", page, re.DOTALL)
    source = (Path(retrograd.__file__).parent / listing[1]).read_text().splitlines()
    assert source[int(listing[2]) - 1] == "RELU = unary(" and "lambda g, ans: KEEP_WHERE_NOT_ZERO(g, ans)" in page
    assert "``numpy.absolute``" in operators.page("abs", OPERATORS["abs"], "", "")
    composed = operators.page("nn.functional.conv2d", OPERATORS["nn.functional.conv2d"], "", "")
    assert "Derivatives of its parts in the source" in composed
    assert "CONV, CONV_BIAS = _with_and_without_bias(" in composed
    assert "def gelu_slope" in operators.page("nn.functional.gelu", OPERATORS["nn.functional.gelu"], "", "")


@pytest.mark.parametrize(
    ("name", "drawn"),
    [("exp", True), ("acosh", True), ("nn.functional.gelu", True), ("sum", False), ("clone", False), ("softmax", False),
     ("nn.functional.dropout", False), ("cumsum", False), ("argsort", False)],
)  # fmt: skip
def test_curves_are_drawn_of_elementwise_functions_only(name, drawn):
    assert (operators.curves_of(OPERATORS[name]) is not None) is drawn


def test_measured_curves_are_the_function_and_its_derivative():
    found = curves.measure(retrograd.tanh)
    np.testing.assert_allclose(found.value, np.tanh(found.x), rtol=1e-12)
    np.testing.assert_allclose(found.derivative, 1 - np.tanh(found.x) ** 2, rtol=1e-9)
    assert found.kinks == []
    assert curves.measure(lambda x: (x - 1).abs()).kinks == [(1.0, -1.0, 0.0, 1.0)]
    assert curves.measure(retrograd.log).x[0] > 0  # only where the function is finite


def test_programs_have_line_numbers_where_outputs_name_their_lines(tmp_path):
    page = tmp_path / "chapter.md"
    first = "# A page\n\n```python\na = 1\n```\n\n"
    page.write_text(first + "```python\nb = 2\nc = 3\n```\n\n```text\nchapter.py:4: see\nother.py:3\n```\n")
    text = site.illustrated(page, [], tmp_path)
    assert text.startswith(first.rstrip("\n"))
    assert "```{code-block} python\n:linenos:\n:lineno-start: 3\n:emphasize-lines: 2\n\nb = 2\nc = 3\n```" in text


def test_the_texts_of_the_search_are_the_prose_of_articles(tmp_path):
    (tmp_path / "_static").mkdir()
    formula = r'<span class="math notranslate">\(L = v w\)</span>'
    rows = f"<tr><td>step</td></tr><tr><td>1</td><td>{formula}</td></tr>"
    article = f"<h1>Title </h1><p>A &amp; b, {formula}</p><pre>x = 1</pre><table>{rows}</table>"
    (tmp_path / "a.html").write_text(f"<nav>no</nav><article>{article}</article>")
    search.write(tmp_path)
    assert (tmp_path / search.FILE).read_text() == 'window.searchTexts = {"a.html": "Title A & b, \u2026 step"};\n'


TREE = """<ul><li class="toctree-l1"><a class="reference internal" href="learn/a.html">A</a></li>
<li class="toctree-l1 has-children"><a class="reference internal" href="reference/index.html">R</a>
<input type="checkbox"/><ul>
<li class="toctree-l2"><a class="reference internal" href="reference/b.html">B</a></li></ul></li></ul>"""


def test_a_page_has_the_navigation_with_its_section_marked():
    tree = navigation.Navigation(TREE)
    page = tree.of("reference/b.html", "reference/b.html")
    assert '<a class="reference internal" href="../learn/a.html">' in page
    assert '<li class="current toctree-l1 has-children">' in page and '<input checked="" type="checkbox"/>' in page
    assert '<li class="current current-page toctree-l2"><a class="current reference internal" href="#">B</a>' in page
    inside = tree.of("reference/operators/c.html", "reference/b.html")
    assert 'current-page toctree-l2"><a class="reference internal" href="../../reference/b.html"' in inside
    assert tree.of("search.html", "search.html") == TREE


def test_the_front_pages_stepper_has_a_page_for_each_expression(tmp_path):
    html = front.stepper(tmp_path / "pictures")
    pages = sorted((tmp_path / "pictures").iterdir())
    assert len(pages) == len(front.EXPRESSIONS) == 6 == html.count("<button") == html.count("<pre")
    assert front.PLACE in (site.DOCS / "index.md").read_text(encoding="utf-8")
    for page in pages:
        assert "://" not in page.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")


def test_index_entries_stand_below_the_title_of_pages_that_exist():
    for page in search.WORDS:
        text = (site.DOCS / page).read_text(encoding="utf-8")
        assert re.search(r"^# .*\n\n```\{index\} ! \w.*\n```\n", search.indexed(page, text), re.MULTILINE), page
    assert search.indexed("glossary.md", "# A\n") == "# A\n"

"""What `make docs` refuses: broken links, public names without docstrings, pages that say something else."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import types

import pytest

import retrograd
from retrograd.ops.table.registry import OPERATORS
from tools.pages import links, reference, site
from tools.pages.running import Failure


def staged(tmp_path, text):
    """A site of one page."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(text)
    return source


# What it refuses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("# A page\n\n[Here](#a-page) and [there](https://example.org).\n", False),
        ("# A page\n\n[Nowhere](learn/00_no_such_page.md).\n", True),
        ("# A page\n\n[No such place](#nothing).\n", True),
    ],
    ids=["good", "page", "place"],
)
def test_a_broken_link_between_pages_fails_the_build(tmp_path, text, fails, capfd):
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    assert bool(site.sphinx(staged(tmp_path, text), tmp_path / "html", tmp_path / "trees")) is fails
    assert ("not found" in capfd.readouterr().err) is fails


def test_a_broken_link_of_the_finished_site_is_told(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#place">1</a><a href="b.html#no">2</a><img src="c.svg">')
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
    r"\._|\.(as_torch|cli|compat|core|files|kernels|ops|packing|safetensors_format|testing|compiler\.(cpu|cuda|passes|run|trace))\b"
)


@pytest.mark.slow
def test_every_public_name_has_a_docstring_and_a_place_in_the_reference(tmp_path):
    reference.write(tmp_path)
    listed = "\n".join(page.read_text() for page in tmp_path.glob("*.rst"))
    known = set(re.findall(r"^\.\. auto\w+:: .*?(\w+)$", listed, re.MULTILINE))
    aliases = {alias for entry in OPERATORS.values() for alias in entry.aliases}
    missing = []
    for found in pkgutil.walk_packages(retrograd.__path__, "retrograd."):
        if INNER.search(found.name) or not found.ispkg and found.name.count(".") > 1:
            continue
        names = {name for name, value in reference.public(importlib.import_module(found.name))}
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

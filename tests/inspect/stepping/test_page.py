"""A walk as a page: every step is in it, nothing of the user's is taken for HTML, and nothing is loaded."""

from __future__ import annotations

import json
import re

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.inspect import step, trace
from tests.inspect.zoo import ZOO


def walk_of(page):
    text = re.search(r"^const WALK = (.*);$", page, re.MULTILINE).group(1)
    return json.loads(text)


@pytest.mark.parametrize("name", sorted(set(ZOO) - {"a_leaf_as_its_own_loss", "a_long_chain"}))
def test_every_event_is_a_step_at_its_vertex(name, tmp_path):
    loss, _ = ZOO[name]()
    stepper = step(loss)
    stepper.save(tmp_path / "walk.html")
    page = (tmp_path / "walk.html").read_text()
    walk = walk_of(page)
    data = json.loads(re.search(r"^const DATA = (.*);$", page, re.MULTILINE).group(1))
    assert [s["title"] for s in walk["steps"]] == [event.title for event in stepper.events]
    assert [data["vertices"][s["vertex"]]["label"] for s in walk["steps"]] == [e.operator for e in stepper.events]
    assert [walk["rules"][s["rule"]] for s in walk["steps"]] == [event.rule for event in stepper.events]


def test_lines_modules_and_sums_are_told(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    bias = rg.ones(4, requires_grad=True)
    with trace():
        loss = ((model(rg.randn(5, 3)) + bias) * bias).sum()
    step(loss).save(tmp_path / "walk.html")
    steps = walk_of((tmp_path / "walk.html").read_text())["steps"]
    by = {s["title"].split()[-1]: s for s in steps}
    assert by["relu"]["module"] == "1" and by["relu"]["code"].startswith("loss = ((model")
    assert "summed over axis 0" in by["mul"]["went"][1][1]
    assert "added to an earlier gradient" in by["add"]["went"][1][1]
    assert any("0.weight" in name for name, *_ in by["linear"]["went"])


def test_the_users_text_stays_text_and_nothing_is_loaded(tmp_path):
    x = rg.ones(3, requires_grad=True)
    with trace():
        loss = (x * 2).sum()  # </script><img src=x onerror=alert(1)> \u2028
    step(loss).save(tmp_path / "walk.html")
    page = (tmp_path / "walk.html").read_text()
    assert "</script><img" not in page and "onerror=alert(1)" in walk_of(page)["steps"][0]["code"]
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", page)
    assert "default-src 'none'" in page


def test_another_suffix_is_refused(tmp_path):
    stepper = step(rg.ones(3, requires_grad=True).sum())
    with pytest.raises(ValueError, match=r"must end in \.html, got .*walk\.pdf"):
        stepper.save(tmp_path / "walk.pdf")


def test_a_leaf_has_no_page_and_a_notebook_shows_one():
    x = rg.tensor(2.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="the loss is a leaf"):
        step(x).to_html()
    shown = step(x * 2)._repr_html_()
    assert shown.startswith("<iframe") and "<script>" not in shown and "&lt;script&gt;" in shown

"""Every page is a template filled in one pass: names of the program may look like the template's marks."""

from __future__ import annotations

import json
import re

import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.cli.console import Table
from retrograd.cli.training.report import Text, write_report

MARKS = "{{script}}{{data}}{{title}}{{style}}{{drawing}}{{below}}{{more}}{{nothing}}}}{{$title ${sections} $$ %s {0}"
TAGS = "</script><img src=x onerror=alert(1)><!--<script>"
NAMES = [MARKS.replace(".", ""), TAGS.replace(".", ""), MARKS + TAGS, "{{", "}}", "\\u003c/script>"]


class Odd(nn.Module):
    """A model whose module, parameter and class have a name."""

    def __init__(self, name):
        super().__init__()
        self.add_module(name, nn.Linear(3, 1))
        type(self).__name__ = name

    def forward(self, x):
        return next(self.children())(x)


def drawing(model, name, path):
    with inspect.trace() as trace:
        model(rg.ones(2, 3)).sum()
    inspect.draw(trace).save(path)


def profile(model, name, path):
    with inspect.profile() as p:
        model(rg.ones(2, 3)).sum().backward()
    p.save(path)


def watch(model, name, path):
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    with inspect.watch(model, optimizer, live=False) as w:
        for _ in range(2):
            model(rg.ones(2, 3)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    w.save(path)


def step(model, name, path):
    inspect.step(model(rg.ones(2, 3)).sum(), params=model).save(path)


def report(model, name, path):
    write_report(path, name, [Text(name, name), Table(name, [name, "value"], [(name, name)])])


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("write", [drawing, profile, watch, step, report])
def test_a_name_that_looks_like_a_mark_stands_in_the_page_as_text(write, name, tmp_path):
    plain, odd = tmp_path / "plain.html", tmp_path / "odd.html"
    safe = name.replace(".", "")
    write(Odd("plain"), "plain", plain)
    write(Odd(safe), safe, odd)
    pages = [path.read_text(encoding="utf-8") for path in (plain, odd)]
    for tag in ("<script", "</script", "<img", "<!--", "<style", "</style", "<body", "<title"):
        assert pages[0].count(tag) == pages[1].count(tag), tag
    # The page's own script is there once, as it is.
    scripts = [re.sub(r"const (DATA|WALK) = .*", "", page[page.find("<script") :]) for page in pages]
    assert write is report or scripts[0] == scripts[1]
    for found in re.findall(r"const (?:DATA|WALK) = (.*);\n", pages[1]):
        json.loads(found)

"""The front page's stepper: backward passes of six expressions, computed when the site is built."""

from __future__ import annotations

import linecache
from html import escape
from pathlib import Path
from typing import Any

import retrograd as rg
from retrograd import inspect

PLACE = "<!-- stepper -->"  # in docs/index.md
NEURON = """\
x = rg.tensor([1.0, 2.0, 3.0])
w = rg.tensor([0.5, -1.0, 0.3], requires_grad=True)
b = rg.tensor(0.1, requires_grad=True)
loss = ((w * x).sum() + b - 1.0) ** 2
"""
NETWORK = """\
x = rg.tensor([[1.0, -1.0], [0.5, 2.0]])
w1 = rg.tensor([[0.4, -0.6, 0.9], [0.2, 0.8, -0.3]], requires_grad=True)
w2 = rg.tensor([[1.0], [-0.5], [0.7]], requires_grad=True)
hidden = (x @ w1).relu()
loss = ((hidden @ w2) ** 2).mean()
"""
CLASSES = """\
x = rg.tensor([[1.0, 2.0], [0.0, -1.0]])
w = rg.tensor([[0.2, -0.1, 0.4], [0.5, 0.3, -0.2]], requires_grad=True)
loss = nn.functional.cross_entropy(x @ w, rg.tensor([0, 2]))
"""
ATTENTION = """\
x = rg.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
q = rg.tensor([[1.0, 0.5], [0.0, 1.0]], requires_grad=True)
scores = (x @ q) @ x.T / 2**0.5
loss = (scores.softmax(-1) @ x).square().sum()
"""
BROADCAST = """\
column = rg.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
row = rg.tensor([0.5, -0.5], requires_grad=True)
loss = (column * row + row).tanh().sum()
"""
DEAD = """\
x = rg.tensor([-1.0, -2.0, 3.0])
w = rg.tensor([2.0, 1.0, -1.0], requires_grad=True)
hidden = (w * x).relu()  # all inputs of relu are negative
loss = hidden.sum()
"""
# A small graph needs neither search nor zoom, minimap or legend; all of it is visible.
SMALL = """<style>
header, #key, #mini { display: none !important }
body { grid-template: minmax(0, 1fr) / minmax(0, 1fr) min(460px, 48vw) !important }
@media (max-width: 700px) {
  body { grid-template: minmax(0, 1fr) minmax(0, 1fr) / minmax(0, 1fr) !important }
  .far .v text { display: inline !important }
}
</style>
<script>document.getElementById("all").click()</script>
"""
EXPRESSIONS = {
    "a neuron": NEURON,
    "two layers": NETWORK,
    "classes": CLASSES,
    "attention": ATTENTION,
    "broadcasting": BROADCAST,
    "a zero gradient": DEAD,
}


def stepper(folder: Path) -> str:
    """Write a page for each expression into a folder, and return the HTML that shows one of them at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    tabs, programs = [], []
    for number, (title, program) in enumerate(EXPRESSIONS.items(), start=1):
        page = f"step_{number}.html"
        (folder / page).write_text(walked(program), encoding="utf-8")
        chosen = "true" if number == 1 else "false"
        hidden = "" if number == 1 else " hidden"
        tabs.append(
            f'<button type="button" aria-pressed="{chosen}" data-page="{folder.name}/{page}">{escape(title)}</button>'
        )
        programs.append(f"<pre{hidden}>{escape(program)}</pre>")
    return (
        f'<div class="stepper"><div class="choices">{"".join(tabs)}</div>{"".join(programs)}'
        f'<iframe src="{folder.name}/step_1.html" title="The backward pass, one operator at a time"></iframe></div>'
    )


def walked(program: str) -> str:
    """Return the page of a program's backward pass."""
    names: dict[str, Any] = {"rg": rg, "nn": rg.nn}
    linecache.cache["loss.py"] = (len(program), None, program.splitlines(keepends=True), "loss.py")
    with inspect.trace():
        exec(compile(program, "loss.py", "exec"), names)
        return inspect.step(names["loss"]).to_html() + SMALL

"""The page that explains a training: the first finding, its proof, and the graph with its gradients at each step.

The picture, its script and its colors are those of ``draw``. The page adds the findings with their curves, the loss,
and norms of gradients, weights and updates by parameter.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..drawing.draw import prepared
from ..drawing.formats.page import page_of
from ..drawing.grouping import group
from ..drawing.layout.scene import Scene
from ..drawing.picture import Picture, Vertex
from ..drawing.record_picture import forward_records, traced_picture
from ..drawing.training_steps import Step
from ..pages.template import asset, json_inside
from ..tracing import Records
from .backward_norms import visited

if TYPE_CHECKING:
    from .findings import Finding
    from .run import Run, StepHistory


class Doctor(Protocol):
    """The attributes of a doctor that the page shows."""

    _run: Run

    @property
    def findings(self) -> list[Finding]:
        """The findings, the most important first."""

    @property
    def history(self) -> list[StepHistory]:
        """The steps of the optimizer with the most steps."""

    def watched(self) -> str:
        """Return a phrase on the watched steps."""


MOST = 240  # the most steps on the page
_FEWEST = 40
_NUMBERS = 100_000  # the most gradient norms of operators on the page, over all steps


def write_page(d: Doctor, path: str | os.PathLike[str]) -> None:
    """Write the page of a doctor's run to a file.

    Raises:
        ValueError: the path does not end in ``.html``.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"doctor: the page's path must end in .html, got {os.fspath(path)!r}")
    Path(path).write_text(doctor_page(d), encoding="utf-8", errors="replace")


def doctor_page(d: Doctor) -> str:
    """Return the page of a doctor's run."""
    recorded = _recorded(d)
    numbers = {step.number for step in recorded}
    measured = [x for x in d.history if x.operators is not None or x.step in numbers or x is d.history[-1]]
    history = _thinned(measured if len(measured) > 1 else d.history, len(recorded[-1].records) if recorded else 0)
    curve = _thinned(d.history, 0)
    steps = _with_norms(recorded, history)
    names = list(dict.fromkeys(name for x in history for name in x.gradients))
    scene = Scene(prepared(_picture(d, history, steps), True))
    data = {
        "watched": d.watched(),
        "recorded": sorted(step.number for step in steps),
        "findings": [_finding(x) for x in d.findings],
        "curve": {"steps": [x.step for x in curve], "loss": _plain([x.loss for x in curve])},
        "steps": [x.step for x in history],
        "loss": _plain([x.loss for x in history]),
        "passes": max((x.passes for x in d.history), default=1),
        "rates": _plain([max(x.rates, default=math.nan) for x in history]),
        "parameters": {
            name: {what: _plain([getattr(x, what).get(name) for x in history]) for what in _NORMS} for name in names
        },
        "layers": _layers(scene.picture, names),
    }
    script = f"const RUN = {json_inside(data)};\n{asset(__package__, 'page.js')}"
    title = f"{d.findings[0].kind} in {_place(d.findings[0])}" if d.findings else "Nothing found"
    return page_of(scene, above=asset(__package__, "page.html"), more=script, title=f"Doctor: {title}")


def _layers(picture: Picture, names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the modules with their parameters in the picture, in the order of the forward pass.

    Normalization layers are left out if there are other modules: a scale or a bias has few elements, so its norm says
    little compared with the norm of a matrix.
    """
    begins: dict[int, int] = {}  # by repetition: the position of its first parameter
    places: dict[str, tuple[int, int, int]] = {}
    dimensions: dict[str, int] = {}
    for vertex in picture.vertices:
        if vertex.kind == "parameter":
            around = picture.repetition(vertex)
            begin = begins.setdefault(around, vertex.key) if around >= 0 else vertex.key
            for i, name in enumerate(vertex.full_names):
                places[name], dimensions[name] = (begin, i, vertex.key), len(vertex.shapes[0])
    for least in (2, 0):
        found: dict[str, list[str]] = {}
        for name in sorted(places.keys() & set(names), key=places.__getitem__):
            if dimensions[name] >= least:
                found.setdefault(name.rpartition(".")[0] or name, []).append(name)
        if len(found) > 1:
            break
    return list(found.items())


_NORMS = ("gradients", "weights", "updates")


def _thinned(history: Sequence[StepHistory], operators: int) -> list[StepHistory]:
    """Return at most ``MOST`` evenly spaced steps, including the last; fewer if the graph has many operators."""
    most = max(_FEWEST, min(MOST, _NUMBERS // max(1, operators)))
    every = max(1, -(-len(history) // most))
    return list(history)[::-1][::every][::-1]


def _with_norms(recorded: Sequence[Step], history: Sequence[StepHistory]) -> list[Step]:
    """Return the steps of the history that only have norms of operators, followed by the fully recorded steps."""
    if not recorded:
        return []
    drawn = recorded[-1]
    order = visited(drawn.records)
    names = tuple([record.operator for record in order])
    known = {step.number for step in recorded}
    light: list[Step] = []
    for x in history:
        if x.operators is not None and x.operators.names == names and x.step not in known:
            norms = {record.index: norm for record, norm in zip(order, x.operators.norms, strict=True)}
            light.append(Step(x.step, drawn.records, {}, norms))
    return [*light, *recorded]


def _picture(d: Doctor, history: Sequence[StepHistory], steps: Sequence[Step]) -> Picture:
    """Return the picture of the last recorded step, with the gradients of all steps of the history."""
    if not steps:
        return Picture()
    picture = _leading_to_outputs(traced_picture(Records(steps[-1].records, []), "doctor", steps))
    group(picture, {x.path: type(x.module).__name__ for step in d._run.steps for x in step.modules})
    numbers = [int(title.removeprefix("step ")) for title in picture.steps]
    if history:
        measured = _measured(history)
        near = [min(range(len(numbers)), key=lambda i: abs(numbers[i] - x.step)) for x in history]
        for vertex in picture.vertices:
            vertex.flows = _over(vertex, measured, near)
        picture.steps = [f"step {x.step}" for x in history]
        picture.step = max(0, len(history) - 1)
    return picture


def _leading_to_outputs(picture: Picture) -> Picture:
    """Return the picture without operators that lead to no output, such as the next batch, clipping and metrics."""
    kept = {vertex.key for vertex in picture.vertices if vertex.kind == "output"}
    if not kept:
        return picture
    for edge in reversed(picture.edges):  # sources come before targets, so readers are known first
        if edge.target in kept:
            kept.add(edge.source)
    number = {key: i for i, key in enumerate(sorted(kept))}
    vertices = [replace(vertex, key=number[vertex.key]) for vertex in picture.vertices if vertex.key in kept]
    edges = [
        edge._replace(source=number[edge.source], target=number[edge.target])
        for edge in picture.edges
        if edge.target in kept
    ]
    return Picture(vertices, edges, picture.boxes, picture.steps, picture.step)


def _measured(history: Sequence[StepHistory]) -> list[dict[str, float]]:
    """Return the norms by parameter for each step; steps without measurements have those of the last measured step."""
    found: list[dict[str, float]] = []
    last = next((x.gradients for x in history if x.gradients), {})
    for x in history:
        last = x.gradients or last
        found.append(last)
    return found


def _recorded(d: Doctor) -> list[Step]:
    """Return the steps that were recorded in full, as ``draw`` reads them."""
    steps = [step for step in d._run.steps if step.roots] or d._run.steps[-1:]
    found = [(step.number, forward_records(Records(step.records, step.departures))) for step in steps]
    return [Step(number, records, {}) for number, records in found if records]


def _over(vertex: Vertex, measured: Sequence[dict[str, float]], near: Sequence[int]) -> tuple[float | None, ...]:
    """Return the gradient norms of a vertex by step: for a parameter from the history, for an operator from the nearest
    step that was recorded in full."""
    if vertex.kind == "parameter":
        norms = [x.get(vertex.label) for x in measured]
        if any(norm is not None for norm in norms):
            # The page's script shows the gradient of the selected step instead.
            vertex.details = [pair for pair in vertex.details if pair[0] != "gradient"]
            return tuple(norms)
    return tuple([vertex.flows[i] for i in near]) if vertex.flows else ()


def _place(finding: Finding) -> str:
    return f"{os.path.basename(finding.file)}:{finding.line}" if finding.file else "the program"


def _finding(finding: Finding) -> dict[str, object]:
    curves = finding.evidence.get("curves")
    both = curves if isinstance(curves, dict) else {}
    return {
        "kind": finding.kind,
        "place": _place(finding) if finding.file else "",
        "code": finding.code,
        "message": finding.message,
        "fix": finding.fix,
        "evidence": [[name, _text(value)] for name, value in finding.evidence.items() if name != "curves"],
        "curves": {name: _plain(found) for name, found in both.items() if isinstance(found, list)},
    }


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        few = [_text(x) for x in value[:12]]
        return ", ".join([*few, *(["…"] if len(value) > 12 else [])])
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(x)}" for name, x in value.items())
    return str(value)


def _plain(values: Iterable[object]) -> list[float | str | None]:
    """Return numbers with the digits that a plot needs; NaN and infinities as text, which JSON requires."""
    return [
        float(f"{value:.5g}") if isinstance(value, (int, float)) and math.isfinite(value)
        else None if value is None else str(value)
        for value in values
    ]  # fmt: skip

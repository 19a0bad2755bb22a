"""The colours of gradients in a drawing, its steps, parts and repetitions, and what a page does with them."""

from __future__ import annotations

import math
import re

import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.inspect.drawing.gradients import LOOKS
from retrograd.nn import functional as F
from tests.inspect.drawing.formats.test_page import browse, browsing


class Deep(nn.Module):
    """Layers of sigmoids, whose gradient vanishes."""

    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).sigmoid()
        return x


class Recurrent(nn.Module):
    """A cell that is called once per step of a sequence."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(3, 4)

    def forward(self, x):
        h = rg.zeros(x.shape[1], 4)
        for t in range(len(x)):
            h = self.cell(x[t], h)
        return h


def traced(program, times=1):
    with inspect.trace() as t:
        for _ in range(times):
            program().backward()
    return t


def test_edges_are_blue_where_the_gradient_vanishes_and_grey_near_the_loss():
    rg.manual_seed(0)
    model, x = Deep(12), rg.randn(5, 4)
    drawing = inspect.draw(traced(lambda: model(x).sum()), params=model, repeats=False)
    picture = drawing.picture
    linears = [vertex for vertex in picture.vertices if vertex.label == "linear"]
    norms = [picture.flow(vertex) for vertex in linears]
    assert all(a < b for a, b in zip(norms, norms[1:], strict=False)) and norms[0] < 1e-6 * norms[-1]
    weights = {vertex.details[0][1]: vertex for vertex in picture.vertices if vertex.kind == "parameter"}
    grad = model.layers[0].weight.grad.numpy()
    assert picture.flow(weights["layers.0.weight"]) == pytest.approx(float((grad.astype("f8") ** 2).sum() ** 0.5))
    svg = drawing.to_svg()
    classes = re.findall(r'class="e (g-\w+)"', svg)
    assert "g-low3" in classes and "g-even" in classes and not set(classes) & {"g-high3", "g-bad"}
    assert all(f".g-{name} path{{stroke:{look.light}" in svg for name, look in LOOKS.items())


def test_a_gradient_of_zero_and_one_that_is_not_finite_have_their_own_signs():
    x = rg.ones(3, requires_grad=True)
    y = rg.zeros(3, requires_grad=True)
    t = traced(lambda: (x * 0).relu().sum() + y.sqrt().sum())
    found = {vertex.label: flow for vertex in inspect.draw(t).picture.vertices for flow in vertex.flows}
    assert found["mul"] == 0 and found["sqrt"] > 0
    leaves = {vertex.label: vertex for vertex in inspect.draw(t).picture.vertices if vertex.kind == "parameter"}
    assert leaves["y"].flows == (math.inf,) and leaves["y"].alarm
    assert {"g-zero", "g-bad"} <= set(re.findall(r'class="e (g-\w+)"', inspect.draw(t).to_svg()))


def test_before_a_backward_pass_edges_say_nothing_of_gradients():
    with inspect.trace() as t:
        nn.Linear(2, 1)(rg.ones(3, 2)).sum()
    svg = inspect.draw(t).to_svg()
    assert set(re.findall(r'class="e (g-\w+)"', svg)) == {"g-even"}


def test_edges_that_leave_a_repetition_have_the_gradient_of_its_end():
    rg.manual_seed(0)
    model, x, head = Recurrent(), rg.randn(30, 5, 3), nn.Linear(4, 1)
    with rg.no_grad():
        model.cell.weight_hh.mul_(0.1)
    picture = inspect.draw(traced(lambda: head(model(x)).sum())).picture
    cell = next(v for v in picture.vertices if v.label == "rnn")
    inside, outside = picture.flow_in(cell, cell.box), picture.flow_in(cell, -1)
    assert inside < 1e-20 < 1e-2 < outside and picture.boxes[picture.repetition(cell)].times == 30
    assert picture.boxes[picture.repetition(cell)].runs[-1] == outside


def test_boxes_have_classes_and_what_earlier_steps_computed_has_names():
    rg.manual_seed(0)
    data = rg.randn(6, 3) * 2
    with inspect.trace() as t:
        scaled = data + 1
        kernel, model = rg.randn(3, 3, requires_grad=True), nn.Sequential(nn.Linear(3, 2), nn.Tanh())
        for i in range(3):
            model(scaled[i:] @ kernel).sum().backward()
    picture = inspect.draw(t).picture
    assert [(box.title, box.note) for box in picture.boxes] == [("0", "Linear")]
    kinds = {v.label: v.kind for v in picture.vertices if v.kind in ("input", "parameter")}
    assert kinds == {"scaled": "input", "kernel": "parameter", "weight": "parameter", "bias": "parameter"}


def test_several_steps_are_one_picture_with_the_gradients_of_each():
    rg.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), rg.randn(6, 3)
    optimizer, norms = rg.optim.SGD(model.parameters(), lr=0.5), []
    with inspect.trace() as t:
        for _ in range(4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            norms.append(float((model[0].weight.grad.numpy().astype("f8") ** 2).sum() ** 0.5))
            optimizer.step()
    picture = inspect.draw(t, params=model).picture
    assert picture.steps == [f"step {i} of 4" for i in (1, 2, 3, 4)] and picture.step == 3
    operators = [v.label for v in picture.vertices if v.kind == "operator"]
    assert operators == ["linear", "tanh", "linear", "square", "mean"]
    weight = next(v for v in picture.vertices if v.details[0][1] == "0.weight")
    assert weight.flows == pytest.approx(norms)


def test_a_gradient_penalty_and_truncated_sequences_are_split_where_nothing_is_read_back():
    w, x = rg.randn(3, 3, requires_grad=True), rg.randn(2, 3)

    def penalty():
        (g,) = rg.autograd.grad((x @ w).tanh().sum(), w, create_graph=True)
        return g.square().sum()

    assert inspect.draw(traced(penalty)).picture.steps == ["step 1 of 1"]
    h = rg.zeros(2, 3)
    with inspect.trace() as t:
        for _ in range(3):
            h = (h.detach() @ w + x).tanh()
            h.sum().backward()
    picture = inspect.draw(t).picture
    assert len(picture.steps) == 3
    assert [v.label for v in picture.vertices if v.kind == "operator"] == ["mm", "add", "tanh", "sum"]


def test_updates_of_batch_norms_buffers_are_folded_into_its_operator():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    x = rg.randn(2, 1, 5, 5)
    picture = inspect.draw(traced(lambda: model(x).sum()), params=model).picture
    labels = [v.label for v in picture.vertices if v.kind in ("operator", "view", "write")]
    assert labels == ["convolution", "batch_norm", "relu", "sum"]
    norm = next(v for v in picture.vertices if v.label == "batch_norm")
    assert dict(norm.details)["updates"] == "1.num_batches_tracked, 1.running_mean, 1.running_var"


def test_the_programs_own_writes_and_metrics_stay_in_the_picture():
    model, x = nn.Linear(3, 2), rg.randn(4, 3)
    total = rg.zeros(())
    with inspect.trace() as t:
        y = model(x)
        with rg.no_grad():
            total += (y.argmax(1) == 0).float().mean()
        y.sum().backward()
    labels = [v.label for v in inspect.draw(t).picture.vertices]
    assert "argmax" in labels and "add_" in labels


def test_a_recurrent_block_is_drawn_once_with_its_count_and_an_arc_back():
    model, x = Recurrent(), rg.randn(30, 2, 3)
    drawing = inspect.draw(traced(lambda: model(x).sum()), params=model)
    (box,) = [box for box in drawing.picture.boxes if box.times > 1]
    assert box.times == 30 and box.recurrent and len(box.runs) == 30
    assert box.runs[0] < box.runs[-1], "the gradient shrinks on its way back to the first step"
    svg = drawing.to_svg()
    assert svg.count('class="arc"') == 1 and "× 30" in svg and 'class="stack"' not in svg
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(4)])
    stacked = inspect.draw(traced(lambda: layers(rg.ones(2, 4)).sum()), params=layers)
    assert any(box.times == 4 and not box.recurrent for box in stacked.picture.boxes)
    assert 'class="arc"' not in stacked.to_svg()


def test_inputs_of_the_program_are_outside_of_the_modules_that_they_feed():
    model, x = nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Linear(4, 1)), rg.randn(5, 3)
    picture = inspect.draw(traced(lambda: model(x).sum()), params=model).picture
    boxes = {v.label: v.box for v in picture.vertices if v.kind in ("input", "parameter")}
    assert boxes["x"] == -1 and min(box for name, box in boxes.items() if name != "x") >= 0


def test_items_of_a_list_of_modules_have_one_box_each_and_names_are_unique():
    model, x = Deep(3), rg.randn(2, 4)
    picture = inspect.draw(traced(lambda: model(x).sum()), params=model, repeats=False).picture
    assert [box.title for box in picture.boxes] == ["layers.0", "layers.1", "layers.2"]
    twice = nn.Linear(3, 3)
    again = inspect.draw(traced(lambda: twice(twice(rg.ones(2, 3)).relu()).sum())).picture
    names = [(v.box, v.label) for v in again.vertices if v.kind in ("input", "parameter", "output")]
    assert len(names) == len(set(names))


def test_thousands_of_operators_without_modules_are_nested_parts():
    w = rg.ones(3, requires_grad=True)

    def program():
        x = w
        for i in range(1000):
            x = (rg.sin, rg.tanh, rg.exp, lambda a: a + w)[hash((i, i // 7)) % 4](x)
        return x.sum()

    drawing = inspect.draw(traced(program))
    children = {}
    for box in drawing.picture.boxes:
        children.setdefault(box.parent, []).append(box)
    assert max(map(len, children.values())) <= 60 and any(box.kind == "part" for box in drawing.picture.boxes)
    inside = {box.key: 0 for box in drawing.picture.boxes} | {-1: 0}
    for vertex in drawing.picture.vertices:
        inside[vertex.box] += 1
    assert max(inside.values()) <= 70
    assert len(drawing._scene.placed[-1].tops) <= 60


def test_an_edge_is_as_wide_as_what_its_operator_keeps():
    x = rg.randn(100, 100, requires_grad=True)
    drawing = inspect.draw(traced(lambda: (x.exp() * 2).sum()))
    kept = {v.label: v.kept for v in drawing.picture.vertices}
    assert kept["exp"] == 40_000 and not kept["sum"]
    widths = [float(width) for width in re.findall(r"stroke-width:([\d.]+)\"", drawing.to_svg())]
    assert max(widths) == 7.0


@pytest.mark.slow
@browsing
def test_the_page_moves_through_steps_and_tells_where_a_gradient_came_from(tmp_path):
    rg.manual_seed(0)
    model, x, y = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), rg.randn(6, 3), rg.tensor([0, 1] * 3)
    t = traced(lambda: F.cross_entropy(model(x), y), times=3)
    body = """
      const relu = DATA.vertices.findIndex((vertex) => vertex.label === "relu");
      select(relu);
      const told = $("facts").textContent, links = [...document.querySelectorAll("#facts .links button")];
      links[0].click();
      const to = facts(selected).title;
      $("when").value = 0;
      $("when").dispatchEvent(new Event("input"));
      write("relu");
      const hits = found.map((item) => facts(item).title);
      write("cross_entropy(model");
      return { told, to, step: $("which").textContent, hits, lines: found.length, key: $("key").textContent };
    """
    found = browse(inspect.draw(t, params=model), tmp_path, body)
    assert "Its gradient came from" in found["told"] and "Its values came from" in found["told"]
    assert found["to"] in ("2", "linear") and found["step"] == "step 1 of 3"
    assert found["hits"] == ["relu"] and found["lines"] == 0, "search matches operators and modules, not lines"
    assert "vanishing" in found["key"] and "exploding" in found["key"]


@pytest.mark.slow
@browsing
def test_far_away_titles_stay_readable_and_a_map_shows_where_the_window_is(tmp_path):
    model, x = (
        nn.Sequential(*[nn.Sequential(nn.Linear(4, 4 + i), nn.Linear(4 + i, 4)) for i in range(9)]),
        rg.ones(2, 4),
    )
    body = """
      const shown = $("map").style.display !== "none", near = view.x;
      setDepth(1);
      fit(0);
      const titles = [...world.querySelectorAll("g.b .name")].filter((x) => x.getBoundingClientRect().height > 0);
      const sizes = titles.map((x) => x.getBoundingClientRect().height);
      setDepth(9);
      fit(1);
      const size = $("map").getBoundingClientRect(), before = view.y;
      $("map").dispatchEvent(new PointerEvent("pointerdown", { pointerId: 1, buttons: 1, bubbles: true,
        clientX: size.left + size.width / 2, clientY: size.bottom - 10 }));
      return { far: sizes.length, least: Math.min(...sizes), moved: before - view.y, k: view.k };
    """.replace("const shown", "$('map').setPointerCapture = () => {};\n const shown")
    found = browse(inspect.draw(traced(lambda: model(x).sum()), params=model), tmp_path, body, 900, 600)
    assert found["far"] >= 5 and found["least"] >= 7 and found["moved"] > 500 and found["k"] >= 0.8

"""The page that explains a training: its sentence and curves, the graph in the colours of gradients, and its slider."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.core.graph.observers import observing
from retrograd.inspect.diagnosing.backward_norms import BackwardNorms, norm
from retrograd.inspect.diagnosing.page import doctor_page
from retrograd.inspect.drawing.gradients import level, reference
from retrograd.nn import functional as F
from tests.inspect.drawing.formats.test_page import browse as browse_drawing
from tests.inspect.drawing.formats.test_page import browsing


class Page:
    """A page that ``browse`` can open."""

    def __init__(self, text):
        self.text = text

    def to_html(self):
        return self.text


def data_of(text, name="DATA"):
    return json.loads(re.search(rf"^const {name} = (.*);$", text, re.MULTILINE)[1])


@pytest.fixture(scope="module")
def broadcast(tmp_path_factory):
    """A run whose target has another shape than the prediction, and its page."""
    rg.manual_seed(0)
    x = rg.randn(32, 3)
    y = x.sum(1)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = rg.optim.SGD(model.parameters(), lr=0.05)
    with inspect.doctor() as d:
        for _ in range(30):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
    path = tmp_path_factory.mktemp("doctor") / "page.html"
    d.save(path)
    return d, path.read_text(encoding="utf-8")


def test_the_page_says_of_how_many_losses_the_curve_is_the_sum():
    x, model = rg.randn(8, 3), nn.Linear(3, 1)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
    with inspect.doctor() as d:
        for _ in range(4):
            optimizer.zero_grad()
            for part in x.split(2):
                (model(part).square().mean() / 4).backward()
            optimizer.step()
    assert data_of(doctor_page(d), "RUN")["passes"] == 4


def test_the_page_has_the_finding_both_curves_and_the_history(broadcast):
    d, text = broadcast
    run, first = data_of(text, "RUN"), d.findings[0]
    shown = run["findings"][0]
    assert (shown["kind"], shown["message"], shown["fix"]) == (first.kind, first.message, first.fix)
    assert shown["kind"] == "broadcast-loss" and shown["place"].endswith(f":{first.line}")
    for name in ("with", "without"):
        assert shown["curves"][name] == pytest.approx(first.evidence["curves"][name], rel=1e-3)
    assert run["curve"]["loss"] == pytest.approx([x.loss for x in d.history], rel=1e-3)
    assert run["parameters"].keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}


def shown_history(d, data):
    """Return the steps of the slider."""
    numbers = [int(title.removeprefix("step ")) for title in data["steps"]]
    return [x for x in d.history if x.step in numbers]


def test_parameters_and_blocks_have_the_gradients_of_each_step(broadcast):
    d, text = broadcast
    data = data_of(text)
    shown = shown_history(d, data)
    assert data["steps"] == [f"step {x.step}" for x in shown] and data["step"] == len(shown) - 1
    measured = [(i, x) for i, x in enumerate(shown) if x.gradients]
    weights = [vertex for vertex in data["vertices"] if vertex["names"] == ["0.weight"]]
    assert len(weights) == 1 and measured
    for i, x in measured:
        assert weights[0]["flows"][i] == pytest.approx(x.gradients["0.weight"], rel=1e-3)
        block = next(box for box in data["boxes"] if box["path"] == "0")
        whole = x.gradients["0.weight"] ** 2 + x.gradients["0.bias"] ** 2
        assert block["flows"][i] == pytest.approx(whole**0.5, rel=1e-3)


def test_operators_have_their_own_gradient_at_each_step_of_the_slider():
    rg.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), rg.randn(32, 3)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.05)
    norms = []
    with inspect.doctor() as d:
        for _ in range(25):
            optimizer.zero_grad()
            inner = model[1](model[0](x))
            inner.retain_grad()
            (model[2](inner) - x[:, :1]).square().mean().backward()
            norms.append(float(inner.grad.norm()))
            optimizer.step()
    page = doctor_page(d)
    data, measured = data_of(page), data_of(page, "RUN")["recorded"]
    assert len(measured) > len(d._run.steps)
    flows = next(vertex["flows"] for vertex in data["vertices"] if vertex["label"] == "tanh")
    numbers = [int(title.removeprefix("step ")) for title in data["steps"]]
    found = {number: flow for number, flow in zip(numbers, flows, strict=True) if number in measured}
    assert found == pytest.approx({number: norms[number] for number in measured}, rel=1e-3)


def test_norms_are_those_of_outputs_that_are_read_and_of_squares_that_float32_cannot_represent():
    cell, x = nn.RNNCell(3, 4), rg.randn(2, 3)
    norms = BackwardNorms()
    with observing(norms):
        cell(x, cell(x)).sum().backward()
    assert norms.names == ["sum", "rnn", "rnn"] and all(norm > 0 for norm in norms.norms)
    for size in (1e-30, 1e25):
        assert norm(np.full(4, size, "f")) == pytest.approx(2 * size)
    assert norm(np.array([np.inf], "f")) == np.inf and norm(np.zeros(3, "f")) == 0


def test_the_page_is_one_file_that_loads_nothing(broadcast):
    _, text = broadcast
    assert text.count("<script") == text.count("</script") == 1 and "{{" not in text
    assert "default-src 'none'" in text and not re.search(r"<[a-z][^>]*\b(src|href)\s*=", text)


def test_a_path_with_another_suffix_is_refused(broadcast, tmp_path):
    d, _ = broadcast
    with pytest.raises(ValueError, match=r"must end in \.html, got .*page\.pdf"):
        d.save(tmp_path / "page.pdf")


@pytest.mark.slow
@browsing
@pytest.mark.parametrize("width", [1440, 390])
def test_the_slider_and_the_loss_curve_move_through_the_steps(broadcast, tmp_path, width):
    body = """
      const colours = () => [...world.querySelectorAll("g.e")].map((e) => e.getAttribute("class"));
      setStep(0);
      const first = [$("which").textContent, lossCursor.getAttribute("x1"), colours().length];
      setStep(LATER);
      const later = [$("which").textContent, lossCursor.getAttribute("x1")];
      select(DATA.vertices.findIndex((vertex) => vertex.names[0] === "0.weight"));
      const facts = $("facts").textContent;
      [...document.querySelectorAll("#facts .links button")].find((x) => x.textContent.startsWith("step ")).click();
      const points = [...document.querySelectorAll("#layers circle")];
      const heights = points.map((point) => point.cy.baseVal.value);
      const told = points.map((point) => point.getAttribute("aria-label").split(":")[0]);
      points[1].dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
      const name = DATA.vertices[selected].names[0];
      return { first, later, facts, told, heights, name, back: when, sentence: $("sentence").textContent,
               ends: [...document.querySelectorAll(".end")].map((x) => x.textContent),
               wide: document.documentElement.scrollWidth <= innerWidth };
    """
    d, text = broadcast
    shown = shown_history(d, data_of(text))
    measured = [i for i, x in enumerate(shown) if x.gradients]
    later = measured[-1]
    found = browse_drawing(Page(text), tmp_path, body.replace("LATER", str(later)), width)
    assert found["first"][0].startswith("step 0: loss")
    assert found["later"][0].startswith(f"step {shown[later].step}: loss")
    assert float(found["first"][1]) < float(found["later"][1]) and found["wide"]
    assert found["back"] == max(i for i in measured if i < later)
    assert "by the optimizer, rate 0.05" in found["facts"] and "Its gradient came from" in found["facts"]
    assert found["sentence"].startswith("broadcast-loss")
    assert found["told"] == ["0", "2"] and found["name"] == "2.weight"
    assert found["heights"][0] != found["heights"][1]
    assert [text.rsplit(maxsplit=1)[0] for text in found["ends"]] == ["as written", "edited"]


def test_a_healthy_run_has_a_page_without_finding(tmp_path):
    rg.manual_seed(0)
    model, x = nn.Linear(3, 1), rg.randn(16, 3)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.05)
    with inspect.doctor() as d:
        for _ in range(12):
            optimizer.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
    d.save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert d.findings == [] and data_of(text, "RUN")["findings"] == [] and "Doctor: Nothing found" in text


def test_a_doctor_that_saw_nothing_has_a_page(tmp_path):
    with inspect.doctor() as d:
        pass
    d.save(tmp_path / "page.html")
    assert data_of((tmp_path / "page.html").read_text(encoding="utf-8"))["vertices"] == []


def test_the_colour_of_a_gradient_follows_its_distance_from_the_norms_near_the_loss():
    vanishing = [10.0 ** (i - 20) for i in range(20)]
    usual = reference(vanishing)
    assert usual == pytest.approx(1e-3) and level(vanishing[0], usual) == "low3"
    exploding = [10.0 ** (12 - i) for i in range(13)]
    assert level(exploding[0], reference(exploding)) == "high3" and level(exploding[-1], reference(exploding)) != "low3"
    assert level(0.0, usual) == "zero" and level(float("inf"), usual) == "bad" and level(None, usual) == "none"


def test_the_picture_is_of_what_leads_to_the_loss():
    rg.manual_seed(0)
    model, x = nn.Linear(3, 1), rg.randn(16, 3)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.05)
    with inspect.doctor() as d:
        for _ in range(3):
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            rg.randn(16, 3).floor()  # the next batch
            optimizer.step()
    labels = {vertex["label"] for vertex in data_of(doctor_page(d))["vertices"]}
    assert {"linear", "square", "mean"} <= labels and "floor" not in labels


def test_repetitions_inside_of_repetitions_are_folded():
    """A decoder that scores the states of an encoder one by one, as in published attention programs."""
    encoder, cell, score, out = nn.RNN(3, 2), nn.RNN(3, 2), nn.Linear(2, 2), nn.Linear(4, 3)
    optimizer = rg.optim.SGD(nn.ModuleList([encoder, cell, score, out]).parameters(), lr=0.01)
    x, target = rg.randn(3, 1, 3), rg.tensor([0, 1, 2])
    with inspect.doctor() as d:
        optimizer.zero_grad()
        states, h = encoder(x)
        logits = rg.empty(3, 1, 3)
        for i in range(3):
            y, h = cell(x[i : i + 1], h)
            scores = rg.zeros(3)
            for j in range(3):
                scores[j] = rg.dot(y.view(-1), score(states[j]).view(-1))
            context = scores.softmax(0).view(1, 1, 3).bmm(states.transpose(0, 1)).squeeze(1)
            logits[i] = out(rg.cat((y.squeeze(0), context), 1))
        F.cross_entropy(logits.squeeze(1), target).backward()
        optimizer.step()
    assert sorted(box["times"] for box in data_of(doctor_page(d))["boxes"] if box["times"] > 1) == [3, 3]

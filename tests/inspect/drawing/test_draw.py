"""Drawings: what they show is what was recorded, and nothing of it is lost by folding."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import weakref
from pathlib import Path
from xml.etree import ElementTree

import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.core.graph.nodes import reachable
from retrograd.scalar import Value
from tests.inspect.drawing.graphs import GRAPHS, drawn, gpt
from tests.project.test_examples import EXAMPLES, REDUCED

SVG = "{http://www.w3.org/2000/svg}"


def labels(drawing, *kinds):
    return [vertex.label for vertex in drawing.picture.vertices if not kinds or vertex.kind in kinds]


def detail(drawing, label, name):
    (vertex,) = [vertex for vertex in drawing.picture.vertices if vertex.label == label]
    return dict(vertex.details)[name]


def texts(svg):
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(SVG + "text")]


@pytest.mark.parametrize("name", GRAPHS)
def test_unfolded_every_operator_leaf_and_use_is_there_once(name):
    output, params = GRAPHS[name]()
    picture = inspect.draw(output, params=params, repeats=False).picture
    roots = [x.grad_fn for x in (output.values() if isinstance(output, dict) else [output])]
    order, completes = reachable(roots)
    operators = [node for node in order if node.plan.select is None]
    leaves = [leaf for found in completes.values() for leaf in found]
    uses = sum(parent is not None for node in operators for parent in node.parents)
    kinds = [vertex.kind for vertex in picture.vertices]
    assert kinds.count("output") == len(roots)
    assert kinds.count("parameter") + kinds.count("input") == len(leaves)
    assert len(kinds) == len(operators) + len(leaves) + len(roots)
    assert len(picture.edges) == len(set(picture.edges)) == uses + len(roots)
    assert sorted(v.label for v in picture.vertices if v.kind not in ("output", "parameter", "input")) == sorted(
        node.operator for node in operators
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_sources_stand_before_targets_and_boxes_inside_what_is_around_them(name):
    picture = drawn(name, traced=True).picture
    assert all(edge.source < edge.target for edge in picture.edges)
    assert [vertex.key for vertex in picture.vertices] == list(range(len(picture.vertices)))
    assert [box.key for box in picture.boxes] == list(range(len(picture.boxes)))
    assert all(box.parent < box.key for box in picture.boxes)


def test_parameters_have_their_names_from_a_module_a_mapping_or_pairs():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    loss = model(rg.ones(4, 2)).sum()
    names = ["0.bias", "0.weight", "2.bias", "2.weight"]
    for params in (model, dict(model.named_parameters()), model.named_parameters()):
        assert sorted(labels(inspect.draw(loss, params=params), "parameter")) == names
    unnamed = ["parameter", "parameter (2)", "parameter (3)", "parameter (4)"]
    assert sorted(labels(inspect.draw(loss), "parameter")) == unnamed


def test_under_a_trace_names_modules_and_lines_are_known_without_params():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 1)))
    with inspect.trace() as t:
        loss = model(rg.ones(4, 2)).sum()
    drawing = inspect.draw(loss)
    paths = {".".join(box.path) for box in drawing.picture.boxes}
    assert paths == {"0", "1", "1.1"}  # 1.0 has one operator, which says as much as a box around it
    assert detail(drawing, "tanh", "module") == "1.0"
    assert detail(drawing, "sum", "line").startswith(f"{Path(__file__).name}:")
    assert "loss = model(" in detail(drawing, "sum", "line")
    assert sorted(vertex.details[0][1] for vertex in drawing.picture.vertices if vertex.kind == "parameter") == [
        "0.bias", "0.weight", "1.1.bias", "1.1.weight",
    ]  # fmt: skip
    assert set(labels(drawing, "operator")) <= set(labels(inspect.draw(t), "operator"))


def test_a_trace_is_drawn_with_what_no_graph_holds():
    x = rg.tensor([1.0, -2.0])
    w = nn.Parameter(rg.ones(2))
    with inspect.trace() as t:
        mask = x > 0
        loss = (rg.where(mask, x, 0 * x) * w).sum()
        loss.backward()
    drawing = inspect.draw(t)
    assert {"gt", "where", "mul", "sum"} <= set(labels(drawing))
    assert set(labels(drawing, "input", "parameter")) >= {"x", "w"}
    assert detail(drawing, "sum", "gradient") == "1"
    assert labels(drawing, "output") == ["output"]
    with inspect.trace() as empty:
        pass
    with pytest.raises(RuntimeError, match="draw: the trace is empty"):
        inspect.draw(empty)


def test_leaves_of_a_trace_with_one_name_are_told_apart_and_one_leaf_is_drawn_once():
    weights = [rg.ones(2, requires_grad=True) for _ in range(3)]
    x = shared = rg.ones(2)
    with inspect.trace() as t:
        for w in weights:
            x = x * w + shared
    picture = inspect.draw(t, repeats=False).picture
    assert [(v.label, v.kind) for v in picture.vertices if v.kind in ("input", "parameter")] == [
        ("x", "input"), *[(f"weights[{i}]", "parameter") for i in range(3)],
    ]  # fmt: skip
    assert [edge.input for edge in picture.edges if picture.vertices[edge.source].label == "x"] == [0, 1, 1, 1]
    names = [v.label for v in inspect.draw(x, repeats=False).picture.vertices if v.kind == "input"]
    assert names == ["weights[0]", "weights[1]", "weights[2]"]


def test_gradients_are_shown_after_a_walk_and_what_is_wrong_with_them():
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    y = x.sqrt().sum()
    assert detail(inspect.draw(y, params={"x": x}), "x", "gradient") == "none: no backward pass has reached it"
    y.backward()
    (vertex,) = [v for v in inspect.draw(y, params={"x": x}).picture.vertices if v.label == "x"]
    assert vertex.alarm == "grad 1 infinite" and vertex.norms == (0.5,)
    assert dict(vertex.details)["gradient"].startswith("1 infinite")


def test_a_freed_graph_is_drawn_and_says_so():
    x = rg.tensor([2.0], requires_grad=True)
    y = x * x
    assert detail(inspect.draw(y), "mul", "saved") == "x (1,), y (1,) (8 bytes)"
    y.backward()
    assert detail(inspect.draw(y), "mul", "saved") == "freed by a backward pass"


def test_views_writes_and_custom_functions_look_different():
    picture = drawn("zoo", traced=False).picture
    kinds = {vertex.label: vertex.kind for vertex in picture.vertices}
    assert kinds["Pair"] == "function" and kinds["split"] == kinds["view"] == kinds["expand"] == "view"
    assert kinds["overwrite"] == kinds["setitem"] == "write" and kinds["softmax"] == "operator"


def test_each_output_of_an_operator_has_its_own_edge_and_shape():
    a, b = rg.ones(5, 4, requires_grad=True).split([2, 3])
    picture = inspect.draw([a.exp(), b.log()]).picture
    (split,) = [vertex for vertex in picture.vertices if vertex.label == "split"]
    assert split.shapes == ((2, 4), (3, 4))
    read = {picture.vertices[e.target].label: e.output for e in picture.edges if e.source == split.key}
    assert read == {"exp": 0, "log": 1}
    assert [v.label for v in picture.vertices if v.kind == "output"] == ["output 0", "output 1"]


def test_equal_blocks_are_folded_into_one_that_counts_them():
    for traced in (True, False):
        picture = drawn("gpt", traced).picture
        (box,) = [box for box in picture.boxes if box.times > 1]
        assert box.times == 4
        assert sum(vertex.label == "gelu" for vertex in picture.vertices) == 1
    names = [dict(v.details) for v in drawn("gpt", traced=True).picture.vertices if v.kind == "parameter"]
    (qkv,) = [told for told in names if told["name"] == "blocks.0…3.attention.qkv.weight"]
    assert [name for name in qkv if name.startswith("gradient of")] == [
        f"gradient of blocks.{i}.attention.qkv.weight" for i in range(4)
    ]
    (vertex,) = [v for v in picture.vertices if v.label.endswith("qkv.weight")]
    assert len(vertex.norms) == 4


def test_a_loop_is_folded_as_far_as_its_steps_are_equal():
    picture = drawn("unrolled", traced=False).picture
    (box,) = [box for box in picture.boxes if box.times > 1]
    assert box.times in (11, 12) and sum(vertex.label == "mm" for vertex in picture.vertices) <= 2
    (weight,) = [vertex for vertex in picture.vertices if vertex.kind == "parameter"]
    assert weight.label == "weight" and weight.box == -1


def different(i, h, w):
    return h.tanh() if i == 3 else h.relu()


def reads_another(i, h, w):
    return h.relu() * (w if i == 3 else 2.0)


def test_loops_inside_of_a_loop_are_folded_though_later_rounds_read_earlier_ones():
    w = rg.randn(4, 4, requires_grad=True)
    h = g = rg.zeros(2, 4)
    for t in range(70):
        h, g = rg.tanh(h @ w + g), rg.sigmoid(g @ w + h)
        h = h * 2 if t % 7 == 0 else h
    picture = inspect.draw((h + g).sum()).picture
    assert sorted(box.times for box in picture.boxes if box.times > 1) == [6, 6, 9]
    assert len(picture.vertices) < 40


@pytest.mark.parametrize("step", [different, reads_another])
def test_blocks_that_differ_are_not_folded_into_one(step):
    w = rg.ones(2, 2, requires_grad=True)
    h = w * 1.0
    for i in range(6):
        h = step(i, h @ rg.ones(2, 2) + 1, w).sin()
    picture = inspect.draw(h.sum()).picture
    full = inspect.draw(h.sum(), repeats=False).picture
    shown = sum(max(1, picture.boxes[v.box].times if v.box >= 0 else 1) for v in picture.vertices)
    assert len(picture.vertices) < len(full.vertices)  # the three before are
    assert shown == len(full.vertices)
    assert all(box.times == 3 for box in picture.boxes if box.times > 1)


def test_a_residual_stream_that_skips_blocks_is_not_taken_for_a_chain():
    """Every block reads the result of the first, too: a repetition only where that is what all of them read."""
    x = rg.ones(2, 2, requires_grad=True)
    first = h = x.exp()
    for _ in range(5):
        h = (h.sin() + first).cos() * h
    picture = inspect.draw(h.sum()).picture
    (box,) = [box for box in picture.boxes if box.times > 1]
    readers = {edge.target for edge in picture.edges if picture.vertices[edge.source].label == "exp"}
    assert box.times >= 4 and {picture.vertices[key].label for key in readers} >= {"sin", "add"}


def test_depth_folds_modules():
    opened = {depth: drawn("gpt", traced=True, depth=depth) for depth in (0, 1, 2, 9)}
    sizes = [len(texts(opened[depth].to_svg())) for depth in (0, 1, 2, 9)]
    assert sizes == sorted(sizes) and len(set(sizes)) == 4
    assert "gelu" not in texts(opened[0].to_svg()) and "gelu" in texts(opened[9].to_svg())
    assert any("× 4" in text for text in texts(opened[1].to_svg()))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("traced", [False, True])
def test_all_formats_are_well_formed_and_tell_of_the_same_graph(name, traced, tmp_path):
    drawing = drawn(name, traced, depth=9, repeats=False)
    for suffix in ("svg", "html", "dot", "mmd"):
        drawing.save(tmp_path / f"graph.{suffix}")
    svg = (tmp_path / "graph.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    vertices = [g for g in root.iter(f"{SVG}g") if g.get("class", "").startswith("v ")]
    assert len(vertices) == len(drawing.picture.vertices)
    dot, mermaid = (tmp_path / "graph.dot").read_text(), (tmp_path / "graph.mmd").read_text()
    assert len(re.findall(r"^ +v\d+ \[", dot, re.M)) == len(drawing.picture.vertices)
    assert len(re.findall(r"^ +v\d+[\[(]", mermaid, re.M)) == len(drawing.picture.vertices)
    pairs = {(edge.source, edge.output, edge.target) for edge in drawing.picture.edges}
    assert dot.count(" -> ") == mermaid.count("-->") == len(pairs)
    assert dot.count("{") == dot.count("}") and dot.count("subgraph") == len(drawing.picture.boxes)
    assert mermaid.count("subgraph") == len(re.findall(r"^ +end$", mermaid, re.M)) == len(drawing.picture.boxes)


def test_what_comes_from_the_program_is_escaped():
    drawing = drawn("zoo", traced=True)
    assert "<script>alert(1)</script>" in texts(drawing.to_svg())
    for text in (drawing.to_svg(), drawing.to_html(), drawing._repr_html_(), drawing.to_mermaid()):
        assert "<script>alert" not in text
    assert '"w\\"\'\\n' in drawing.to_dot()


def test_names_with_characters_that_xml_forbids_are_drawn():
    x = rg.ones(2, requires_grad=True)
    drawing = inspect.draw(x.exp(), params={"a\x00\x1b[31m\ud800": x})
    assert any("a\ufffd" in text for text in texts(drawing.to_svg()))
    drawing.to_html().encode("utf-8")


def test_a_drawing_keeps_nothing_alive():
    x = rg.ones(3, requires_grad=True)
    y = x.exp()
    drawing = inspect.draw(y)
    alive = weakref.ref(x), weakref.ref(y.grad_fn)
    del x, y
    gc.collect()
    assert [found() for found in alive] == [None, None]
    assert "exp" in drawing.to_svg()


def test_a_scalar_value_is_drawn():
    a, b = Value(2.0, label="a"), Value(-3.0, label="b<")
    result = (a * b + a).tanh()
    result.backward()
    drawing = inspect.draw(result)
    assert sorted(labels(drawing)) == ["*", "+", "a", "b<", "tanh"]
    assert labels(drawing, "output") == ["tanh"] and labels(drawing, "input") == ["a", "b<"]
    assert detail(drawing, "*", "derivative with respect to a") == "-3.0"
    assert Value(1.0)._repr_svg_().startswith("<svg")


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (
            lambda: rg.ones(2),
            RuntimeError,
            r"draw: this Tensor of shape \(2,\) and dtype float32 has no graph: it does",
        ),
        (lambda: rg.ones(2, requires_grad=True), RuntimeError, "draw: this Tensor .* is a leaf, which has no graph"),
        (lambda: rg.ones(2, requires_grad=True).exp().detach(), RuntimeError, "without detach"),
        (lambda: 3.0, TypeError, "draw: expected a Tensor .* or a trace; got float"),
        (lambda: nn.Linear(2, 2), TypeError, "got Linear"),
        (list, TypeError, "draw: expected at least one Tensor, got an empty list"),
        (lambda: {"a": [None]}, TypeError, "got NoneType"),
    ],
)
def test_what_has_no_graph_is_refused_in_a_line(what, error, message):
    for call in (inspect.draw, inspect.tree):
        with pytest.raises(error, match=message.replace("draw", call.__name__)) as raised:
            call(what())
        assert "\n" not in str(raised.value)


def test_bad_arguments_are_refused_in_a_line(tmp_path):
    y = rg.ones(2, requires_grad=True).exp()
    with pytest.raises(ValueError, match="draw: depth must not be negative, got -1"):
        inspect.draw(y, depth=-1)
    with pytest.raises(TypeError, match="draw: depth must be an int or None, got float"):
        inspect.draw(y, depth=1.5)
    for params in (3, ["a"], {"a": 1}):
        with pytest.raises(TypeError, match="draw: params must be a Module"):
            inspect.draw(y, params=params)
    with pytest.raises(ValueError, match="must end in .svg, .html, .dot or .mmd, got"):
        inspect.draw(y).save(tmp_path / "graph.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_nothing_of_it_is_loaded_before_it_is_asked_for():
    code = """if True:
        import sys, retrograd as rg
        assert not [name for name in sys.modules if name.startswith("retrograd.inspect")]
        assert "_repr_html_" in dir(rg.Tensor)
        dir(rg.inspect), rg.inspect.__all__
        assert not [name for name in sys.modules if name.startswith("retrograd.inspect.")]
        rg.inspect.draw(rg.ones(2, requires_grad=True).exp())
        assert "retrograd.inspect.drawing.formats.page" not in sys.modules
        assert "retrograd.scalar" not in sys.modules
    """
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent / "src")}
    )


# Draws what a program differentiates first, after the walk.
DRAWING = """
import itertools, runpy, sys
import retrograd as rg
from retrograd.scalar import Value
number = itertools.count()

def drawing(backward):
    def call(self, *args, **kwargs):
        backward(self, *args, **kwargs)
        if not next(number):
            drawn = rg.inspect.draw(self)
            drawn.save("0.svg")
            drawn.save("0.html")
            if not isinstance(self, Value):
                rg.inspect.tree(self, width=80)
    return call

rg.Tensor.backward = drawing(rg.Tensor.backward)
Value.backward = drawing(Value.backward)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


DRAWN = {"custom_function", "names_lstm", "scalar_moons", "vae"}  # without --long: each runs in test_examples.py, too


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(REDUCED) - {"manual_mlp", "scalar_trace"}))  # which call no backward
def test_the_programs_in_examples_are_drawn(name, tmp_path, pytestconfig):
    if name not in DRAWN and not pytestconfig.getoption("--long"):
        pytest.skip("with --long")
    arguments, needs_data = REDUCED[name]
    if needs_data and "RETROGRAD_DATA" not in os.environ:
        pytest.skip("RETROGRAD_DATA is not set")
    if name == "scalar_moons":
        pytest.importorskip("matplotlib")
        arguments = [*arguments, "--out", str(tmp_path / "moons.png")]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRAWING, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent / "src"), "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    svg = (tmp_path / "0.svg").read_text(encoding="utf-8")
    assert any(g.get("class", "").startswith("v ") for g in ElementTree.fromstring(svg).iter(f"{SVG}g"))
    assert (tmp_path / "0.html").stat().st_size < (4_000_000 if name == "scalar_moons" else 200_000)


@pytest.mark.slow
def test_two_thousand_operators_are_read_folded_and_unfolded():
    with inspect.trace():
        output, model = gpt(layers=90)
    folded, full = inspect.draw(output, params=model), inspect.draw(output, params=model, repeats=False)
    assert len(full.picture.vertices) > 1800 and len(folded.picture.vertices) < 40
    assert [box.times for box in folded.picture.boxes if box.times > 1] == [90]
    flat = inspect.draw([output, output.exp()], repeats=False, depth=99)
    assert len(flat.picture.vertices) > 1800


def test_what_a_module_makes_and_does_not_return_is_no_output_of_a_trace():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), 3)
    with inspect.trace() as t:
        model(rg.randn(2, 3, 8)).sum()
    picture = inspect.draw(t).picture
    assert [vertex.label for vertex in picture.vertices if vertex.kind == "output"] == ["output"]


def test_what_a_module_inside_another_returns_is_an_output_of_a_trace():
    class Twins(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(2, 2)])

        def forward(self, a, b):
            return self.blocks[0](a), self.blocks[0](b)

    with inspect.trace() as t:
        Twins()(rg.ones(2), rg.ones(2))
    assert sum(vertex.kind == "output" for vertex in inspect.draw(t).picture.vertices) == 2


def test_a_leaf_is_named_by_the_programs_variable():
    weight = rg.ones(2, requires_grad=True)
    assert ">weight</text>" in inspect.draw((weight * 2).sum()).to_svg()


def test_the_title_counts_what_is_drawn_once() -> None:
    y = rg.ones(3, requires_grad=True)
    for _ in range(50):
        y = (y * 1.5).sin()
    assert "graph of 101 operators, 1 leaf; repetitions are drawn once" in inspect.draw(y.sum())._repr_svg_()

import random
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from retrograd.scalar import MLP, Value, draw_graph, trace_graph

SVG = "{http://www.w3.org/2000/svg}"


def traced_example():
    a, b, c, d = (Value(number, label=name) for number, name in zip((2, 3, 4, 5), "abcd", strict=True))
    result = ((a * b) + c) * (a + d)
    result.backward()
    return result


def elements(drawing, tag):
    return ElementTree.fromstring(drawing).findall(SVG + tag)


def boxes(drawing):
    """(x, y, lines, kind) of every node; the legend is left out."""
    return [
        (float(box.get("x")), float(box.get("y")), ["".join(part.itertext()) for part in text], box.get("class"))
        for box, text in zip(elements(drawing, "rect"), elements(drawing, "text"), strict=True)
        if "legend" not in box.get("class")
    ]


def edges(drawing):
    return [path for path in elements(drawing, "path") if path.get("fill") == "none"]


def arrowheads(drawing):
    return [path for path in elements(drawing, "path") if path.get("fill") != "none"]


def test_trace():
    assert trace_graph(traced_example()).splitlines() == [
        "* data=70 grad=1",
        "  + data=10 grad=7",
        "    * data=6 grad=7",
        "      a data=2 grad=31",
        "      b data=3 grad=14",
        "    c data=4 grad=7",
        "  + data=7 grad=10",
        "    a data=2 grad=31",
        "    d data=5 grad=10",
    ]


def test_trace_spells_a_shared_operand_out_once():
    y = Value(1.0)
    for _ in range(50):
        y = y + y
    assert trace_graph(y).count("(see above)") == 50 - 1
    assert len(trace_graph(y).splitlines()) == 2 * 50 + 1


def test_drawing_is_well_formed_and_flows_to_the_right():
    drawing = draw_graph(traced_example())
    found = boxes(drawing)
    left = {tuple(lines): x for x, _, lines, _ in found}
    assert len(found) == 8 == len({(x, y) for x, y, *_ in found})
    a, product, root = ("a", "data=2", "grad=31"), ("*", "data=6", "grad=7"), ("*", "data=70", "grad=1")
    assert left[a] < left[product] < left[root] == max(left.values())
    assert drawing._repr_svg_() == drawing


def test_boxes_and_passing_edges_do_not_overlap():
    found = boxes(draw_graph(MLP(2, [3, 1])([1.0, 2.0]).tanh()))
    for i, (x, y, *_) in enumerate(found):
        assert all(x != x2 or abs(y - y2) >= 60 for x2, y2, *_ in found[:i])
    drawing = draw_graph(traced_example())
    assert len(edges(drawing)) == 8 + 1  # a passes one column, between its box and the sum a + d
    assert len(arrowheads(drawing)) == 8


def test_a_value_used_twice_is_one_box_with_two_arrows():
    a = Value(2.0, label="a")
    drawing = draw_graph(a * a)
    assert [lines[0] for *_, lines, _ in boxes(drawing)].count("a") == 1
    assert len(arrowheads(drawing)) == 2 == len({path.get("d") for path in arrowheads(drawing)})


def test_the_inputs_of_a_network_are_drawn_once():
    drawing = draw_graph(MLP(3, [4, 4, 1])([2.0, 3.0, -1.0]))
    assert [kind for *_, kind in boxes(drawing)].count("leaf") == 3


def test_the_box_says_what_its_node_is():
    random.seed(0)
    model = MLP(2, [2, 1])
    x, scale = Value(1.0, label="x"), Value(2.0, label="scale")
    drawing = draw_graph(model([x, 3.0]) * scale, parameters=[scale])
    kinds = {lines[0]: kind for *_, lines, kind in boxes(drawing)}
    assert kinds["x"] == kinds["leaf"] == "leaf"
    assert kinds["0.0.w0"] == kinds["0.1.b"] == kinds["1.0.w1"] == kinds["scale"] == "parameter"
    assert kinds["dot"] == kinds["tanh"] == "operator"
    assert kinds["*"] == "output"
    assert [kind for *_, kind in boxes(drawing)].count("parameter") == len(model.parameters()) + 1
    fills = {rect.get("class"): rect.get("fill") for rect in elements(drawing, "rect")}
    for kind in ("leaf", "parameter", "operator", "output"):
        assert fills[kind] == fills[f"{kind} legend"]
    assert len(set(fills.values())) == 4


def test_a_leaf_alone_is_drawn_as_a_leaf():
    ((*_, kind),) = boxes(draw_graph(Value(1.0)))
    assert kind == "leaf"


def test_a_box_is_as_wide_as_its_text():
    label = "a label of more than thirty letters"
    rectangle = elements(draw_graph(Value(1.0, label=label)), "rect")[0]
    assert float(rectangle.get("width")) > 7 * len(label)


def test_the_picture_refers_to_nothing_outside_and_nothing_by_name():
    drawing = draw_graph(traced_example())
    assert not re.search(r"href|url\(|<style|<script| id=", drawing)


def test_labels_are_escaped():
    value = Value(1.0, label="<a & 'b'>")
    assert boxes(draw_graph(value))[0][2] == ["<a & 'b'>", "data=1", "grad=0"]


def test_characters_that_xml_forbids_are_replaced():
    assert boxes(draw_graph(Value(1.0, label="a\x00b")))[0][2][0] == "a\ufffdb"


def test_save(tmp_path):
    draw_graph(traced_example()).save(tmp_path / "graph.svg")
    assert ElementTree.parse(tmp_path / "graph.svg").getroot().tag == SVG + "svg"


@pytest.mark.parametrize(
    ("name", "format", "written"),
    [
        ("graph", None, "graph.svg"),
        ("graph.svg", None, "graph.svg"),
        ("graph", "svg", "graph.svg"),
        ("graph", "dot", "graph.dot"),
        ("graph.dot", None, "graph.dot"),
        ("graph.v2", "svg", "graph.v2.svg"),
    ],
)
def test_render_writes_the_format_it_is_asked_for(tmp_path, name, format, written):
    drawing = draw_graph(traced_example())
    assert drawing.render(tmp_path / name, format=format) == str(tmp_path / written)
    text = (tmp_path / written).read_text(encoding="utf-8")
    assert text == (drawing if written.endswith("svg") else drawing.source)


def test_render_refuses_a_format_it_does_not_write(tmp_path):
    for arguments in ({"filename": tmp_path / "graph.png"}, {"filename": tmp_path / "graph", "format": "pdf"}):
        with pytest.raises(ValueError, match=r"render: format must be 'svg' or 'dot', got '(png|pdf)'"):
            draw_graph(Value(1.0)).render(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_render_shows_the_file_when_asked(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    path = draw_graph(Value(1.0)).render(tmp_path / "graph", view=True)
    assert shown == [Path(path).as_uri()]


def test_dot_has_a_line_for_every_node_and_every_use():
    a = Value(2.0, label='say "a\\b"')
    source = draw_graph(a * a).source
    assert source.startswith("digraph {") and source.endswith("}\n")
    assert source.count(" -> ") == 2 and source.count("[label=") == 2
    assert r'label="say \"a\\b\"\ndata=2' in source


def test_large_graphs_are_refused_or_drawn_in_full():
    y = Value(1.0)
    for _ in range(10_000):
        y = -y
    for function in (draw_graph, trace_graph):
        with pytest.raises(ValueError, match="more than max_nodes"):
            function(y)
    assert len(trace_graph(y, max_nodes=10_001).splitlines()) == 10_001


def test_long_chain_is_drawn():
    y = Value(1.0)
    for _ in range(299):
        y = -y
    assert len(boxes(draw_graph(y))) == 300

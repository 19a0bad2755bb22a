from xml.etree import ElementTree

import pytest

from retrograd.scalar import MLP, Value, draw_graph, trace_graph

SVG = "{http://www.w3.org/2000/svg}"


def traced_example():
    a, b, c, d = (Value(number, label=name) for number, name in zip((2, 3, 4, 5), "abcd", strict=True))
    result = ((a * b) + c) * (a + d)
    result.backward()
    return result


def boxes(drawing):
    return [
        (float(box.get("x")), float(box.get("y")), ["".join(part.itertext()) for part in text])
        for box, text in zip(
            *(ElementTree.fromstring(drawing).findall(SVG + tag) for tag in ("rect", "text")), strict=True
        )
    ]


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
    left = {tuple(lines): x for x, _, lines in found}
    assert len(found) == 8 == len({(x, y) for x, y, _ in found})
    a, product, root = ("a", "data=2", "grad=31"), ("*", "data=6", "grad=7"), ("*", "data=70", "grad=1")
    assert left[a] < left[product] < left[root] == max(left.values())
    assert drawing._repr_svg_() == drawing


def test_boxes_and_passing_edges_do_not_overlap():
    found = boxes(draw_graph(MLP(2, [3, 1])([1.0, 2.0]).tanh()))
    for i, (x, y, _) in enumerate(found):
        assert all(x != x2 or abs(y - y2) >= 60 for x2, y2, _ in found[:i])
    lines = ElementTree.fromstring(draw_graph(traced_example())).findall(SVG + "path")
    assert len(lines) == 8 + 1  # c passes one column, between its box and the sum


def test_labels_are_escaped():
    value = Value(1.0, label="<a & 'b'>")
    assert boxes(draw_graph(value))[0][2] == ["<a & 'b'>", "data=1", "grad=0"]


def test_save(tmp_path):
    draw_graph(traced_example()).save(tmp_path / "graph.svg")
    assert ElementTree.parse(tmp_path / "graph.svg").getroot().tag == SVG + "svg"


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

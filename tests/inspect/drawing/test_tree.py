"""The tree in the terminal."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.inspect.drawing.layout.scene import columns
from retrograd.nn import functional as F
from retrograd.scalar import Value
from tests.inspect.drawing.graphs import GRAPHS


def printed(capsys, output, **options) -> list[str]:
    inspect.tree(output, **options)
    return capsys.readouterr().out.splitlines()


def test_a_chain_is_not_indented_and_leaves_stand_where_they_are_read(capsys):
    x = rg.ones(2, 3, requires_grad=True)
    assert printed(capsys, (x.exp() * 2).sum(), params={"x": x}) == [
        "output () 32.62", "sum ()", "mul (2, 3)", "exp (2, 3)  ← x (2, 3)",
    ]  # fmt: skip


def test_a_shared_result_is_printed_once_below_all_that_read_it(capsys):
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    assert printed(capsys, y.sin() + y.cos() * y, params={"x": x}) == [
        "output (2,)",
        "add (2,)",
        "├─ sin (2,)",
        "│  → #1",
        "└─ mul (2,)",
        "   ├─ cos (2,)",
        "   │  → #1",
        "   └─ → #1",
        "#1 exp (2,)  ← x (2,)",
    ]


def test_each_input_stands_below_what_reads_it_in_the_order_of_inputs(capsys):
    a, b = rg.ones(2, 2, requires_grad=True), rg.ones(2, 2, requires_grad=True)
    long = a.exp().tanh().sin().cos()
    assert printed(capsys, long @ b.sin() - b, params={"a": a, "b": b}) == [
        "output (2, 2)",
        "sub (2, 2)  ← b (2, 2)",
        "mm (2, 2)",
        "├─ → #1",
        "└─ sin (2, 2)  ← b (2, 2)",
        "#1 cos (2, 2)",
        "sin (2, 2)",
        "tanh (2, 2)",
        "exp (2, 2)  ← a (2, 2)",
    ]
    assert printed(capsys, b - a.exp(), params={"a": a, "b": b})[1:] == [
        "sub (2, 2)  ← b (2, 2), ↓", "exp (2, 2)  ← a (2, 2)",
    ]  # fmt: skip


def test_what_ran_beside_is_no_input_of_the_line_above(capsys):
    x = rg.ones(2)
    with inspect.trace() as t:
        x.exp()
        x.sin()
    assert [line.partition("  ")[0] for line in printed(capsys, t)] == ["sin (2,)", "also ran: exp (2,)"]


def test_a_gradient_that_a_penalty_is_made_of_is_drawn_with_the_rest(capsys):
    x, w = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    with inspect.trace() as t:
        y = (x * w).sin().sum()
        (g,) = rg.autograd.grad(y, x, create_graph=True)
        (y + g.square().sum()).backward()
    picture = inspect.draw(t, repeats=False).picture
    near = {vertex.key: {vertex.key} for vertex in picture.vertices}
    for edge in picture.edges:
        joined = near[edge.source] | near[edge.target]
        near |= dict.fromkeys(joined, joined)
    assert len(set(map(frozenset, near.values()))) == 1, "the picture falls apart"
    text = printed(capsys, t)
    assert any("cos" in line for line in text) and not any("also ran" in line for line in text)


def test_integers_that_an_operator_reads_are_leaves(capsys):
    table, index = nn.Embedding(5, 3), rg.tensor([1, 2, 0])
    with inspect.trace() as t:
        F.cross_entropy(table(index) + table.weight[index], table.weight.argmax(1)[index])
    text = "\n".join(line.partition("  test_tree")[0] for line in printed(capsys, t))
    assert "embedding (3, 3)  ← weight (5, 3), index (3,)" in text
    assert "getitem (3, 3)  ← weight (5, 3), index (3,)" in text
    assert "getitem (3,)  ← ↓, index (3,)" in text or "getitem (3,)  ← index (3,)" in text
    assert "argmax (5,)" in text and "also ran" not in text


@pytest.mark.parametrize("traced", [False, True])
def test_writes_in_place_are_marked_and_what_is_written_through_a_view_is_what_is_read(capsys, traced):
    x = rg.ones(4, requires_grad=True)
    with inspect.trace() as t:
        h = x * 2
        h.add_(1)
        h[1:3] *= 3
        y = h.sum()
    lines = [line.partition("  test_tree")[0] for line in printed(capsys, t if traced else y)]
    assert lines == [
        "output () 24",
        "sum ()",
        "overwrite (4,)",
        "├─ → #1",
        "└─ mul_ (2,)",
        "   getitem (2,)",
        "   → #1",
        "#1 add_ (4,)",
        "mul (4,)  ← x (4,)",
    ]
    assert [record.label for record in t if record.writes] == ["add_", "mul_"]
    assert {vertex.label for vertex in inspect.draw(t).picture.vertices if vertex.kind == "write"} == {
        "add_", "mul_", "overwrite",
    }  # fmt: skip


def test_several_outputs_and_several_values_of_one_operator(capsys):
    x = rg.ones(4, requires_grad=True)
    a, b = x.split(2)
    assert printed(capsys, {"a": a.exp(), "b": b.log()}, params={"x": x}) == [
        "a (2,)",
        "exp (2,)",
        "→ #1",
        "b (2,)",
        "log (2,)",
        "→ #1",
        "#1 split (2,), (2,)  ← x (4,)",
    ]


def test_residual_blocks_are_no_deeper_than_one(capsys):
    x = rg.ones(2, requires_grad=True)
    for _ in range(30):
        x = x + x.sin().cos()
    lines = printed(capsys, x)
    assert max(len(line) - len(line.lstrip("│├─ ")) for line in lines) <= 3


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_operator_is_there_once_and_lines_keep_the_width(name, width, capsys):
    output, params = GRAPHS[name]()
    lines = printed(capsys, output, params=params, width=width)
    assert max(map(columns, lines)) <= width
    wide = printed(capsys, output, params=params, width=1000)
    if not any("⋮" in line for line in wide):
        picture = inspect.draw(output, params=params, repeats=False).picture
        vertices = [v for v in picture.vertices if v.kind not in ("input", "parameter")]
        assert len([line for line in wide if "→ #" not in line]) == len(vertices)


def test_repeated_lines_are_counted(capsys):
    x = rg.ones(2, requires_grad=True)
    y = x.exp()
    for _ in range(500):
        y = (y * 1.01).sin()
    assert printed(capsys, y, params={"x": x}) == [
        "output (2,)", "sin (2,)", "mul (2,)", "⋮ these 2 lines, 499 more times", "exp (2,)  ← x (2,)",
    ]  # fmt: skip


def test_under_a_trace_lines_of_the_program_are_named_and_bad_numbers_marked(capsys):
    x = rg.tensor([-1.0, 1.0], requires_grad=True)
    with inspect.trace():
        y = x.log().sum()
    lines = printed(capsys, y, width=200)
    assert lines[0] == "output () ⚠ 1 NaN"
    assert lines[2].startswith("log (2,)  ← x (2,)  test_tree.py:") and "y = x.log().sum()" in lines[2]
    assert lines[2].endswith("⚠ 1 NaN")


def test_control_characters_of_names_do_not_reach_the_terminal(capsys):
    x = rg.ones(2, requires_grad=True)
    (line,) = [line for line in printed(capsys, x.exp(), params={"\x1b[2Jx\n": x}) if "exp" in line]
    assert "\x1b" not in line and "?[2Jx?" in line


def test_a_trace_and_a_scalar_value_have_trees(capsys):
    a, b = Value(2.0, label="a"), Value(-3.0, label="b")
    assert printed(capsys, a * b + a) == ["+ -4  ← a 2", "* -6  ← a 2, b -3"]
    with inspect.trace() as t:
        (rg.ones(2) + 1).sum()
    assert [line.split()[0] for line in printed(capsys, t)] == ["sum", "add", "ones"]
    with pytest.raises(RuntimeError, match="tree: the trace is empty"), inspect.trace() as empty:
        inspect.tree(empty)


def test_equal_blocks_are_counted_though_modules_and_results_have_other_numbers(capsys):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    model = nn.TransformerEncoder(layer, 20)
    with inspect.trace() as t:
        y = model(rg.randn(2, 3, 8)).sum()
    for what in (y, t):
        lines = printed(capsys, what, width=1000)
        assert len(lines) < 90
        assert any("more times, to layers.1" in line for line in lines)


@pytest.mark.parametrize("step", [2, 5])
def test_blocks_that_are_joined_in_another_way_are_not_counted_as_equal(step, capsys):
    x = rg.ones(2, requires_grad=True)
    ys = [x]
    for i in range(12):
        y = ys[-1].sin()
        ys.append((y * y.cos()).exp() + (ys[-1] if i != step else ys[0]))
    lines = printed(capsys, ys[-1], width=1000)
    count = sum("add" in line for line in lines)
    more = [int(line.split(", ")[1].split()[0]) for line in lines if "⋮" in line]
    assert count + sum(more) == 12 and count > 2  # the odd one is printed in full


def test_what_no_output_of_a_trace_was_made_of_stands_apart(capsys):
    x = rg.ones(2, 3, requires_grad=True)
    with inspect.trace() as t:
        y = x.exp()
        (y.detach() > 1).sum()
        y.mean().backward()
    lines = [line.split("  test_tree")[0] for line in printed(capsys, t, width=1000)]
    assert lines.index("also ran: sum ()") > lines.index("mean ()")

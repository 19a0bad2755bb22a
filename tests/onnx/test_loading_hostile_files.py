"""Files of ONNX that are damaged or made to do harm end in one of the documented errors, and soon."""

from __future__ import annotations

import random

import numpy as np
import pytest

import retrograd as rg
from retrograd.onnx import graph as graphs

onnx = pytest.importorskip("onnx")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper
node = helper.make_node


def value(name, shape=(2,), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, constants=(), inputs=("x",), outputs=("y",), functions=()):
    graph = helper.make_graph(nodes, "graph", [value(n) for n in inputs], [value(n) for n in outputs], list(constants))
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=domains, functions=list(functions))


def function(name, *called):
    """A function that calls others, one after the other."""
    names = ["a", *[f"v{k}" for k in range(len(called) - 1)], "b"]
    nodes = [
        node(kind, [names[k]], [names[k + 1]], domain="own" if kind.startswith("F") else "")
        for k, kind in enumerate(called)
    ]
    return helper.make_function("own", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 17)])


def test_functions_that_double_at_each_level_are_refused_before_they_are_expanded():
    levels = [function("F0", "Neg", "Neg"), *[function(f"F{k}", f"F{k - 1}", f"F{k - 1}") for k in range(1, 60)]]
    for last in (20, 59):
        with pytest.raises(rg.onnx.UnsupportedError, match=r"load: the functions have more than 262144 nodes"):
            rg.onnx.load(model([node(f"F{last}", ["x"], ["y"], domain="own")], functions=levels))
    loaded = rg.onnx.load(model([node("F5", ["x"], ["y"], domain="own")], functions=levels))
    assert loaded(rg.ones(2)).tolist() == [1.0, 1.0]


def test_functions_that_call_themselves_and_endless_chains_are_refused():
    for functions in ([function("F0", "F0")], [function("F0", "F1"), function("F1", "Neg", "F0")]):
        with pytest.raises(ValueError, match="load: the function 'F0' calls itself"):
            rg.onnx.load(model([node("F0", ["x"], ["y"], domain="own")], functions=functions))
    chain = [function("F0", "Neg"), *[function(f"F{k}", f"F{k - 1}") for k in range(1, 3000)]]
    for order in (chain, chain[::-1]):
        with pytest.raises(rg.onnx.UnsupportedError, match="functions are nested more than 100 levels deep"):
            rg.onnx.load(model([node("F2999", ["x"], ["y"], domain="own")], functions=order))


def loop(names, inner=()):
    body = helper.make_graph(
        [*inner, node("Identity", ["on"], ["go"]), node("Neg", ["a"], ["b"])],
        "body",
        [value("turn", (), TensorProto.INT64), value("on", (), TensorProto.BOOL), value("a")],
        [value("go", (), TensorProto.BOOL), value("b")],
    )
    return node("Loop", names, ["y"], body=body)


@pytest.mark.parametrize("limit", [None, 2**62, 2**63 - 1])
def test_a_loop_that_does_not_end_is_stopped(limit, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_ITERATIONS", 500)
    constants = [constant("yes", True)] + ([] if limit is None else [constant("limit", np.int64(limit))])
    loaded = rg.onnx.load(model([loop(["" if limit is None else "limit", "yes", "x"])], constants))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="exceed 500 iterations"):
            loaded(rg.ones(2))


def test_loops_in_each_other_share_the_limit_and_each_call_has_its_own(monkeypatch):
    monkeypatch.setattr(graphs, "MAX_ITERATIONS", 500)
    inner = loop(["limit", "yes", "a"])
    inner.output[0] = "inner"
    for limit, ends in ((20, True), (30, False)):
        constants = [constant("yes", True), constant("limit", np.int64(limit))]
        loaded = rg.onnx.load(model([loop(["limit", "yes", "x"], [inner])], constants))
        for _ in range(3):
            if ends:
                assert loaded(rg.ones(2)).tolist() == [1.0, 1.0]
            else:
                with pytest.raises(RuntimeError, match="exceed 500 iterations"):
                    loaded(rg.ones(2))


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Add", ["x", "z"], ["y"]), node("Neg", ["y"], ["z"])],
        [node("Add", ["x", "y"], ["y"])],
        [node("Add", ["x", "nowhere"], ["y"])],
        [node("Neg", ["x"], ["z"])],
        [node("Neg", ["z"], ["y"]), node("Neg", ["x"], ["z"])],
        [node("Neg", ["x"], [])],
    ],
    ids=["circle", "itself", "unknown", "no output", "order", "gives nothing"],
)
def test_names_that_nothing_before_gives_are_refused(nodes):
    with pytest.raises(
        ValueError, match=r"^load: (node '|the graph's output).*(no earlier node|no output|not written)"
    ):
        rg.onnx.load(model(nodes))


def test_a_range_without_a_step_and_a_node_with_too_many_outputs_are_errors_that_name_the_node():
    ends = [constant(name, np.int64(n)) for name, n in (("zero", 0), ("two", 2))]
    loaded = rg.onnx.load(model([node("Range", ["zero", "two", "zero"], ["y"], name="steps")], ends, inputs=()))
    with pytest.raises(ValueError, match=r"node 'steps' \(Range\): .*delta must not be 0"):
        loaded()
    loaded = rg.onnx.load(model([node("Neg", ["x"], ["z", "y"], name="minus")]))
    with pytest.raises(RuntimeError, match=r"node 'minus' \(Neg\): must return 2 outputs, got 1"):
        loaded(rg.ones(2))
    huge = [constant("many", np.array([2**62]))]
    loaded = rg.onnx.load(model([node("TopK", ["x", "many"], ["y", "places"])], huge))
    with pytest.raises(ValueError, match="TopK: k must be at most 2, got 4611686018427387904"):
        loaded(rg.ones(2))


def test_a_result_whose_size_is_a_number_in_the_file_does_not_take_all_memory():
    sizes = [
        constant("many", np.int64(2**40)),
        constant("shape", np.array([2**20, 2**20])),
        constant("pads", np.array([0, 2**40])),
        constant("zero", np.int64(0)),
        constant("one", np.int64(1)),
        constant("values", np.array([0.0, 1.0], np.float32)),
        constant("places", np.array([0, 1])),
    ]
    for operator, inputs in {
        "OneHot": ["places", "many", "values"],
        "ConstantOfShape": ["shape"],
        "Range": ["zero", "many", "one"],
        "Tile": ["x", "many1"],
        "Pad": ["x", "pads"],
    }.items():
        sizes_of = [*sizes, constant("many1", np.array([2**40]))]
        loaded = rg.onnx.load(model([node(operator, inputs, ["y"])], sizes_of))
        with pytest.raises(ValueError, match="the result must have at most"):
            loaded(rg.ones(2))


def damaged(data, chance):
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 2:
            data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
        else:
            start, length = chance.randrange(len(data)), chance.randint(1, 30)
            data[at : at + length] = data[start : start + length]
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_end_in_documented_errors(seed, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_ITERATIONS", 500)
    chance = random.Random(seed)
    weights = [constant("w", np.ones((2, 2), np.float32)), constant("three", np.int64(3)), constant("yes", True)]
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("F1", ["p"], ["q"], domain="own"), loop(["three", "yes", "q"])]
    whole = model(nodes, weights, functions=[function("F0", "Neg", "Exp"), function("F1", "F0", "F0")])
    data = whole.SerializeToString()
    assert rg.onnx.load(data)(rg.ones(2)).shape == (2,)
    ran = 0
    for _ in range(300):
        bad = damaged(data, chance)
        try:
            loaded = rg.onnx.load(bad)
        except (ValueError, rg.onnx.UnsupportedError, OSError) as error:
            assert str(error).startswith("load: ") and "\n" not in str(error)
            continue
        try:
            loaded(*[rg.ones(2) for _ in loaded.input_names])
            ran += 1
        except (TypeError, ValueError, IndexError, RuntimeError, MemoryError):
            pass
    assert ran

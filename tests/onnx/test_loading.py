"""``onnx.load``: graphs compute what onnxruntime and the standard's own tests compute, and are differentiable."""

import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.tensor.tensor import new_tensor

onnx = pytest.importorskip("onnx")
TensorProto, helper = onnx.TensorProto, onnx.helper


def model_of(nodes, inputs, outputs, initializers=(), opset=17, **options):
    def values(entries):
        whole = [(entry, TensorProto.FLOAT, None) if isinstance(entry, str) else entry for entry in entries]
        return [helper.make_tensor_value_info(*entry) for entry in whole]

    made = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in dict(initializers).items()]
    graph = helper.make_graph(nodes, "test", values(inputs), values(outputs), made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **options)


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def branches():
    """``then``: 2 x; ``else``: x - w, with ``w`` in the branch."""
    then = helper.make_graph(
        [node("Mul", "x two", "a")], "then", [], [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)]
    )
    weight = onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")
    other = helper.make_graph(
        [node("Sub", "x w", "b")], "else", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)], [weight]
    )
    return node("If", "on", "y", then_branch=then, else_branch=other)


def test_weights_are_parameters_under_their_names_and_are_trained():
    weights = {"fc.weight": np.eye(3, 2, dtype=np.float32), "fc.bias": np.zeros(2, np.float32)}
    model = rg.onnx.load(model_of([node("Gemm", "x fc.weight fc.bias", "y")], ["x"], ["y"], weights))
    assert [name for name, _ in model.named_parameters()] == ["fc.weight", "fc.bias"]
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    x, t = rg.randn(8, 3), rg.randn(8, 2)
    first = rg.nn.functional.mse_loss(model(x), t)
    first.backward()
    optimizer.step()
    assert rg.nn.functional.mse_loss(model(x), t) < first
    assert rg.autograd.gradcheck(model.double(), rg.randn(2, 3, dtype=rg.float64, requires_grad=True))


def test_inputs_are_given_in_order_or_by_name_and_several_outputs_are_a_tuple():
    model = rg.onnx.load(model_of([node("Sub", "a b", "c"), node("Neg", "c", "d")], ["a", "b"], ["d", "c"]))
    a, b = rg.tensor([3.0]), rg.tensor([1.0])
    assert [x.item() for x in model(a, b)] == [x.item() for x in model(b=b, a=a)] == [-2.0, 2.0]
    assert model.input_names == ["a", "b"] and model.output_names == ["d", "c"] and "opset 17" in repr(model)


def test_a_branch_reads_the_graph_around_it_and_has_weights_of_its_own():
    proto = model_of(
        [branches()], [("on", TensorProto.BOOL, []), "x"], ["y"], {"two": np.asarray([2.0, 2.0], np.float32)}
    )
    model = rg.onnx.load(proto)
    x = rg.tensor([3.0, 4.0], requires_grad=True)
    y = model(rg.tensor(False), x)
    assert y.tolist() == [2.0, 3.0] and model(rg.tensor(True), x).tolist() == [6.0, 8.0]
    y.sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    assert sorted(name.rpartition(".")[2] for name in grads) == ["two", "w"]
    assert [g for name, g in grads.items() if name.endswith("w")][0].tolist() == [-1.0, -1.0]


def test_a_loop_carries_values_and_stacks_what_it_scans():
    body = helper.make_graph(
        [node("Mul", "carried carried", "next"), node("Identity", "on", "still"), node("Identity", "next", "seen")],
        "body",
        [helper.make_tensor_value_info(n, k, []) for n, k in (("i", 7), ("on", 9), ("carried", 1))],
        [helper.make_tensor_value_info(n, k, []) for n, k in (("still", 9), ("next", 1), ("seen", 1))],
    )
    loop = node("Loop", "count  x", "last all", body=body)
    loop.input[:] = ["count", "", "x"]
    proto = model_of([loop], ["x"], ["last", "all"], {"count": np.asarray(3)})
    x = rg.tensor(1.1, requires_grad=True)
    last, seen = rg.onnx.load(proto)(x)
    assert seen.shape == (3,) and last.item() == pytest.approx(1.1**8)
    last.backward()
    assert x.grad.item() == pytest.approx(8 * 1.1**7)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", [{}, {"lengths": True}, {"linear_before_reset": 1}, {"direction": "reverse"}])
def test_recurrent_layers_are_those_of_the_reference_evaluator(kind, options):
    options = dict(options)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    if kind != "GRU":
        options.pop("linear_before_reset", None)
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((1, gates * 4, 3)).astype(np.float32),
        "r": random.standard_normal((1, gates * 4, 4)).astype(np.float32),
        "b": random.standard_normal((1, 2 * gates * 4)).astype(np.float32),
    }
    lengths = options.pop("lengths", False)
    if lengths:
        weights["n"] = np.asarray([5, 3], np.int32)
    made = node(kind, "x w r b n" if lengths else "x w r b", "y last", hidden_size=4, **options)
    proto = model_of([made], [("x", 1, [5, 2, 3])], ["y", "last"], weights, opset=14)
    x = random.standard_normal((5, 2, 3)).astype(np.float32)
    ort = pytest.importorskip("onnxruntime")
    proto.ir_version = 8
    wanted = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    model = rg.onnx.load(proto)
    for found, expected in zip(model(rg.tensor(x)), wanted):
        np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-5)
    model(rg.tensor(x))[0].sum().backward()
    assert model.w.grad is not None


@pytest.mark.parametrize(
    ("proto", "error"),
    [
        (lambda: model_of([node("DFT", "x", "y")], ["x"], ["y"]), "operator DFT of ONNX cannot be loaded"),
        (
            lambda: model_of([node("DFT", "x", "z"), node("MelWeightMatrix", "z z z z z", "y")], ["x"], ["y"]),
            "operators DFT, MelWeightMatrix of ONNX cannot be loaded",
        ),
        (
            lambda: model_of([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], ["x"], ["y"]),
            "operator com.microsoft.Gelu of ONNX cannot be loaded",
        ),
        (lambda: model_of([node("Relu", "x", "y")], ["x"], ["y"], opset=9), "opset 9 is not supported; it must be 11"),
        (lambda: model_of([node("Relu", "x", "y")], [("x", TensorProto.STRING, [1])], ["y"]), "dtype STRING"),
    ],
)
def test_what_cannot_be_loaded_is_named(proto, error):
    with pytest.raises(rg.onnx.UnsupportedError, match=error):
        rg.onnx.load(proto())


def test_files_that_are_none_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.onnx"):
        rg.onnx.load(tmp_path / "none.onnx")
    for content in (b"hello world", b"", b"\x00" * 100):
        (tmp_path / "junk.onnx").write_bytes(content)
        with pytest.raises(ValueError, match="junk.onnx: not an ONNX file"):
            rg.onnx.load(tmp_path / "junk.onnx")


def test_wrong_inputs_are_named():
    model = rg.onnx.load(model_of([node("Relu", "x", "y")], [("x", TensorProto.FLOAT, ["N", 3])], ["y"]))
    for args, named, message in [
        ((rg.ones(2, 4),), {}, r"'x' must be float32\(\*, 3\), got float32\(2, 4\)"),
        ((rg.ones(2, 3, dtype=rg.float64),), {}, "must be float32"),
        ((), {}, "'x' is missing"),
        ((rg.ones(2, 3), rg.ones(1)), {}, "1 inputs \\(x\\), got 2"),
        ((), {"z": rg.ones(1)}, "'z' must be one of x"),
        ((rg.ones(2, 3),), {"x": rg.ones(2, 3)}, "'x' was given twice"),
    ]:
        with pytest.raises(TypeError, match=message):
            model(*args, **named)


def test_an_error_inside_names_the_node():
    proto = model_of([node("MatMul", "x x", "y", name="product")], [("x", 1, None)], ["y"])
    with pytest.raises(RuntimeError, match=r"node 'product' \(MatMul\): matmul"):
        rg.onnx.load(proto)(rg.ones(2, 3))


MODELS = {
    "rapidocr_onnxruntime": [
        ("models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
        ("models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 64, 96)}),
        ("models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 160)}),
    ],
    "silero_vad": [
        ("data/silero_vad.onnx", {"input": (1, 576), "state": (2, 1, 128), "sr": 16000}),
        ("data/silero_vad.onnx", {"input": (1, 288), "state": (2, 1, 128), "sr": 8000}),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("package", MODELS)
def test_models_of_packages_give_what_onnxruntime_gives(package):
    ort = pytest.importorskip("onnxruntime")
    spec = find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    root = Path(spec.submodule_search_locations[0])
    random = np.random.default_rng(0)
    for file, shapes in MODELS[package]:
        path = root / file
        feeds = {
            name: np.asarray(shape) if isinstance(shape, int) else 0.3 * random.standard_normal(shape, np.float32)
            for name, shape in shapes.items()
        }
        wanted = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
        model = rg.onnx.load(path)
        found = model(*[rg.tensor(feeds[name]) for name in model.input_names])
        for mine, expected in zip(found if isinstance(found, tuple) else (found,), wanted):
            np.testing.assert_allclose(mine.detach().numpy(), expected, atol=1e-5)


# What the standard's tests draw, round elsewhere, or ask of dtypes that NumPy has not.
OTHERWISE = ("test_bernoulli", "test_training_dropout", "test_cast_", "test_castlike_", "test_col2im_5d")


@pytest.mark.slow
def test_the_standards_own_tests_of_operators_pass(monkeypatch, pytestconfig):
    randn = np.random.randn
    # Python pools the standard's three large volumes in longer than all else takes: smaller ones show the same.
    smaller = {(1, 3, 32, 32, 32): (1, 3, 8, 8, 8)}
    monkeypatch.setattr(np.random, "randn", lambda *shape: randn(*smaller.get(shape, shape)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        tests = load_model_tests(kind="node")

    def value(x):
        if isinstance(x, (list, tuple)):
            return [value(part) for part in x]
        if x is None or isinstance(x, np.ndarray | np.generic):
            return None if x is None else new_tensor(np.asarray(x))
        return new_tensor(onnx.numpy_helper.to_array(x))

    def compare(found, wanted, case):
        if wanted is None:
            return
        if isinstance(wanted, (list, tuple)):
            assert len(found) == len(wanted)
            for mine, theirs in zip(found, wanted):
                compare(mine, theirs, case)
            return
        wanted = value(wanted).array
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(
            found.detach().numpy().astype(float), wanted.astype(float), case.rtol or 1e-3, max(case.atol or 0, 1e-6)
        )

    step = 1 if pytestconfig.getoption("--long") else 2
    passed, failed = 0, []
    for case in tests[::step]:
        if getattr(case, "model", None) is None:
            pytest.skip("this version of onnx keeps its tests in files")
        try:
            model = rg.onnx.load(case.model)
        except rg.onnx.UnsupportedError:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for inputs, outputs in case.data_sets:
                    found = model(*map(value, inputs))
                    compare(found if isinstance(found, tuple) else (found,), list(outputs), case)
            passed += 1
        except Exception:
            if not case.name.startswith(OTHERWISE) and not any(w in case.name for w in ("bf16", "fp16", "blocked")):
                failed.append(case.name)
    assert failed == [] and passed > 1400 // step

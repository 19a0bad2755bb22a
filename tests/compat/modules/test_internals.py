"""Modules of PyTorch that packages build on: pytree, lists of Tensors, registered operators, flex attention."""

from __future__ import annotations

import dataclasses
import typing
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest

import retrograd as rg
from retrograd.compat.modules import nn as flex
from retrograd.compat.modules.internals import pytree
from retrograd.compat.modules.internals.library import CustomOp, Library
from retrograd.func import nests

torch = pytest.importorskip("torch")

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Pair:
    a: int
    b: int


TREES = [
    [1, None, (2, {"b": 3, "a": [4]})], {"z": Point(1, (2,)), "y": OrderedDict(k=5)}, Pair(1, 2), 7, [],
    [deque([1, 2], maxlen=3), defaultdict(list, a=1)],
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_trees_have_pytorchs_leaves_structure_and_paths(tree):
    theirs = torch.utils._pytree
    leaves, spec = pytree.tree_flatten(tree)
    reference, other = theirs.tree_flatten(tree)
    assert leaves == reference and spec.num_leaves == other.num_leaves and spec.num_nodes == other.num_nodes
    assert spec.unflatten(leaves) == tree and pytree.tree_structure(tree) == spec
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert paths == [theirs.keystr(path) for path, _ in theirs.tree_leaves_with_path(tree)]
    assert pytree.tree_map(str, tree) == theirs.tree_map(str, tree)
    assert pytree.tree_map_only(int, lambda x: -x, tree) == theirs.tree_map_only(int, lambda x: -x, tree)


def test_structures_survive_json():
    spec = pytree.tree_structure(TREES[0])
    assert pytree.treespec_dumps(spec) == torch.utils._pytree.treespec_dumps(
        torch.utils._pytree.tree_structure(TREES[0])
    )
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(TypeError, match="which JSON has no form for"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))


def test_trees_that_differ_are_refused():
    for tree, other, message in (([1, 2], [1], "arity"), ([1], (1,), "type"), ({"a": 1}, {"b": 1}, "keys")):
        with pytest.raises(ValueError, match=f"Node {message} mismatch"):
            pytree.tree_map(min, tree, other)
    assert pytree.tree_map(min, {"a": 1, "b": 2}, {"b": 0, "a": 5}) == {"a": 1, "b": 0}
    with pytest.raises(ValueError, match="`leaves` has length 1 but the spec refers to a pytree that holds 2"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


def test_a_registered_class_is_a_container_for_transforms_too():
    class Box:
        def __init__(self, value):
            self.value = value

    pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda children, _: Box(*children))
    assert pytree.tree_map(lambda x: x + 1, Box(1)).value == 2
    assert rg.func.vmap(lambda box: Box(2 * box.value))(Box(rg.arange(3))).value.tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda children, _: Box(*children))
    pytree._deregister_pytree_node(Box)
    del nests._KINDS[Box]


def lists(library):
    rng = np.random.RandomState(0)
    return [[library.tensor(rng.uniform(0.5, 2, (2, 3))) for _ in range(3)] for _ in range(3)]


CALLS = {
    "add": [(1.5,), "b", ("b", {"alpha": 2})], "sub": [(1.5,), "b"], "mul": [(2.0,), "b", ([1.0, 2.0, 3.0],)],
    "div": [(2.0,), "b"], "pow": [(2.0,), "b"], "lerp": [("b", 0.3), ("b", "c")], "addcmul": [("b", "c", 0.5)],
    "addcdiv": [("b", "c", [1.0, 2.0, 3.0]), ("b", "c", {"value": 2.0}), ("b", "c", {"scalars": [1.0, 2.0, 3.0]})],
    "maximum": [(1.2,), "b"],
    "minimum": [(1.2,), "b"], "clamp_max": [(1.2,)], "clamp_min": [(1.2,), "b"], "sqrt": [()], "rsqrt": [()],
    "neg": [()], "exp": [()], "sigmoid": [()], "reciprocal": [()], "sign": [()], "norm": [(), (1,)], "max": [()],
    "clone": [()], "powsum": [(), (3,)],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions_over_lists_are_pytorchs(name):
    for call in CALLS[name]:
        results = []
        for library in (rg, torch):
            a, b, c = lists(library)
            args = [{"b": b, "c": c}.get(x, x) if isinstance(x, str) else x for x in call if not isinstance(x, dict)]
            options = next((x for x in call if isinstance(x, dict)), {})
            out = getattr(library, f"_foreach_{name}")(a, *args, **options)
            assert type(out) is tuple
            if hasattr(library, f"_foreach_{name}_"):
                assert getattr(library, f"_foreach_{name}_")(a, *args, **options) is a
            results.append([x.numpy() for x in (*out, *a)])
        for mine, its in zip(*results, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-12)


def test_lists_of_other_lengths_are_refused():
    a, b, _ = lists(rg)
    with pytest.raises(RuntimeError, match="_foreach_add: lists must have the same number of elements, got 3 and 2"):
        rg._foreach_add(a, b[:2])
    with pytest.raises(RuntimeError, match="must have at least one tensor"):
        rg._foreach_exp([])
    with pytest.raises(TypeError, match="_foreach_mul_: expected a list or tuple of Tensors, got Tensor"):
        rg._foreach_mul_(a[0], 2)
    assert rg._foreach_copy_(a, b) is a
    assert rg._foreach_zero_(b) is b
    assert a[0].sum() > 0 and b[0].sum() == 0


@pytest.mark.parametrize("length", [5, 20000])
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64, rg.float16])
def test_foreach_functions_in_place_write_what_methods_of_each_tensor_write(length, dtype):
    def lists():
        rg.manual_seed(0)
        return [[rg.rand(length).to(dtype) + 0.5 for _ in range(3)] for _ in range(3)]

    calls = [
        ("add", (2,), {}), ("add", ("b",), {"alpha": -0.5}), ("sub", ("b",), {"alpha": 2}), ("mul", (0.5,), {}),
        ("mul", ("b",), {}), ("div", ([2.0, 3.0, 4.0],), {}), ("div", (rg.tensor(2.0),), {}), ("sqrt", (), {}),
        ("neg", (), {}), ("reciprocal", (), {}), ("lerp", ("b", 0.1), {}), ("lerp", ("b", 0.75), {}),
        ("addcmul", ("b", "c"), {"value": 0.5}), ("addcdiv", ("b", "c", [1.0, 2.0, 3.0]), {}),
        ("addcdiv", ("b", "c"), {}),
    ]  # fmt: skip
    for name, args, options in calls:
        (a, b, c), (own, *_) = lists(), lists()
        columns = [{"b": b, "c": c}.get(arg, arg) if isinstance(arg, str) else arg for arg in args]
        assert getattr(rg, f"_foreach_{name}_")(a, *columns, **options) is a
        for i, x in enumerate(own):
            rest = [column[i] if isinstance(column, list) else column for column in columns]
            if name.startswith("addc") and len(rest) == 3:
                rest, options = rest[:2], {"value": rest[2]}
            getattr(x, f"{name}_")(*rest, **options)
            np.testing.assert_array_equal(a[i].array, x.array, err_msg=name)
    norms = rg._foreach_norm(a)
    np.testing.assert_allclose(
        [float(x) for x in norms], [float(x.norm()) for x in a], rtol=1e-3 if dtype == rg.float16 else 1e-6
    )
    assert all(x.dtype == dtype and x.shape == () for x in norms)


def test_foreach_functions_in_place_keep_saved_values_gradients_and_overlaps():
    a, w = [rg.ones(3), rg.ones(3)], rg.ones(3, requires_grad=True)
    loss = (a[0] * w).sum()
    rg._foreach_mul_(a, 2.0)
    loss.backward()
    assert w.grad.tolist() == [1, 1, 1] and a[0].tolist() == [2, 2, 2]
    rg._foreach_addcmul_(a, [w, w], [w, w])
    a[1].sum().backward()
    assert a[0].requires_grad and w.grad.tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="leaf"):
        rg._foreach_mul_([w, rg.ones(3)], 2.0)
    same = rg.ones(3)
    rg._foreach_add_([same, same], 1.0)
    assert same.tolist() == [3, 3, 3]
    whole = rg.arange(4.0)
    rg._foreach_mul_([whole[1:]], [whole[:3]])
    assert whole.tolist() == [0, 0, 2, 6]
    with pytest.raises(RuntimeError, match="same number of elements, got 2 and 1"):
        rg._foreach_addcdiv_([rg.ones(2)] * 2, [rg.ones(2)], [rg.ones(2)])


def test_a_registered_operator_is_found_by_name_and_has_the_derivative_it_was_given():
    def scaled(x, factor=3):
        """Scale."""
        return x * factor

    operator = rg.library.custom_op("test_internals::scaled", scaled, mutates_args=())
    operator.register_fake(lambda x, factor: x)
    rg.library.register_autograd(
        "test_internals::scaled",
        lambda ctx, g: (g * ctx.factor * 10, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    for call in (
        lambda x: operator(x),
        lambda x: operator(x, factor=3),
        lambda x: rg.ops.test_internals.scaled.default(x),
    ):
        x = rg.ones(2, requires_grad=True)
        call(x).sum().backward()
        assert x.grad.tolist() == [30.0, 30.0]
    assert isinstance(operator, CustomOp) and operator.__doc__ == "Scale." and "scaled" in dir(rg.ops.test_internals)
    with pytest.raises(AttributeError, match=r"torch.ops.test_internals has no operator 'other'"):
        rg.ops.test_internals.other
    with pytest.raises(RuntimeError, match="operator test_internals::other does not exist"):
        rg.library.register_fake("test_internals::other", scaled)


def test_a_library_takes_functions_by_device():
    library = Library("test_library", "DEF")
    assert library.define("f(Tensor x, int n=2) -> Tensor") == "f"
    with pytest.raises(
        NotImplementedError, match="Could not run 'test_library::f' with arguments from the 'CPU' backend"
    ):
        rg.ops.test_library.f(rg.ones(1))
    library.impl("f", lambda x, n=2: x * n, "CPU")
    library.impl("f", lambda x, n=2: x, "Meta")
    library.impl("f", lambda x, n=2: x * 0, "AutocastCPU")
    assert rg.ops.test_library.f(rg.ones(1), 4).tolist() == [4.0]
    rg.library.impl("test_library::f", "default")(lambda x: x + 1)
    assert rg.ops.test_library.f.overloads() == ["default"]
    with pytest.raises(NotImplementedError, match="cannot be replaced"):
        Library("aten", "IMPL").impl("add", lambda x: x, "CPU")
    library._destroy()
    with pytest.raises(OSError, match="is compiled against PyTorch"):
        rg.ops.load_library("/nowhere/_C.so")


def test_torchvisions_library_is_retrograds():
    rg.ops.load_library("/site-packages/torchvision/_C.cpython-311.so")
    kept = rg.ops.torchvision.nms(rg.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1]]), rg.tensor([0.1, 0.2]), 0.5)
    assert kept.tolist() == [1] and rg.ops.torchvision._cuda_version() == -1
    with pytest.raises(NotImplementedError, match=r"torch.ops.torchvision.qnms is not available"):
        rg.ops.torchvision.qnms()


def attention(library, module):
    rng = np.random.RandomState(0)
    q, k, v = (library.tensor(rng.standard_normal(shape)) for shape in ((2, 4, 50, 8), (2, 2, 50, 8), (2, 2, 50, 6)))
    lengths, slopes = library.tensor([30, 50]), library.tensor(rng.standard_normal(4))
    causal = lambda b, h, q_idx, kv_idx: q_idx >= kv_idx  # noqa: E731
    padded = lambda b, h, q_idx, kv_idx: kv_idx < lengths[b]  # noqa: E731
    mask = module.create_block_mask(module.and_masks(causal, padded), 2, None, 50, 50, device="cpu", BLOCK_SIZE=16)
    bias = lambda score, b, h, q_idx, kv_idx: score + slopes[h] * (q_idx - kv_idx)  # noqa: E731
    result, aux = module.flex_attention(
        q, k, v, bias, mask, enable_gqa=True, scale=0.4, return_aux=module.AuxRequest(lse=True)
    )
    never = module.create_block_mask(lambda b, h, q, k: q > 20, None, None, 50, 50, device="cpu")
    return {
        "result": result, "lse": aux.lse, "blocks": mask.to_dense(), "partial": mask.kv_num_blocks,
        "order": mask.kv_indices, "full": mask.full_kv_num_blocks, "sparsity": mask.sparsity(), "shape": mask.shape,
        "masked": module.flex_attention(q, k, v, block_mask=never, enable_gqa=True)[:, :, :21],
        "mask": module.create_mask(module.or_masks(causal, padded), 2, 4, 5, 5, device="cpu"),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_is_pytorchs():
    mine, its = attention(rg, flex), attention(torch, __import__("torch.nn.attention.flex_attention", fromlist=["x"]))
    for name, value in its.items():
        np.testing.assert_allclose(np.asarray(mine[name]), np.asarray(value), atol=1e-12, err_msg=name)


def test_flex_attention_has_a_derivative_where_pytorchs_has_none_on_the_cpu():
    q, k, v = (rg.randn(1, 1, 4, 3, dtype=rg.float64, requires_grad=True) for _ in range(3))
    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4)
    assert rg.autograd.gradcheck(lambda *given: flex.flex_attention(*given, block_mask=mask), (q, k, v))
    with pytest.raises(ValueError, match="block_mask was created for block_mask.shape"):
        flex.flex_attention(q[:, :, :2], k, v, block_mask=mask)


def test_checks_raise_pytorchs_errors():
    rg._check(True, lambda: "never")
    for name, error in (("", RuntimeError), ("_index", IndexError), ("_value", ValueError), ("_type", TypeError)):
        with pytest.raises(error, match="too small"):
            getattr(rg, f"_check{name}")(False, lambda: "too small")


def test_type_hints_of_modules_can_be_read():
    assert "training" in typing.get_type_hints(rg.nn.Linear)


def test_a_sparse_matrix_is_a_buffer():
    module = rg.nn.Module()
    module.register_buffer("heads", rg.eye(3).to_sparse(), persistent=False)
    assert module.double().heads.to_dense().tolist() == rg.eye(3).tolist() and module.heads.dtype == rg.float64
    with pytest.raises(TypeError, match="cannot assign list to buffer"):
        module.register_buffer("other", [1])


def test_the_bytes_of_a_file_are_memory(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    storage = rg.storage.UntypedStorage.from_file(path)
    assert rg.asarray(storage[2:4], dtype=rg.uint8).tolist() == [2, 3] and storage.nbytes() == 8 and storage[1] == 1
    storage[0] = 9
    assert path.read_bytes()[0] == 0
    shared = rg.storage.UntypedStorage.from_file(path, shared=True, nbytes=10)
    shared[9] = 7
    assert path.read_bytes()[9] == 7 and shared.__sizeof__() > 10


def test_devices_of_other_vendors_can_be_named_and_hold_no_tensor():
    assert str(rg.device("mps")) == "mps" and rg.device("xpu:1").index == 1 and rg.device("mps") != rg.device("cpu")
    with pytest.raises(RuntimeError, match="no Tensor can be on the device mps"):
        rg.ones(1, device="mps")
    with pytest.raises(RuntimeError, match="no Tensor can be on the device xpu"):
        rg.nn.Linear(1, 1).to("xpu")


def test_return_types_are_those_of_results():
    a = rg.eye(2)
    assert isinstance(rg.linalg.eig(a), rg.return_types.linalg_eig)
    assert isinstance(rg.linalg.lu_factor(a), rg.return_types.linalg_lu_factor)
    assert isinstance(rg.histogram(a, 2), rg.return_types.histogram)


def test_the_leaves_of_a_size_need_not_be_integers():
    leaves, spec = pytree.tree_flatten(rg.Size([2, 3]))
    assert leaves == [2, 3] and pytree.tree_unflatten([None, 1], spec) == (None, 1)


def test_swapped_tensors_exchange_class_attributes_gradient_and_history():
    a, b = rg.nn.Parameter(rg.ones(2)), rg.zeros(3, 3, dtype=rg.int32)
    a.grad, a.note = rg.full((2,), 5.0), "kept"
    rg.utils.swap_tensors(a, b)
    assert type(b) is rg.nn.Parameter and b.requires_grad and b.grad.tolist() == [5.0, 5.0] and b.note == "kept"
    assert type(a) is rg.Tensor and a.shape == (3, 3) and a.grad is None and not hasattr(a, "note")
    x, z = rg.ones(2, requires_grad=True), rg.zeros(2)
    y = x * 3
    rg.utils.swap_tensors(y, z)
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and not y.requires_grad and z.tolist() == [3.0, 3.0]
    y = x * 3
    view = y[:1]
    with pytest.raises(RuntimeError, match="without views"):
        rg.utils.swap_tensors(y, rg.zeros(2))
    assert view.requires_grad
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Own", (rg.FloatTensor,), {})

"""Products with matrices that stay in bfloat16, float16 or 8 bits are those with the same numbers in float32."""

import tracemalloc

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.kernels import by_reference, compiled, loop
from retrograd.kernels.loops.matrices import compact
from retrograd.weights import Compact, CompactEmbedding, CompactLinear
from tests.helpers.guarded import guarded_backend

KINDS = ["bfloat16", "float16", "int8"]


def matrix(kind, rows, columns, seed=0):
    """A matrix, its scales, and its numbers in float32."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, columns)).astype(np.float32)
    if kind == "int8":
        w = random.integers(-128, 128, (rows, columns)).astype(np.int8)
        scales = random.random((rows, columns // 32)).astype(np.float16) / 100
        return w, scales, (w.reshape(rows, -1, 32) * scales.astype(np.float32)[:, :, None]).reshape(rows, columns)
    if kind == "bfloat16":
        w = x.astype(pytest.importorskip("ml_dtypes").bfloat16)
    else:
        w = x.astype(np.float16)
        w[0, 0], w[-1, -1], w[-1, 0] = 2.0**-24, 65504, -(2.0**-15)  # the least number, the largest, one in between
    return w, np.empty((rows, 0), np.float16), w.astype(np.float32)


def layer(kind, rows, columns):
    w, scales, wide = matrix(kind, rows, columns)
    tensors = rg.from_numpy(w), rg.from_numpy(scales) if scales.size else None
    return CompactLinear(Compact(*tensors)), rg.from_numpy(wide)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (7, 96), (700, 1024), (3, 0), (0, 64)])
@pytest.mark.parametrize("count", [1, compact.FEW, compact.FEW + 1, 40])
def test_products_are_those_of_the_expanded_matrix(monkeypatch, kind, dtype, rows, columns, count):
    monkeypatch.setattr(compact, "CHUNK", 4096)
    w, scales, wide = matrix(kind, max(rows, 1), max(columns, 32))
    w, scales, wide = w[:rows, :columns], scales[:rows, : columns // 32], wide[:rows, :columns]
    w, scales = np.ascontiguousarray(w), np.ascontiguousarray(scales)
    random = np.random.default_rng(1)
    x, g = random.standard_normal((count, columns)).astype(dtype), random.standard_normal((count, rows)).astype(dtype)
    bounds = {"rtol": 1e-12 if dtype == np.float64 else 2e-5, "atol": 1e-9 if dtype == np.float64 else 0.05}
    for function, one, other in ((compact.dot, x, wide.T), (compact.back, g, wide)):
        expected = one.astype(np.float64) @ other.astype(np.float64)
        for found in (function(one, w, scales), by_reference(function, (one, w, scales), {})):
            assert found.dtype == dtype and found.shape == expected.shape
            np.testing.assert_allclose(found, expected, **bounds)
    np.testing.assert_array_equal(compact.expanded(w, scales), wide)


def test_odd_numbers_of_16_bit_columns_are_multiplied():
    w, scales, wide = matrix("float16", 5, 37)
    x = np.random.default_rng(1).standard_normal((2, 37)).astype(np.float32)
    np.testing.assert_allclose(compact.dot(x, w, scales), x @ wide.T, rtol=1e-5, atol=0.05)
    np.testing.assert_allclose(compact.dot(x, w[::2], scales[::2]), x @ wide[::2].T, rtol=1e-5, atol=0.05)


@pytest.mark.skipif(compiled() is None, reason="the loops are not installed")
@pytest.mark.parametrize("name", ["bfloat16_rows", "float16_rows", "block_rows", "expand_blocks"])
def test_the_library_has_the_loops(name):
    kind = {"b": "bfloat16", "f": "float16"}.get(name[0]) if "rows" in name and name != "block_rows" else "int8"
    w, scales, _ = matrix(kind, 2, 64)
    x, out = np.ones((1, 64), np.float32), np.zeros((1, 2), np.float32)
    stored = (w, scales.view(np.uint16)) if kind == "int8" else (w.view(np.uint16),)
    arguments = (*stored, np.empty((2, 64), np.float32)) if name == "expand_blocks" else (x, *stored, out)
    kinds = [(str(a.dtype.str[1:]), a.ndim, True, True) for a in arguments]
    from retrograd.kernels.build.make_library import ALWAYS

    listed = [literal for _, loop_name, literal in ALWAYS if loop_name == name]
    assert listed == [str(("int",) * 5 + tuple(kinds))]
    assert loop("loops.matrices.product_loops", name) is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 40])
def test_a_product_never_holds_the_expanded_matrix(kind, count):
    w, scales, wide = matrix(kind, 8192, 1024)
    x, g = np.ones((count, 1024), np.float32), np.ones((count, 8192), np.float32)
    size = wide.nbytes
    del wide
    compact.dot(x[:1], w[:64], scales[:64])
    for function, one in ((compact.dot, x), (compact.back, g)):
        tracemalloc.start()
        function(one, w, scales)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < size / 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_has_the_derivatives_of_a_dense_one_with_a_constant_weight(kind):
    compacted, wide = layer(kind, 24, 64)
    wide = wide.clamp(-4, 4) if kind == "float16" else wide
    if kind == "float16":
        compacted = CompactLinear(Compact(wide.half()))

    def of_compact(x):
        return compacted(x).sin().sum()

    def of_dense(x):
        return F.linear(x, wide.to(x.dtype)).sin().sum()

    x = rg.randn(3, 64, dtype=rg.float64) / 10
    for transform in (
        rg.func.grad,
        rg.func.hessian,
        lambda f: rg.func.vmap(f),
        lambda f: lambda x: rg.func.jvp(f, (x,), (x.cos(),))[1],
        lambda f: rg.compile(f),
    ):
        np.testing.assert_allclose(
            transform(of_compact)(x).detach(), transform(of_dense)(x).detach(), rtol=1e-10, atol=1e-12
        )
    y = compacted(x.float().requires_grad_())
    y.sum().backward()
    assert [name for name, _ in compacted.named_parameters()] == []
    assert (
        y.dtype == rg.float32 and compacted(x.bfloat16()).dtype == rg.bfloat16 and compacted(x.half()).dtype == rg.half
    )
    with pytest.raises(RuntimeError, match="compact_linear"):
        compacted(rg.ones(3, 32))


def test_a_layer_on_the_meta_device_has_the_shape_of_the_result():
    compacted = layer("int8", 24, 64)[0].to("meta")
    assert compacted(rg.empty(3, 64, device="meta", requires_grad=True)).shape == (3, 24)


def test_matrices_whose_shapes_do_not_fit_are_named():
    for weight, scales in [((4, 64), (4, 3)), ((4, 48), (4, 1)), ((4, 64), (64, 2)), ((64,), (2,))]:
        with pytest.raises(
            ValueError, match=r"Compact: expected weight \(n, k\) and scales \(n, k / 32\) or None, got"
        ):
            Compact(rg.zeros(weight, dtype=rg.int8), rg.zeros(scales, dtype=rg.half))


def test_a_bias_is_added_and_trained():
    bias = rg.nn.Parameter(rg.ones(24))
    layer_of = CompactLinear(Compact(rg.zeros(24, 64).half()), bias)
    layer_of(rg.ones(2, 64)).sum().backward()
    assert rg.equal(bias.grad, 2 * rg.ones(24))


@pytest.mark.parametrize("kind", KINDS)
def test_an_embedding_expands_the_rows_that_it_gives(kind):
    compacted, wide = layer(kind, 24, 64)
    table = CompactEmbedding(Compact(compacted.weight, compacted.scales if kind == "int8" else None))
    index = rg.tensor([[3, 5, 3], [23, 0, 1]])
    assert rg.equal(table(index), wide[index])
    with pytest.raises(IndexError):
        table(rg.tensor([24]))


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_layers_run_on_another_device(kind):
    compacted, wide = layer(kind, 24, 64)
    x = rg.randn(2, 64)
    expected, rows = compacted(x).numpy(), wide[rg.tensor([3, 1])].numpy()
    with guarded_backend():
        compacted = compacted.to("cuda")
        table = CompactEmbedding(Compact(compacted.weight, compacted.scales if kind == "int8" else None))
        moved = x.to("cuda").requires_grad_()
        found = compacted(moved)
        found.sum().backward()
        np.testing.assert_allclose(found.detach().cpu().numpy(), expected, rtol=1e-5, atol=0.05)
        np.testing.assert_array_equal(table(rg.tensor([3, 1], device="cuda")).cpu().numpy(), rows)
        assert found.device == moved.grad.device == rg.device("cuda:0")


def test_layers_are_saved_and_loaded_with_their_bits(tmp_path):
    pytest.importorskip("safetensors")
    first, second = (
        layer("int8", 24, 64)[0],
        CompactLinear(Compact(rg.zeros(24, 64, dtype=rg.int8), rg.zeros(24, 2).half())),
    )
    rg.save(first.state_dict(), tmp_path / "layer.safetensors")
    second.load_state_dict(rg.load(tmp_path / "layer.safetensors"))
    x = rg.randn(2, 64)
    assert rg.equal(first(x), second(x)) and list(first.state_dict()) == ["weight", "scales"]
    assert list(layer("float16", 24, 64)[0].state_dict()) == ["weight"]


def test_few_rows_of_bfloat16_are_multiplied_without_a_copy_of_the_matrix():
    w, _, wide = matrix("bfloat16", 4096, 1024)
    x = rg.randn(1, 1024).bfloat16()
    weight = rg.from_numpy(w)
    F.linear(x, weight)
    tracemalloc.start()
    found = F.linear(x, weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.dtype == rg.bfloat16 and (peak < w.nbytes / 8 or compiled() is None)
    np.testing.assert_allclose(found.float(), x.float().numpy() @ wide.T, rtol=2**-8, atol=1e-3)
    table = rg.nn.Embedding(4096, 1024, _weight=weight)
    tracemalloc.start()
    row = table(rg.tensor([7]))
    assert tracemalloc.get_traced_memory()[1] < w.nbytes / 8
    tracemalloc.stop()
    assert rg.equal(row[0], weight[7])

"""Elementwise operators beyond the harness: Python's operators, in-place forms, errors, dtypes, conversions."""

import math
import operator

import numpy as np
import pytest

import retrograd as rg

F = rg.nn.functional


def gradient(function, *values):
    leaves = [rg.Tensor(np.array(value, dtype=np.float64), requires_grad=True) for value in values]
    function(*leaves).sum().backward()
    return [leaf.grad.numpy() for leaf in leaves]


BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", BINARY + COMPARISONS, ids=lambda f: f.__name__)
def test_python_operators_on_either_side(function):
    x, y = np.array([1.5, -2.5, 4.0]), np.array([2.0, 3.0, 2.0])
    for a, b in ((x, y), (x, 2.0), (2.0, y), (x, 2), (3, y)):
        wanted = function(a, b)
        left = rg.Tensor(a) if isinstance(a, np.ndarray) else a
        right = rg.Tensor(b) if isinstance(b, np.ndarray) else b
        np.testing.assert_allclose(function(left, right).numpy(), wanted, rtol=1e-15)


@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_bits_on_either_side(function):
    x, y = np.array([1, 6, 5]), np.array([3, 0, 2])
    assert function(rg.Tensor(x), rg.Tensor(y)).tolist() == function(x, y).tolist()
    assert function(rg.Tensor(x), 2).tolist() == function(x, 2).tolist()
    assert function(5, rg.Tensor(y)).tolist() == function(5, y).tolist()


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_augmented_assignment_writes_in_place_and_differentiates(name):
    function, plain = getattr(operator, name), getattr(operator, name[1:])
    x = rg.Tensor(np.array([1.5, 2.5]), requires_grad=True)
    y = x * 1
    same = y
    y = function(y, 3.0)
    assert y is same
    (y * y).sum().backward()
    (wanted,) = gradient(lambda x: plain(x, 3.0) ** 2, [1.5, 2.5])
    np.testing.assert_allclose(x.grad.numpy(), wanted)


@pytest.mark.parametrize("name", ["iand", "ior", "ixor", "ilshift", "irshift"])
def test_augmented_bits(name):
    x, y = np.array([1, 6, 5]), np.array([3, 0, 2])
    t = u = rg.Tensor(x)
    t = getattr(operator, name)(t, rg.Tensor(y))
    assert t is u and t.tolist() == getattr(operator, name)(x.copy(), y).tolist()


def test_unary_python_operators():
    x = rg.tensor([-1.5, 2.0])
    assert (-x).tolist() == [1.5, -2.0] and (+x) is x and abs(x).tolist() == [1.5, 2.0]
    assert (~rg.tensor([True, False])).tolist() == [False, True] and (~rg.tensor([5])).tolist() == [-6]
    assert round(rg.tensor([1.26]), 1).tolist() == pytest.approx([1.3])


def test_comparison_with_what_is_no_number():
    x = rg.tensor([1.0])
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    with pytest.raises(TypeError):
        operator.lt(x, None)


def test_add_and_sub_scale_in_place():
    x = rg.tensor([1.0, 2.0])
    before = x.array
    assert x.add_(rg.tensor([1.0, 1.0]), alpha=3) is x and x.tolist() == [4.0, 5.0]
    assert x.sub_(1, alpha=2).tolist() == [2.0, 3.0] and x.array is before


def test_an_operator_that_saves_its_result_and_its_input_writes_elsewhere():
    x = rg.Tensor(np.array([0.5, 2.0]), requires_grad=True)
    y = x * 1
    y.hypot_(rg.Tensor(np.array([1.0, 1.0])))
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.5 / math.hypot(0.5, 1), 2 / math.hypot(2, 1)])


def test_the_gradient_of_the_branch_taken_stays_finite():
    (g,) = gradient(lambda x: rg.where(x > 0, x, 0.0).sqrt(), [4.0, -1.0])
    assert g.tolist() == [0.25, 0.0]
    (g,) = gradient(lambda x: x.relu().sqrt(), [4.0, -1.0])
    assert g.tolist() == [0.25, 0.0]
    (g,) = gradient(lambda x: x.clamp(min=0).sqrt(), [4.0, -1.0])
    assert g.tolist() == [0.25, 0.0]
    nan = rg.Tensor(np.array([np.nan, np.nan]))
    (g,) = gradient(lambda x: rg.where(x > 0, x * x, nan), [4.0, -1.0])
    assert g.tolist() == [8.0, 0.0]


def test_clamp_takes_a_number_beside_a_tensor():
    x, low = [-2.0, 0.0, 2.0], [-1.0, 0.5, -1.0]
    g = gradient(lambda x, low: x.clamp(low, 1.0), x, low)
    assert [part.tolist() for part in g] == [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]


def test_the_slope_of_hardsigmoid_is_a_sixth_in_float64_where_pytorch_rounds_it_to_float32():
    assert gradient(F.hardsigmoid, [-1.0, 2.0])[0].tolist() == [1 / 6, 1 / 6]


def test_hardsigmoid_at_its_corners():
    (g,) = gradient(F.hardsigmoid, [-3.0, 3.0, 0.0])
    np.testing.assert_allclose(g, [0, 0, 1 / 6])


def test_integers():
    x = rg.tensor([7, -7, 0])
    assert (x // 2).tolist() == [3, -4, 0] and (x % 3).tolist() == [1, 2, 0]
    assert x.div(2, rounding_mode="trunc").tolist() == [3, -3, 0] and x.fmod(3).tolist() == [1, -1, 0]
    assert x.div(rg.tensor([-2, -2, 5]), rounding_mode="trunc").tolist() == [-3, 3, 0]
    assert (x / 2).dtype == rg.float32 and x.exp().dtype == rg.float32 and (x**2).dtype == rg.int64
    assert x.floor().dtype == rg.int64 and x.relu().tolist() == [7, 0, 0] and (x * 1.5).dtype == rg.float32
    y = x.floor()
    y += 1
    assert x.tolist() == [7, -7, 0]


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (RuntimeError, lambda x, i, b: i // 0),
        (RuntimeError, lambda x, i, b: i % rg.tensor([1, 0])),
        (RuntimeError, lambda x, i, b: i.fmod(0)),
        (RuntimeError, lambda x, i, b: i.div(0, rounding_mode="trunc")),
        (RuntimeError, lambda x, i, b: x.div(2, rounding_mode="up")),
        (RuntimeError, lambda x, i, b: i**-1),
        (RuntimeError, lambda x, i, b: b - b),
        (RuntimeError, lambda x, i, b: -b),
        (RuntimeError, lambda x, i, b: +b),
        (RuntimeError, lambda x, i, b: x & x),
        (TypeError, lambda x, i, b: ~x),
        (RuntimeError, lambda x, i, b: x + rg.tensor([1.0, 2.0, 3.0])),
        (RuntimeError, lambda x, i, b: x.add_(rg.tensor([[1.0, 2.0], [3.0, 4.0]]))),
        (RuntimeError, lambda x, i, b: i.add_(1.5)),
        (RuntimeError, lambda x, i, b: i.exp_()),
        (RuntimeError, lambda x, i, b: x.clamp()),
        (RuntimeError, lambda x, i, b: rg.where(i, x, x)),
        (RuntimeError, lambda x, i, b: x.masked_fill(i, 0.0)),
        (RuntimeError, lambda x, i, b: x.masked_fill(b, rg.tensor([1.0, 2.0]))),
        (RuntimeError, lambda x, i, b: x.lerp(x, x.double())),
        (RuntimeError, lambda x, i, b: rg.imag(x)),
        (RuntimeError, lambda x, i, b: rg.view_as_complex(x.double().reshape(1, 2)[:, :1])),
        (RuntimeError, lambda x, i, b: rg.isclose(x, i)),
        (RuntimeError, lambda x, i, b: x.frac() if x.dtype.kind == "c" else i.frac()),
        (RuntimeError, lambda x, i, b: i.round(decimals=1)),
        (RuntimeError, lambda x, i, b: (x + 1j) < 1),
        (RuntimeError, lambda x, i, b: rg.maximum(x + 1j, x + 1j)),
        (RuntimeError, lambda x, i, b: (x + 1j).sign()),
        (RuntimeError, lambda x, i, b: (x + 1j).abs_()),
        (RuntimeError, lambda x, i, b: i.addcdiv(i, i)),
        (RuntimeError, lambda x, i, b: x.mvlgamma(0)),
        (RuntimeError, lambda x, i, b: rg.polygamma(-1, x)),
        (RuntimeError, lambda x, i, b: x.to("moon")),
        (RuntimeError, lambda x, i, b: F.gelu(x, approximate="erf")),
        (RuntimeError, lambda x, i, b: F.softshrink(x, -1)),
        (RuntimeError, lambda x, i, b: F.prelu(x.reshape(1, 2), rg.tensor([0.1, 0.2, 0.3]))),
        (RuntimeError, lambda x, i, b: F.glu(rg.tensor([1.0, 2.0, 3.0]))),
        (RuntimeError, lambda x, i, b: F.celu(x, alpha=0)),
        (ValueError, lambda x, i, b: F.hardtanh(x, 1, -1)),
        (IndexError, lambda x, i, b: F.glu(x, dim=1)),
        (TypeError, lambda x, i, b: x + "a"),
        (TypeError, lambda x, i, b: x.to(x.dtype, 3)),
        (TypeError, lambda x, i, b: x.astype("string")),
        (TypeError, lambda x, i, b: rg.exp([1.0])),
    ],
)
def test_errors_are_of_pytorchs_type_and_name_the_operator(kind, call):
    with pytest.raises(kind, match=r"\w+_?\(|: "):
        call(rg.tensor([1.0, 2.0]), rg.tensor([1, 2]), rg.tensor([True, False]))


def test_conversions():
    x = rg.tensor([1.5, -0.5])
    assert x.float() is x and x.to("cpu") is x and x.to(rg.float32) is x and x.to(x) is x and x.cpu() is x
    assert x.to(copy=True) is not x and x.to(rg.float32, copy=True).array is not x.array
    assert x.to("cpu", rg.float64, True).dtype == rg.float64 and x.to(device="cpu", dtype=rg.int64).tolist() == [1, 0]
    assert x.type() == "torch.FloatTensor" and x.type(rg.float64).dtype == rg.float64
    assert x.to(rg.uint16).type() == "torch.UInt16Tensor" and x.type("torch.UInt64Tensor").dtype == rg.uint64
    assert x.bool().tolist() == [True, True] and x.type_as(rg.tensor([1])).dtype == rg.int64
    assert x.clone().array is not x.array and rg.detach(x).array is x.array
    leaf = rg.tensor([1.0], requires_grad=True)
    assert leaf.double().requires_grad and not leaf.long().requires_grad
    leaf.half().double().sum().backward()
    assert leaf.grad.dtype == rg.float32


def test_contiguous():
    x = rg.Tensor(np.arange(6.0).reshape(2, 3))
    assert x.contiguous() is x
    y = rg.as_tensor(np.arange(6.0).reshape(3, 2).T)
    assert not y.array.flags.c_contiguous and y.contiguous().array.flags.c_contiguous
    assert rg.equal(y, y.contiguous())


def test_a_write_through_the_real_view_of_complex_numbers():
    torch = pytest.importorskip("torch")

    def run(lib, leaf):
        z = leaf * (1 + 2j)
        z.real.mul_(3)
        z.imag[1:] = 0.5
        pairs = lib.view_as_real(z)
        pairs[0] *= 2
        (z * z.conj() * (2 + 1j)).real.sum().backward()
        return leaf.grad

    values = np.array([1 + 2j, -0.5 + 1j, 3 - 1j])
    ours = run(rg, rg.Tensor(values, requires_grad=True))
    theirs = run(torch, torch.tensor(values, requires_grad=True))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_erf_is_accurate_everywhere(dtype):
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-6, 6, 40001), np.geomspace(1e-30, 1, 1001)]).astype(dtype)
    wanted = special.erf(x.astype(np.float64))
    got = rg.erf(rg.Tensor(x)).numpy()
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(
        rg.erfc(rg.Tensor(x)).numpy(), special.erfc(x.astype(np.float64)), rtol=4e-15 if dtype == np.float64 else 2e-7
    )


def test_block_by_block_is_the_same(monkeypatch):
    from retrograd.ops.table import blocks

    x = np.linspace(-5, 5, 5000).reshape(50, 100)
    whole = [f(rg.Tensor(x)).numpy() for f in (rg.erf, F.gelu, F.silu, F.mish)]
    monkeypatch.setattr(blocks, "BLOCK", 64)
    parts = [f(rg.Tensor(x)).numpy() for f in (rg.erf, F.gelu, F.silu, F.mish)]
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)


@pytest.mark.parametrize(
    "call",
    [
        F.relu,
        F.relu6,
        F.elu,
        F.selu,
        F.celu,
        F.leaky_relu,
        F.silu,
        F.mish,
        F.hardswish,
        F.hardsigmoid,
        F.hardtanh,
        lambda x, inplace=False: F.threshold(x, 0.2, -1.0, inplace=inplace),
    ],
)
def test_activations_in_place(call):
    values = np.array([-1.5, 0.5, 2.0])
    results = []
    for inplace in (False, True):
        x = rg.Tensor(values, requires_grad=True)
        y = x * 2
        z = call(y, inplace=inplace)
        assert (z is y) == inplace
        (z * z).sum().backward()
        results.append((z.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_selection_on_large_arrays_is_numpys(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((80, 90)).astype(dtype) for _ in range(2))
    x[::7, ::3], y[::5, ::2], y[3, 4] = np.nan, np.inf, -0.0
    mask = rng.random((80, 90)) < 0.5
    for a, b in ((x, y), (x, 1.5), (2, y), (x, y[0]), (x[:, :1], y), (x.T.copy().T, y[::-1])):
        left = rg.Tensor(a) if isinstance(a, np.ndarray) else a
        right = rg.Tensor(b) if isinstance(b, np.ndarray) else b
        got = rg.where(rg.Tensor(mask), left, right).numpy()
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, np.where(mask, a, b))
    leaf = rg.Tensor(x, requires_grad=True)
    cotangent = rg.Tensor(y)
    rg.where(rg.Tensor(mask), leaf, 0.0).backward(cotangent)
    np.testing.assert_array_equal(leaf.grad.numpy(), np.where(mask, y, 0))


def test_bools_are_not_subtracted_and_the_error_says_what_to_write():
    mask, number = rg.tensor([True, False]), rg.tensor([1.0, 2.0])
    calls = [
        lambda: 1 - mask, lambda: mask - 1, lambda: 1.5 - mask, lambda: number - mask, lambda: mask - number[0],
        lambda: True - mask, lambda: rg.sub(1, mask), lambda: rg.rsub(mask, 1), lambda: number.sub(mask, alpha=2),
        lambda: rg.arange(2) - mask, lambda: number.sub_(mask),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError, match=r"~ or logical_not\(\) inverts a mask"):
            call()
    for call in (lambda: mask - mask, lambda: mask.sub_(mask), lambda: rg.sub(mask, mask, alpha=2)):
        with pytest.raises(RuntimeError, match="logical_xor"):
            call()
    with pytest.raises(RuntimeError, match="logical_not"):
        -mask
    assert rg.equal(mask + 1, rg.tensor([2, 1])) and rg.equal(number * mask, rg.tensor([1.0, 0.0]))


DROPOUTS = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]


@pytest.mark.parametrize("name", DROPOUTS)
def test_where_nothing_is_dropped_dropout_gives_integers_and_bools_back(name):
    dropout = getattr(F, name)
    shape = {"dropout2d": (2, 3, 4, 4), "dropout3d": (2, 3, 2, 2, 2)}.get(name, (2, 3, 4))
    for x in (rg.ones(shape, dtype=rg.int64), rg.ones(shape, dtype=rg.bool)):
        assert dropout(x, 0.5, training=False) is x and dropout(x, 0.0, training=True) is x
        with pytest.raises(RuntimeError, match="expected a floating Tensor"):
            dropout(x, 0.5, training=True)


def test_hardtanh_of_integers():
    counts = rg.tensor([-3, 0, 1, 9])
    assert F.hardtanh(counts).dtype is rg.int64 and F.hardtanh(counts).tolist() == [-1, 0, 1, 1]
    assert F.hardtanh(counts, -2.5, 1.5).tolist() == [-2, 0, 1, 1]  # the bounds, cut
    assert F.relu6(counts.to(rg.uint8)).dtype is rg.uint8
    for refused in (counts.to(rg.uint8), counts.to(rg.bool)):
        with pytest.raises(NotImplementedError, match="hardtanh"):
            F.hardtanh(refused)
    with pytest.raises(NotImplementedError, match="bool"):
        F.relu6(counts > 0)


@pytest.mark.parametrize("operator", [rg.xlogy, rg.special.xlog1py])
def test_no_gradient_arrives_where_none_is_sent_though_the_logarithm_is_nan(operator):
    x, y = rg.tensor([-1.0, 2.0], requires_grad=True), rg.tensor([-2.0, -3.0], requires_grad=True)
    assert [g.tolist() for g in rg.autograd.grad(operator(x, y), (x, y), rg.zeros(2))] == [[0, 0], [0, 0]]


def test_the_gradient_of_tanh_has_the_same_bits_with_and_without_a_graph():
    x = rg.linspace(-4, 4, 50, requires_grad=True)
    plain, recorded = [rg.autograd.grad(x.tanh().sum(), x, create_graph=graph)[0] for graph in (False, True)]
    np.testing.assert_array_equal(plain.numpy(), recorded.detach().numpy())
    y = x.tanh().detach().numpy()
    np.testing.assert_array_equal(plain.numpy(), 1 - y * y)  # as PyTorch

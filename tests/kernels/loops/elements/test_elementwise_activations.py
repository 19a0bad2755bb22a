"""Functions of one Tensor do in one compiled pass what their references do in several, for both dtypes."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.kernels.loops.elements import elementwise
from retrograd.nn import functional as F

pytestmark = [
    pytest.mark.slow,  # all of them compile loops
    pytest.mark.skipif(not kernels.available(), reason="Numba is not installed"),
]
ACTIVATIONS = {
    "hardtanh": lambda x, **how: F.hardtanh(x, -0.5, 2.0, **how),
    "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardshrink": lambda x: F.hardshrink(x, 0.7),
    "softshrink": lambda x: F.softshrink(x, 0.7),
    "threshold": lambda x, **how: F.threshold(x, 0.1, -7.0, **how),
    "leaky_relu": lambda x, **how: F.leaky_relu(x, 0.01, **how),
    "leaky_relu that falls": lambda x, **how: F.leaky_relu(x, -0.2, **how),
    "leaky_relu that is steep": lambda x, **how: F.leaky_relu(x, 3, **how),
    "elu": lambda x, **how: F.elu(x, 1.3, **how),
    "selu": F.selu,
    "celu": lambda x, **how: F.celu(x, 0.6, **how),
    "celu that grows": lambda x, **how: F.celu(x, -40.0, **how),
    "clamp": lambda x: x.clamp(-0.5, 2.0),
    "clamp of bounds that cross": lambda x: x.clamp(2.0, -0.5),
    "clamp to NaN": lambda x: x.clamp(np.nan, 2.0),
    "sign": rg.sign,
    "abs": rg.abs,
    "square": rg.square,
    "power": lambda x: x**2,
    "sqrt": rg.sqrt,
    "rsqrt": rg.rsqrt,
    "reciprocal": rg.reciprocal,
    "floor": rg.floor,
}
IN_PLACE = [name for name in ACTIVATIONS if hasattr(F, name.partition(" ")[0]) and "shrink" not in name]
ONE = {"sign", "abs", "square", "power", "sqrt", "reciprocal"}  # of which forward or rule is one call of NumPy
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3.0, -3.0, 6.0, 2.0, -0.5, 0.5, 0.7, -0.7, 0.1, 1e-40, -1e-40]


def drawn(shape, kind):
    x, g = (3 * np.random.default_rng(0).standard_normal((2, *shape))).astype(kind)
    x.reshape(-1)[: len(EDGES)] = np.array(EDGES, kind)
    x.reshape(-1)[len(EDGES) : 2 * len(EDGES)] = np.array(EDGES, kind)
    g.reshape(-1)[len(EDGES) : 2 * len(EDGES)] = np.array(EDGES[::-1], kind)
    return x, g


def results(name, x, g):
    device = rg.get_default_device()
    leaf = rg.tensor(x, device=device, requires_grad=True)
    y = ACTIVATIONS[name](leaf)
    y.backward(rg.tensor(g, device=device))
    found = [y.detach(), leaf.grad]
    if name in IN_PLACE:
        over = rg.tensor(x, device=device)
        assert ACTIVATIONS[name](over, inplace=True) is over
        found.append(over)
    assert all(each.device.type == device.type for each in found)
    return [each.numpy() for each in found]


@pytest.mark.parametrize("shape", [(40,), (5, 37), (700, 600)])
@pytest.mark.parametrize("kind", "fd")
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_in_one_pass_is_its_reference(name, kind, shape, monkeypatch):
    x, g = drawn(shape, kind)
    called = []
    launch = elementwise.launch
    monkeypatch.setattr(elementwise, "launch", lambda *args: called.append(args[0].name) or launch(*args))
    monkeypatch.setattr(elementwise, "offering", [None])  # small arrays call loops without ``launch`` otherwise
    ours = results(name, x, g)
    assert len(called) == (0 if name == "floor" else 1 if name in ONE else 2 + (name in IN_PLACE))
    monkeypatch.setattr(elementwise, "offering", [])
    for one, other in zip(results(name, x, g), ours, strict=True):
        np.testing.assert_array_equal(one, other)
    monkeypatch.setattr(elementwise, "compiled", lambda: None)
    for one, other in zip(ours, results(name, x, g), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=32 * np.finfo(kind).eps, atol=1e-37)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_its_reference_on_either_backend(name, backend):
    x, g = drawn((5, 37), "f")
    with np.errstate(all="ignore"):
        wanted = kernels.by_reference(results, (name, x, g), {})
        with backend():
            ours = results(name, x, g)
    for one, other in zip(ours, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=4e-6, atol=1e-37)


@pytest.mark.parametrize("name", ["hardtanh", "hardswish", "leaky_relu"])
def test_parts_and_other_orders_go_to_the_reference(name):
    x, g = drawn((64, 96), "f")
    whole = results(name, x, g)
    for place in [(slice(None), slice(3, 60)), (slice(None, None, 2),), (slice(None, None, -1), slice(1, 90))]:
        for one, other in zip(results(name, x[place], g[place]), whole, strict=True):
            np.testing.assert_allclose(one, other[place], rtol=1e-6)
    for one, other in zip(results(name, x.T, g.T), whole, strict=True):
        np.testing.assert_allclose(one, other.T, rtol=1e-6)


def test_loops_of_elements_compute_the_bits_of_their_references():
    """All but the exponential functions: selu's slope is one product below 0, and elu of -0.0 is -0.0."""
    x, g = drawn((5, 37), "f")
    for name in sorted(ACTIVATIONS.keys() - {"elu", "selu", "celu", "celu that grows"}):
        with np.errstate(all="ignore"):
            ours = results(name, x, g)
            theirs = kernels.by_reference(results, (name, x, g), {})
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    for function in (F.elu, F.selu, F.celu):
        assert np.signbit(function(rg.full((40,), -0.0)).numpy()).all()

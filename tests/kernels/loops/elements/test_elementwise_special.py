"""Special functions and functions of pairs by compiled loops: NumPy's remainders bit for bit, the rest to float32."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.kernels.loops.elements import elementwise
from retrograd.ops.linear.spectra import fourier

special = pytest.importorskip("scipy.special")
pytestmark = [
    pytest.mark.slow,  # all of them compile loops
    pytest.mark.skipif(not kernels.available(), reason="there are no compiled loops"),
]
INF, NAN = np.inf, np.nan
EDGES = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.7, -0.7, 1e-40, -1e-40, 3e38, -3e38, 2.0**28, 1e-30]
PAIRS = {
    "remainder": (rg.remainder, np.remainder),
    "fmod": (rg.fmod, np.fmod),
    "floor_divide": (rg.floor_divide, np.floor_divide),
    "hypot": (rg.hypot, np.hypot),
    "logaddexp": (rg.logaddexp, np.logaddexp),
}


@pytest.fixture
def launched(monkeypatch):
    """The names of the loops that were launched."""
    names = []
    launch = elementwise.launch
    monkeypatch.setattr(elementwise, "offering", [None])  # small arrays call loops without ``launch`` otherwise
    monkeypatch.setattr(elementwise, "launch", lambda *args: names.append(args[0].name) or launch(*args))
    return names


def pairs():
    """Every pair of edges, numbers of many sizes, and whole numbers, which divide each other."""
    draw = np.random.default_rng(0)
    x, y = np.meshgrid(EDGES, EDGES)
    sizes = (draw.standard_normal(9000) * 10.0 ** draw.uniform(-8, 8, 9000)).reshape(2, -1)
    whole = np.round(5 * draw.standard_normal((2, 1000)))
    x, y = np.concatenate([(x.ravel(), y.ravel()), sizes, whole], axis=1).astype("f")
    return x, y


def agree(name, found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if name == "logaddexp":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
    else:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.nan_to_num(found).view("i4"), np.nan_to_num(wanted).view("i4"))


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_all_kinds_are_numpys(name, launched):
    ours, numpys = PAIRS[name]
    x, y = pairs()
    with np.errstate(all="ignore"):
        agree(name, ours(rg.tensor(x), rg.tensor(y)).numpy(), numpys(x, y))
        for number in (0.7, -3.0, 0.0, INF, 5):
            agree(name, ours(rg.tensor(x), rg.tensor(number)).numpy(), numpys(x, np.float32(number)))
            agree(name, ours(rg.tensor(number), rg.tensor(y)).numpy(), numpys(np.float32(number), y))
        rows, row = x[:4800].reshape(3, 2, 800), y[:1600].reshape(2, 800)
        agree(name, ours(rg.tensor(rows), rg.tensor(row)).numpy(), numpys(rows, row))
        agree(name, ours(rg.tensor(row), rg.tensor(rows)).numpy(), numpys(row, rows))
    assert len(launched) == 13


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_that_loops_do_not_take_go_to_numpy(name, launched):
    ours, numpys = PAIRS[name]
    x, y = [each[-900:] for each in pairs()]
    y = np.where(y == 0, 1, y)
    column = y[:30].reshape(30, 1)
    for a, b in [(x.reshape(30, 30), column), (x.astype("d"), y.astype("d")), (x[:9], y[:9])]:
        np.testing.assert_allclose(ours(rg.tensor(a), rg.tensor(b)).numpy(), numpys(a, b), rtol=1e-6)
    apart = ours(rg.tensor(x)[::2], rg.tensor(y)[::2])
    np.testing.assert_allclose(apart.numpy(), numpys(x[::2], y[::2]), rtol=1e-6)
    assert launched == []
    with pytest.raises(RuntimeError, match=rf"(?s){name}.*broadcast|{name}.*size"):
        ours(rg.tensor(x[:400]), rg.tensor(x[:300]))


def test_remainders_in_place_and_their_gradients():
    x, y = pairs()
    x, y = x[-4000:], np.where(y[-4000:] == 0, 1, y[-4000:])
    leaf, divisor = rg.tensor(x, requires_grad=True), rg.tensor(y, requires_grad=True)
    rg.remainder(leaf, divisor).sum().backward()
    assert (leaf.grad == 1).all()
    np.testing.assert_array_equal(divisor.grad.numpy(), -np.floor_divide(x, y))
    over = rg.tensor(x)
    over %= 0.7
    np.testing.assert_array_equal(over.numpy(), np.remainder(x, np.float32(0.7)))


def trigamma(x):
    below = (np.pi / np.sin(np.pi * np.minimum(x, 0))) ** 2 - special.zeta(2, 1 - x)
    return np.where(x < 0, np.where(x == np.rint(x), INF, below), special.zeta(2, x))


SPECIAL = {
    "lgamma": (rg.lgamma, lambda x: np.where(np.isneginf(x), INF, special.gammaln(x))),
    "digamma": (rg.digamma, special.digamma),
    "trigamma": (lambda x: rg.polygamma(1, x), trigamma),
    "erfinv": (rg.erfinv, special.erfinv),
    "erfc": (rg.erfc, special.erfc),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_are_scipys_rounded(name, launched):
    ours, reference = SPECIAL[name]
    draw = np.random.default_rng(1)
    spans = [draw.uniform(-12, 12, 5000), draw.uniform(-1, 1, 5000), 10.0 ** draw.uniform(-30, 30, 2000)]
    x = np.concatenate([EDGES, *spans, 1 - 10.0 ** draw.uniform(-7, 0, 500)]).astype("f")
    with np.errstate(all="ignore"):
        wanted = reference(x.astype("d"))
        found = ours(rg.tensor(x)).numpy()
        np.testing.assert_allclose(found, wanted.astype("f"), rtol=1.2e-7, atol=1e-45)
        assert launched == [name]
        np.testing.assert_allclose(ours(rg.tensor(x[:31])).numpy(), found[:31], rtol=2e-7)
        np.testing.assert_allclose(ours(rg.tensor(x.astype("d"))).numpy(), wanted, rtol=1e-11, atol=1e-305)
    assert launched == [name]


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("weight", [0.3, 0.5, -0.2, -3.0, 1, NAN, None])
def test_interpolation_from_the_nearer_end(weight, kind, launched):
    """The loops and NumPy's steps give the same numbers; None is a weight for each element."""
    x, y, weights = np.random.default_rng(4).standard_normal((3, 4000)).astype(kind)
    y[:9] = NAN, INF, -INF, 0, -0.0, 1e38, -1e38, 1, 2
    weights[:9] = 1, 0, 0.5, -0.5, NAN, 1, 1, 0.5, 0.25
    x, y = rg.tensor(x), rg.tensor(y)
    parts = [slice(start, start + 25) for start in range(0, 4000, 25)]
    if weight is None:
        found = rg.lerp(x, y, rg.tensor(weights))
        pieces = [rg.lerp(x[part], y[part], rg.tensor(weights[part])) for part in parts]
        assert launched == ["lerp"]
    else:
        found = rg.lerp(x, y, weight)
        pieces = [rg.lerp(x[part], y[part], weight) for part in parts]
        assert launched == ["lerp_number"]
    eps = np.finfo(kind).eps
    np.testing.assert_allclose(found.numpy(), rg.cat(pieces).numpy(), rtol=4 * eps, atol=16 * eps)
    assert found.dtype == x.dtype


@pytest.mark.parametrize("eps", [None, 0.0, 0.1, 1e-6])
def test_gradient_of_logit(eps, launched):
    """Outside the bounds, and of NaN, it is 0; without any bounds NaN."""
    x = np.array([NAN, 0.0, 1.0, -0.1, 1.1, 0.5, 0.1, 0.9, INF, -INF, 0.3, 1e-7] * 4, "f")
    large, small = rg.tensor(x, requires_grad=True), rg.tensor(x[:12], requires_grad=True)
    rg.logit(large, eps).backward(rg.ones(48))
    assert launched == ["logit_backward"]
    rg.logit(small, eps).backward(rg.ones(12))
    np.testing.assert_allclose(large.grad.numpy()[:12], small.grad.numpy(), rtol=3e-7)
    outside = NAN if eps is None else 0.0
    np.testing.assert_array_equal(large.grad.numpy()[[0, 3, 4, 8, 9]], [outside] * 5)


@pytest.mark.parametrize("shape, dims", [((96, 512), (1,)), ((512, 96), (0,)), ((40, 50, 60), (0, 2))])
@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "c16"])
def test_large_transforms_are_numpys_with_scipy_and_without(shape, dims, kind, monkeypatch):
    draw = np.random.default_rng(2)
    x = (draw.standard_normal(shape) + 1j * draw.standard_normal(shape)).astype(kind if kind[0] == "c" else "c16")
    x = x if kind[0] == "c" else x.real.astype(kind)
    eps = np.finfo(kind).eps * 100
    for library in ("SciPy", "NumPy"):
        if library == "NumPy":
            monkeypatch.setattr(fourier, "_scipys", lambda: None)
        for norm in ("backward", "ortho", "forward"):
            there = rg.fft.fftn(rg.tensor(x), dim=dims, norm=norm)
            wanted = np.fft.fftn(x, axes=dims, norm=norm)
            assert there.numpy().dtype == wanted.dtype and there.is_contiguous()
            np.testing.assert_allclose(there.numpy(), wanted, rtol=eps, atol=eps * abs(wanted).max())
            back = rg.fft.ifftn(there, dim=dims, norm=norm)
            np.testing.assert_allclose(back.numpy(), x, rtol=eps, atol=eps * 5)
            if kind[0] == "f":
                half = rg.fft.rfft(rg.tensor(x), dim=dims[0], norm=norm)
                wanted = np.fft.rfft(x, axis=dims[0], norm=norm)
                assert half.numpy().dtype == wanted.dtype
                np.testing.assert_allclose(half.numpy(), wanted, rtol=eps, atol=eps * abs(wanted).max())
                back = rg.fft.irfft(half, shape[dims[0]], dim=dims[0], norm=norm)
                np.testing.assert_allclose(back.numpy(), x, rtol=eps, atol=eps * 5)


@pytest.mark.parametrize("name", [*PAIRS, *SPECIAL])
def test_special_functions_are_their_references_on_either_backend(name, on_backend):
    x, y = np.random.default_rng(4).uniform(0.1, 0.9, (2, 64, 65)).astype("f")
    on_backend(PAIRS[name][0], x, y) if name in PAIRS else on_backend(SPECIAL[name][0], x)

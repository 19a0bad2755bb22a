"""``out=`` against PyTorch: memory that overlaps, dtypes that do not fit, and inputs that are written over."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg

torch = pytest.importorskip("torch")

OVERLAP = "refers? to a single memory location"
ROWS = [[1.0, 5.0, 2.0, 4.0], [0.0, 3.0, 6.0, 7.0]]


def both(call):
    """The results of a call in both libraries, or the errors."""
    found = []
    for library in (rg, torch):
        try:
            found.append(call(library))
        except (RuntimeError, TypeError, IndexError) as error:
            found.append(error)
    return found


# Each is given the library, an input, the input's neighbourhood to write to, and integers beside it.
INTO = {
    "add": lambda m, x, out: m.add(x, 1, out=out),
    "exp": lambda m, x, out: m.exp(x, out=out),
    "clamp": lambda m, x, out: m.clamp(x, 0, 3, out=out),
    "where": lambda m, x, out: m.where(x > 1, x, x, out=out),
    "cat": lambda m, x, out: m.cat([x], 0, out=out),
    "stack": lambda m, x, out: m.stack([x[0], x[1]], out=out),
    "gather": lambda m, x, out: m.gather(x, 0, m.zeros((2, 4), dtype=m.int64), out=out),
    "index_select": lambda m, x, out: m.index_select(x, 0, m.tensor([1, 0]), out=out),
    "masked_select": lambda m, x, out: m.masked_select(x.view(-1), x.view(-1) > -1, out=out.view(-1)),
    "take": lambda m, x, out: m.take(x, m.zeros((2, 4), dtype=m.int64), out=out),
    "take_along_dim": lambda m, x, out: m.take_along_dim(x, m.zeros((2, 4), dtype=m.int64), 0, out=out),
    "index_add": lambda m, x, out: m.index_add(x, 0, m.tensor([0]), m.ones(1, 4), out=out),
    "index_add source": lambda m, x, out: m.index_add(m.ones(2, 4), 0, m.tensor([0, 1]), x, out=out),
    "scatter source": lambda m, x, out: m.scatter(m.ones(2, 4), 0, m.zeros((2, 4), dtype=m.int64), x, out=out),
    "cumsum": lambda m, x, out: m.cumsum(x, 1, out=out),
    "fft": lambda m, x, out: m.fft.fft(x, out=out),
}


@pytest.mark.parametrize("name", INTO)
def test_an_out_that_is_the_input_is_allowed_where_pytorch_allows_it_and_is_right(name):
    def call(m):
        x = m.tensor(ROWS, dtype=m.complex64) if name == "fft" else m.tensor(ROWS)
        return INTO[name](m, x, x).numpy()

    ours, theirs = both(call)
    assert isinstance(ours, RuntimeError) == isinstance(theirs, RuntimeError), (ours, theirs)
    if isinstance(ours, RuntimeError):
        assert "single memory location" in str(ours)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", INTO)
def test_an_out_that_overlaps_the_input_in_part_is_refused_where_pytorch_refuses_it(name):
    def call(m):
        base = m.zeros(9, dtype=m.complex64 if name == "fft" else m.float32)
        x, out = base[:8].view(2, 4), base[1:].view(2, 4)
        x.copy_(m.tensor(ROWS))
        return INTO[name](m, x, out).numpy()

    ours, theirs = both(call)
    assert isinstance(ours, RuntimeError) == isinstance(theirs, RuntimeError), (ours, theirs)


@pytest.mark.parametrize("name", INTO)
def test_an_out_whose_own_elements_share_memory_is_refused(name):
    x = rg.tensor(ROWS, dtype=rg.complex64 if name == "fft" else rg.float32)
    out = rg.zeros(1, 4, dtype=x.dtype).expand(2, 4)
    out = out if name != "masked_select" else rg.zeros(1, dtype=x.dtype).expand(8)
    with pytest.raises(RuntimeError, match=OVERLAP):
        INTO[name](rg, x, out)
    assert not out.numpy().any()


def test_outs_that_share_memory_with_each_other_or_with_an_input_are_refused():
    x, places = rg.tensor(ROWS), rg.zeros(2, dtype=rg.int64)
    values = rg.zeros(2)
    with pytest.raises(RuntimeError, match="the Tensors of out share memory"):
        rg.aminmax(x, dim=1, out=(values, values))
    with pytest.raises(RuntimeError, match=OVERLAP):
        rg.kthvalue(x, 1, 1, True, out=(x[:, :1], places.view(2, 1)))
    with pytest.raises(RuntimeError, match=OVERLAP):
        rg.aminmax(x, dim=1, out=(x.view(-1)[1:3], values))
    assert x.tolist() == ROWS


def test_elements_that_lie_between_those_of_an_input_are_no_overlap():
    x = rg.tensor(ROWS)
    rg.add(x[:, ::2], 1, out=x[:, 1::2])
    assert x.tolist() == [[1.0, 2.0, 2.0, 3.0], [0.0, 1.0, 6.0, 7.0]]


def test_a_transposed_input_is_another_order_of_the_same_memory():
    x = rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(RuntimeError, match=OVERLAP):
        rg.add(x, 1, out=x.t())
    assert rg.mm(x, x, out=x.t()).tolist() == [[7.0, 10.0], [15.0, 22.0]]


DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]
WRITTEN = {
    "nonzero": lambda m, x, out: m.nonzero(x, out=out),
    "argmax": lambda m, x, out: m.argmax(x, 1, out=out),
    "gather": lambda m, x, out: m.gather(x, 0, m.zeros((1, 1), dtype=m.int64), out=out),
    "neg": lambda m, x, out: m.neg(x, out=out),
    "matmul": lambda m, x, out: m.matmul(x, x.T, out=out),
    "exp": lambda m, x, out: m.exp(x, out=out),
    "eq": lambda m, x, out: m.eq(x, 1, out=out),
    "all": lambda m, x, out: m.all(x, 1, out=out),
    "cat": lambda m, x, out: m.cat([x, x], out=out),
    "signbit": lambda m, x, out: m.signbit(x, out=out),
    "linalg.inv": lambda m, x, out: m.linalg.inv(x[:, 1:3], out=out),
    "nansum": lambda m, x, out: m.nansum(x, 1, out=out),
    "amax": lambda m, x, out: m.amax(x, 1, out=out),
    "max": lambda m, x, out: m.max(x, 1, out=(out, m.zeros(0, dtype=m.int64))),
    "zeros": lambda m, x, out: m.zeros((2,), dtype=m.float32, out=out),
    "full": lambda m, x, out: m.full((2,), 1.0, out=out),
    "unsqueeze_copy": lambda m, x, out: m.unsqueeze_copy(x, 0, out=out),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_an_out_takes_the_dtypes_that_pytorchs_takes(name):
    for dtype in DTYPES:

        def call(m, dtype=dtype):
            out = m.zeros(0, dtype=getattr(m, dtype))
            WRITTEN[name](m, m.tensor(ROWS), out)
            return out.numpy()

        ours, theirs = both(call)
        assert isinstance(ours, Exception) == isinstance(theirs, Exception), (dtype, ours, theirs)
        if isinstance(ours, Exception):
            assert isinstance(theirs, type(ours)), (dtype, ours, theirs)
        else:
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-2)


def test_normalize_writes_to_its_own_out_by_the_same_rules():
    x, out = rg.tensor(ROWS), rg.zeros(0)
    assert rg.nn.functional.normalize(x, out=out) is out
    assert out.shape == (2, 4)
    with pytest.raises(TypeError, match="out must be a Tensor, got float"):
        rg.nn.functional.normalize(x, out=3.0)
    with pytest.raises(RuntimeError, match=OVERLAP):
        rg.nn.functional.normalize(x, out=rg.zeros(1, 4).expand(2, 4))


@pytest.mark.parametrize("make", [lambda out: rg.arange(4, out=out), lambda out: rg.linspace(0, 3, 4, out=out)])
def test_a_sequence_is_written_in_the_shape_of_out(make):
    x = rg.zeros(2, 3)
    make(x[:, 1:])
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]


@pytest.mark.filterwarnings("ignore:.*was resized:UserWarning")
def test_an_out_of_another_size_is_resized_over_its_memory():
    x = rg.zeros(2, 3)
    rg.add(rg.ones(3), 1, out=x[:, 1:])
    assert x.tolist() == [[0, 2, 2], [2, 0, 0]]
    weight, kept = rg.ones(3, requires_grad=True), rg.zeros(3)
    product = (weight * kept).sum()
    rg.add(rg.ones(2), 1, out=kept[:1])
    product.backward()
    assert kept.tolist() == [2, 2, 0] and weight.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("reduction", [rg.sum, rg.prod, rg.cumsum, rg.cumprod])
def test_the_dtype_of_a_sum_must_be_that_of_out(reduction):
    with pytest.raises(RuntimeError, match="does not match out"):
        reduction(rg.ones(2), 0, dtype=rg.float64, out=rg.zeros(2))


@pytest.mark.filterwarnings("ignore:torch.range:UserWarning")
def test_range_writes_its_own_numbers_to_out():
    out = rg.zeros(0)
    assert rg.range(3, 1, -1, out=out) is out and out.tolist() == [3, 2, 1]
    x = rg.zeros(2, 3)
    rg.range(1, 4, out=x[:, 1:])
    assert x.tolist() == [[0, 1, 2], [0, 3, 4]]
    assert rg.range(0, 2, dtype=rg.int32).dtype == rg.int32 and rg.range(0, 1, requires_grad=True).is_leaf

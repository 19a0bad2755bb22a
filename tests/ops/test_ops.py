"""Errors of operators: their type is PyTorch's, and their message names the operator."""

import pytest

import retrograd as rg

F = rg.nn.functional


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

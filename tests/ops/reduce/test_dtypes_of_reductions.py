"""Reductions and scans that take ``dtype=``, for every dtype of the input and every dtype asked for."""

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.gradcheck import gradcheck

INTEGERS = ["bool", "uint8", "int8", "int16", "int32", "int64"]
DTYPES = [*INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
SAMPLES = {
    "small": [100.0, 100.0, 3.0],
    "fractions": [300.0, -2.5, 1000.0],
    "nan": [float("nan"), 1.0, 2.0],
    "nothing": [],
}
CALLS = {
    name + how: (lambda lib, x, kind, name=name, args=args: getattr(lib, name)(x, *args, **kind))
    for name in ("sum", "prod", "mean", "nansum", "nanmean", "cumsum", "cumprod", "softmax", "log_softmax", "norm")
    for how, args in (("", ()), (" along 0", (2, 0) if name == "norm" else (0,)))
    if how or not name.startswith(("cum", "soft", "log"))
} | {
    "vector_norm": lambda lib, x, kind: lib.linalg.vector_norm(x, 1, **kind),
    "matrix_norm": lambda lib, x, kind: lib.linalg.matrix_norm(x.reshape(1, -1), **kind),
    "linalg.norm": lambda lib, x, kind: lib.linalg.norm(x, **kind),
    "cumsum_": lambda lib, x, kind: x.cumsum_(0, **kind),
    "cumprod_": lambda lib, x, kind: x.cumprod_(0, **kind),
}
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-5, "complex64": 2e-5}


def _made(lib, torch, sample, dtype):
    x = torch.tensor(SAMPLES[sample], dtype=torch.float64)
    x = (torch.nan_to_num(x) if dtype in INTEGERS else x).to(getattr(torch, dtype))
    if lib is torch:
        return x
    return rg.tensor(x.double().numpy()).to(rg.bfloat16) if dtype == "bfloat16" else rg.tensor(x.numpy().copy())


def _answer(lib, torch, call, sample, dtype, wanted):
    x, kind = _made(lib, torch, sample, dtype), {} if wanted is None else {"dtype": getattr(lib, wanted)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(lib, x, kind)
            name = str(result.dtype).rpartition(".")[2]
            return name, (result.to(dtype=lib.float32) if name == "bfloat16" else result).numpy()
    except Exception as error:
        return error


@pytest.mark.every(2)
@pytest.mark.parametrize("name", CALLS)
def test_the_dtype_asked_for_gives_pytorchs_values_and_errors(name):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    different = []
    for dtype in DTYPES:
        for wanted in (None, *DTYPES):
            for sample in SAMPLES:
                theirs, ours = (_answer(lib, torch, CALLS[name], sample, dtype, wanted) for lib in (torch, rg))
                if isinstance(theirs, Exception):
                    lacking = "not implemented" in str(theirs) or "not support" in str(theirs)
                    same = lacking or isinstance(ours, type(theirs))
                elif isinstance(ours, Exception):
                    same = sample == "nothing" or dtype == "float16" and name == "matrix_norm"  # documented refusals
                else:
                    rtol = TOLERANCE.get(ours[0], 1e-9)
                    same = theirs[0] == ours[0] and theirs[1].shape == ours[1].shape
                    same = same and np.allclose(theirs[1], ours[1], rtol=rtol, atol=0, equal_nan=True)
                if not same:
                    different.append((sample, dtype, wanted, theirs, ours))
    assert not different


def test_sums_and_products_of_integers_wrap_around_in_the_dtype_asked_for():
    x = rg.tensor([100, 100])
    assert rg.sum(x, dtype=rg.int8).item() == -56 and rg.sum(x, 0, dtype=rg.int8).dtype == rg.int8
    assert rg.prod(x, dtype=rg.uint8).item() == 10000 % 256
    assert rg.cumsum(x.to(rg.uint8), 0, dtype=rg.uint8).dtype == rg.uint8
    assert rg.cumsum(x, 0, dtype=rg.int8).tolist() == [100, -56]
    assert rg.sum(x, dtype=rg.bool).item() is True
    assert x.to(rg.int8).cumsum_(0).tolist() == x.to(rg.int8).cumsum_(axis=0).tolist() == [100, -56]
    with pytest.raises(RuntimeError, match="dtype"):
        x.cumsum_(0, dtype=rg.int8)


def test_means_in_half_precision_are_of_the_numbers_as_they_were():
    assert rg.mean(rg.tensor([10000, 70000, 0]), dtype=rg.float16).item() == pytest.approx(26667, rel=1e-3)


def test_means_of_complex_infinities_are_infinite():
    mean = rg.mean(rg.tensor([complex(np.inf, 1), complex(1, 2)])).item()
    assert mean.real == np.inf and mean.imag == 1.5


def test_log_sums_of_complex_exponents_have_their_derivative():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4))
    x = rg.tensor(z, requires_grad=True)
    np.testing.assert_allclose(np.exp(rg.logcumsumexp(x, 1).numpy(force=True)), np.cumsum(np.exp(z), 1))
    assert gradcheck(lambda x: rg.logcumsumexp(x, 1), (x,))
    infinite = rg.tensor([complex(-np.inf, 0), complex(-np.inf, 1), 1j])
    assert rg.logcumsumexp(infinite, 0).tolist()[2] == 1j

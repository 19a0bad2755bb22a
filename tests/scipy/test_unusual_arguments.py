"""Every function of ``retrograd.scipy`` on empty, 0-d, complex and strided arguments, against SciPy's function."""

from itertools import islice

import numpy as np
import pytest

import retrograd as rg
from retrograd.testing.case import Fixed
from retrograd.testing.scipy_cases import scipy_cases

scipy = pytest.importorskip("scipy", minversion="1.15")

VARIANTS = {
    "no rows": lambda a: a[:0] if a.ndim else a,
    "no columns": lambda a: a[..., :0] if a.ndim else a,
    "a number": lambda a: a.reshape(-1)[:1].reshape(()),
    "complex numbers": lambda a: a + 0.1j * a,
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1] if a.ndim else a,
}

# SciPy's results have memory that it has not written or signs of eigenvectors, or are objects, or its process ends.
UNDEFINED = (
    "interpolate.",
    "stats.",
    "signal.convolve2d",
    "signal.upfirdn",
    "linalg.lstsq",
    "linalg.cho_factor",
    "linalg.eig",
    "linalg.sqrtm",
    "signal.csd",
)
# Differences: SciPy reads one triangle or the real part, forgets ``grid_mode`` of complex images, wants C order.
DIFFERENT = {
    "complex numbers": "linalg.pinvh linalg.solve linalg.solveh_banded ndimage. signal.coherence signal.savgol_filter",
    "a number": "linalg.hankel linalg.matmul_toeplitz linalg.solve linalg.lu_factor ndimage. fft.",
    "backwards": "signal.sos ndimage.gaussian_filter1d",
    "no rows": "ndimage.",
    "no columns": "ndimage.",
}
if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 18):  # refuses a filter that is only a gain
    DIFFERENT["a number"] += " signal.lfilter_zi"


def _mapped(value, change):
    """Apply a function to the arrays of an argument, or of the arguments."""
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    value = value.array if isinstance(value, Fixed) else value
    if isinstance(value, np.ndarray):
        return change(value)
    return type(value)(_mapped(item, change) for item in value) if isinstance(value, (list, tuple)) else value


def _arrays(result):
    if isinstance(result, (tuple, list)):
        return [array for item in result for array in _arrays(item)]
    return [result.detach().numpy() if isinstance(result, rg.Tensor) else np.asarray(result)]


def _result(function, args, kwargs):
    try:
        return _arrays(function(*args, **kwargs))
    except Exception as error:
        return error


FUNCTIONS = [pair for pair in scipy_cases() if not pair[1].name.startswith(UNDEFINED)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", ["fft", "linalg", "ndimage", "signal", "special"])
def test_constants_have_scipys_results_and_errors(module):
    differences = []
    for operator, case in FUNCTIONS:
        for call in islice(case.calls(np.random.default_rng(0)), 1 if case.name.startswith(module + ".") else 0):
            for name, change in VARIANTS.items():
                if case.name.startswith(tuple(DIFFERENT[name].split())):
                    continue
                args, kwargs = (
                    _mapped(given, lambda a, change=change: change(a) if a.dtype.kind == "f" else a)
                    for given in (call.args, call.kwargs)
                )
                expected = _result(case.reference, args, kwargs)
                found = _result(operator.function, _mapped(args, rg.from_numpy), _mapped(kwargs, rg.from_numpy))
                if isinstance(expected, Exception) or isinstance(found, Exception):
                    same = isinstance(expected, Exception) and isinstance(found, Exception)
                else:
                    same = len(expected) == len(found) and all(
                        x.shape == y.shape and np.allclose(x, y, rtol=1e-7, atol=1e-9, equal_nan=True)
                        for x, y in zip(expected, found, strict=True)
                    )
                if not same:
                    differences.append((case.name, name, expected, found))
    assert not differences, "\n".join(map(str, differences))


def test_tensors_without_elements_have_gradients_without_elements():
    for dtype in (rg.float32, rg.float64):
        x = rg.zeros((0, 3), dtype=dtype, requires_grad=True)
        frequencies, power = rg.scipy.signal.periodogram(x)
        assert frequencies.shape == power.shape == (0, 3) and power.dtype == dtype
        sums = rg.scipy.special.logsumexp(x, axis=0)
        assert sums.tolist() == [-np.inf] * 3 and sums.dtype == dtype
        (sums.sum() + power.sum()).backward()
        assert x.grad.shape == (0, 3)
    kernel = rg.ones(3, requires_grad=True)
    rg.scipy.signal.fftconvolve(rg.zeros(0), kernel).sum().backward()
    assert kernel.grad.tolist() == [0.0, 0.0, 0.0]


def test_a_gain_is_a_filter_without_a_state():
    gain = rg.tensor([3.0], requires_grad=True)
    assert rg.scipy.signal.lfilter_zi(gain, [1.0]).shape == (0,)
    rg.scipy.signal.filtfilt(gain, [2.0], np.ones(5)).sum().backward()
    assert gain.grad.item() == 5 * 2 * 3 / 4


def test_what_scipy_refuses_is_refused_and_what_it_computes_of_constants_is_computed():
    z = rg.tensor([1.0 + 1j, 2.0])
    for call in (rg.scipy.stats.variation, lambda x: rg.scipy.special.diric(x, 3)):
        with pytest.raises(TypeError, match=r"scipy.*not supported for the input types"):
            call(z)
    with pytest.raises(TypeError, match="Only real arrays"):
        rg.scipy.linalg.eigvalsh_tridiagonal(z, z[:1])
    image = rg.tensor(np.arange(5.0))
    assert rg.scipy.ndimage.shift(image, 1, order=5).shape == (5,)
    with pytest.raises(NotImplementedError, match="order must be 0 to 3"):
        rg.scipy.ndimage.shift(image.requires_grad_(), 1, order=5)
    single = rg.ones(4, dtype=rg.float32)
    assert rg.scipy.ndimage.correlate1d(single, np.array([0.5, 0.5])).dtype == rg.float32
    x = rg.tensor(1.0, requires_grad=True)
    rg.scipy.linalg.expm(x).sum().backward()
    assert x.grad.item() == pytest.approx(np.e)

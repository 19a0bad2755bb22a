"""Example calls of ``retrograd.scipy.signal`` and ``retrograd.scipy.fft``."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..case import Call
from . import Draw, Function, case

A = np.array([1.2, -0.5, 0.3])
SOS = np.array([[0.5, 0.2, 0.1, 1.0, -0.3, 0.2], [1.0, 0.4, 0.0, 1.0, 0.2, 0.0]])


def normalized(function: Function) -> Function:
    """Set the coefficients that must be 1 in second-order sections."""
    one = np.eye(6, dtype=np.int8)[3]
    return lambda sos, *args, **kwargs: function(sos * (1 - one) + one, *args, **kwargs)


def last(function: Function) -> Function:
    """Return only the last result, after frequencies and times."""
    return lambda *args, **kwargs: function(*args, **kwargs)[-1]


def trigonometric(form: int, norm: str | None, u: Draw) -> Call:
    return Call(u(-1, 1, 2, 5), form, norm=norm)


def calls(*names: str, complex: bool = False) -> list[object]:
    return [
        case(
            f"fft.{name}",
            lambda u: Call(u(-1, 1, 3, 4) + (1j * u(-1, 1, 3, 4) if complex else 0), norm="ortho"),
            lambda u: Call(u(-1, 1, 2, 4) + (1j * u(-1, 1, 2, 4) if complex else 0), workers=1),
        )
        for name in names
    ]


FOURIER = [
    *calls("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn"),
    *calls("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn", complex=True),
    case("fft.fft", lambda u: Call(u(-1, 1, 4, 2) + 1j, 6, 0, "forward")),
    case("fft.fht", lambda u: Call(u(-1, 1, 2, 5), 0.3, 1.5), lambda u: Call(u(-1, 1, 4), 0.3, 0.5, 0.1, -0.2)),
    case("fft.ifht", lambda u: Call(u(-1, 1, 2, 5), 0.3, 1.5), lambda u: Call(u(-1, 1, 4), 0.3, 0.5, 0.1, -0.2)),
    case("fft.fftshift", lambda u: Call(u(-1, 1, 4, 3))),
    case("fft.ifftshift", lambda u: Call(u(-1, 1, 4, 3), axes=1)),
    *(
        case(
            f"fft.{name}",
            *(partial(trigonometric, form, norm) for form in (1, 2, 3, 4) for norm in (None, "ortho", "forward")),
            lambda u: Call(u(-1, 1, 5, 2), 3, 4, 0, orthogonalize=True),
            lambda u: Call(u(-1, 1, 3) + 1j * u(-1, 1, 3), 2, 6),
        )
        for name in ("dct", "idct", "dst", "idst")
    ),
    *(
        case(f"fft.{name}", lambda u: Call(u(-1, 1, 3, 4)), lambda u: Call(u(-1, 1, 2, 3, 4), 1, (2, 5), norm="ortho"))
        for name in ("dctn", "idctn", "dstn", "idstn")
    ),
]

CASES = [
    *FOURIER,
    case(
        "signal.lfilter",
        lambda u: Call(u(0.5, 1, 4), A + u(0, 0.1, 3), u(-1, 1, 2, 6)),
        lambda u: Call(u(0.5, 1, 2), A, u(-1, 1, 5, 2), axis=0, zi=u(-1, 1, 2, 2)),
        lambda u: Call(u(0.5, 1, 4), A, u(-1, 1, 2), zi=u(-1, 1, 3)),
        lambda u: Call(u(0.5, 1, 3), [2.0], u(-1, 1, 5) + 1j * u(-1, 1, 5)),
    ),
    case("signal.lfilter_zi", lambda u: Call(u(0.5, 1, 2), A + u(0, 0.1, 3))),
    case(
        "signal.sosfilt",
        lambda u: Call(SOS, u(-1, 1, 2, 5)),
        lambda u: Call(SOS, u(-1, 1, 5), zi=u(-1, 1, 2, 2)),
        wrap=normalized,
    ),
    case("signal.sosfilt_zi", lambda u: Call(SOS + u(0, 0.1, 2, 6) * (SOS != 0))),
    case(
        "signal.filtfilt",
        lambda u: Call(u(0.5, 1, 2), A, u(-1, 1, 12)),
        lambda u: Call(u(0.5, 1, 2), A, u(-1, 1, 8, 2), axis=0, padtype="even", padlen=3),
        lambda u: Call(u(0.5, 1, 2), A, u(-1, 1, 6), padtype=None),
    ),
    case(  # pass the length of the padding, because its default depends on which coefficients are zero
        "signal.sosfiltfilt",
        lambda u: Call(SOS, u(-1, 1, 16), padlen=9),
        lambda u: Call(np.where(SOS == 0, 0.1, SOS), u(-1, 1, 16)),
        wrap=normalized,
        dtypes=(),
    ),
    case(
        "signal.convolve",
        lambda u: Call(u(-1, 1, 5), u(-1, 1, 3), "same"),
        lambda u: Call(u(-1, 1, 2, 2), u(-1, 1, 3, 4), "valid"),
        lambda u: Call(u(-1, 1, 20), u(-1, 1, 18)),
    ),
    case(
        "signal.correlate",
        lambda u: Call(u(-1, 1, 5), u(-1, 1, 3) + 1j * u(-1, 1, 3)),
        lambda u: Call(u(-1, 1, 4, 3), u(-1, 1, 2, 2), "same"),
        lambda u: Call(u(-1, 1, 3), u(-1, 1, 5), "valid"),
    ),
    case("signal.fftconvolve", lambda u: Call(u(-1, 1, 2, 5), u(-1, 1, 1, 3), axes=1)),
    case("signal.oaconvolve", lambda u: Call(u(-1, 1, 2, 5), u(-1, 1, 2, 3), "valid")),
    case(
        "signal.convolve2d",
        lambda u: Call(u(-1, 1, 3, 4), u(-1, 1, 2, 3), "same", "symm"),
        lambda u: Call(u(-1, 1, 3, 4), u(-1, 1, 2, 3), "full", "wrap"),
        lambda u: Call(u(-1, 1, 3, 4), u(-1, 1, 2, 3), "same", fillvalue=2),
    ),
    case("signal.correlate2d", lambda u: Call(u(-1, 1, 3, 4), u(-1, 1, 2, 2), "same", "wrap")),
    case("signal.upfirdn", lambda u: Call(u(-1, 1, 4), u(-1, 1, 2, 5), 3, 2)),
    case("signal.resample_poly", lambda u: Call(u(-1, 1, 6), 3, 2), lambda u: Call(u(-1, 1, 2, 6), 2, 5, axis=1)),
    case(
        "signal.decimate",
        lambda u: Call(u(-1, 1, 40), 4),
        lambda u: Call(u(-1, 1, 12), 3, ftype="fir"),
        lambda u: Call(u(-1, 1, 12), 3, 7, ftype="fir", zero_phase=False),
        dtypes=(),
    ),
    case(
        "signal.detrend",
        lambda u: Call(u(-1, 1, 2, 6)),
        lambda u: Call(u(-1, 1, 7, 2), axis=0, bp=3),
        lambda u: Call(u(-1, 1, 4), type="constant"),
    ),
    case(
        "signal.savgol_filter",
        lambda u: Call(u(-1, 1, 2, 7), 5, 2, deriv=1, delta=0.5),
        lambda u: Call(u(-1, 1, 7), 3, 1, mode="mirror"),
        lambda u: Call(u(-1, 1, 7), 3, 1, mode="constant", cval=0.5),
        lambda u: Call(u(-1, 1, 7), 4, 1, mode="interp"),
    ),
    case("signal.freqz", lambda u: Call(u(0.5, 1, 3), A, 8), lambda u: Call(u(0.5, 1, 3), 1, 4, whole=True, fs=3.0)),
    case("signal.hilbert", lambda u: Call(u(-1, 1, 2, 5)), lambda u: Call(u(-1, 1, 4, 2), 6, axis=0)),
    case(
        "signal.resample",
        *(
            (lambda u, n=n, num=num: Call(u(-1, 1, n), num))
            for n, num in ((6, 4), (4, 6), (5, 8), (7, 5), (6, 5), (4, 4), (5, 4))
        ),
        lambda u: Call(u(-1, 1, 6) + 1j * u(-1, 1, 6), 4),
        lambda u: Call(u(-1, 1, 6), 9, window="hamming"),
    ),
    case(
        "signal.stft",
        lambda u: Call(u(-1, 1, 11), nperseg=4),
        lambda u: Call(
            u(-1, 1, 2, 9), 2.0, nperseg=5, noverlap=2, nfft=8, boundary="odd", detrend="linear", scaling="psd"
        ),
        lambda u: Call(u(-1, 1, 9, 2), nperseg=4, boundary=None, padded=False, axis=0, window="boxcar"),
        wrap=last,
    ),
    case(
        "signal.istft",
        lambda u: Call(u(-1, 1, 3, 5) + 1j * u(-1, 1, 3, 5)),
        lambda u: Call(u(-1, 1, 4, 3) + 1j * u(-1, 1, 4, 3), scaling="psd", boundary=False, window="boxcar"),
        wrap=last,
        dtypes=(),
    ),
    case(
        "signal.welch",
        lambda u: Call(u(-1, 1, 2, 12), nperseg=4),
        lambda u: Call(u(-1, 1, 9), nperseg=9, scaling="spectrum"),
        wrap=last,
    ),
    case("signal.csd", lambda u: Call(u(-1, 1, 12), u(-1, 1, 10), nperseg=4), wrap=last),
    case("signal.coherence", lambda u: Call(u(-1, 1, 12), u(-1, 1, 12), nperseg=4), wrap=last, dtypes=()),
    case("signal.periodogram", lambda u: Call(u(-1, 1, 9), nfft=12), lambda u: Call(u(-1, 1, 9), nfft=8), wrap=last),
    case("signal.spectrogram", lambda u: Call(u(-1, 1, 2, 16), nperseg=8), wrap=last),
]

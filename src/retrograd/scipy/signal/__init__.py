"""Signal processing of scipy.signal on Tensors.

``filters`` has recursive and smoothing filters, ``convolution`` convolutions and correlations, ``spectra`` functions
computed by Fourier transforms. Windows and filter designs are SciPy's own functions and have no derivatives. Import the
names from ``retrograd.scipy.signal``; the windows under PyTorch's names are in ``retrograd.signal``.
"""

from ..decorators import other_names
from .convolution import convolve, convolve2d, correlate, correlate2d, fftconvolve, oaconvolve, upfirdn
from .filters import (
    decimate,
    detrend,
    filtfilt,
    freqz,
    lfilter,
    lfilter_zi,
    resample_poly,
    savgol_filter,
    sosfilt,
    sosfilt_zi,
    sosfiltfilt,
)
from .spectra import coherence, csd, hilbert, istft, periodogram, resample, spectrogram, stft, welch

__all__ = [
    "coherence", "convolve", "convolve2d", "correlate", "correlate2d", "csd", "decimate", "detrend", "fftconvolve",
    "filtfilt", "freqz", "hilbert", "istft", "lfilter", "lfilter_zi", "oaconvolve", "periodogram",
    "resample", "resample_poly", "savgol_filter", "sosfilt", "sosfilt_zi", "sosfiltfilt", "spectrogram", "stft",
    "upfirdn", "welch",
]  # fmt: skip

__getattr__ = other_names(__name__)

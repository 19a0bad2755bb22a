"""Discrete and short-time Fourier transforms.

``fourier`` and ``half_spectra`` define the transforms of ``retrograd.fft`` (the latter of real signals, which need half
of the spectrum), ``short_time`` ``stft`` and ``istft``. No other package imports the modules.
"""

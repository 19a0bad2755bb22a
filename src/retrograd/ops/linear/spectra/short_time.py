"""Short-time Fourier transforms: spectra of overlapping frames of a signal, and the inverse."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ....core.arrays.devices import all_examples, array_module
from ....core.arrays.dtypes import INEXACT
from ....core.errors import describe
from ....core.graph.primitive import apply, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ...math.complex_numbers import view_as_real
from ...nn.spatial.padding import pad_
from ...shape.views import SUM_WINDOWS, unfold
from ...table.arguments import integer
from ...table.registry import operator
from ...table.types import Norm
from .fourier import fft, ifft
from .half_spectra import irfft, rfft


def _frame(n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int, int]:
    """Return the checked lengths of a frame, of the step between frames, and of the window."""
    n = integer(n_fft, "n_fft")
    hop = n // 4 if hop_length is None else integer(hop_length, "hop_length")
    width = n if win_length is None else integer(win_length, "win_length")
    if n <= 0:
        raise RuntimeError(f"expected n_fft > 0, but got n_fft={n}")
    if hop <= 0:
        raise RuntimeError(f"expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n:
        raise RuntimeError(f"expected 0 < win_length <= n_fft, but got win_length={width} and n_fft={n}")
    return n, hop, width


def _window(window: Tensor | None, x: Tensor, n: int, width: int) -> Tensor:
    if window is None:
        w = new_tensor(array_module(x).ones(width, x.array.real.dtype))
    else:
        w = operand(window, "window")
        w = w if w.dtype.kind in INEXACT else w.to(x.array.real.dtype)
        if w.array.shape != (width,):
            raise RuntimeError(f"expected a 1D window of size equal to win_length={width}, got {describe(w)}")
    left = (n - width) // 2
    return pad_(w, (left, n - width - left)) if width < n else w


@operator()
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: Literal["constant", "reflect", "replicate", "circular"] = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """``X[f, t] = sum_k window[k] input[t hop + k] exp(-2 pi i f k / n_fft)``: the spectra of overlapping frames.

    Derivative: input, window: those of the products and the Fourier transform, summed where frames overlap.
    Shape: ``(L,)`` or ``(B, L)`` to ``(F, T)`` or ``(B, F, T)`` with ``F = n_fft // 2 + 1``, or ``n_fft`` unless
        one-sided, and ``T = 1 + L // hop`` frames, or ``1 + (L - n_fft) // hop`` without ``center``; with a last
        dimension of length 2 unless ``return_complex``.
    Dtype: float32, float64 and complex; the result is complex, or real with real and imaginary parts.

    Args:
        n_fft: the length of a frame.
        hop_length: the step between frames, by default ``n_fft // 4``.
        win_length: the length of the window, in the middle of a frame; by default ``n_fft``.
        window: the weights within a frame, by default ones.
        center: pad the signal so that the middle of frame t is at ``t hop``.
        pad_mode: how to pad, as in ``nn.functional.pad``.
        normalized: divide by ``sqrt(n_fft)``.
        onesided: leave out the frequencies that follow from the others; by default if input and window are real.
        return_complex: whether the result is complex; required if input and window are real.
        align_to_window: without ``center``: pad the signal so that its first element is that of the first window, not
            of the first frame.

    Raises:
        RuntimeError: a length is out of range, or ``return_complex`` is missing.

    Source: Griffin and Lim, Signal estimation from modified short-time Fourier transform, 1984.

    >>> rg.stft(rg.ones(6), 4, 2, return_complex=True).real
    tensor([[4., 4., 4., 4.],
            [0., 0., 0., 0.],
            [0., 0., 0., 0.]])
    """
    x = operand(input)
    if x.dtype.kind not in INEXACT:
        raise RuntimeError(f"expected a Tensor of floating or complex values, got {describe(x)}")
    if x.array.ndim not in (1, 2):
        raise RuntimeError(f"expected a 1D or 2D Tensor, got {describe(x)}")
    n, hop, width = _frame(n_fft, hop_length, win_length)
    w = _window(window, x, n, width)
    is_complex = x.dtype.kind == "c" or w.dtype.kind == "c"
    if return_complex is None:
        if not is_complex:
            raise RuntimeError("return_complex must be given for a real input")
        return_complex = True
    if onesided and is_complex:
        raise RuntimeError("cannot have onesided output if window or input is complex")
    onesided = not is_complex if onesided is None else onesided
    if center:
        if align_to_window is not None:
            raise RuntimeError("align_to_window should only be given when center is False")
        lead = x.reshape((1,) * (3 - x.array.ndim) + x.array.shape)
        x = pad_(lead, (n // 2, n // 2), pad_mode).reshape((*x.array.shape[:-1], x.array.shape[-1] + 2 * (n // 2)))
    elif align_to_window:
        x = pad_(x, ((n - width) // 2, (n - width + 1) // 2))
    if n > x.array.shape[-1]:
        raise RuntimeError(f"expected 0 < n_fft <= {x.array.shape[-1]}, but got n_fft={n}")
    frames = unfold(x, -1, n, hop) * w
    norm: Norm | None = "ortho" if normalized else None
    spectra = (rfft if onesided else fft)(frames, norm=norm).mT
    return spectra if return_complex else view_as_real(spectra)


@operator(like=stft)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose ``stft`` is nearest to the input: the inverse of ``stft`` with the same arguments.

    The frames are weighted by the window, added where they overlap, and divided by the sum of the squared windows.

    Derivative: input, window: the derivative of these steps.
    Shape: ``(F, T)`` or ``(B, F, T)`` to ``(length,)`` or ``(B, length)``.
    Dtype: complex; the result is real, or complex with ``return_complex``.

    Args:
        center: whether ``stft`` padded the signal; the padding is removed.
        normalized: whether ``stft`` divided by ``sqrt(n_fft)``.
        onesided: whether frequencies were left out; by default where ``F`` is not ``n_fft``.
        length: the length of the result, which is cropped or padded with zeros; by default all points covered by
            frames.
        return_complex: whether the signal is complex.

    Raises:
        RuntimeError: a length is out of range, the input is not complex, or windows leave a gap.

    >>> x = rg.arange(8.0)
    >>> rg.istft(rg.stft(x, 4, 1, return_complex=True), 4, 1).round()
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    x = operand(input)
    if x.dtype.kind != "c":
        raise RuntimeError(f"requires a complex input, as from stft with return_complex=True, got {describe(x)}")
    if x.array.ndim not in (2, 3) or not x.array.size:
        raise RuntimeError(f"expected a Tensor with 2 or 3 dimensions and elements, got {describe(x)}")
    n, hop, width = _frame(n_fft, hop_length, win_length)
    frequencies, count = x.array.shape[-2:]
    onesided = frequencies != n if onesided is None else onesided
    if frequencies != (n // 2 + 1 if onesided else n):
        raise RuntimeError(f"expected {n // 2 + 1 if onesided else n} frequencies of n_fft={n}, got {describe(x)}")
    w = _window(window, x, n, width)
    if return_complex and onesided:
        raise RuntimeError("cannot have onesided input if the output is complex")
    if not return_complex and w.dtype.kind == "c":
        raise RuntimeError("complex windows are incompatible with return_complex=False")
    norm: Norm | None = "ortho" if normalized else None
    spectra = x.mT
    if return_complex:
        frames = ifft(spectra, norm=norm)
    else:  # for a real signal only the first half of the spectrum is used, as in PyTorch
        frames = irfft(spectra[..., : n // 2 + 1], n, norm=norm)
    covered = n + hop * (count - 1)
    total = _overlapped(frames * w, hop, covered)
    weight = _overlapped((w * w).expand(count, n), hop, covered)
    start = n // 2 if center else 0
    end = covered - n // 2 if center else covered
    if length is not None:
        end = min(start + integer(length, "length"), covered)
    total, weight = total[..., start:end], weight[start:end]
    if not weight.array.size or (np.abs(all_examples(weight.array)) < 1e-11).any():
        raise RuntimeError(f"the windows leave a gap: their squares add up to less than 1e-11 with hop_length={hop}")
    signal = total / weight
    missing = 0 if length is None else length - (end - start)
    return pad_(signal, (0, missing)) if missing > 0 else signal


def _overlapped(frames: Tensor, hop: int, covered: int) -> Tensor:
    """Add overlapping frames ``(..., T, n)``, each ``hop`` elements after the previous one."""
    lead = frames.array.shape[:-2]
    params = {"dim": len(lead), "size": frames.array.shape[-1], "step": hop, "shape": (*lead, covered)}
    return apply(SUM_WINDOWS, (frames,), params)

"""The inverses of the Hermitian Fourier transforms in several dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor
from ...table.registry import operator
from ...table.types import Dims, Norm
from .fourier import OPPOSITE, norm_of
from .half_spectra import rfftn


def _inverse(input: Tensor, s: Sequence[int] | None, dim: Dims | None, norm: Norm | None) -> Tensor:
    """The half spectrum is the conjugate of ``rfftn`` with the opposite norm."""
    if operand(input).dtype.kind == "c":
        raise RuntimeError(f"expects a real input, got {describe(input)}")
    return rfftn(input, s, dim, OPPOSITE[norm_of(norm)]).conj()


@operator(namespace="fft", method=False)
def ihfft2(input: Tensor, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: Norm | None = None) -> Tensor:
    """The inverse of ``hfft2``: ``ihfft`` along the last of two dimensions, ``ifft`` along the other.

    Derivative: the transform's transpose, which is linear.
    Shape: the input's, with ``n // 2 + 1`` for the last transformed length n.
    Dtype: float32 and float64, integers become the default dtype; complex.

    Args:
        dim: the two dimensions.
        norm: ``"backward"`` (1/n, the default), ``"ortho"`` (1/sqrt(n)) or ``"forward"`` (no factor).

    Raises:
        RuntimeError: the input is complex, or lengths and dimensions do not fit.

    >>> rg.fft.ihfft2(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _inverse(input, s, dim, norm)


@operator(namespace="fft", method=False, like=ihfft2)
def ihfftn(input: Tensor, s: Sequence[int] | None = None, dim: Dims | None = None, norm: Norm | None = None) -> Tensor:
    """The inverse of ``hfftn``: ``ihfft`` along the last of several dimensions, ``ifft`` along the others.

    Args:
        dim: the dimensions, by default all, or the last as many as ``s`` has.

    >>> rg.fft.ihfftn(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _inverse(input, s, dim, norm)

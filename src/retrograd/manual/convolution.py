"""Conv2d as a matrix product, and MaxPool2d."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike

from .base import Array, BaseLayer, Seed, require_positive, uniform_by_fan_in

_COLUMN_BYTES = 1 << 21  # so that the columns of a block of images fit the processor's cache


class Conv2d(BaseLayer):
    """``y[n, o, i, j] = b[o] + Σ_{c,u,v} w[o, c, u, v] x[n, c, s i + u, s j + v]``, with x zero-padded and stride s.

    Gradient: write every window as a column, ``X[(c, u, v), (n, i, j)] = x[n, c, s i + u, s j + v]``; then
    ``y = W X + b`` is linear, and as for Linear, with ``dy`` for ``dout`` in the layout ``(o, (n, i, j))``,

        ``dW = dy Xᵀ``, ``db = Σ_{n,i,j} dy``, ``dX = Wᵀ dy``

    and each element of ``dX`` is added to the element of x from which it was copied. (LeCun et al., "Gradient-based
    learning applied to document recognition", 1998; the columns: Chellapilla, Puri, Simard, "High performance
    convolutional neural networks for document processing", 2006.)

    Shapes: x (N, in_channels, H, W), y (N, out_channels, H', W') with
    ``H' = ⌊(H + 2 padding - kernel) / stride⌋ + 1``, weight (out_channels, in_channels, kernel, kernel), bias
    (out_channels,). Weight and bias start from ``U(-1/√f, 1/√f)``, ``f = in_channels kernel²``. With
    ``input_gradient=False`` backward returns None and does not compute dx.

    Raises TypeError for an x of another dtype than the layer, ValueError for a wrong shape or an image
    smaller than the kernel.

    Args:
        in_channels, out_channels: the channels of x and y.
        kernel_size, stride, padding: in rows and columns of pixels, one number or a pair.
        bias: whether there is a bias b.
        input_gradient: whether backward computes dx.
        dtype: the dtype of the parameters, and so of x and y: float32 or float64.
        rng: a NumPy generator or a seed; by default the initial weights differ from run to run.

    >>> from retrograd import manual
    >>> layer = manual.Conv2d(1, 1, 2, bias=False)
    >>> layer.parameters["weight"][...] = 1.0
    >>> x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    >>> layer.forward(x)[0, 0]
    array([[ 8., 12.],
           [20., 24.]], dtype=float32)
    >>> layer.backward(np.ones((1, 1, 2, 2), np.float32))[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]], dtype=float32)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        bias: bool = True,
        *,
        input_gradient: bool = True,
        dtype: DTypeLike = np.float32,
        rng: Seed = None,
    ) -> None:
        super().__init__(in_channels, out_channels, f"{kernel_size=}", f"{stride=}", f"{padding=}")
        self.kernel_size = _pair("Conv2d", "kernel_size", kernel_size, least=1)
        self.stride = _pair("Conv2d", "stride", stride, least=1)
        self.padding = _pair("Conv2d", "padding", padding, least=0)
        require_positive("Conv2d", in_channels=in_channels, out_channels=out_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.input_gradient = input_gradient
        fan_in = in_channels * self.kernel_size[0] * self.kernel_size[1]
        rng = np.random.default_rng(rng)
        weight_shape = (out_channels, in_channels, *self.kernel_size)
        self._add_parameter("weight", uniform_by_fan_in(weight_shape, fan_in, dtype, rng))
        if bias:
            self._add_parameter("bias", uniform_by_fan_in((out_channels,), fan_in, dtype, rng))

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        self._require_shape(
            x, x.ndim == 4 and x.shape[1] == self.in_channels, f"(N, {self.in_channels}, height, width)"
        )
        height, width = self._output_size(x)
        padded = _pad(x, self.padding, 0)
        weight = self.parameters["weight"].reshape(self.out_channels, -1)
        y: Array = np.empty((len(x), self.out_channels, height, width), x.dtype)
        for images in self._blocks(y):
            product = weight @ self._columns(padded[images])
            y[images] = product.reshape(self.out_channels, -1, height, width).swapaxes(0, 1)
        if "bias" in self.parameters:
            y += self.parameters["bias"][:, None, None]
        return self._save(y, padded)

    def backward(self, dout: Array) -> Array | None:
        padded = self._recall(dout)
        weight = self.parameters["weight"].reshape(self.out_channels, -1)
        dweight = self.gradients["weight"].reshape(self.out_channels, -1)
        dweight.fill(0)
        if "bias" in self.gradients:
            np.sum(dout, axis=(0, 2, 3), out=self.gradients["bias"])
        dpadded = np.zeros_like(padded) if self.input_gradient else None
        for images in self._blocks(dout):
            dy = dout[images].swapaxes(0, 1).reshape(self.out_channels, -1)
            dweight += dy @ self._columns(padded[images]).T
            if dpadded is not None:
                self._add_columns(dpadded[images], weight.T @ dy, dout.shape[2:])
        return None if dpadded is None else _unpad(dpadded, self.padding)

    def _output_size(self, x: Array) -> tuple[int, int]:
        return _output_size(self, x, self.kernel_size, self.stride, self.padding)

    def _blocks(self, y: Array) -> Iterator[slice]:
        """Yield slices of the batch whose columns fit the cache."""
        rows = self.in_channels * self.kernel_size[0] * self.kernel_size[1]
        step = max(1, _COLUMN_BYTES // (rows * y.shape[2] * y.shape[3] * y.itemsize))
        return (slice(start, start + step) for start in range(0, len(y), step))

    def _columns(self, padded: Array) -> Array:
        """Return every window as a column: (C kh kw, N H' W')."""
        windows = sliding_window_view(padded, self.kernel_size, axis=(2, 3))
        windows = windows[:, :, :: self.stride[0], :: self.stride[1]]
        return windows.transpose(1, 4, 5, 0, 2, 3).reshape(self.in_channels * windows[0, 0, 0, 0].size, -1)

    def _add_columns(self, padded: Array, columns: Array, size: tuple[int, ...]) -> None:
        """Add each element of the columns to the element from which it was copied: the transpose of _columns."""
        columns = columns.reshape(self.in_channels, *self.kernel_size, len(padded), *size)
        for u, v in np.ndindex(self.kernel_size):
            _place(padded, u, v, self.stride, size)[...] += columns[:, u, v].swapaxes(0, 1)


class MaxPool2d(BaseLayer):
    """``y[n, c, i, j] = max_{u,v} x[n, c, s i + u, s j + v]``, with x padded by ``-∞`` and stride s.

    Gradient: y equals one element of its window, so only that element receives ``dout``; an element that is the largest
    of several windows receives the sum. Among equal elements the first in row order is taken, as in PyTorch. (Ranzato
    et al., "Unsupervised learning of invariant feature hierarchies", CVPR 2007.)

    Shapes: x (N, C, H, W) floating, y (N, C, H', W') with ``H' = ⌊(H + 2 padding - kernel) / stride⌋ + 1``.
    ``stride=None`` is the kernel's size. Raises TypeError for another dtype, ValueError for a wrong rank, an image
    smaller than the kernel or a padding of more than half the kernel.

    Args:
        kernel_size, stride, padding: in rows and columns of pixels, one number or a pair.

    >>> from retrograd import manual
    >>> layer = manual.MaxPool2d(2)
    >>> layer.forward(np.array([[[[1.0, 4.0], [4.0, 2.0]]]]))
    array([[[[4.]]]])
    >>> layer.backward(np.array([[[[5.0]]]]))
    array([[[[0., 5.],
             [0., 0.]]]])
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__(f"{kernel_size=}", f"{stride=}", f"{padding=}")
        self.kernel_size = _pair("MaxPool2d", "kernel_size", kernel_size, least=1)
        self.stride = self.kernel_size if stride is None else _pair("MaxPool2d", "stride", stride, least=1)
        self.padding = _pair("MaxPool2d", "padding", padding, least=0)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(f"MaxPool2d: {padding=} is more than half of {kernel_size=}")

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        self._require_shape(x, x.ndim == 4, "(N, C, height, width)")
        size = _output_size(self, x, self.kernel_size, self.stride, self.padding)
        padded = _pad(x, self.padding, -np.inf)
        y = _place(padded, 0, 0, self.stride, size).copy()
        number_type = np.min_scalar_type(self.kernel_size[0] * self.kernel_size[1])
        winner = np.zeros(y.shape, number_type)
        for number, (u, v) in enumerate(np.ndindex(self.kernel_size)):
            candidate = _place(padded, u, v, self.stride, size).copy()
            # The maximum is at the last position where the running maximum of the window changed. Products with a
            # mask are several times faster than masked assignment.
            np.maximum(winner, (candidate > y) * number_type.type(number), out=winner)
            np.maximum(y, candidate, out=y)
        return self._save(y, (winner, padded.shape))

    def backward(self, dout: Array) -> Array:
        winner, padded_shape = self._recall(dout)
        dpadded = np.zeros(padded_shape, dout.dtype)
        for number, (u, v) in enumerate(np.ndindex(self.kernel_size)):
            place = _place(dpadded, u, v, self.stride, dout.shape[2:])
            place += dout * (winner == number)
        return _unpad(dpadded, self.padding)


def _place(padded: Array, u: int, v: int, stride: tuple[int, int], size: tuple[int, ...]) -> Array:
    """Return the elements of all windows at position (u, v), as a view of shape (N, C, H', W')."""
    rows = slice(u, u + stride[0] * (size[0] - 1) + 1, stride[0])
    columns = slice(v, v + stride[1] * (size[1] - 1) + 1, stride[1])
    return padded[:, :, rows, columns]


def _output_size(
    layer: BaseLayer, x: Array, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
) -> tuple[int, int]:
    height, width = (
        (length + 2 * p - k) // s + 1 for length, k, s, p in zip(x.shape[2:], kernel, stride, padding, strict=True)
    )
    if height < 1 or width < 1:
        raise ValueError(f"{layer!r}.forward: x of shape {x.shape} is smaller than the kernel {kernel}")
    return height, width


def _pad(x: Array, padding: tuple[int, int], value: float) -> Array:
    if padding == (0, 0):
        return x
    (p, q), (batch, channels, height, width) = padding, x.shape
    padded: Array = np.full((batch, channels, height + 2 * p, width + 2 * q), value, x.dtype)
    padded[:, :, p : p + height, q : q + width] = x
    return padded


def _unpad(padded: Array, padding: tuple[int, int]) -> Array:
    (p, q), (height, width) = padding, padded.shape[2:]
    return padded[:, :, p : height - p, q : width - q]


def _pair(layer: str, name: str, value: int | tuple[int, int], least: int) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or min(pair) < least:
        raise ValueError(f"{layer}: {name} must be one number or a pair, each at least {least}, got {value}")
    return pair[0], pair[1]

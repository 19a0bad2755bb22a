"""Layers whose weights stay in the bits in which a file has them: bfloat16, float16, or 8-bit integers with scales."""

from __future__ import annotations

from ..core.arrays.dtypes import DType
from ..core.tensor.tensor import Tensor
from ..nn import Module, Parameter
from ..nn import functional as F
from ..ops.linear.products.affine import COMPACT_LINEAR
from ..ops.make.filled import empty

BLOCK = 32  # number of integers that share a scale


class Compact:
    """A matrix of bfloat16 or float16, or of int8 with a float16 scale for every 32 numbers of a row.

    Args:
        weight: the numbers, ``(rows, columns)``.
        scales: ``(rows, columns / 32)``, or None.

    Raises:
        ValueError: the shapes do not fit together.

    >>> from retrograd.weights.compact import Compact
    >>> Compact(rg.ones(2, 32, dtype=rg.int8), 0.5 * rg.ones(2, 1, dtype=rg.float16)).to(rg.float32).sum()
    tensor(32.)
    """

    def __init__(self, weight: Tensor, scales: Tensor | None = None) -> None:
        blocks = (weight.shape[0], weight.shape[-1] // BLOCK)
        if weight.ndim != 2 or scales is not None and (scales.shape != blocks or weight.shape[1] % BLOCK):
            given = f"weight {tuple(weight.shape)}" + (f", scales {tuple(scales.shape)}" if scales is not None else "")
            raise ValueError(f"Compact: expected weight (n, k) and scales (n, k / {BLOCK}) or None, got {given}")
        self.weight, self.scales, self.shape = weight, scales, weight.shape

    def to(self, dtype: DType) -> Tensor:
        """Return the numbers as a Tensor of a floating dtype."""
        return expanded(self.weight, self.scales).to(dtype)


def expanded(weight: Tensor, scales: Tensor | None) -> Tensor:
    """Return rows of the matrix as float32, each number multiplied by the scale of its block."""
    numbers = weight.float()
    if scales is None:
        return numbers
    return (numbers.unflatten(-1, (-1, BLOCK)) * scales.float().unsqueeze(-1)).flatten(-2)


class _CompactModule(Module):
    """The base class of CompactLinear and CompactEmbedding, with the weight and its scales as buffers."""

    weight: Tensor
    scales: Tensor

    def __init__(self, matrix: Compact) -> None:
        super().__init__()
        self.quantized = matrix.scales is not None
        rows, columns = matrix.shape
        none = empty(rows, 0, dtype="float16", device=matrix.weight.device)
        self.register_buffer("weight", matrix.weight)
        self.register_buffer("scales", none if matrix.scales is None else matrix.scales, persistent=self.quantized)

    def extra_repr(self) -> str:
        rows, columns = self.weight.shape
        return f"{rows}, {columns}, dtype={self.weight.dtype}"


class CompactLinear(_CompactModule):
    """``input @ weight^T + bias`` with a constant ``weight`` that stays in bfloat16, float16 or 8 bits.

    The sums are float32. The input has a gradient, so that adapters can be trained; the weight has none.

    Args:
        matrix: the weight.
        bias: a trainable Tensor that is added to the result; None by default.

    Shape: ``(*, columns)`` to ``(*, rows)``.

    >>> from retrograd.weights import Compact, CompactLinear
    >>> CompactLinear(Compact(rg.ones(3, 4).half()))(rg.ones(2, 4))
    tensor([[4., 4., 4.],
            [4., 4., 4.]])
    """

    def __init__(self, matrix: Compact, bias: Parameter | None = None) -> None:
        super().__init__(matrix)
        self.register_parameter("bias", bias)

    def forward(self, input: Tensor) -> Tensor:
        buffers = self._buffers
        out = COMPACT_LINEAR(input, buffers["weight"], buffers["scales"], back=False)
        return out if self.bias is None else out + self.bias


class CompactEmbedding(_CompactModule):
    """``weight[index]`` as float32, with a constant ``weight`` that stays in bfloat16, float16 or 8 bits.

    Args:
        matrix: the table, with a row per index.

    Shape: integers ``(*)`` to ``(*, columns)``.

    >>> from retrograd.weights import Compact, CompactEmbedding
    >>> CompactEmbedding(Compact(rg.tensor([[1.0, 2.0], [3.0, 4.0]]).half()))(rg.tensor([1, 0]))
    tensor([[3., 4.],
            [1., 2.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        scales = F.embedding(input, self.scales) if self.quantized else None
        return expanded(F.embedding(input, self.weight), scales)

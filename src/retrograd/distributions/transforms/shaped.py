"""Transforms of vectors and matrices: simplices, triangles, positive definite matrices, and reshaping."""

from __future__ import annotations

import math

from ..._generated.functional import logsigmoid, pad
from ..._generated.linalg import cholesky
from ..._generated.toplevel import arange, eye
from ...core.tensor.tensor import Size, Tensor
from .. import constraints
from ..constraints import Constraint
from ..utils import eps_of, tiny_of, tril_matrix_to_vec, vec_to_tril_matrix
from .base import Shape, Transform
from .elementwise import clipped_sigmoid


def _need_dimensions(shape: Shape, count: int) -> None:
    if len(shape) < count:
        raise ValueError(f"Too few dimensions on input: {len(shape)}, expected at least {count}")


class ReshapeTransform(Transform):
    """Reshape the event dimensions.

    Args:
        in_shape: the shape of an event of the input.
        out_shape: the shape of an event of the output.

    Raises:
        ValueError: the shapes have different numbers of elements.

    >>> rg.distributions.ReshapeTransform((4,), (2, 2))(rg.zeros(3, 4)).shape
    (3, 2, 2)
    """

    bijective = True
    _compared = ("in_shape", "out_shape")

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                "in_shape, out_shape have different numbers of elements: "
                f"{tuple(self.in_shape)} and {tuple(self.out_shape)}"
            )
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Size:
        return _reshaped(tuple(shape), self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return _reshaped(tuple(shape), self.out_shape, self.in_shape)


def _reshaped(shape: tuple[int, ...], old: Size, new: Size) -> Size:
    _need_dimensions(shape, len(old))
    cut = len(shape) - len(old)
    if shape[cut:] != tuple(old):
        raise ValueError(f"Shape mismatch: expected {tuple(old)} but got {shape[cut:]}")
    return Size((*shape[:cut], *new))


class SoftmaxTransform(Transform):
    """y = exp(x) / sum of exp(x) along the last dimension. It is not bijective: x and x + c have the same output.

    >>> rg.distributions.SoftmaxTransform()(rg.tensor([0.0, 0.0]))
    tensor([0.5, 0.5])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Size:
        _need_dimensions(shape, 1)
        return Size(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Map vectors to the simplex with one more element by stick breaking: each element takes a share of the rest.

    The shares are sigmoids with offsets, chosen so that 0 maps to equal parts.

    >>> rg.distributions.StickBreakingTransform()(rg.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    _compared = ()

    def _shifted(self, x: Tensor) -> Tensor:
        return x - _remaining_parts(x).log()

    def _call(self, x: Tensor) -> Tensor:
        share = clipped_sigmoid(self._shifted(x))
        return pad(share, [0, 1], value=1) * pad((1 - share).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        rest = (1 - parts.cumsum(-1)).clamp(min=tiny_of(y))
        return parts.log() - rest.log() + _remaining_parts(parts).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # With z the share: dy/dx = y (1 - z) on the diagonal of a triangular matrix.
        return (logsigmoid(-self._shifted(x)) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        _need_dimensions(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Size:
        _need_dimensions(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


def _remaining_parts(x: Tensor) -> Tensor:
    """Return the number of parts that remain after each element: n, n - 1, ... 1."""
    return arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device)


class CorrCholeskyTransform(Transform):
    """Map vectors of ``D (D - 1) / 2`` numbers to Cholesky factors of ``D × D`` correlation matrices.

    In each row of the triangle, the squares of tanh(x) are the fractions of a stick-breaking process (Lewandowski,
    Kurowicka and Joe, 2009; the Stan reference manual, "Cholesky factors of correlation matrices").

    >>> rg.distributions.CorrCholeskyTransform()(rg.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        eps = eps_of(x)
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - r.square()).sqrt().cumprod(-1)
        identity = eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return (r + identity) * pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        rest = pad((1 - y.square().cumsum(-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return t.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the log-determinant for x and the strict lower triangle of y, since y has more elements than x."""
        rest = tril_matrix_to_vec(1 - y.square().cumsum(-1), diag=-2)
        return 0.5 * rest.log().sum(-1) + 2 * (math.log(2) - x + logsigmoid(2 * x)).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        _need_dimensions(shape, 1)
        side = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != shape[-1]:
            raise ValueError(f"Input is not a flattened lower-diagonal number D (D - 1) / 2: {shape[-1]}")
        return Size((*shape[:-1], side, side))

    def inverse_shape(self, shape: Shape) -> Size:
        _need_dimensions(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: {shape[-2]} x {shape[-1]}")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class LowerCholeskyTransform(Transform):
    """Map square matrices to lower triangular matrices with the exponential of the input's diagonal.

    >>> rg.distributions.LowerCholeskyTransform()(rg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Map square matrices to positive definite matrices ``L L^T`` with L from LowerCholeskyTransform.

    >>> rg.distributions.PositiveDefiniteTransform()(rg.zeros(1, 1))
    tensor([[1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))

"""Helpers of ``torch.distributions`` that packages with distributions of their own import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...._generated.linalg import cholesky, solve_triangular
from ...._generated.toplevel import eye, matmul, normal, ones, zeros
from ....core.arrays.dtypes import DType
from ....core.tensor.tensor import Tensor
from ....distributions import constraints
from ....distributions.families.positive import Gamma
from ....distributions.families.simplex import Dirichlet
from ....distributions.kl import registry
from ....distributions.transforms.base import InverseTransform
from ....distributions.utils import clamp_probs

Value: TypeAlias = Any  # an argument or a result of a function of PyTorch


def _standard_normal(shape: Sequence[int], dtype: DType | None, device: Value) -> Tensor:
    """Return standard normal numbers."""
    shape = tuple(shape)
    return normal(zeros(shape, dtype=dtype, device=device), ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last ``dim`` dimensions, which may be empty."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid function, bounded away from 0 and 1 by the precision of the dtype."""
    return clamp_probs(x.sigmoid())


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Return the product of matrices and vectors, whose batch dimensions broadcast."""
    return matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Return ``x^T (L L^T)^-1 x`` for lower triangular matrices and vectors, whose batch dimensions broadcast."""
    return solve_triangular(bL, bx.unsqueeze(-1), upper=False).square().sum((-2, -1))


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """Return the lower Cholesky factor of the inverse of a positive definite matrix."""
    flipped = cholesky(P.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).transpose(-2, -1)
    return solve_triangular(inverse, eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """Return the lower Cholesky factor of ``I + W^T diag(D)^-1 W``."""
    inner = matmul(W.mT / D.unsqueeze(-2), W)
    return cholesky(inner + eye(W.shape[-1], dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return ``log det (W W^T + diag(D))``, by the matrix determinant lemma."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return ``x^T (W W^T + diag(D))^-1 x``, by the Woodbury formula."""
    weighted = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.square() / D).sum(-1) - _batch_mahalanobis(capacitance_tril, weighted)


def _standard_gamma(concentration: Tensor, generator: Value = None) -> Tensor:
    """Return samples of Gamma distributions with rate 1, with gradients with respect to the concentration."""
    return Gamma(concentration, ones((), dtype=concentration.dtype)).rsample()


def _sample_dirichlet(concentration: Tensor, generator: Value = None) -> Tensor:
    """Return samples of Dirichlet distributions, with gradients with respect to the concentration."""
    return Dirichlet(concentration).rsample()


def _dispatch_kl(type_p: type, type_q: type) -> Callable[..., Tensor]:
    """Return the function that computes the divergence of two classes, or NotImplemented."""
    found = registry._function_for(type_p, type_q)
    return NotImplemented if found is None else found


def _private_constraints() -> dict[str, type]:
    """Return the classes of constraints under PyTorch's names, such as ``_Real``."""
    found = {name: value for name, value in vars(constraints).items() if isinstance(value, type) and name[0] != "_"}
    return {f"_{name}": value for name, value in found.items()}


NAMES: dict[str, str | dict[str, Value]] = {
    "constraints": _private_constraints(),
    "kl": {"_KL_REGISTRY": registry._registry, "_dispatch_kl": _dispatch_kl},
    "lowrank": "_batch_capacitance_tril _batch_lowrank_logdet _batch_lowrank_mahalanobis _batch_mahalanobis _batch_mv "
    "_standard_normal",
    "multivariate_normal": "_batch_mahalanobis _batch_mv _precision_to_scale_tril _standard_normal",
    "retrograd": "_sample_dirichlet _standard_gamma",
    "transforms": {
        "_InverseTransform": InverseTransform, "_clipped_sigmoid": _clipped_sigmoid, "_sum_rightmost": _sum_rightmost,
    },
    "utils": "_standard_normal _sum_rightmost",
}  # fmt: skip

"""Ready-made parametrizations of weights."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...core.errors import describe
from ...core.modes import no_grad
from ...core.tensor import Tensor
from .. import functional as F
from .. import init
from ..convolution import _ConvTransposeNd
from ..module import Module
from ..parameter import Buffer
from .parametrize import register_parametrization


def _tensor_of(function: str, module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{function}: {type(module).__name__} has no parameter or buffer {name!r}")
    return tensor


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def _norm(self, v: Tensor) -> Tensor:
        """The norm over all dimensions but one, which stays; -1 means over all."""
        if self.dim == -1:
            return (v * v).sum().sqrt()
        kept = self.dim % v.ndim
        return (v * v).sum(tuple(axis for axis in range(v.ndim) if axis != kept), keepdim=True).sqrt()

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / self._norm(weight_v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return self._norm(weight), weight


def _rename_older_keys(name: str, module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Weights saved under the names that g and v had before there were parametrizations."""
    for place, older in enumerate(("g", "v")):
        key = f"{prefix}{name}_{older}"
        if key in state:
            state[f"{prefix}parametrizations.{name}.original{place}"] = state.pop(key)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the length and the direction of a weight apart: ``w = g * v / |v|`` (Salimans and Kingma, 2016).

    Args:
        module: the owner.
        name: the name of the weight.
        dim: lengths are taken over all other dimensions; None for one length of the whole.

    Returns:
        The module, with g and v as ``parametrizations.<name>.original0`` and ``original1``.

    >>> layer = rg.nn.utils.parametrizations.weight_norm(rg.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    ((2, 1), (2, 3))
    """
    _tensor_of("weight_norm", module, name)
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_rename_older_keys, name))
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: dim={dim} is out of range for the weight {describe(weight)}")
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            rows, columns = matrix.shape
            self._u = Buffer(F.normalize(init.normal_(matrix.new_empty(rows)), dim=0, eps=eps))
            self._v = Buffer(F.normalize(init.normal_(matrix.new_empty(columns)), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.transpose(0, self.dim).reshape(weight.shape[self.dim], -1) if self.dim else weight.flatten(1)

    @no_grad()
    def _iterate(self, matrix: Tensor, count: int) -> None:
        for _ in range(count):
            self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.T @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # The vectors change in place at the next use; this one keeps those it was computed with.
        sigma = (self._u.clone() * (matrix @ self._v.clone())).sum()
        return weight / sigma

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, found by power iteration (Miyato et al., 2018).

    Args:
        module: the owner.
        name: the name of the weight.
        n_power_iterations: steps at each use in training.
        eps: keeps norms from zero.
        dim: the dimension of the outputs: 0, but 1 for transposed convolutions.

    >>> layer = rg.nn.utils.parametrizations.spectral_norm(rg.nn.Linear(3, 3)).eval()
    >>> sorted(layer.state_dict())[:2]
    ['bias', 'parametrizations.weight.0._u']
    """
    weight = _tensor_of("spectral_norm", module, name)
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))

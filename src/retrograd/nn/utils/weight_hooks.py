"""Weight and spectral normalization in PyTorch's older form: a hook computes the weight before each forward.

``parametrizations`` has the current form. The names in state dicts differ: here they are ``weight_g``, ``weight_v`` and
``weight_orig``, ``weight_u``, ``weight_v``, as in most published models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import functional as F
from .. import init
from ..base.module import Module
from ..layers.convolution import _ConvTransposeNd
from ..parameter import Parameter


def norm_except(dim: int, v: Tensor) -> Tensor:
    """Return the norm over all dimensions but ``dim``; over all dimensions for -1."""
    if dim == -1:
        return (v * v).sum().sqrt()
    kept = dim % v.ndim
    return (v * v).sum(tuple(axis for axis in range(v.ndim) if axis != kept), keepdim=True).sqrt()


def matrix_of(dim: int, weight: Tensor) -> Tensor:
    """Return the weight as a matrix with a row for each index of ``dim``."""
    return weight.transpose(0, dim).reshape(weight.shape[dim], -1) if dim else weight.flatten(1)


class _WeightHook:
    """A forward pre-hook that computes a weight from the parameters that replace it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def compute(self, module: Module, updating: bool) -> Tensor:
        raise NotImplementedError

    def __call__(self, module: Module, inputs: object) -> None:
        object.__setattr__(module, self.name, self.compute(module, module.training))


def _remove_parameter(kind: str, module: Module, name: str) -> Parameter:
    if any(isinstance(hook, _WeightHook) and hook.name == name for hook in _hooks(module)):
        raise RuntimeError(f"Cannot register two {kind} hooks on the same parameter {name}")
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"{kind}: {type(module).__name__} has no parameter {name!r}")
    del module._parameters[name]
    return weight


def _hooks(module: Module) -> list[Callable[..., Any]]:
    return list(module._forward_pre_hooks.values())


def _register_weight_hook(module: Module, hook: _WeightHook) -> Module:
    with no_grad():
        object.__setattr__(module, hook.name, hook.compute(module, False))
    module.register_forward_pre_hook(hook)
    return module


def _remove_hook(kind: type[_WeightHook], module: Module, name: str, parts: tuple[str, ...]) -> Module:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            with no_grad():
                weight = hook.compute(module, False).detach()
            del module._forward_pre_hooks[key]
            for part in (name, *(f"{name}_{part}" for part in parts)):
                delattr(module, part)
            module.register_parameter(name, Parameter(weight))
            return module
    raise ValueError(f"{kind.__name__.strip('_')} of {name!r} not found in {module}")


class _WeightNorm(_WeightHook):
    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = -1 if dim is None else dim

    def compute(self, module: Module, updating: bool) -> Tensor:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except(self.dim, v))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Reparametrize a weight by length and direction: ``w = g * v / |v|`` (Salimans and Kingma, 2016).

    Args:
        module: the module that owns the weight; it gets the parameters ``<name>_g`` and ``<name>_v``.
        name: the name of the weight.
        dim: the dimension along which each slice has its own length; None for one length of the whole weight.

    >>> import retrograd as rg
    >>> list(rg.nn.utils.weight_norm(rg.nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    weight = _remove_parameter("weight_norm", module, name)
    hook = _WeightNorm(name, dim)
    with no_grad():
        module.register_parameter(name + "_g", Parameter(norm_except(hook.dim, weight).detach()))
    module.register_parameter(name + "_v", weight)
    return _register_weight_hook(module, hook)


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again, with its current value.

    Raises:
        ValueError: the weight has no weight normalization.
    """
    return _remove_hook(_WeightNorm, module, name, ("g", "v"))


class _SpectralNorm(_WeightHook):
    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
        super().__init__(name)
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def compute(self, module: Module, updating: bool) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = matrix_of(self.dim, weight)
        if updating:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.T @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # copies for this graph: the next forward changes u and v in place
        return weight / (u * (matrix @ v)).sum()


@like(weight_norm)
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, estimated by power iteration (Miyato et al., 2018).

    Args:
        module: the module that owns the weight; it gets the parameter ``<name>_orig`` and the buffers ``<name>_u`` and
            ``<name>_v``.
        n_power_iterations: iterations before each forward in training.
        eps: lower bound of norms in divisions.
        dim: the dimension of the outputs: 0, or 1 for transposed convolutions.

    >>> import retrograd as rg
    >>> list(rg.nn.utils.spectral_norm(rg.nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    hook = _SpectralNorm(name, n_power_iterations, dim, eps)
    weight = _remove_parameter("spectral_norm", module, name)
    module.register_parameter(name + "_orig", weight)
    with no_grad():
        rows, columns = matrix_of(hook.dim, weight).shape
        module.register_buffer(name + "_u", F.normalize(init.normal_(weight.new_empty(rows)), dim=0, eps=eps))
        module.register_buffer(name + "_v", F.normalize(init.normal_(weight.new_empty(columns)), dim=0, eps=eps))
    # As in PyTorch, the weight is not normalized before the first forward.
    object.__setattr__(module, name, weight.detach())
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again, with its current value.

    Raises:
        ValueError: the weight has no spectral normalization.
    """
    return _remove_hook(_SpectralNorm, module, name, ("u", "v", "orig"))

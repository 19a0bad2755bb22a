"""The module ``functorch``: the older names of ``func``, and modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar
from warnings import warn

from ... import func as transforms
from ...core.tensor.tensor import Tensor
from ...func import functional_call, stack_module_state
from ...func.mapping import batch_size
from ...nn.base.module import Module
from ...nn.layers.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

AnyModule = TypeVar("AnyModule", bound=Module)

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

Weights = tuple[Tensor, ...]

__path__: list[str] = []  # so that functorch.experimental can be imported


def _deprecated(instead: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def warned(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            message = f"functorch.{function.__name__} is deprecated. Please use `torch.{instead}` instead."
            warn(message, FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return decorate


grad = _deprecated("func.grad")(transforms.grad)
grad_and_value = _deprecated("func.grad_and_value")(transforms.grad_and_value)
hessian = _deprecated("func.hessian")(transforms.hessian)
jacfwd = _deprecated("func.jacfwd")(transforms.jacfwd)
jacrev = _deprecated("func.jacrev")(transforms.jacrev)
jvp = _deprecated("func.jvp")(transforms.jvp)
linearize = transforms.linearize
vjp = _deprecated("func.vjp")(transforms.vjp)
vmap = _deprecated("vmap")(transforms.vmap)


def replace_all_batch_norm_modules_(root: AnyModule) -> AnyModule:
    """Make every BatchNorm in a module use only the statistics of its batch, as ``vmap`` needs.

    Args:
        root: the Module, which is modified in place.

    Returns:
        The module.
    """
    for module in root.modules():
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d)):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def chunk_vmap(
    func: Callable[..., Result], in_dims: object = 0, out_dims: object = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Result]:
    """Apply ``vmap`` to the examples in chunks, one after another.

    Args:
        func, in_dims, out_dims, randomness: as in ``vmap``.
        chunks: the number of chunks.

    Raises:
        ValueError: ``chunks`` is less than 1.
    """
    if chunks < 1:
        raise ValueError(f"chunk_vmap: chunks must be at least 1, got {chunks}")

    def mapped(*args: object, **kwargs: object) -> Result:
        size = batch_size(func, in_dims, args)
        chunk = max(1, -(-size // chunks))
        return transforms.vmap(func, in_dims, out_dims, randomness, chunk_size=chunk)(*args, **kwargs)

    return mapped


class FunctionalModuleWithBuffers:
    """A module as a function ``f(params, buffers, *args)``.

    Args:
        model: a Module, which the function calls with other parameters and buffers.
    """

    def __init__(self, model: Module) -> None:
        self.stateless_model = model
        self.param_names = tuple(name for name, _ in model.named_parameters())
        self.buffer_names = tuple(name for name, _ in model.named_buffers())

    @classmethod
    def _create_from(cls, model: Module, disable_autograd_tracking: bool = False) -> tuple[Self, Weights, Weights]:
        """Return the function of a copy of a module, and the copy's parameters and buffers."""
        own = deepcopy(model)
        parameters = tuple(own.parameters())
        if disable_autograd_tracking:
            for parameter in parameters:
                parameter.requires_grad_(False)
        return cls(own), parameters, tuple(own.buffers())

    def __call__(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: object, **kwargs: object) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        state.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function ``f(params, *args)``."""

    def __call__(self, params: Sequence[Tensor], *args: object, **kwargs: object) -> Any:
        return super().__call__(params, (), *args, **kwargs)


@_deprecated("func.functional_call")
def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Weights, Weights]:
    """Return a module as a function ``f(params, buffers, *args)``, and copies of its parameters and buffers.

    Args:
        model: a Module, which is not modified.
        disable_autograd_tracking: return parameters that do not require grad.
    """
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


@_deprecated("func.functional_call")
def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Weights]:
    """Return a module without buffers as a function ``f(params, *args)``, and a copy of its parameters.

    Args:
        model: a Module, which is not modified.
        disable_autograd_tracking: return parameters that do not require grad.

    Raises:
        RuntimeError: the module has buffers.
    """
    function, parameters, buffers = FunctionalModule._create_from(model, disable_autograd_tracking)
    if buffers:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return function, parameters


@_deprecated("func.stack_module_state")
def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, Weights, Weights]:
    """Return modules of one class as one function for ``vmap``, and their stacked parameters and buffers.

    Args:
        models: modules of one class.

    Raises:
        RuntimeError: ``models`` is empty, or the modules differ in class or mode.
    """
    parameters, buffers = stack_module_state(models)
    function, _, _ = FunctionalModuleWithBuffers._create_from(models[0])
    return function, tuple(parameters.values()), tuple(buffers.values())


NAMES: Mapping[str, str | Mapping[str, object]] = {
    "func": "chunk_vmap combine_state_for_ensemble grad grad_and_value hessian jacfwd jacrev jvp linearize "
    "make_functional make_functional_with_buffers replace_all_batch_norm_modules_ vjp vmap",
}

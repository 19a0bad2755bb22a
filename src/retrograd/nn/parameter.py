"""Parameters and buffers: the Tensors that modules own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.missing_names import legacy_names
from ..core.tensor.storage import share
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.make.filled import empty
from ..ops.table.arguments import with_checked_options
from ..ops.table.documentation import like
from .base.arguments import DeviceLike, DTypeLike


class Parameter(Tensor):
    """A Tensor that a Module trains: a leaf that requires grad and is listed by ``parameters()``.

    Args:
        data: a Tensor, whose memory the Parameter shares; an empty Tensor by default.
        requires_grad: whether to compute its gradient.

    Raises:
        TypeError: ``data`` is not a Tensor.

    >>> rg.nn.Parameter(rg.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: object = None, requires_grad: bool = True) -> Parameter:
        return Tensor.__new__(cls)

    def __init__(self, data: object = None, requires_grad: bool = True) -> None:
        if data is None:
            data = Tensor([])
        elif not isinstance(data, Tensor):
            raise TypeError(f"Parameter: expected a Tensor, got {type(data).__name__}")
        self._initialize(data.array)
        share(self, data, related=False)
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        plain = new_tensor(self.array)
        plain._requires = self._requires
        return "Parameter containing:\n" + repr(plain)


@like(Parameter)
class Buffer(Tensor):
    """A Tensor in the state of a Module that is not trained. Assigning a Buffer to an attribute registers it.

    Args:
        persistent: whether it is a part of ``state_dict()``.

    >>> module = rg.nn.Module()
    >>> module.mean = rg.nn.Buffer(rg.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    __slots__ = ()

    def __new__(cls, data: object = None, *, persistent: bool = True) -> Buffer:
        return Tensor.__new__(cls)

    @with_checked_options
    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        data = Tensor([]) if data is None else data
        self._initialize(data.array)
        share(self, data, related=False)
        self.persistent = persistent


def new_parameter(shape: tuple[int, ...], device: DeviceLike = None, dtype: DTypeLike = None) -> Parameter:
    """Return an uninitialized Parameter."""
    return Parameter(empty(shape, device=device, dtype=dtype))


_overwrite_on_conversion = False
_swap_on_conversion = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether ``Module.to`` and other casts create new Parameters instead of changing them (default: False)."""
    global _overwrite_on_conversion
    _overwrite_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether ``Module.to`` and similar methods create new Parameters."""
    return _overwrite_on_conversion


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether ``load_state_dict`` keeps the Parameter objects and stores the result of ``module_load`` in them.

    ``Module.to`` and similar methods always keep the Parameter objects.
    """
    global _swap_on_conversion
    _swap_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """Return whether ``load_state_dict`` keeps the Parameter objects; see the setter."""
    return _swap_on_conversion


def convert(parameter: Parameter, function: Callable[[Tensor], Tensor]) -> Parameter:
    """Apply ``function`` to the values and the gradient of a Parameter; return the Parameter.

    Under ``set_overwrite_module_params_on_conversion(True)`` return a new Parameter instead.
    """
    gradient = parameter.grad
    if _overwrite_on_conversion:
        result = Parameter(function(parameter.data), parameter.requires_grad)
        result._grad = None if gradient is None else function(gradient)
        return result
    parameter.data = function(parameter.data)
    if gradient is not None:
        gradient.data = function(gradient)
    return parameter


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)

"""Parameters and buffers without a shape, for lazy modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from ...core.arrays.devices import Device
from ...core.arrays.public_dtypes import DTYPES, DType
from ...core.arrays.public_dtypes import dtype as PublicDType
from ...core.tensor.tensor import Size, Tensor
from ...ops.make.filled import empty
from ...ops.table.arguments import with_checked_options
from ..parameter import Buffer, Parameter
from .arguments import DeviceLike, DTypeLike


class Uninitialized:
    """Common code: a dtype and a device, but no memory before ``materialize`` sets the shape."""

    __slots__ = ()

    becomes: ClassVar[type[Tensor]]
    if TYPE_CHECKING:  # attributes of Tensor or of the instance dictionary
        _requires: bool
        _dtype: DType
        _device: Device

    def _begin(self: Any, requires_grad: bool, device: DeviceLike, dtype: DTypeLike) -> None:
        Tensor._initialize(self, None)
        self.data = empty((0,), device=device, dtype=dtype)
        self._requires = requires_grad

    def materialize(self: Any, shape: tuple[int, ...], device: DeviceLike = None, dtype: DTypeLike = None) -> None:
        """Allocate uninitialized memory and become an ordinary Parameter or buffer.

        Args:
            shape: the shape of the ordinary Parameter or buffer.
            device, dtype: override device and dtype of the constructor.
        """
        made = empty(shape, device=self.device if device is None else device, dtype=dtype or self.dtype)
        requires = self._requires
        self.__class__ = self.becomes
        Tensor._initialize(self, made.array)
        self._requires = requires

    # Before materialization, access to elements raises an error.

    @property
    def array(self) -> NoReturn:
        raise ValueError(
            f"attempted to use an uninitialized {self.becomes.__name__.lower()}; call the lazy module with an "
            "example input first"
        )

    @array.setter
    def array(self, value: object) -> None:
        pass

    @property
    def shape(self) -> Size:
        raise RuntimeError(
            f"an uninitialized {self.becomes.__name__.lower()} has no shape; call the lazy module with an example "
            "input first"
        )

    @property
    def data(self) -> Tensor:
        """An empty Tensor of the dtype and device; assigning a Tensor changes dtype and device."""
        return empty((0,), device=self._device, dtype=self._dtype)

    @data.setter
    def data(self: Any, value: Tensor) -> None:
        self._dtype = value.array.dtype
        self._device = value.device

    @property
    def dtype(self) -> PublicDType:
        """The dtype after materialization."""
        return DTYPES[self._dtype]

    @property
    def device(self) -> Device:
        """The device after materialization."""
        return self._device

    @property
    def is_leaf(self) -> bool:
        """Always True."""
        return True

    def share_memory_(self) -> NoReturn:
        """Raise RuntimeError, because there is no memory to share."""
        raise RuntimeError(
            f"can't share memory on an uninitialized {self.becomes.__name__.lower()}; call the lazy module with an "
            "example input first"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        return type(self), (self._requires, str(self._device), self._dtype)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        copied = memo[id(self)] = type(self)(self._requires, self._device, self._dtype)  # type: ignore[call-arg]
        return copied


def _moved(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        moved = getattr(self.data, name)(*args, **kwargs)
        return type(self)(self._requires, moved.device, moved.dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Return an uninitialized Tensor of the dtype and device that ``{name}`` requests."
    return method


for _name in ("to", "cpu", "cuda", "float", "double", "half", "type", "astype"):
    setattr(Uninitialized, _name, _moved(_name))


class UninitializedParameter(Uninitialized, Parameter):
    """A Parameter without a shape, which a lazy module materializes at its first call.

    Args:
        requires_grad: whether the Parameter is trained.
        device, dtype: device and dtype of the Parameter.

    >>> weight = rg.nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    (2, 3)
    """

    __slots__ = ()

    becomes = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> UninitializedParameter:
        return Tensor.__new__(cls)

    @with_checked_options
    def __init__(self, requires_grad: bool = True, device: DeviceLike = None, dtype: DTypeLike = None) -> None:
        self._begin(requires_grad, device, dtype)


class UninitializedBuffer(Uninitialized, Buffer):
    """A buffer without a shape, which a lazy module materializes at its first call.

    Args:
        requires_grad: whether the buffer requires a gradient.
        device, dtype: device and dtype of the buffer.
        persistent: whether the buffer is part of ``state_dict()``.

    >>> mean = rg.nn.UninitializedBuffer()
    >>> mean.materialize((3,))
    >>> mean.shape
    (3,)
    """

    __slots__ = ()

    becomes = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: DeviceLike = None, dtype: DTypeLike = None, persistent: bool = True
    ) -> UninitializedBuffer:
        return Tensor.__new__(cls)

    @with_checked_options
    def __init__(
        self, requires_grad: bool = False, device: DeviceLike = None, dtype: DTypeLike = None, persistent: bool = True
    ) -> None:
        self._begin(requires_grad, device, dtype)
        self.persistent = persistent


def is_lazy(value: object) -> bool:
    """Whether ``value`` is a parameter or buffer without a shape."""
    return isinstance(value, Uninitialized)

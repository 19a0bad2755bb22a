"""Tensor: an array, its gradient, and its place in the computational graph.

This module defines only the attributes that the engine uses. ``retrograd.ops`` adds operators as methods.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

from ..arrays.devices import Device, Wrapping, array_module, backend_for, backend_of, is_array
from ..arrays.dtypes import (
    FLOATING,
    DType,
    as_dtype,
    get_default_dtype,
    is_differentiable,
    is_number_dtype,
    promote_types,
    scalar_dtype,
    with_own_dtype,
)
from ..arrays.layout import Size as Size
from ..arrays.public_dtypes import DTYPES
from ..arrays.public_dtypes import dtype as PublicDType
from ..arrays.python_numbers import check_elements, whole_number
from ..errors import (
    ConversionError,
    call_error,
    describe,
    no_single_number,
    real_number,
    warn_of_lost_gradient,
    warn_of_missing_gradient,
)
from ..graph.handles import LeafHooks
from ..graph.modes import modes, tell_departed, watchers
from ..graph.nodes import edge_of
from ..missing_names import lazy_methods, provided
from .copies import Copies
from .printing import tensor_repr
from .storage import known_storage, leave, share, sharers, storage_of

if TYPE_CHECKING:
    from ..._generated.tensor_methods import TensorMethods
    from ..graph.nodes import Node
else:
    TensorMethods = object


Method = TypeVar("Method", bound=Any)
_new_tuple = tuple.__new__  # skips the checks of Size.__new__: the lengths of an array are valid


class Tensor(Copies, TensorMethods):
    """An n-dimensional array that records how it was computed.

    ``Tensor([1, 2])`` has the default dtype, whatever the type of the numbers; a Tensor made from an array or a Tensor
    has the same dtype as its data. ``Tensor(2, 3)`` is a Tensor of that size, and ``Tensor()`` has no elements. Unlike
    ``Tensor``, ``tensor`` infers the dtype from the numbers. Only ``from_numpy`` and ``as_tensor`` share memory with an
    array.

    Args:
        data: a nested sequence of numbers, an array or a Tensor; or the lengths of the axes; or nothing.
        dtype: the dtype, by default the data's.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``; by default the data's, or the default device.
        requires_grad: whether backward passes compute the gradient with respect to this Tensor.

    Raises:
        TypeError: the data are not numbers, or they are a single floating-point number (use ``tensor``).
        ValueError: the nested sequences are ragged.
        RuntimeError: ``requires_grad`` is set for a dtype without gradients, or a length is negative.

    >>> rg.Tensor([1, 2])
    tensor([1., 2.])
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_base",
        "_grad",
        "_hooks",
        "_node",
        "_requires",
        "_storage",
        "_unrecorded",
        "array",
    )

    is_dense = True  # False for sparse Tensors, whose ``array`` does not hold all elements

    array: Any
    _requires: bool
    _node: Node | None
    _grad: Tensor | None
    _storage: object
    _base: Tensor | None
    _unrecorded: object  # a weak reference, only of a view created under no_grad: the Tensor that it is a view of
    _hooks: LeafHooks | None

    # Makes NumPy call Tensor.__rmul__ for `array * tensor`.
    __array_priority__ = 1000

    def __init__(
        self, *data: object, dtype: object = None, device: str | Device | None = None, requires_grad: bool = False
    ) -> None:
        self._initialize(constructed("Tensor", data, dtype, device))
        if watchers and modes.level is not None:
            storage_of(self).created_in = modes.level
        if requires_grad:
            self.requires_grad = requires_grad

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if not cls.__module__.startswith("retrograd."):
            provided["tensor_subclass"](cls)

    def _initialize(self, array: object) -> None:
        self.array = array
        self._requires = False
        self._node = None
        self._grad = None
        self._storage = None
        self._base = None
        self._hooks = None

    # Shape, dtype, device and elements

    @property
    def shape(self) -> Size:
        """The lengths of the axes, as a tuple."""
        return _new_tuple(Size, self.array.shape)

    @property
    def dtype(self) -> PublicDType:
        """The dtype of the elements."""
        return DTYPES[self.array.dtype]

    @property
    def device(self) -> Device:
        """The device that holds the array."""
        return backend_of(self.array).device(self.array)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.array.ndim

    @property
    def is_cuda(self) -> bool:
        """Whether the array is on a GPU."""
        return self.device.type == "cuda"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.array.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.array.nbytes

    def __len__(self) -> int:
        if self.array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.array.shape[0]

    __hash__ = object.__hash__  # by identity: == compares elements

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise RuntimeError(
                f"bool of {describe(self)}: the truth of a Tensor with more than one value, or none, is ambiguous"
            )
        if watchers:
            tell_departed(self, "bool")
        return bool(self.array)

    def __int__(self) -> int:
        if self.array.size != 1:
            raise no_single_number("int", self)
        number = self.item()
        return int(real_number("int", number) if type(number) is complex else number)

    def __index__(self) -> int:
        if self.array.dtype.kind not in "iub" or self.array.size != 1:
            raise TypeError(f"only integer tensors of a single element can be an index, not {describe(self)}")
        if watchers:
            tell_departed(self, "index")
        return int(self.array.item())

    def __format__(self, spec: str) -> str:
        if self.array.ndim == 0 and type(self) is Tensor:
            try:
                return format(self.item(), spec)
            except RuntimeError:
                if self.device.type != "meta":
                    raise
        try:
            return format(str(self), spec)
        except ValueError:
            raise TypeError(
                f"format {spec!r} of {describe(self)}: only a Tensor without dimensions is formatted as a number"
            ) from None

    def __repr__(self) -> str:
        return self.array.tensor_repr(self) if isinstance(self.array, Wrapping) else tensor_repr(self)

    def item(self) -> Any:
        """The only element, as a Python number.

        >>> rg.tensor([[2.5]]).item()
        2.5

        Raises:
            RuntimeError: the Tensor has no element or several.
        """
        if self.array.size != 1:
            raise RuntimeError(f"item: a Tensor with {self.array.size} elements cannot be converted to one number")
        if watchers:
            tell_departed(self, "item")
        return self.array.item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, a 0-d Tensor as a number."""
        if watchers:
            tell_departed(self, "tolist")
        return backend_of(self.array).to_numpy(self.array).tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The elements as a NumPy array: the same memory on the CPU, a copy from a GPU.

        Args:
            force: call ``detach()`` first, as in PyTorch, so that a Tensor that requires grad is accepted.

        >>> rg.ones(2, requires_grad=True).numpy(force=True)
        array([1., 1.], dtype=float32)

        Raises:
            RuntimeError: the Tensor requires grad, and gradients are recorded (call ``detach()`` first).
        """
        if self._requires and not force and modes.grad_enabled:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if watchers:
            tell_departed(self, "numpy")
        if type(self.array) is not np.ndarray and self.device.type == "meta":
            raise TypeError("can't convert meta device type tensor to numpy: it has no numbers")
        return backend_of(self.array).to_numpy(self.array)

    # The computational graph

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this Tensor; may be set on a leaf."""
        return self._requires

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, (int, np.bool_)):
            raise TypeError(f"requires_grad must be bool, not {type(value).__name__}")
        if self._node is not None:
            if not value:
                raise RuntimeError(
                    f"requires_grad: can only be changed on leaves, not on the result of {self._node.operator}; "
                    "use detach() for a Tensor without history"
                )
            return
        if value and not is_differentiable(self.array.dtype):
            raise RuntimeError(
                f"requires_grad: only floating and complex Tensors have gradients, got {self.array.dtype}"
            )
        self._requires = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set ``requires_grad`` and return the Tensor.

        Args:
            requires_grad: whether backward passes compute its gradient.

        Raises:
            RuntimeError: the dtype is neither floating nor complex, or ``requires_grad`` is False for the result of a
                recorded operator.

        >>> rg.ones(2).requires_grad_()
        tensor([1., 1.], requires_grad=True)
        """
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether this Tensor is not the result of a recorded operator.

        >>> x = rg.ones(2, requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self._node is None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have accumulated, None before the first.

        >>> x = rg.ones(2, requires_grad=True)
        >>> (x * 3).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        """
        if watchers and modes.tracer is not None:
            modes.tracer.reads_grad(self)
        gradient = self._grad
        if gradient is None and self._node is not None:
            warn_of_missing_gradient(self)
        return gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}")
            if value is self:
                raise RuntimeError("grad: a Tensor cannot be its own gradient")
            if value.shape != self.array.shape:
                raise RuntimeError(f"grad: expected the shape of {describe(self)}, got {describe(value)}")
            if value.dtype != self.array.dtype:
                raise RuntimeError(f"grad: expected the dtype of {describe(self)}, got {describe(value)}")
        if watchers and modes.tracer is not None:
            modes.tracer.clears(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def _version(self) -> int:
        """The number of in-place writes to this Tensor's memory."""
        storage = known_storage(self)
        return 0 if storage is None else storage.version

    def detach(self) -> Tensor:
        """Return a Tensor on the same memory without its history.

        >>> rg.ones(2, requires_grad=True).detach().requires_grad
        False
        """
        tensor = new_tensor(self.array.detached() if isinstance(self.array, Wrapping) else self.array)
        share(tensor, self, related=False)
        if watchers:
            tell_departed(self, "detach", tensor)
        return tensor

    def detach_(self) -> Tensor:
        """Remove the history: the Tensor becomes a leaf that does not require grad.

        >>> x = rg.ones(2, requires_grad=True) * 2
        >>> x.detach_().requires_grad
        False

        Raises:
            RuntimeError: the Tensor is a view.
        """
        if self._base is not None:
            raise RuntimeError("detach_: can't detach a view in place; use detach()")
        if watchers:
            tell_departed(self, "detach_", self)
        self._node = None
        self._requires = False
        return self

    @property
    def data(self) -> Tensor:
        """The result of ``detach()``. Assigning to ``data`` replaces the Tensor's memory."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data: expected a Tensor, got {type(value).__name__}")
        for observer in modes.observers:
            observer.became(self, value)
        requires, node = self._requires, self._node
        if requires and not is_differentiable(value.array.dtype):
            raise RuntimeError(f"data: a Tensor that requires grad cannot hold {value.array.dtype}")
        views = [tensor for tensor in sharers(self) if tensor._base is self]
        if views:  # Existing views become views of a new Tensor with the old memory and history.
            old = self.detach()
            old._requires, old._node = requires, edge_of(self)
            for view in views:
                view._base = old
        leave(self)
        self.array = value.array
        share(self, value, related=False)
        self._requires, self._node = requires, node
        recipe = getattr(node if node is None or node.plan.select is None else node.left, "recipe", None)
        if recipe is not None:  # a memory budget must not recompute the old value
            recipe.forget()

    @property
    def retains_grad(self) -> bool:
        """Whether this is a non-leaf whose gradient backward passes store in ``.grad``."""
        return self._node is not None and self._node.hooks is not None and -id(self) in self._node.hooks


_new = Tensor.__new__


def is_dense(value: object) -> TypeGuard[Tensor]:
    """Return whether the value is a Tensor that is not sparse."""
    return isinstance(value, Tensor) and value.is_dense


def new_tensor(array: object) -> Tensor:
    """Return a Tensor that wraps the array, without a copy and without history."""
    t = _new(Tensor)
    t.array = array
    t._requires = False
    t._node = t._grad = t._storage = t._base = t._hooks = None
    return t


def tensor_method(method: Method, *names: str) -> Method:
    """Add a function or property to Tensor, by default under its own name. Other packages add methods by it."""
    for name in names or (method.__name__,):
        if name in lazy_methods:
            lazy_methods[name].value = method
        else:
            setattr(Tensor, name, method)
    return method


# Whether ``Tensor(array)`` keeps the array's dtype. PyTorch, and therefore ``retrograd run``, uses the default dtype.
arrays_keep_dtype = True


def constructed(name: str, data: tuple[object, ...], dtype: object, device: str | Device | None) -> Any:
    """Return the array of ``Tensor(*data)``, where ``data`` is a size, a sequence, an array or a Tensor."""
    if not data or all(isinstance(length, (int, np.integer)) and not isinstance(length, bool) for length in data):
        return _zeros(name, data or (0,), dtype, device)
    if len(data) > 1:
        raise TypeError(f"{name}: expected lengths of axes, or one sequence, array or Tensor, got {data!r:.200}")
    (values,) = data
    if isinstance(values, Size):
        return _zeros(name, values, dtype, device)
    if isinstance(values, (bool, float, complex, np.bool_, np.floating)):
        raise TypeError(f"{name}: data must be a sequence, not {type(values).__name__}; use tensor({values!r})")
    if dtype is None and not isinstance(values, Tensor) and (not is_array(values) or not arrays_keep_dtype):
        array = to_array(values if hasattr(values, "__array__") else _listed(values), None, device, copy=True)
        return array if array.dtype.kind == "c" else array.astype(get_default_dtype(), copy=False)
    return to_array(values, dtype, device, copy=True)


def _listed(values: Any) -> Any:
    return values if isinstance(values, (str, bytes)) or not hasattr(values, "__getitem__") else list(values)


def _zeros(name: str, lengths: tuple[Any, ...], dtype: object, device: str | Device | None) -> Any:
    if min(lengths, default=0) < 0:
        raise RuntimeError(f"{name}: trying to create a Tensor with a negative length: {list(lengths)}")
    place = None if device is None else Device(device)
    backend = backend_for(place)
    dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    return backend.asarray(np.zeros(lengths, dtype), device=place)


def to_array(data: object, dtype: object = None, device: str | Device | None = None, *, copy: bool) -> Any:
    """Return the data as an array, by default in the dtype of ``tensor(data)``; ``copy=False`` may share memory."""
    if dtype is not None:
        dtype = as_dtype(dtype)
    if isinstance(data, Tensor):
        data = data.array
    if is_array(data):
        if not is_number_dtype(data.dtype):
            raise TypeError(f"tensor: expected numbers, got an array of dtype {data.dtype}")
        backend = backend_of(data)
        if device is not None and backend_for(device).name != backend.name:
            data, backend = backend.to_numpy(data), backend_for(device)
            copy = False
        array = with_own_dtype(backend.asarray(data, dtype=dtype))
        return array.copy() if copy and array_module(array).may_share_memory(array, data) else array
    if isinstance(data, np.generic):
        dtype = data.dtype if dtype is None else dtype
        if not is_number_dtype(dtype):
            raise TypeError(f"tensor: expected numbers, got {dtype}")
    elif isinstance(data, (bool, int, float, complex)):
        dtype = scalar_dtype(data) if dtype is None else dtype
        if dtype.kind in "iu":
            data = whole_number(data, dtype)
    else:
        copy = copy and not isinstance(data, (list, tuple))
        if hasattr(data, "__array__"):  # such as a pandas Series, whose elements have NumPy's dtypes
            # Storages of PyTorch decide how to read their bytes.
            data = data.read_as(dtype) if hasattr(data, "read_as") else np.asarray(data)
        data, dtype = _nested(data, dtype)
        if copy:  # NumPy would share the memory of a buffer
            data = np.array(data, dtype)
    place = None if device is None else Device(device)
    return backend_for(device).asarray(np.asarray(data, dtype=dtype), device=place)


_NUMBERS = frozenset((bool, int, float, complex))


def _nested(data: object, dtype: DType | None) -> tuple[np.ndarray, DType]:
    """Return nested sequences as a NumPy array, and the dtype of a Tensor made from them."""
    if isinstance(data, (str, bytes)) or not (hasattr(data, "__len__") or hasattr(data, "__array_interface__")):
        raise TypeError(
            f"tensor: could not infer a dtype from {type(data).__name__}; expected numbers, sequences or arrays"
        )
    if isinstance(data, bytearray):
        data = list(data)
    python_numbers = True
    has_tensors = False
    dtypes: set[Any] = set()  # the dtypes of Tensors and arrays, and the types of Python numbers

    def plain(value: object) -> Any:
        nonlocal python_numbers, has_tensors
        if isinstance(value, Tensor):
            python_numbers, has_tensors = False, True
            dtypes.add(value.array.dtype)
            if value._requires:
                if modes.transform and modes.grad_enabled:
                    raise ConversionError(
                        f"{modes.transform}: tensor: a list with a Tensor that requires grad, {describe(value)}, "
                        "would become a Tensor without a history; join Tensors with stack"
                    )
                warn_of_lost_gradient()
            array = value.numpy(force=True)
            return array.reshape(()) if array.size == 1 else array  # PyTorch treats Tensors of one element as numbers
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if isinstance(value, (np.ndarray, np.generic)):
            python_numbers = False
            dtypes.add(value.dtype)
        else:
            dtypes.add(value.__class__)
        return value

    try:
        array = np.asarray(plain(data))
    except (IndexError, KeyError, TypeError) as error:
        if isinstance(error, ConversionError) or isinstance(data, (list, tuple)):
            raise
        reason = (
            f"could not determine the shape of {type(data).__name__}: {type(error).__name__} at one of its elements"
        )
        raise call_error(ValueError, "tensor", (data,), None, reason) from error
    except RecursionError:
        raise TypeError("tensor: the sequences are nested too deep, or contain themselves") from None
    except ValueError as error:
        raise call_error(
            ValueError, "tensor", (data,), None, f"the sequences are ragged or too deep ({error})"
        ) from None
    if array.dtype.kind == "O" and dtype is not None and dtype.kind == "b" and dtypes <= {bool, int, float}:
        array = array != 0  # integers beyond 64 bits
    if not is_number_dtype(array.dtype):
        raise TypeError(f"tensor: expected numbers, got elements of {array.dtype}")
    if dtype is not None and (dtype.kind in "iu" or dtype.kind not in "bc" and array.dtype.kind == "c"):
        check_elements(array, dtype)
    if dtype is None:
        if python_numbers and array.dtype.kind == "u":
            raise call_error(ValueError, "tensor", (data,), None, f"the integer {array.max()} does not fit in int64")
        if python_numbers and (array.dtype.kind in FLOATING or array.size == 0):
            dtype = get_default_dtype()
        elif python_numbers and array.dtype.kind == "c":
            dtype = scalar_dtype(1j)
        elif has_tensors or all(isinstance(kind, np.dtype) or kind in _NUMBERS for kind in dtypes):
            kinds = [kind if isinstance(kind, np.dtype) else scalar_dtype(kind()) for kind in dtypes]
            dtype = reduce(promote_types, kinds)
        else:
            dtype = array.dtype
    return array, dtype

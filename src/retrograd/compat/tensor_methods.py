"""PyTorch's legacy methods and properties of Tensors. Importing this module adds them to the class."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.devices import backend_of
from ..core.arrays.public_dtypes import bfloat16 as _bfloat16
from ..core.graph.modes import no_grad
from ..core.graph.nodes import output_number
from ..core.missing_names import LegacyMethod
from ..core.tensor.storage import storage_of
from ..core.tensor.tensor import Tensor, constructed, new_tensor
from ..ops.table.arguments import integers
from . import absent, torch_function
from .storages import CUDA_STORAGES, STORAGES, TypedStorage, UntypedStorage, memory_of, place_in_memory
from .storages import resize as _resize
from .types import layout as _layout


def new(self: Tensor, *data: Any, size: Any = None, device: Any = None) -> Tensor:
    """Return a Tensor of this dtype and device: of a size, or from a sequence.

    >>> import retrograd as rg
    >>> rg.ones(1, dtype=rg.int64).new([1, 2])
    tensor([1, 2])
    """
    data = data if size is None else tuple(size)
    return new_tensor(constructed("new", data, self.dtype, self.device if device is None else device))


def resize_(self: Tensor, *sizes: object, memory_format: object = None) -> Tensor:
    """Give the Tensor another size, in place: row-major over its memory, from its first element on.

    A Tensor that has the size already does not change. If the memory is too small, the Tensor moves to a larger
    memory, whose additional elements are zeros.

    Raises:
        RuntimeError: the Tensor requires grad, a length is negative, or the memory would be 2^63 bytes or more.
    """
    if self.requires_grad:
        raise RuntimeError("resize_: cannot resize variables that require grad")
    size = integers(sizes)
    if any(length < 0 for length in size):
        raise RuntimeError(f"resize_: sizes must not be negative, got {size}")
    if prod(max(1, length) for length in size) * self.array.dtype.itemsize >= 1 << 63:
        raise RuntimeError(f"resize_: a {self.dtype} Tensor of size {size} would take 2^63 bytes or more")
    if size != self.array.shape:
        version = self._version
        _resize(self, size)
        storage_of(self).version = version + 1
    return self


def resize(self: Tensor, *sizes: object) -> Tensor:
    """Return a copy of another size; see ``resize_``."""
    return resize_(self.detach().clone(), *sizes)


def resize_as_(self: Tensor, the_template: Tensor, memory_format: object = None) -> Tensor:
    """Give the Tensor the size of another Tensor, in place."""
    return resize_(self, *the_template.shape)


def resize_as(self: Tensor, other: Tensor) -> Tensor:
    """Return a copy with the size of another Tensor."""
    return resize(self, *other.shape)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make the Tensor refer to the memory of another Tensor or of a storage.

    Raises:
        RuntimeError: the dtypes differ.
    """
    if isinstance(source, Tensor) and source.dtype != self.dtype:
        raise RuntimeError(f"set_: could not set a Tensor of {source.dtype} to a Tensor of {self.dtype}")
    if source is None:
        self.data = new_tensor(self.array[:0].reshape(0))
        return self
    if isinstance(source, UntypedStorage):
        source = TypedStorage(wrap_storage=source, dtype=self.dtype)
    if source.dtype != self.dtype:
        raise RuntimeError(
            f"set_: the Tensor is {self.dtype.name} and the source is {source.dtype.name}; pass a source of the same "
            "dtype, or an UntypedStorage"
        )
    base = source._tensor if isinstance(source, TypedStorage) else source
    if size is not None or isinstance(source, TypedStorage):
        memory, _ = place_in_memory(base)
        size = (memory.numel() - storage_offset,) if size is None else tuple(size)
        base = memory.as_strided(size, _row_major(size) if stride is None else tuple(stride), storage_offset)
    self.data = base
    return self


def _row_major(size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(size[place + 1 :], dtype=np.int64)) for place in range(len(size)))


def apply_(self: Tensor, callable: Callable[[Any], object]) -> Tensor:
    """Replace each element ``x`` by ``callable(x)``, in place.

    Raises:
        RuntimeError: the Tensor requires grad.
        TypeError: the function returns no number.
    """
    return _mapped("apply_", self, (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], object]) -> Tensor:
    """Replace each element by the function's value for it and the other Tensor's element, in place.

    Raises:
        RuntimeError: a Tensor requires grad.
        TypeError: the function returns no number, or the dtypes differ.
    """
    return _mapped("map_", self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], object]) -> Tensor:
    """Replace each element by the function's value for it and the elements of two other Tensors, in place.

    Raises:
        RuntimeError: a Tensor requires grad.
        TypeError: the function returns no number, or the dtypes differ.
    """
    return _mapped("map2_", self, (x, y), callable)


def _mapped(name: str, x: Tensor, others: tuple[Tensor, ...], function: Callable[..., object]) -> Tensor:
    for tensor in (x, *others):
        if tensor.requires_grad:
            raise RuntimeError(f"{name}: a Tensor requires grad, but the function takes plain numbers; use detach()")
        if tensor.dtype != x.dtype:
            raise TypeError(f"{name}: expected a Tensor of {x.dtype}, got {tensor.dtype}")
    columns = [x, *[other.expand_as(x) for other in others]]
    values = [function(*row) for row in zip(*[column.array.reshape(-1).tolist() for column in columns], strict=True)]
    for value in values:
        if not isinstance(value, (int, float, complex, np.number, np.bool_, Tensor)):
            raise TypeError(f"{name}: the function must return a number, got {type(value).__name__}")
    with no_grad():
        return x.copy_(new_tensor(np.array(values, x.dtype).reshape(x.shape)))


def as_subclass(self: Tensor, cls: type) -> Any:
    """Return an instance of a subclass on the same memory and with the same history."""
    return torch_function.as_subclass(self, cls)


def share_memory_(self: Tensor) -> Tensor:
    """Move the Tensor to memory that forked processes share."""
    if is_shared(self):
        return self
    array = self.array
    memory = mmap.mmap(-1, max(1, array.nbytes))
    shared = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    shared[...] = array
    self.data = new_tensor(shared)
    return self


def is_shared(self: Tensor) -> bool:
    """Return whether forked processes share the Tensor's memory."""
    owner = self.array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(getattr(owner, "obj", owner), mmap.mmap)


def pin_memory(self: Tensor, device: object = None) -> Tensor:
    """Return a copy in page-locked memory.

    Raises:
        RuntimeError: no GPU is available.
    """
    from .modules.cuda import _cupy

    try:
        cupyx = __import__("cupyx") if _cupy() else None
    except AssertionError as error:
        raise RuntimeError(f"pin_memory: {error}") from None
    pinned = cupyx.empty_pinned(self.array.shape, self.array.dtype)  # type: ignore[union-attr]
    pinned[...] = self.array
    return new_tensor(pinned)


def storage(self: Tensor) -> TypedStorage:
    """Return the memory of the Tensor as a flat sequence of numbers."""
    return TypedStorage(self)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory of the Tensor as bytes."""
    return UntypedStorage(self)


def storage_offset(self: Tensor) -> int:
    """Return the offset of the first element in the memory, in elements."""
    backend = backend_of(self.array)
    return (backend.address(self.array) - backend.address(memory_of(self))) // self.array.dtype.itemsize


def storage_type(self: Tensor) -> type:
    """Return the class of the legacy storage of the Tensor's dtype, such as ``FloatStorage``."""
    return (CUDA_STORAGES if self.is_cuda else STORAGES)[storage(self).pickle_storage_type()]


def bfloat16(self: Tensor, memory_format: object = None) -> Tensor:
    """Return the Tensor in bfloat16.

    Raises:
        TypeError: ml_dtypes (extra ``bfloat16``) is not installed.
    """
    return self.to(_bfloat16.dtype)


def dense_dim(self: Tensor) -> int:
    """Return the number of dimensions: the Tensor is not sparse."""
    return self.ndim


def sparse_dim(self: Tensor) -> int:
    """Return 0: the Tensor is not sparse."""
    return 0


def sparse_mask(self: Tensor, mask: Any) -> Any:
    """Return the elements at the specified positions of a sparse Tensor."""
    at = mask._indices()
    return mask._with(self[tuple(at[d] for d in range(at.shape[0]))])


def to_sparse_coo(self: Tensor) -> Any:
    """Return the nonzero elements as a sparse Tensor: ``to_sparse()``."""
    return self.to_sparse()


def new_empty_strided(self: Tensor, size: Any, stride: Any, **options: Any) -> Tensor:
    """Return an uninitialized Tensor with the given strides, in elements."""
    from .modules.functions import empty_strided

    return empty_strided(size, stride, **{"dtype": self.dtype, "device": self.device, **options})


def get_device(self: Tensor) -> int:
    """Return the index of the Tensor's GPU, -1 for the CPU."""
    return -1 if self.device.index is None else self.device.index


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Return whether both Tensors have the same shape."""
    return self.shape == other.shape


def _is_view(self: Tensor) -> bool:
    """Return whether the Tensor is a differentiable view of another Tensor.

    >>> import retrograd as rg
    >>> rg.ones(2, 2)[0]._is_view(), rg.ones(2, 2)._is_view()
    (True, False)
    """
    return self._base is not None


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return whether both Tensors refer to the same elements of the same memory."""
    same = backend_of(self.array).address(self.array) == backend_of(tensor.array).address(tensor.array)
    return same and self.shape == tensor.shape and self.array.strides == tensor.array.strides


def is_nonzero(self: Tensor) -> bool:
    """Return whether the only element is not zero."""
    return bool(self)


def is_signed(self: Tensor) -> bool:
    """Return whether the dtype has negative numbers."""
    return self.dtype.is_signed


def is_inference(self: Tensor) -> bool:
    """Return False: Tensors are not marked in inference mode."""
    return False


def to_dense(self: Tensor, dtype: Any = None) -> Tensor:
    """Return the Tensor: it is dense."""
    return self if dtype is None else self.to(dtype)


def coalesce(self: Tensor) -> Tensor:
    """Return the Tensor: it is dense."""
    return self


def is_coalesced(self: Tensor) -> bool:
    """Return True: a dense Tensor has no duplicate positions."""
    return True


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return the Tensor that ``load_state_dict`` assigns; see ``set_swap_module_params_on_conversion``."""
    return other.detach() if assign else self.copy_(other).detach()


def record_stream(self: Tensor, stream: object) -> None:
    """Do nothing: CuPy's pool tracks the streams that use memory."""


def resolve_conj(self: Tensor) -> Tensor:
    """Return the Tensor: conjugates are computed at once."""
    return self


def zero_grad(self: Tensor) -> None:
    """Set the gradient to None."""
    self.grad = None


def dim_order(self: Tensor) -> tuple[int, ...]:
    """Return the dimensions from the largest stride to the smallest.

    >>> import retrograd as rg
    >>> rg.ones(2, 3).mT.dim_order()
    (1, 0)
    """
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda dim: -strides[dim]))


def _absent(name: str) -> Callable[..., Any]:
    """Return a method that raises an error: Tensors of Retrograd have no such method of PyTorch's."""

    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        raise NotImplementedError(absent.sentence(f"torch.Tensor.{name}"))

    method.__name__ = method.__qualname__ = name
    return method


def _of_sparse(name: str) -> Callable[..., Any]:

    def method(self: Tensor) -> Any:
        raise RuntimeError(f"{name}: expected a sparse Tensor, got a strided one; convert it with to_sparse()")

    method.__name__ = method.__qualname__ = name
    return method


_KINDS = "ipu maia mkldnn mps mtia nested quantized sparse sparse_csr vulkan xla xpu"
_OF_SPARSE = "ccol_indices col_indices crow_indices indices row_indices values"
_ABSENT = (
    "chalf dequantize eig index int_repr ipu lstsq mtia q_per_channel_axis q_per_channel_scales "
    "q_per_channel_zero_points q_scale q_zero_point qscheme reinforce resize_as_sparse_ slice_inverse smm solve "
    "sparse_resize_ sparse_resize_and_clear_ sspaddmm symeig to_mkldnn to_padded_tensor to_sparse_bsc to_sparse_bsr "
    "to_sparse_csc xpu"
)


def _no(self: Tensor) -> bool:
    return False


def _is_on_cpu(self: Tensor) -> bool:
    return self.device.type == "cpu"


def _add_methods() -> None:
    plain = {
        name: function
        for name, function in globals().items()
        if isinstance(Tensor.__dict__.get(name), LegacyMethod) and callable(function)
    }
    values: dict[str, Any] = {
        f"is_{kind}": property(_no, doc=f"False: no Tensor is {kind}.") for kind in _KINDS.split()
    }
    values |= {
        "is_cpu": property(_is_on_cpu, doc="Whether the Tensor is on the CPU."),
        "_make_subclass": staticmethod(torch_function._make_subclass),
        "_make_wrapper_subclass": staticmethod(torch_function._make_wrapper_subclass),
        "is_meta": property(lambda self: self.device.type == "meta", doc="Whether the Tensor has no numbers."),
        **{name: _absent(name) for name in _ABSENT.split()},
        **{name: _of_sparse(name) for name in _OF_SPARSE.split()},
        "_cdata": property(id, doc="A number that no other Tensor has, as long as this one exists."),
        "const_data_ptr": Tensor.data_ptr,
        "grad_dtype": property(lambda self: self.dtype, doc="The dtype of the gradient."),
        "name": property(lambda self: None, doc="None: Tensors have no names."),
        "volatile": property(_no, doc="False: torch.no_grad() replaced volatile Tensors."),
        "is_conj": _no,
        "is_neg": _no,
        "is_pinned": lambda self, device=None: False,
        "is_distributed": _no,
        "resolve_neg": resolve_conj,
        "layout": property(lambda self: _layout("strided"), doc="The storage layout, always strided."),
        "output_nr": property(lambda self: output_number(self._node), doc="Its index among the outputs."),
    }
    for name, value in (plain | values).items():
        if isinstance(Tensor.__dict__.get(name), LegacyMethod):
            setattr(Tensor, name, value)


_add_methods()

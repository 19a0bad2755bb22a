"""Queries of PyTorch's state, such as ``is_batchedtensor``, and private functions of several kinds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from ...._generated.toplevel import (
    arange,
    bincount,
    cat,
    repeat_interleave,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    zeros,
)
from ....core.arrays.devices import Device
from ....core.arrays.dtypes import DType, as_dtype, get_default_dtype
from ....core.graph.modes import modes
from ....core.mapping.batched import Batched
from ....core.tensor.printing import print_options
from ....core.tensor.tensor import Tensor, new_tensor
from ....nn.init import uniform_
from ...storages import UntypedStorage
from ...types import layout
from ..devices import constants, current_accelerator

Value: TypeAlias = Any  # an argument or a result of a function of PyTorch

# Queries of PyTorch's state


def _are_functorch_transforms_active() -> bool:
    """Return whether ``vmap`` is running."""
    return modes.level is not None


def is_batchedtensor(tensor: Tensor) -> bool:
    """Return whether ``vmap`` maps over the Tensor."""
    return isinstance(tensor, Tensor) and isinstance(tensor.array, Batched)


def _is_alias_of(x: Tensor, y: Tensor) -> bool:
    """Return whether two Tensors share memory."""
    return bool(np.may_share_memory(x.array, y.array))


def _get_default_device() -> str:
    """Return the name of the default device."""
    from ....core.arrays.devices import get_default_device

    return str(get_default_device())


def _get_accelerator(check: bool = False) -> Device:
    """Return the device type of the GPU; without one ``cpu``, or an error if ``check`` is set."""
    found = current_accelerator()
    if check and found is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return found or Device("cpu")


class _DatasetKind:
    """The two kinds of datasets."""

    Map = 0
    Iterable = 1


class TensorifyScalarRestartAnalysis(Exception):
    """An error inside PyTorch's compiler. It is never raised."""


# ``utils.weak``


class WeakIdKeyDictionary(MutableMapping[Value, Value]):
    """A dict whose keys are compared by identity, and disappear when nothing else refers to them.

    >>> import retrograd as rg
    >>> from retrograd.utils.weak import WeakIdKeyDictionary
    >>> x, names = rg.ones(2), WeakIdKeyDictionary()
    >>> names[x] = "x"
    >>> names[x], rg.ones(2) in names
    ('x', False)
    """

    def __init__(self, dict: Value = None, ref_type: object = None) -> None:
        self.data: dict_of_pairs = {}
        if dict is not None:
            self.update(dict)

    def __setitem__(self, key: Value, value: Value) -> None:
        number, data = id(key), self.data
        self.data[number] = (ref(key, lambda _: data.pop(number, None)), value)

    def __getitem__(self, key: Value) -> Value:
        reference, value = self.data[id(key)]
        if reference() is not key:
            raise KeyError(key)
        return value

    def __delitem__(self, key: Value) -> None:
        self[key]
        del self.data[id(key)]

    def __iter__(self) -> Iterator[Value]:
        return iter([key for reference, _ in list(self.data.values()) if (key := reference()) is not None])

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: object) -> bool:
        found = self.data.get(id(key))
        return found is not None and found[0]() is key


dict_of_pairs = dict[int, tuple[Value, Value]]


# Sparse indices


def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Return where each row begins, and where the last row ends, for sorted row numbers."""
    counts = bincount(input, minlength=size)
    rows = cat([zeros(1, dtype=counts.dtype), counts.cumsum(0)])
    return rows.int() if out_int32 else rows


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Return rows and columns, shape ``(2, nnz)``, of a matrix with compressed rows."""
    numbers = arange(crow_indices.numel() - 1, device=crow_indices.device)
    rows = repeat_interleave(numbers, crow_indices.diff().long())
    pair = [rows.to(col_indices.dtype), col_indices]
    both = cat([x.unsqueeze(0) for x in (reversed(pair) if transpose else pair)])
    return both.int() if out_int32 else both


def sparse_compressed_tensor(
    compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, size: Any = None, *, layout: Any, **options: Any
) -> Any:
    """Return ``sparse_csr_tensor`` or ``sparse_csc_tensor`` of the arguments, according to the layout.

    Raises:
        RuntimeError: the layout is neither ``sparse_csr`` nor ``sparse_csc``.
    """
    makers = {"torch.sparse_csr": sparse_csr_tensor, "torch.sparse_csc": sparse_csc_tensor}
    if str(layout) not in makers:
        raise RuntimeError(f"sparse_compressed_tensor: layout must be sparse_csr or sparse_csc, got {layout}")
    return makers[str(layout)](compressed_indices, plain_indices, values, size, **options)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: object = None) -> Value:
    """Return a sparse matrix with the rows of ``diagonals`` on the diagonals at ``offsets``.

    Args:
        diagonals: shape ``(count, length)``. Entry ``j`` of a row is put into column ``j``.
        offsets: the number of the diagonal of each row; positive numbers lie above the main diagonal.
        shape: the shape of the matrix.
        layout: None or ``sparse_coo``; ``sparse_csr`` compresses the rows.
    """
    rows_count, columns_count = shape
    diagonals, offsets = diagonals.reshape(-1, diagonals.shape[-1]), offsets.reshape(-1)
    if len(set(offsets.tolist())) != len(offsets):
        raise RuntimeError("spdiags(): Offset tensor contains duplicate values")
    places: list[Value] = []
    values: list[Tensor] = []
    for row, offset in zip(diagonals, offsets.tolist(), strict=True):
        columns = np.arange(max(offset, 0), min(columns_count, rows_count + offset, row.shape[0]))
        if len(columns):
            places.append(np.stack([columns - offset, columns]))
            values.append(row[int(columns[0]) : int(columns[-1]) + 1])
    indices = np.concatenate(places, 1) if places else np.zeros((2, 0), np.int64)
    entries = cat(values) if values else diagonals.new_zeros(0)
    matrix = sparse_coo_tensor(indices, entries, tuple(shape)).coalesce()
    return matrix.to_sparse_csr() if str(layout) == "torch.sparse_csr" else matrix


# The top level


def from_file(
    filename: str, shared: bool | None = None, size: int = 0, *, dtype: DType | None = None, **options: object
) -> Tensor:
    """Return a Tensor on the content of a file.

    Args:
        filename: the path.
        shared: write changes of the Tensor to the file, which is created if it does not exist.
        size: the number of elements.
        dtype: the dtype of the elements.
        options: device and layout, which are those of the CPU.

    Raises:
        RuntimeError: the file is shorter.
    """
    kind = np.dtype(get_default_dtype() if dtype is None else as_dtype(dtype))
    if shared:
        with open(filename, "ab") as stream:
            stream.truncate(max(stream.tell(), size * kind.itemsize))
        return new_tensor(np.asarray(np.memmap(filename, kind, "r+", shape=(size,))))
    try:
        return new_tensor(np.array(np.memmap(filename, kind, "r", shape=(size,))))
    except ValueError as error:
        raise RuntimeError(f"from_file: {filename} has fewer than {size} elements of {kind}: {error}") from None


def while_loop(
    cond_fn: Callable[..., Value], body_fn: Callable[..., Value], carried_inputs: Sequence[Value]
) -> tuple[Value, ...]:
    """Apply ``body_fn`` to the values as long as ``cond_fn`` of them is true, and return the last values."""
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        values = tuple(body_fn(*values))
    return values


def _cast(name: str) -> Callable[..., Tensor]:
    def cast(input: Tensor, non_blocking: bool = False) -> Tensor:
        return getattr(input, name.lower() if name != "Byte" else "byte")()

    cast.__name__ = f"_cast_{name}"
    cast.__doc__ = f"Return the Tensor converted by ``{name.lower()}()``."
    return cast


# ``_tensor_str``


def _tensor_str(self: Tensor, indent: int) -> str:
    """Return the elements of a Tensor as ``print`` shows them, without dtype and brackets of the constructor."""
    return np.array2string(self.detach().cpu().array, separator=", ", prefix=" " * indent, **print_options)


def _add_suffixes(tensor_str: str, suffixes: Sequence[str], indent: int, force_newline: bool) -> str:
    """Return a text with suffixes, and with ``)``, on a new line where it becomes too long."""
    parts = [tensor_str]
    length = len(tensor_str) - tensor_str.rfind("\n")
    for suffix in suffixes:
        if force_newline or length + len(suffix) + 2 > 80:
            parts.append(f",\n{' ' * indent}{suffix}")
            length, force_newline = indent + len(suffix), False
        else:
            parts.append(f", {suffix}")
            length += len(suffix) + 2
    return "".join(parts) + ")"


_PRINT_OPTIONS = SimpleNamespace(precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None)


class Backend(str):
    """The name of a backend of ``distributed``, in lower case."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        return super().__new__(cls, name.lower())


NAMES: dict[str, str | dict[str, Value]] = {
    "_C": "_are_functorch_transforms_active _get_accelerator _get_default_device _is_alias_of",
    "_C._distributed_rpc": constants(False, "_is_current_rpc_agent_set"),
    "_C._functorch": {
        "is_batchedtensor": is_batchedtensor, "is_functorch_wrapped_tensor": is_batchedtensor,
        **constants(False, "is_legacy_batchedtensor"),
    },
    "_dynamo.exc": "TensorifyScalarRestartAnalysis",
    "_subclasses.fake_tensor": constants(False, "is_fake"),
    "_tensor_str": {
        "PRINT_OPTS": _PRINT_OPTIONS, "_add_suffixes": _add_suffixes, "_str": lambda self, **_: repr(self),
        "_str_intern": lambda inp, **_: repr(inp), "_tensor_str": _tensor_str,
    },
    "cuda": {"get_arch_list": list, **constants(False, "is_current_stream_capturing")},
    "distributed": {"Backend": Backend, **constants(False, "_rank_not_in_group")},
    "fx.experimental.proxy_tensor": constants(None, "get_proxy_mode"),
    "fx.experimental.symbolic_shapes": {
        **dict.fromkeys(("free_symbols", "free_unbacked_symbols"), lambda value: set()),
        **constants(False, "has_free_symbols has_free_unbacked_symbols is_symbolic"),
        **constants(True, "is_concrete_bool is_concrete_float is_concrete_int"),
        **dict.fromkeys(
            ("guard_bool", "guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true"), bool
        ),
        "guard_float": float, "guard_int": int, "hint_int": int, "guard_scalar": lambda value: value,
        "statically_known_false": operator.not_, "sym_eq": operator.eq,
    },
    "nn.init": {"_no_grad_uniform_": uniform_},
    "retrograd": {
        **{f"_cast_{name}": _cast(name) for name in ("Byte", "Double", "Float", "Half", "Int", "Long", "Short")},
        "StorageBase": UntypedStorage, "_convert_indices_from_coo_to_csr": _convert_indices_from_coo_to_csr,
        "_convert_indices_from_csr_to_coo": _convert_indices_from_csr_to_coo, "from_file": from_file,
        "jagged": layout("jagged"), "sparse_bsc": layout("sparse_bsc"), "sparse_bsr": layout("sparse_bsr"),
        "sparse_compressed_tensor": sparse_compressed_tensor, "sparse_csc": layout("sparse_csc"),
        "while_loop": while_loop,
    },
    "sparse": "spdiags",
    "utils.data.dataloader": "_DatasetKind",
    "utils.weak": "WeakIdKeyDictionary WeakTensorKeyDictionary=WeakIdKeyDictionary",
    "xpu": {
        **constants(None, "current_device empty_cache manual_seed manual_seed_all synchronize"),
        **constants(0, "device_count"), **constants(False, "is_available"),
    },
}  # fmt: skip

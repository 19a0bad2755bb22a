"""What a module does when it is asked for a name that it does not have: PyTorch's legacy names live in another room.

The room is loaded at the first such question, and no sooner: nothing here imports it before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_ROOM = "retrograd.compat"


def legacy_names(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module: a legacy name of PyTorch's, or an AttributeError with a hint."""

    known: dict[str, Any] = {}  # not in the module itself, which stays as it is

    def __getattr__(name: str) -> Any:
        if name in known:
            return known[name]
        if name.startswith("__") and name != "__future__":  # asked for by Python itself, at every import
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        known[name] = import_module(f"{_ROOM}.names").attribute(module, name)
        return known[name]

    return __getattr__


# Methods and properties of PyTorch's Tensors that say nothing here, or belong to its past.
LEGACY_METHODS = (
    "_is_view apply_ as_subclass bfloat16 coalesce dense_dim get_device is_coalesced is_conj is_cpu "
    "is_distributed is_inference is_meta is_mkldnn is_mps is_neg is_nested is_nonzero is_pinned is_quantized "
    "is_same_size is_set_to is_shared is_signed is_sparse is_sparse_csr is_xla is_xpu layout map2_ map_ module_load "
    "new new_empty_strided output_nr pin_memory record_stream resize resize_ resize_as resize_as_ resolve_conj "
    "resolve_neg set_ share_memory_ sparse_dim sparse_mask storage storage_offset storage_type to_dense "
    "to_sparse_coo untyped_storage zero_grad"
)


class LegacyMethod:
    """A legacy method or property of a class: at the first use the room enters them all in the places of these."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        import_module(f"{_ROOM}.tensor_methods")
        return getattr(owner if instance is None else instance, self.name)


def enter_legacy_methods(cls: type) -> None:
    """Enter on a class whichever of the legacy methods it has not."""
    for name in LEGACY_METHODS.split():
        if name not in vars(cls):
            setattr(cls, name, LegacyMethod(name))


def legacy_call(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call that failed as it stands, read as a legacy form; NotImplemented if it is none."""
    return import_module(f"{_ROOM}.calls").call(name, function, args, kwargs)


def is_bfloat16(dtype: Any) -> bool:
    """Whether the dtype, whose name is that of bfloat16, is ml_dtypes' own; then its arithmetic is set up."""
    return bool(import_module("retrograd.core.arrays.bfloat16").set_up(dtype))


class EinopsParts:
    """An entry of ``sys.meta_path``: adds a backend and layers for Tensors to einops, when a program imports it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("einops."):
            return None
        torch_is_used = not hasattr(sys.modules.get("torch"), "is_retrograd") and "torch" in sys.modules
        if (
            name in ("einops._backends", "einops.layers.retrograd")
            or name == "einops.layers.torch"
            and not torch_is_used
        ):
            return import_module(f"{_ROOM}.einops").find_spec(name, path)
        return None


def find_through_compat() -> None:
    """Enter both finders, each where it costs imports nothing."""
    sys.meta_path.insert(0, EinopsParts)
    sys.meta_path.append(LegacyPaths)
    if "einops._backends" in sys.modules:
        import_module(f"{_ROOM}.einops").define_backend(sys.modules["einops._backends"])


class LegacyPaths:
    """An entry of ``sys.meta_path``: finds the modules that exist in PyTorch's layout alone (``nn.modules.conv``)."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("retrograd.") or name.startswith(_ROOM):
            return None
        return import_module(f"{_ROOM}.paths").find_spec(name)

"""Register import hooks, and functions of higher packages that the engine calls; each package loads at its first use.

The two entries of ``sys.meta_path`` find module paths that only PyTorch's layout has, and add a backend and layers for
Tensors to einops.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .core.errors import answers
from .core.missing_names import LegacyMethod, provided

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from .core.tensor.tensor import Tensor

# Methods and properties of PyTorch's Tensors that have no effect in Retrograd, or are deprecated in PyTorch.
_LEGACY_METHODS = (
    "_cdata _is_view _make_subclass _make_wrapper_subclass apply_ as_subclass bfloat16 coalesce dense_dim get_device "
    "is_coalesced is_conj is_cpu "
    "is_distributed is_inference is_meta is_mkldnn is_mps is_neg is_nested is_nonzero is_pinned is_quantized "
    "is_same_size is_set_to is_shared is_signed is_sparse is_sparse_csr is_xla is_xpu layout map2_ map_ module_load "
    "new new_empty_strided output_nr pin_memory record_stream resize resize_ resize_as resize_as_ resolve_conj "
    "resolve_neg set_ share_memory_ sparse_dim sparse_mask storage storage_offset storage_type to_dense "
    "to_sparse_coo untyped_storage zero_grad "
    "ccol_indices chalf col_indices const_data_ptr crow_indices dequantize dim_order eig grad_dtype index "
    "indices int_repr ipu is_ipu is_maia is_mtia is_vulkan lstsq mtia name q_per_channel_axis q_per_channel_scales "
    "q_per_channel_zero_points q_scale q_zero_point qscheme reinforce resize_as_sparse_ row_indices slice_inverse smm "
    "solve sparse_resize_ sparse_resize_and_clear_ sspaddmm symeig to_mkldnn to_padded_tensor to_sparse_bsc "
    "to_sparse_bsr to_sparse_csc values volatile xpu"
)


def _legacy_name(module: str, name: str) -> Any:
    from .compat.legacy_names import attribute

    return attribute(module, name)


def _array_namespace() -> ModuleType:
    from . import array_api

    return array_api


def _legacy_methods() -> None:
    from .compat import tensor_methods as tensor_methods


def _legacy_call(*call: Any) -> Any:
    from .compat.calls import call as legacy_call

    return legacy_call(*call)


def _layout(name: str) -> Any:
    from .compat.types import layout

    return layout(name)


def _set_up_bfloat16(dtype: Any) -> bool:
    from .core.arrays.bfloat16 import set_up

    return set_up(dtype)


def _meta_backend() -> object:
    from .core.meta.evaluation import backend

    return backend()


def _tensor_subclass(cls: type) -> None:
    from .compat.torch_function import subclass_defined

    subclass_defined(cls)


def _of_other_classes(
    name: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Return the result of an argument's ``__torch_function__``, after an operator has failed on the arguments."""
    values = [*args, *kwargs.values()]
    values += [item for value in values if isinstance(value, (list, tuple)) for item in value]
    if not any(hasattr(type(value), "__torch_function__") for value in values):
        return NotImplemented
    from .compat.torch_function import answer

    return answer(function, args, kwargs)


def _compile(*args: Any, **options: Any) -> Any:
    from .compiler import compile

    return compile(*args, **options)


def _scipy_name(function: str, distribution: str) -> str:
    from .scipy.decorators import name_of

    return name_of(function, distribution)


def _scipy_operator(name: str, x: Tensor, matrix: object) -> object:
    from .scipy.sparse.array_methods import with_scipys

    return with_scipys(name, x, matrix)


def _tensor_html(x: object) -> str:
    from .inspect.notebook.tensors import tensor_html

    return tensor_html(x)


def _module_html(module: Any) -> str:
    from .inspect.notebook.modules import module_html

    return module_html(module)


def _records_html(name: str, x: object) -> str:
    from .inspect.notebook import record_tables

    html: str = getattr(record_tables, name)(x)
    return html


class EinopsParts:
    """An entry of ``sys.meta_path``: adds a backend and layers for Tensors to einops, when a program imports it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("einops."):
            return None
        torch_is_used = not hasattr(sys.modules.get("torch"), "is_retrograd") and "torch" in sys.modules
        if (
            name in ("einops._backends", "einops.layers.retrograd")
            or name == "einops.layers.torch"
            and not torch_is_used
        ):
            from .compat.packages import find_spec

            return find_spec(name, path)
        return None


class LegacyPaths:
    """An entry of ``sys.meta_path``: finds module paths that only PyTorch's layout has (``nn.modules.conv``)."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("retrograd.") or name.startswith("retrograd.compat"):
            return None
        from .compat.legacy_names import find_spec

        return find_spec(name)


def enter_legacy_methods(cls: type) -> None:
    """Add to a class each legacy method that the class lacks."""
    for name in _LEGACY_METHODS.split():
        if name not in vars(cls):
            setattr(cls, name, LegacyMethod(name))


def enter_finders() -> None:
    """Add both finders to ``sys.meta_path``, at positions where they do not slow down other imports."""
    sys.meta_path.insert(0, EinopsParts)
    sys.meta_path.append(LegacyPaths)
    if "einops._backends" in sys.modules:
        from .compat.packages import define_backend

        define_backend(sys.modules["einops._backends"])


provided.update(
    array_namespace=_array_namespace,
    bfloat16=_set_up_bfloat16,
    compile=_compile,
    layout=_layout,
    legacy_call=_legacy_call,
    legacy_methods=_legacy_methods,
    legacy_name=_legacy_name,
    meta=_meta_backend,
    module_html=_module_html,
    scipy_name=_scipy_name,
    scipy_operator=_scipy_operator,
    tensor_html=_tensor_html,
    **{name: partial(_records_html, name) for name in ("event_html", "groups_html", "records_html")},
    tensor_subclass=_tensor_subclass,
)
answers.append(_of_other_classes)

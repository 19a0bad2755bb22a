"""PyTorch's older name of ``functional_call``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...core.missing_names import legacy_names
from ...core.tensor.tensor import Tensor
from ...func import modules
from ...ops.table.documentation import like
from ..base.module import Module


@like(modules.functional_call)
def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: object = None,
    kwargs: dict[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given parameters and buffers, and with its own where none is given.

    Args:
        module: the module; it is unchanged afterwards.
        parameters_and_buffers: Tensors by dotted names.
        args: the positional arguments: a tuple, or one argument.
        tie_weights: replace all of several tied parameters if one of them is named.
        strict: raise an error for missing and unknown names.

    Raises:
        RuntimeError: with ``strict``, names do not match.
    """
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a drop-in replacement for this API.",
        FutureWarning,
        stacklevel=2,
    )
    return modules.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)  # private names of PyTorch

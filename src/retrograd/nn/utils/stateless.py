"""``functional_call`` under PyTorch's older name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ...core.tensor.tensor import Tensor
from ...func import modules
from ..base.module import Module


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: object = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers, by name; those that are not named are the module's own.

    Args:
        module: the module, which stays as it is.
        parameters_and_buffers: Tensors by dotted names.
        args: what the module is called with: a tuple, or one argument.
        kwargs: what it is called with by name.
        tie_weights: give what is named for one of several tied parameters to all of them.
        strict: refuse names that are missing or that the module has not.

    Raises:
        RuntimeError: with ``strict``, names do not fit.
    """
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a drop-in replacement for this API.",
        FutureWarning,
        stacklevel=2,
    )
    return modules.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)

"""Private names of ``optim.optimizer`` that other people's optimizers import."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

from ..core.tensor.tensor import Tensor
from ..optim.optimizer import _Required

_RequiredParameter = _Required
ParamsT = params_t = Iterable[Any]
_params_doc = _foreach_doc = _maximize_doc = _capturable_doc = _differentiable_doc = _fused_doc = ""


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A step, which is never recorded."""
    from functools import wraps

    from ..core.graph.modes import no_grad

    @wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with no_grad():
            return func(self, *args, **kwargs)

    return step


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _dispatch_sqrt(x: Any) -> Any:
    return x.sqrt() if isinstance(x, Tensor) else sqrt(x)


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    return False, False


__all__ = [
    "ParamsT", "_RequiredParameter", "_capturable_doc", "_default_to_fused_or_foreach", "_differentiable_doc",
    "_dispatch_sqrt", "_foreach_doc", "_fused_doc", "_get_value", "_maximize_doc", "_params_doc",
    "_stack_if_compiling", "_use_grad_for_differentiable", "params_t",
]  # fmt: skip

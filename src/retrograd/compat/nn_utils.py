"""Names of ``nn.utils`` that are deprecated, and still in programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..nn.base.module import Module
from ..nn.utils import clip_grad as _clip_grad


def clip_grad_norm(*args: Any, **kwargs: Any) -> Any:
    """As ``clip_grad_norm_``."""
    warnings.warn("clip_grad_norm is now deprecated in favor of clip_grad_norm_.", FutureWarning, stacklevel=2)
    return _clip_grad.clip_grad_norm_(*args, **kwargs)


def clip_grad_value(*args: Any, **kwargs: Any) -> Any:
    """As ``clip_grad_value_``."""
    warnings.warn("clip_grad_value is now deprecated in favor of clip_grad_value_.", FutureWarning, stacklevel=2)
    return _clip_grad.clip_grad_value_(*args, **kwargs)


def skip_init(module_cls: Callable[..., Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters need no values yet: it has them all the same."""
    return module_cls(*args, **kwargs)


__all__ = ["clip_grad_norm", "clip_grad_value", "skip_init"]

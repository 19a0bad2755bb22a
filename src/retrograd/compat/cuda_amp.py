"""``cuda.amp``: ``autocast`` and ``GradScaler`` for GPUs, in their older form, without a device."""

from __future__ import annotations

from typing import Any

from .amp import GradScaler as _GradScaler
from .amp import autocast as _autocast
from .amp import custom_bwd as custom_bwd
from .amp import custom_fwd as custom_fwd


class autocast(_autocast):
    """As ``amp.autocast("cuda")``."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """As ``amp.GradScaler("cuda")``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)

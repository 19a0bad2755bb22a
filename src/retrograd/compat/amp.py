"""Mixed precision: ``autocast``, and ``GradScaler`` with PyTorch's logic of scaling, skipping and growing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from ..core.arrays.devices import Device, is_cuda_available
from ..core.graph.modes import no_grad, watchers
from ..core.graph.observers import scaling
from ..core.tensor.tensor import Tensor
from .autocast import autocast as autocast
from .autocast import custom_bwd as custom_bwd
from .autocast import custom_fwd as custom_fwd
from .autocast import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .autocast import get_autocast_dtype as get_autocast_dtype
from .autocast import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .autocast import is_autocast_available as is_autocast_available
from .autocast import is_autocast_enabled as is_autocast_enabled


def _scaled(x: Tensor, multiply: Callable[[float], Tensor], factor: float) -> Tensor:
    """Multiply, and tell observers that this and the walk from it may overflow."""
    if not watchers:
        return multiply(factor)
    with scaling(x) as results:
        results.append(multiply(factor))
    return results[0]


class OptState(Enum):
    """How far an optimizer is with its step."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales a loss, so that gradients in float16 do not vanish, and skips steps whose gradients overflowed.

    Where the device is a GPU that is not there it warns and is disabled, as in PyTorch: then it changes nothing.

    Args:
        device: ``"cuda"`` or ``"cpu"``.
        init_scale: the factor at the start.
        growth_factor: what the factor is multiplied by after ``growth_interval`` steps without overflow.
        backoff_factor: what the factor is multiplied by after an overflow.
        growth_interval: see there.
        enabled: whether it does anything.

    Raises:
        RuntimeError: ``device`` is none of the two.
        AssertionError: ``growth_factor`` is not above 1, or ``backoff_factor`` not below.
        ValueError: ``init_scale`` is not positive and finite, or ``growth_interval`` not positive.

    >>> import retrograd as rg
    >>> scaler = rg.amp.GradScaler("cpu", init_scale=4.0)
    >>> x = rg.tensor([1.0], requires_grad=True)
    >>> optimizer = rg.optim.SGD([x], lr=0.5)
    >>> scaler.scale((x * x).sum()).backward()
    >>> x.grad
    tensor([8.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> x.detach()
    tensor([0.])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device = Device(device).type
        self._enabled = enabled
        if enabled and device == "cuda" and not is_cuda_available():
            warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", UserWarning, stacklevel=2)
            self._enabled = False
        if self._enabled and not growth_factor > 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if self._enabled and not backoff_factor < 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        if not 0 < init_scale < float("inf"):
            raise ValueError(f"GradScaler: init_scale must be a positive finite number, got {init_scale!r}")
        if growth_interval < 1 or growth_interval % 1:
            raise ValueError(f"GradScaler: growth_interval must be a positive int, got {growth_interval!r}")
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._stages: dict[int, OptState] = {}
        self._found_inf: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """The loss, or each of an iterable of them, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return _scaled(outputs, outputs.__mul__, self._scale)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(output) for output in outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the factor, as clipping needs it.

        Raises:
            RuntimeError: it was done already since the last ``update()``.
        """
        if not self._enabled:
            return
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"GradScaler.unscale_: wanted an optimizer, got {type(optimizer).__name__}")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        found = False
        with no_grad(), np.errstate(all="ignore"):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    _scaled(parameter.grad, parameter.grad.mul_, 1.0 / self._scale)
                    found = found or not bool(np.isfinite(parameter.grad.array).all())
        self._found_inf[id(optimizer)] = found
        self._stages[id(optimizer)] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()`` with unscaled gradients, unless one of them is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is OptState.READY:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = OptState.STEPPED
        return None if self._found_inf[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Shrink the factor after an overflow, let it grow after enough steps without; or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale.item() if isinstance(new_scale, Tensor) else new_scale)
        elif not self._found_inf:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found_inf.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._stages.clear()
        self._found_inf.clear()

    def get_scale(self) -> float:
        """The factor, 1.0 where disabled."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """See the constructor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """See the constructor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """See the constructor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """See the constructor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """See the constructor."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """See the constructor."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The state, empty where disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict()`` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty: it was saved from a disabled GradScaler.")
        missing = sorted(self.state_dict().keys() - state_dict.keys())
        if missing:
            raise RuntimeError(f"GradScaler.load_state_dict: the state dict has no {missing[0]!r}")
        self._scale = float(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]

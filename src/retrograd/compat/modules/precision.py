"""Mixed precision: ``autocast`` and ``GradScaler``.

Inside ``autocast``, products are computed in a low precision, and losses and similar operators in float32. The lists of
operators are PyTorch's. The first ``autocast`` replaces the functions of the listed operators by functions that cast
their Tensors first. Casts are recorded, so gradients have the inputs' dtypes. Other programs have no overhead.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from operator import call
from typing import Any, TypeVar

import numpy as np

from ...core.arrays.devices import Device, is_cuda_available
from ...core.arrays.dtypes import FLOATING, DType
from ...core.arrays.public_dtypes import bfloat16, float16, float32, float64
from ...core.graph.modes import AtomicExit, casting, decorated, modes, no_grad, surroundings, watchers
from ...core.graph.observers import scaling
from ...core.tensor.tensor import Tensor, is_dense, new_tensor
from ...ops.table import registry
from ...ops.table.types import DTypeLike

Result = TypeVar("Result")

_PRODUCTS = """
    addbmm addmm baddbmm bmm chain_matmul einsum linalg.matmul linalg.multi_dot linalg.vecdot lstm matmul mm
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
    nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.linear nn.functional.prelu
    nn.functional.scaled_dot_product_attention prelu rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell sparse.mm spmm
    tensordot
"""
_LOSSES = """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
    hinge_embedding_loss huber_loss kl_div l1_loss linear_cross_entropy margin_ranking_loss mse_loss
    multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
    triplet_margin_loss
"""
_IN_FLOAT32 = """
    cdist cholesky cholesky_inverse cholesky_solve geqrf inverse linalg.cholesky linalg.cholesky_ex linalg.eig
    linalg.eigh linalg.eigvals linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq
    linalg.matrix_rank linalg.qr linalg.solve linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve lu lu_solve
    nanquantile orgqr ormqr pinverse prod qr quantile stft svd trace triangular_solve view_as_complex
    nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool3d nn.functional.avg_pool3d
    nn.functional.grid_sample nn.functional.lp_pool3d nn.functional.max_pool3d nn.functional.max_unpool1d
    nn.functional.max_unpool2d nn.functional.max_unpool3d
"""
# Operators in float32 only on a GPU: PyTorch's kernels for the CPU accumulate sums and norms in float32 without a cast.
_IN_FLOAT32_ON_CUDA = """
    cosine_similarity cumprod cumsum dist erfinv logcumsumexp logsumexp norm pow renorm sum nn.functional.group_norm
    nn.functional.layer_norm nn.functional.log_softmax nn.functional.normalize nn.functional.pdist
    nn.functional.softmax nn.functional.softmin nn.functional.softplus softmax log_softmax
"""
_LOW = {"cpu": ("bfloat16", "float16"), "cuda": ("float16", "bfloat16", "float32")}


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, DType] = {}
        self.cache = True


_state = _State()


@contextmanager
def _with_state(state: dict[str, object]) -> Iterator[None]:
    before = dict(_state.__dict__)
    _state.__dict__.update(state)
    try:
        yield
    finally:
        _state.__dict__.update(before)


def _current_state() -> Callable[[], AbstractContextManager[None]]:
    return functools.partial(_with_state, dict(_state.__dict__))


surroundings.append(_current_state)  # a checkpoint restores the state for its second forward pass


def _default_dtype(device_type: str) -> DType:
    return float16 if device_type == "cuda" else bfloat16


def _cast(value: object, device_type: str, dtype: DType) -> Any:
    if is_dense(value):
        kind = value.array.dtype
        if kind.kind not in FLOATING or kind in (float64, dtype) or value.device.type != device_type:
            return value
        return value.to(dtype)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    if isinstance(value, Tensor) and value.dtype.kind in FLOATING and value.dtype not in (float64, dtype):
        return value.to(dtype)
    return value


def _first_device(values: Iterable[object]) -> str:
    for value in values:
        if isinstance(value, Tensor):
            return value.device.type
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
            return value[0].device.type
    return "cpu"


def _casting(low: bool, devices: tuple[str, ...]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return a decorator for functions of operators: inside ``autocast`` their Tensors are cast first."""

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        @functools.wraps(function)
        def cast(*args: object, **kwargs: object) -> Result:
            if True not in _state.enabled.values():
                return function(*args, **kwargs)
            device = _first_device((*args, *kwargs.values()))
            if not _state.enabled.get(device) or device not in devices:
                return function(*args, **kwargs)
            dtype = get_autocast_dtype(device) if low else float32
            with autocast(device, enabled=False):
                return function(
                    *[_cast(value, device, dtype) for value in args],
                    **{name: _cast(value, device, dtype) for name, value in kwargs.items()},
                )

        return cast

    return decorate


@functools.cache
def _replace_functions() -> None:
    everywhere, on_cuda = ("cpu", "cuda"), ("cuda",)
    losses = " ".join(f"nn.functional.{name}" for name in _LOSSES.split())
    done = set()
    for names, low, devices in (
        (_PRODUCTS, True, everywhere),
        (f"{losses} {_IN_FLOAT32}", False, everywhere),
        (_IN_FLOAT32_ON_CUDA, False, on_cuda),
    ):
        for name in names.split():
            function = registry.OPERATORS[name].function
            if hasattr(function, "exchange") and function not in done:
                done.add(function)
                function.exchange(_casting(low, devices))
    Tensor.__matmul__ = _casting(True, everywhere)(Tensor.__matmul__)  # type: ignore[method-assign]


class autocast(AtomicExit):
    """A context manager and decorator that computes products in a low precision, and losses in float32.

    Products of float32 Tensors (``matmul``, ``linear``, convolutions, attention, recurrent layers) use ``dtype``.
    Losses and decompositions, and on a GPU also softmax, norms and sums, use float32. Other operators use the dtype of
    their inputs. float64 is never cast. The gradient of a leaf has the leaf's dtype.

    Without a GPU for ``"cuda"``, or without ml_dtypes for bfloat16, it warns and is disabled.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``.
        dtype: the dtype of products, by default float16 on a GPU and bfloat16 on the CPU.
        enabled: False disables an outer ``autocast``, too.
        cache_enabled: accepted for compatibility; weights are cast at each use.

    Raises:
        ValueError: ``device_type`` is not a str.
        RuntimeError: ``device_type`` is neither ``"cpu"`` nor ``"cuda"``.

    >>> import retrograd as rg
    >>> with rg.autocast("cpu", dtype=rg.float16):
    ...     y = rg.ones(2, 2) @ rg.ones(2, 2)
    ...     y.dtype, rg.nn.functional.mse_loss(y, y).dtype
    (retrograd.float16, retrograd.float32)
    """

    def __init__(
        self, device_type: str, dtype: object = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"autocast: device_type must be a str, got {type(device_type).__name__}")
        self.device = Device(device_type).type
        self._enabled = bool(enabled)
        self.fast_dtype = _default_dtype(self.device) if dtype is None else dtype
        self._cache = cache_enabled
        self.close = None
        if not self._enabled:
            return
        if self.device == "cuda" and not is_cuda_available():
            self._disable("CUDA is not available; autocast is disabled")
        elif (name := getattr(self.fast_dtype, "name", str(self.fast_dtype))) not in _LOW[self.device]:
            self._disable(f"autocast computes in {' or '.join(_LOW[self.device])}, not in {name}; it is disabled")
        elif name == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
            self._disable("bfloat16 needs ml_dtypes (pip install 'retrograd[bfloat16]'); autocast is disabled")

    def _disable(self, reason: str) -> None:
        warnings.warn(reason, UserWarning, stacklevel=4)
        self._enabled = False

    def __enter__(self) -> autocast:
        if self._enabled:
            _replace_functions()
        here, enabled, dtypes = _state.__dict__, _state.enabled, _state.dtypes
        undo = functools.partial(here.update, dict(here)), functools.partial(setattr, self, "close", self.close)
        self.close = functools.partial(any, map(call, undo))  # one call, so that no signal can interrupt it
        here.update(
            enabled={**enabled, self.device: self._enabled},
            dtypes={**dtypes, self.device: self.fast_dtype},
            cache=_state.cache if self._cache is None else self._cache,
        )
        return self

    def __call__(self, function: Any) -> Any:
        return decorated(function, self._clone)

    def _clone(self) -> autocast:
        again: autocast = type(self).__new__(type(self))
        again.device, again._enabled, again.fast_dtype = self.device, self._enabled, self.fast_dtype
        again._cache, again.close = self._cache, None
        return again


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether this thread is inside ``autocast`` for the device."""
    return _state.enabled.get(device_type, False)


def casts() -> tuple[tuple[str, DType | None], ...]:
    """Return the devices with autocast enabled and their dtypes. The results of operators depend on them."""
    return tuple((device, _state.dtypes.get(device)) for device, on in _state.enabled.items() if on)


casting.append(casts)


def is_autocast_cpu_enabled() -> bool:
    """Return whether this thread is inside ``autocast`` for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Enable or disable ``autocast`` for this thread; with one argument, for the GPU."""
    device, wanted = ("cuda", device_type) if enabled is None else (device_type, enabled)
    if wanted:
        _replace_functions()
    _state.enabled = {**_state.enabled, device: bool(wanted)}


def get_autocast_dtype(device_type: str) -> DType:
    """Return the dtype of products inside ``autocast`` on the device."""
    dtype = _state.dtypes.get(device_type)
    return _default_dtype(device_type) if dtype is None else np.dtype(dtype)


def set_autocast_dtype(device_type: str, dtype: DTypeLike) -> None:
    """Set the dtype of products inside ``autocast`` on the device, for this thread."""
    _state.dtypes = {**_state.dtypes, device_type: np.dtype(dtype)}


def get_autocast_gpu_dtype() -> DType:
    """Return the dtype of products inside ``autocast`` on a GPU."""
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> DType:
    """Return the dtype of products inside ``autocast`` on the CPU."""
    return get_autocast_dtype("cpu")


def is_autocast_cache_enabled() -> bool:
    """Return whether casts of weights may be cached. Retrograd does not cache them."""
    return _state.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of weights may be cached. Retrograd does not cache them."""
    _state.cache = bool(enabled)


def clear_autocast_cache() -> None:
    """Do nothing: casts of weights are not cached."""


def is_autocast_available(device_type: str) -> bool:
    """Return whether ``autocast`` supports the device."""
    return device_type in ("cpu", "cuda")


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: DTypeLike | None = None) -> Any:
    """Decorate the ``forward`` of a Function. Inside ``autocast`` its floating inputs are cast to ``cast_inputs``."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: object, **kwargs: object) -> object:
        cast = cast_inputs is not None and is_autocast_enabled(device_type)
        # Read by ``custom_bwd``. A forward whose inputs are cast runs outside autocast, and so does its backward.
        ctx._autocast = functools.partial(autocast, device_type, enabled=False) if cast else _current_state()
        if not cast:
            return fwd(ctx, *args, **kwargs)
        dtype = np.dtype(cast_inputs)
        with autocast(device_type, enabled=False):
            return fwd(
                ctx,
                *[_cast(value, device_type, dtype) for value in args],
                **{name: _cast(value, device_type, dtype) for name, value in kwargs.items()},
            )

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorate the ``backward`` of a Function. It runs with the ``autocast`` state of the forward (``custom_fwd``)."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: object, *gradients: object) -> object:
        with getattr(ctx, "_autocast", nullcontext)():
            return bwd(ctx, *gradients)

    return backward


def _scaled(x: Tensor, multiply: Callable[[Tensor], Tensor], scale: float) -> Tensor:
    """Multiply, and notify observers that the product and its backward pass may overflow."""
    factor = new_tensor(np.array(scale, np.float32))  # the product of this 0-d Tensor and a 0-d float16 loss is float32
    if not watchers:
        return multiply(factor)
    with scaling(x) as results:
        results.append(multiply(factor))
    return results[0]


def _in_float32(scale: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(scale))


class OptState(Enum):
    """The stage of an optimizer within a step."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scale a loss, so that float16 gradients do not underflow, and skip steps whose gradients overflowed.

    Without a GPU for ``"cuda"`` it warns and is disabled, as in PyTorch. A disabled scaler has no effect.

    Args:
        device: ``"cuda"`` or ``"cpu"``.
        init_scale: the initial scale factor.
        growth_factor: multiplies the scale after ``growth_interval`` steps without overflow.
        backoff_factor: multiplies the scale after an overflow.
        growth_interval: the number of steps without overflow before the scale grows.
        enabled: False disables the scaler.

    Raises:
        RuntimeError: ``device`` is neither ``"cuda"`` nor ``"cpu"``.
        AssertionError: ``growth_factor`` is not above 1, or ``backoff_factor`` is not below 1.
        ValueError: ``init_scale`` is not positive and finite, or ``growth_interval`` is not a positive int.

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
        self._scale = _in_float32(init_scale)
        self._has_scaled = False  # whether ``scale`` was called
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._stages: dict[int, OptState] = {}
        self._found_inf: dict[int, bool] = {}

    def scale(self, outputs: object) -> Any:
        """Return the loss, or each loss of an iterable, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._has_scaled = True
            return _scaled(outputs, outputs.__mul__, self._scale)
        if not isinstance(outputs, Iterable) or isinstance(outputs, str):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def _check_scaled(self, method: str) -> None:
        if not self._has_scaled:
            raise AssertionError(f"GradScaler.{method}: no loss was scaled; call scaler.scale(loss) first")

    def unscale_(self, optimizer: object) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for example before clipping.

        Raises:
            AssertionError: ``scale`` was never called.
            RuntimeError: ``unscale_`` was already called since the last ``update()``.
            ValueError: a gradient is float16; the parameters must stay in float32.
        """
        if not self._enabled:
            return
        if modes.tracer is not None:
            modes.tracer.breaks("GradScaler updates its scale, a Python number, after it has looked at the gradients")
        self._check_scaled("unscale_")
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"GradScaler.unscale_: expected an optimizer, got {type(optimizer).__name__}")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if any(gradient.dtype == float16 for gradient in gradients):
            raise ValueError("Attempting to unscale FP16 gradients: keep parameters in float32, and cast by autocast.")
        finite = []
        with no_grad(), np.errstate(all="ignore"):
            for gradient in gradients:
                _scaled(gradient, gradient.mul_, 1.0 / self._scale)
                finite.append(bool(np.isfinite(gradient.array).all()))
        if finite:
            self._found_inf[id(optimizer)] = not all(finite)
        self._stages[id(optimizer)] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: object, **kwargs: object) -> object:
        """Call ``optimizer.step()`` with unscaled gradients, unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scaled("step")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is OptState.READY:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found_inf:
            raise AssertionError("No inf checks were recorded for this optimizer: its parameters have no gradients.")
        self._stages[id(optimizer)] = OptState.STEPPED
        return None if self._found_inf[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Reduce the scale after an overflow, increase it after enough steps without overflow, or set a new scale."""
        if not self._enabled:
            return
        self._check_scaled("update")
        if isinstance(new_scale, Tensor) and (new_scale.requires_grad or new_scale.numel() != 1):
            raise AssertionError("new_scale should be a float, or a Tensor of 1 element that requires no gradient.")
        if new_scale is not None:
            self._scale = _in_float32(float(new_scale))
        elif not self._found_inf:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found_inf.values()):
            self._scale = _in_float32(self._scale * self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = _in_float32(self._scale * self._growth_factor)
                self._scale = grown if grown < float("inf") else self._scale
                self._growth_tracker = 0
        self._stages.clear()
        self._found_inf.clear()

    def __getstate__(self) -> dict[str, object]:
        if self._stages:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        return {**self.__dict__, "_has_scaled": False}

    def get_scale(self) -> float:
        """Return the scale, 1.0 if disabled."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Return whether the scaler is enabled."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """Return the growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the growth interval."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the growth interval."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Return the state, empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the result of ``state_dict()``."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty: it was saved from a disabled GradScaler.")
        missing = sorted(self.state_dict().keys() - state_dict.keys())
        if missing:
            raise RuntimeError(f"GradScaler.load_state_dict: the state dict has no {missing[0]!r}")
        self._scale = _in_float32(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]


class _cuda_autocast(autocast):
    """``amp.autocast("cuda")`` in its older form."""

    def __init__(self, enabled: bool = True, dtype: object = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class _CudaGradScaler(GradScaler):
    """``amp.GradScaler("cuda")`` in its older form."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


_cuda_autocast.__name__ = _cuda_autocast.__qualname__ = "autocast"
_CudaGradScaler.__name__ = _CudaGradScaler.__qualname__ = "GradScaler"

NAMES: Mapping[str, str | Mapping[str, object]] = {
    "amp": "GradScaler OptState autocast custom_bwd custom_fwd get_autocast_cpu_dtype get_autocast_dtype "
    "get_autocast_gpu_dtype is_autocast_available is_autocast_enabled",
    "cuda.amp": "GradScaler=_CudaGradScaler autocast=_cuda_autocast custom_bwd custom_fwd",
}

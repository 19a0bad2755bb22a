"""``autocast``: inside it products are computed in a low precision, and losses and their kind in float32.

The lists are PyTorch's, by operator. When ``autocast`` is first entered, the listed operators exchange what they call
for a function that casts their Tensors first; the casts are recorded, so gradients come back in the inputs' dtype.
Programs that never enter it pay nothing.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import call
from typing import Any

import numpy as np

from ..core.arrays.devices import Device, is_cuda_available
from ..core.arrays.dtypes import FLOATING, DType, float16, float32, float64
from ..core.graph.modes import AtomicExit, casting, decorated, surroundings
from ..core.tensor.tensor import Tensor
from ..ops.table.registry import OPERATORS

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
# On a GPU alone: there PyTorch computes sums and norms in float32, on the CPU its kernels add in float32 anyway.
_IN_FLOAT32_ON_CUDA = """
    cosine_similarity cumprod cumsum dist erfinv logcumsumexp logsumexp norm pow renorm sum nn.functional.group_norm
    nn.functional.layer_norm nn.functional.log_softmax nn.functional.normalize nn.functional.pdist
    nn.functional.softmax nn.functional.softmin nn.functional.softplus softmax log_softmax
"""
_LOW = {"cpu": ("bfloat16", "float16"), "cuda": ("float16", "bfloat16", "float32")}


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, Any] = {}
        self.cache = True


_state = _State()


@contextmanager
def _restored(found: dict[str, Any]) -> Iterator[None]:
    """Inside, ``autocast`` is as it was when the state was taken."""
    before = dict(_state.__dict__)
    _state.__dict__.update(found)
    try:
        yield
    finally:
        _state.__dict__.update(before)


def _as_it_is_now() -> Callable[[], AbstractContextManager[None]]:
    return functools.partial(_restored, dict(_state.__dict__))


surroundings.append(_as_it_is_now)  # a checkpoint that is entered inside computes again as it did


def _default_dtype(device_type: str) -> Any:
    if device_type == "cuda":
        return float16
    from .bfloat16 import bfloat16

    return bfloat16


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    if isinstance(value, Tensor):
        kind = value.array.dtype
        if kind.kind not in FLOATING or kind in (float64, dtype) or value.device.type != device_type:
            return value
        return value.to(dtype)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    if hasattr(value, "is_sparse") and value.dtype.kind in FLOATING and value.dtype not in (float64, dtype):
        return value.to(dtype)
    return value


def _first_device(values: Any) -> str:
    for value in values:
        if isinstance(value, Tensor):
            return value.device.type
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
            return value[0].device.type
    return "cpu"


def _casting(low: bool, devices: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What an operator's function is exchanged for: the same with its Tensors cast, where ``autocast`` is enabled."""

    def change(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def cast(*args: Any, **kwargs: Any) -> Any:
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

    return change


@functools.cache
def _exchange() -> None:
    """Let the listed operators cast, once for the process."""
    everywhere, on_cuda = ("cpu", "cuda"), ("cuda",)
    losses = " ".join(f"nn.functional.{name}" for name in _LOSSES.split())
    done = set()
    for names, low, devices in (
        (_PRODUCTS, True, everywhere),
        (f"{losses} {_IN_FLOAT32}", False, everywhere),
        (_IN_FLOAT32_ON_CUDA, False, on_cuda),
    ):
        for name in names.split():
            function = OPERATORS[name].function
            if hasattr(function, "exchange") and function not in done:
                done.add(function)
                function.exchange(_casting(low, devices))
    Tensor.__matmul__ = _casting(True, everywhere)(Tensor.__matmul__)  # type: ignore[method-assign]


class autocast(AtomicExit):
    """A context manager and decorator: products inside are computed in a low precision, losses in float32.

    Products of float32 Tensors (``matmul``, ``linear``, convolutions, attention, recurrent layers) take ``dtype``; what
    needs precision (losses, decompositions, on a GPU also softmax, norms and sums) takes float32; everything else keeps
    the dtype of its operands. Gradients come back in each leaf's own dtype. float64 stays float64.

    Where the device is a GPU that is not there, or bfloat16 is asked for without ml_dtypes, it warns and is disabled.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``.
        dtype: of products, by default float16 on a GPU and bfloat16 on the CPU.
        enabled: whether it is at all; False switches an outer one off.
        cache_enabled: taken for compatibility: weights are cast at each use.

    Raises:
        ValueError: ``device_type`` is no text.
        RuntimeError: it is none of the two devices.

    >>> import retrograd as rg
    >>> with rg.autocast("cpu", dtype=rg.float16):
    ...     y = rg.ones(2, 2) @ rg.ones(2, 2)
    ...     y.dtype, rg.nn.functional.mse_loss(y, y).dtype
    (dtype('float16'), dtype('float32'))
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"autocast: wanted device_type to be a str, got {type(device_type).__name__}")
        self.device = Device(device_type).type
        self._enabled = bool(enabled)
        self.fast_dtype = _default_dtype(self.device) if dtype is None else dtype
        self._cache = cache_enabled
        self.close = None
        if not self._enabled:
            return
        if self.device == "cuda" and not is_cuda_available():
            self._disable("CUDA is not available: autocast is disabled")
        elif (name := getattr(self.fast_dtype, "name", str(self.fast_dtype))) not in _LOW[self.device]:
            self._disable(f"autocast computes in {' or '.join(_LOW[self.device])}, not in {name}: it is disabled")
        elif name == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
            self._disable("bfloat16 needs ml_dtypes (pip install 'retrograd[bfloat16]'): autocast is disabled")

    def _disable(self, reason: str) -> None:
        warnings.warn(reason, UserWarning, stacklevel=4)
        self._enabled = False

    def __enter__(self) -> autocast:
        if self._enabled:
            _exchange()
        here, enabled, dtypes = _state.__dict__, _state.enabled, _state.dtypes
        undo = functools.partial(here.update, dict(here)), functools.partial(setattr, self, "close", self.close)
        self.close = functools.partial(any, map(call, undo))  # one call restores all
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
    """Whether this thread is inside ``autocast`` for the device."""
    return _state.enabled.get(device_type, False)


def casts() -> tuple[tuple[str, Any], ...]:
    """The devices on which autocast is on, and its dtype there: what calls of operators depend on."""
    return tuple((device, _state.dtypes.get(device)) for device, on in _state.enabled.items() if on)


casting.append(casts)


def is_autocast_cpu_enabled() -> bool:
    """Whether this thread is inside ``autocast`` for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch ``autocast`` on or off for this thread; with one argument, for the GPU."""
    device, wanted = ("cuda", device_type) if enabled is None else (device_type, enabled)
    if wanted:
        _exchange()
    _state.enabled = {**_state.enabled, device: bool(wanted)}


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype of products inside ``autocast`` on the device."""
    dtype = _state.dtypes.get(device_type)
    return _default_dtype(device_type) if dtype is None else np.dtype(dtype)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Set the dtype of products inside ``autocast`` on the device, for this thread."""
    _state.dtypes = {**_state.dtypes, device_type: np.dtype(dtype)}


def get_autocast_gpu_dtype() -> Any:
    """The dtype of products inside ``autocast`` on a GPU."""
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    """The dtype of products inside ``autocast`` on the CPU."""
    return get_autocast_dtype("cpu")


def is_autocast_cache_enabled() -> bool:
    """Whether casts of weights may be kept: what ``cache_enabled`` said last."""
    return _state.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether casts of weights may be kept; here they are made at each use."""
    _state.cache = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget casts of weights that were kept: there are none."""


def is_autocast_available(device_type: str) -> bool:
    """Whether ``autocast`` takes the device."""
    return device_type in ("cpu", "cuda")


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Mark the ``forward`` of a Function; inside ``autocast`` its floating inputs are cast to ``cast_inputs``."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        cast = cast_inputs is not None and is_autocast_enabled(device_type)
        # For ``custom_bwd``: a forward whose inputs are cast runs outside autocast, and so does its backward.
        ctx._autocast = functools.partial(autocast, device_type, enabled=False) if cast else _as_it_is_now()
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
    """Mark the ``backward`` of a Function whose forward has ``custom_fwd``: it runs inside ``autocast`` as that did."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *gradients: Any) -> Any:
        with getattr(ctx, "_autocast", nullcontext)():
            return bwd(ctx, *gradients)

    return backward

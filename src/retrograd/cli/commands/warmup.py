"""`retrograd warmup`: compile the operators' loops before a program needs them."""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import kernels, nn, optim
from retrograd.nn import functional as F
from retrograd.optim import swa_utils

from ..console import UserError

WIDE = 256  # arrays of WIDE x WIDE numbers are large enough for compiled loops


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "warmup",
        help="compile the operators' loops, once for this machine",
        description="Compile the operators' loops now instead of at their first use. They are "
        "cached for this machine; cached loops are not compiled again.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if kernels.compiled() is None or not kernels.compiles():
        raise UserError("nothing to compile: Numba is not installed (pip install retrograd[fast]), or turned off")
    from retrograd.kernels.build.compile_ahead import ahead
    from retrograd.kernels.build.compiled_loops import compiled

    for name, exercise in exercises():
        loops, start = compiled.loops + ahead.loops, time.perf_counter()
        exercise()
        loops, seconds = compiled.loops + ahead.loops - loops, time.perf_counter() - start
        print(f"{name}: " + (f"{loops} loops compiled in {seconds:.1f} s" if loops else "nothing to compile"))
    return 0


def exercises() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield programs that together call all loops, each with its name."""
    yield "products", _products
    yield "activations", _activations
    yield "normalization", _normalization
    yield "images", _images
    yield "sequences", _sequences
    yield "attention", _attention
    yield "classes", _classes
    yield "optimizers", _optimizers


def _leaf(*shape: int, dtype: Any = np.float32) -> Any:
    return rg.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(dtype)).requires_grad_()


def _differentiate(*outputs: Any) -> None:
    """Run backward with a cotangent that has the output's memory layout."""
    for y in outputs:
        y.backward(rg.ones_like(y))


def _products() -> None:
    for dtype in (np.float32, np.float64):
        x, y = _leaf(WIDE, WIDE, dtype=dtype), _leaf(WIDE, WIDE, dtype=dtype)
        _differentiate(x @ y, F.linear(x, y), F.linear(x[:32], y))


def _activations() -> None:
    x = _leaf(WIDE, WIDE)
    for function in (rg.exp, rg.tanh, rg.sigmoid, F.relu, F.silu, F.gelu, F.softplus):
        _differentiate(function(x))
    for loss in (F.mse_loss, F.l1_loss, F.huber_loss):
        loss(x, x.detach()).backward()
    _differentiate(F.dropout(x), rg.where(x > 0, x, -x), rg.cat([x] * 4) * 2)
    _differentiate(F.gelu(x, approximate="tanh"), F.softmax(x, -1), F.log_softmax(x, -1), x.cumsum(-1))


def _normalization() -> None:
    rows, planes = _leaf(WIDE, WIDE), _leaf(16, 16, 16, 16)
    for norm in (nn.LayerNorm(WIDE), nn.LayerNorm(WIDE, bias=False), nn.RMSNorm(WIDE)):
        _differentiate(norm(rows))
    for channels in (nn.BatchNorm2d(16), nn.GroupNorm(4, 16), nn.InstanceNorm2d(16, affine=True)):
        _differentiate(channels(planes))


def _images() -> None:
    x = _leaf(8, 16, 32, 32)
    for module in (nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(16, 32, 1), nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1),
                   nn.AvgPool2d(2)):  # fmt: skip
        _differentiate(module(x))


def _sequences() -> None:
    x = _leaf(16, 16, 128)
    for module in (nn.LSTM(128, 128), nn.GRU(128, 128), nn.RNN(128, 128)):
        _differentiate(module(x)[0])


def _attention() -> None:
    q, k, v = [_leaf(4, 4, 64, 32) for _ in range(3)]
    for causal in (False, True):
        _differentiate(F.scaled_dot_product_attention(q, k, v, is_causal=causal))


def _classes() -> None:
    y = rg.arange(WIDE * 2) % WIDE
    _differentiate(F.cross_entropy(_leaf(WIDE * 2, WIDE), y), F.embedding(y, _leaf(WIDE, WIDE)))
    x = _leaf(2, 64, WIDE, 2)
    _differentiate(F.cross_entropy(x, y.reshape(2, 1, WIDE).mT.expand(2, WIDE, 2) % 64))
    _differentiate(F.softmax(x, 1), F.log_softmax(x, 1))


def _optimizers() -> None:
    for name in ("SGD", "ASGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop"):
        x = _leaf(WIDE, WIDE)
        x.grad = rg.ones(WIDE, WIDE)
        optimizer: Any = getattr(optim, name)([x], lr=0.1)
        nn.utils.clip_grad_norm_(x, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        swa_utils.get_ema_multi_avg_fn()([rg.zeros(WIDE, WIDE)], [x], 1)

"""The compiled loops of connectionist temporal classification: single precision, one sequence after the other.

The recursions and the notation are those of ops/nn/losses/ctc.py.
"""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared
from ..elements.basic_loops import _exp, _inlined, f

_LOWEST = f(-1e30)
_LN2 = f(0.69314718055994530942)
_SQRT2 = f(1.41421356237)


@_inlined
def _log_from_one_to_three(x: np.floating) -> np.floating:
    """log(x) for x in [1, 3] by the polynomial of Cephes' logf, with x halved into [sqrt(1/2), sqrt(2)]."""
    halvings = (f(1) if x > _SQRT2 else f(0)) + (f(1) if x > f(2) * _SQRT2 else f(0))
    factor = f(1) if halvings == f(0) else (f(0.5) if halvings == f(1) else f(0.25))
    y = x * factor - f(1)
    z = y * y
    p = f(7.0376836292e-2)
    p = p * y - f(1.1514610310e-1)
    p = p * y + f(1.1676998740e-1)
    p = p * y - f(1.2420140846e-1)
    p = p * y + f(1.4249322787e-1)
    p = p * y - f(1.6668057665e-1)
    p = p * y + f(2.0000714765e-1)
    p = p * y - f(2.4999993993e-1)
    p = p * y + f(3.3333331174e-1)
    return y - f(0.5) * z + y * z * p + halvings * _LN2


@_inlined
def _log_sum(x: np.floating, y: np.floating, z: np.floating) -> np.floating:
    """``log(e^x + e^y + e^z)``; -inf if all are -inf; propagates NaN."""
    top = x if x > y else y
    top = z if z > top else top
    top = top if top > _LOWEST else _LOWEST
    total = _exp(x - top) + _exp(y - top) + _exp(z - top)
    log = top + _log_from_one_to_three(total)
    return f(-np.inf) if total == f(0) else log


@shared("contract")
def ctc_forward(
    log_probs: np.ndarray,
    labels: np.ndarray,
    barred: np.ndarray,
    steps: np.ndarray,
    lengths: np.ndarray,
    forward: np.ndarray,
    loss: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Compute ``forward`` and the losses; ``barred`` is 0 where a blank may be skipped, otherwise -inf."""
    width = labels.shape[1]
    reached = np.empty(width + 2, np.float32)  # two unreachable places before the first
    ahead = np.empty(width, np.float32)
    for n in range(start, stop):
        reached[:] = f(-np.inf)
        reached[2] = f(0)
        for t in range(steps[n]):
            for s in range(width):
                ahead[s] = log_probs[t, n, labels[n, s]]
            for s in range(width):
                ahead[s] += _log_sum(reached[s + 2], reached[s + 1], reached[s] + barred[n, s])
            for s in range(width):
                reached[s + 2] = ahead[s]
                forward[t, n, s] = ahead[s]
        end = 2 * lengths[n] + 2
        other = reached[end - 1] if lengths[n] > 0 else f(-np.inf)
        loss[n] = -_log_sum(reached[end], other, f(-np.inf))


@shared("contract")
def ctc_backward(
    g: np.ndarray,
    log_probs: np.ndarray,
    loss: np.ndarray,
    forward: np.ndarray,
    labels: np.ndarray,
    barred: np.ndarray,
    steps: np.ndarray,
    lengths: np.ndarray,
    dx: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Add the gradient to dx, which contains zeros; a loss of NaN marks a sequence without a gradient."""
    width, classes = labels.shape[1], log_probs.shape[2]
    after = np.empty(width + 2, np.float32)  # two unreachable places after the last
    ahead = np.empty(width, np.float32)
    share = np.empty(width, np.float32)
    for n in range(start, stop):
        after[:] = f(-np.inf)
        for t in range(steps[n] - 1, -1, -1):
            if t == steps[n] - 1:
                ahead[:] = f(-np.inf)
                ahead[2 * lengths[n]] = f(0)
                if lengths[n] > 0:
                    ahead[2 * lengths[n] - 1] = f(0)
            else:
                for s in range(width - 2):
                    ahead[s] = _log_sum(after[s], after[s + 1], after[s + 2] + barred[n, s + 2])
                for s in range(max(width - 2, 0), width):
                    ahead[s] = _log_sum(after[s], after[s + 1], f(-np.inf))
            for s in range(width):
                share[s] = _exp(forward[t, n, s] + ahead[s] + loss[n])
            for c in range(classes):
                dx[t, n, c] = _exp(log_probs[t, n, c])
            for s in range(width):
                dx[t, n, labels[n, s]] -= share[s]
            for c in range(classes):
                dx[t, n, c] *= g[n]
            for s in range(width):
                after[s] = ahead[s] + log_probs[t, n, labels[n, s]]

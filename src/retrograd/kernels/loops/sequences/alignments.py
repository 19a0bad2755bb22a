"""Connectionist temporal classification by compiled loops. The references are in ops/nn/losses/ctc.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arrays import Array
from ... import compiled, loop, suits
from ...runtime.threads import launch

WORTHWHILE = 1 << 7  # minimum product of steps and places for which the loops save more time than their call costs
SHARED = 1 << 12  # minimum product of steps and places per thread


def takes(log_probs: Array, labels: Array) -> bool:
    """Return whether to use the loops: for float32 NumPy arrays with enough steps and places."""
    return suits(log_probs) and log_probs.shape[0] * labels.size >= WORTHWHILE and compiled() is not None


def _barred(skips: Any) -> Any:
    return np.where(skips, np.float32(0), np.float32(-np.inf))


def _least(log_probs: Any, labels: Any) -> int:
    """Return the minimum number of sequences per thread."""
    return max(1, SHARED // (log_probs.shape[0] * labels.shape[1]))


def forward(log_probs: Any, labels: Any, skips: Any, steps: Any, lengths: Any) -> tuple[Any, Any]:
    """Return the losses ``(N,)`` and the log-likelihoods of places ``(T, N, S')``, up to the sequences' lengths."""
    reached = np.empty((log_probs.shape[0], *labels.shape), np.float32)
    loss = np.empty(len(labels), np.float32)
    args = log_probs, labels, _barred(skips), steps, lengths, reached, loss
    launch(loop("loops.sequences.alignment_loops", "ctc_forward"), len(labels), _least(log_probs, labels), *args)
    return loss, reached


def backward(
    g: Array, log_probs: Any, loss: Any, reached: Any, labels: Any, skips: Any, steps: Any, lengths: Any
) -> Any:
    """Return the gradient of the log-probabilities."""
    dx = np.zeros_like(log_probs)
    g = np.ascontiguousarray(g, np.float32)
    args = g, log_probs, loss, reached, labels, _barred(skips), steps, lengths, dx
    launch(loop("loops.sequences.alignment_loops", "ctc_backward"), len(labels), _least(log_probs, labels), *args)
    return dx

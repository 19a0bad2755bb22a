"""The compiled loops on some of the ``before * after`` lanes of arrays (before, length, after)."""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared


@njit
def _take(x: np.ndarray, index: np.ndarray, out: np.ndarray) -> None:
    for j in range(index.size):
        out[j] = x[index[j]]


@shared()
def take(x: np.ndarray, index: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    after = x.shape[2]
    if after == 1:
        for b in range(start, stop):
            _take(x[b, :, 0], index[b, :, 0], out[b, :, 0])
        return
    for b in range(start // after, (stop - 1) // after + 1):
        low, high = max(0, start - b * after), min(after, stop - b * after)
        for j in range(index.shape[1]):
            for k in range(low, high):
                out[b, j, k] = x[b, index[b, j, k], k]


@njit
def _put(out: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    for j in range(index.size):
        out[index[j]] = values[j]


@shared()
def put(out: np.ndarray, index: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    after = out.shape[2]
    if after == 1:
        for b in range(start, stop):
            _put(out[b, :, 0], index[b, :, 0], values[b, :, 0])
        return
    for b in range(start // after, (stop - 1) // after + 1):
        low, high = max(0, start - b * after), min(after, stop - b * after)
        for j in range(index.shape[1]):
            for k in range(low, high):
                out[b, index[b, j, k], k] = values[b, j, k]


@njit
def _add(out: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    for j in range(index.size):
        out[index[j]] += values[j]


@shared()
def add(out: np.ndarray, index: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    after = out.shape[2]
    if after == 1:
        for b in range(start, stop):
            _add(out[b, :, 0], index[b, :, 0], values[b, :, 0])
        return
    for b in range(start // after, (stop - 1) // after + 1):
        low, high = max(0, start - b * after), min(after, stop - b * after)
        for j in range(index.shape[1]):
            for k in range(low, high):
                out[b, index[b, j, k], k] += values[b, j, k]

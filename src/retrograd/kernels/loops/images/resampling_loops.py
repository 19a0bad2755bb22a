"""The compiled loop of linear maps along the last axes.

``x`` and ``out`` are ``(planes, D, H, W)``. Each axis has ``index`` and ``weight (terms, outputs)``: an output is the
weighted sum of the elements that it reads. If ``weight`` has no terms, an output is a single element.
"""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared

_part = njit(error_model="numpy", fastmath={"contract"})


@_part
def _mixed(rows: np.ndarray, index: np.ndarray, weight: np.ndarray, at: int, out: np.ndarray) -> None:
    """Compute output ``at`` of a map along the first axis of ``rows``, a weighted sum of vectors."""
    terms = len(weight)
    for t in range(0, terms - 1, 2):
        x, y, a, b = rows[index[t, at]], rows[index[t + 1, at]], weight[t, at], weight[t + 1, at]
        if t == 0:
            for j in range(len(out)):
                out[j] = a * x[j] + b * y[j]
        else:
            for j in range(len(out)):
                out[j] += a * x[j] + b * y[j]
    if terms % 2:
        x, a = rows[index[terms - 1, at]], weight[terms - 1, at]
        if terms == 1:
            for j in range(len(out)):
                out[j] = a * x[j]
        else:
            for j in range(len(out)):
                out[j] += a * x[j]


@_part
def _read(x: np.ndarray, index: np.ndarray, weight: np.ndarray, out: np.ndarray) -> None:
    """Compute all outputs of a map on one vector."""
    terms = len(weight)
    if terms == 0:
        i = index[0]
        for j in range(len(out)):
            out[j] = x[i[j]]
    for t in range(0, terms - 1, 2):
        i, k, a, b = index[t], index[t + 1], weight[t], weight[t + 1]
        if t == 0:
            for j in range(len(out)):
                out[j] = a[j] * x[i[j]] + b[j] * x[k[j]]
        else:
            for j in range(len(out)):
                out[j] += a[j] * x[i[j]] + b[j] * x[k[j]]
    if terms % 2:
        i, a = index[terms - 1], weight[terms - 1]
        if terms == 1:
            for j in range(len(out)):
                out[j] = a[j] * x[i[j]]
        else:
            for j in range(len(out)):
                out[j] += a[j] * x[i[j]]


@shared("contract")
def resample(
    x: np.ndarray,
    depth: np.ndarray,
    depth_weight: np.ndarray,
    height: np.ndarray,
    height_weight: np.ndarray,
    width: np.ndarray,
    width_weight: np.ndarray,
    out: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Fill the planes ``start`` to ``stop``."""
    volume = np.empty((x.shape[2] * x.shape[3] if len(depth_weight) else 0), x.dtype)
    row = np.empty(x.shape[3] if len(height_weight) else 0, x.dtype)
    for p in range(start, stop):
        flat = x[p].reshape((x.shape[1], x.shape[2] * x.shape[3]))
        for d in range(out.shape[1]):
            plane = flat[depth[0, d]]
            if len(depth_weight):
                _mixed(flat, depth, depth_weight, d, volume)
                plane = volume
            image = plane.reshape((x.shape[2], x.shape[3]))
            for h in range(out.shape[2]):
                if len(height_weight):
                    _mixed(image, height, height_weight, h, row)
                    _read(row, width, width_weight, out[p, d, h])
                elif h > 0 and height[0, h] == height[0, h - 1]:
                    for w in range(out.shape[3]):
                        out[p, d, h, w] = out[p, d, h - 1, w]
                else:
                    _read(image[height[0, h]], width, width_weight, out[p, d, h])

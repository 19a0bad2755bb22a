"""Small images of an array's values: a heat map and a histogram."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape

import numpy as np

from ..drawing.figures import number

# Colors from the most negative to the most positive number, through a gray that is visible on white and black.
# Values that are not finite have their own color. Blue and orange are distinct for color-blind people.
NEGATIVE, MIDDLE, POSITIVE, MISSING = (0, 114, 178), (208, 212, 218), (213, 94, 0), (204, 0, 153)
ROWS, COLUMNS = 32, 64  # the largest number of cells of a heat map along each axis
BINS = 32


def plane(array: np.ndarray) -> tuple[np.ndarray, str]:
    """Return two axes of an array as real numbers, and their index: the last two axes, at index 0 of all others."""
    if array.dtype.kind == "c":
        array = np.abs(array)
    if array.ndim < 2:
        return array.reshape(1, -1), ""
    outer = array.shape[:-2]
    part = f"[{', '.join('0' * array.ndim)[: 3 * len(outer)]}:, :]" if any(length > 1 for length in outer) else ""
    return array[(0,) * len(outer)], part


def heat_map(values: np.ndarray) -> str:
    """Return the plane as an image of block means; the colors range over the extreme values."""
    grid = blocks(values.astype(np.float64))
    finite = np.isfinite(grid)
    largest = float(np.abs(grid[finite]).max()) if finite.any() else 0.0
    scaled = np.where(finite, grid, 0.0) / (largest or 1.0)
    middle = np.array(MIDDLE, dtype=np.float64)
    ends = np.where(scaled[..., None] < 0, np.array(NEGATIVE), np.array(POSITIVE))
    colors = middle + (ends - middle) * np.sqrt(np.abs(scaled))[..., None]
    colors[~finite] = MISSING
    rows, columns = grid.shape
    cell = max(3, min(14, 320 // columns, 160 // rows))
    image = base64.b64encode(png(colors.round().astype(np.uint8))).decode()
    return (
        f'<img alt="heat map of the values" title="blue: {number(-largest)}, gray: 0, orange: {number(largest)}" '
        f'src="data:image/png;base64,{image}" width="{max(14, columns * cell)}" height="{max(14, rows * cell)}" '
        'style="image-rendering:pixelated;display:block;max-width:100%;margin:0">'
    )


def histogram(values: np.ndarray) -> str:
    """Return a histogram of the finite values between their extremes."""
    finite = values[np.isfinite(values)].astype(np.float64)
    if finite.size < 2 or finite.min() == finite.max():
        return ""
    counts, edges = np.histogram(finite, BINS)
    bars = "".join(
        f'<rect x="{5 * i}" y="{48 - height:.1f}" width="4" height="{height:.1f}"/>'
        for i, height in enumerate(46 * np.sqrt(counts / counts.max()))
        if height
    )
    ends = f'<text x="0" y="60">{number(edges[0])}</text>'
    ends += f'<text x="{5 * BINS - 1}" y="60" text-anchor="end">{number(edges[-1])}</text>'
    return (
        f'<svg width="{5 * BINS}" height="64" role="img" aria-label="{escape(f"histogram of {finite.size} values")}">'
        f'<title>heights are square roots of counts</title><g fill="#0072b2">{bars}</g>'
        f'<g fill="currentColor" font-size="10" font-family="system-ui,sans-serif">{ends}</g></svg>'
    )


def blocks(values: np.ndarray, rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    """Return an array of at most ``rows`` x ``columns`` numbers: the means of blocks of the values."""
    for axis, most in ((0, rows), (1, columns)):
        length = values.shape[axis]
        if length > most:
            starts = np.arange(most) * length // most
            counts = np.diff([*starts, length])
            sums = np.add.reduceat(values, starts, axis=axis)
            values = sums / (counts[:, None] if axis == 0 else counts)
    return values


def png(pixels: np.ndarray) -> bytes:
    """Encode bytes, one per pixel or three along a last axis, as a PNG image (RFC 2083)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = pixels.shape[:2]
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body

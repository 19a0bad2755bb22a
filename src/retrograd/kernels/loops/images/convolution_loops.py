"""The compiled loops of convolution: unroll windows into columns in the cache, and multiply the columns.

Arrays are contiguous: ``x (N, G, C, D, H, W)``, ``w (G, steps, O, K)`` with K numbering channel and element of the
kernel, and ``y (N, G, O, columns)``, whose columns are lines of W' windows each. ``window`` contains kernel, stride,
padding, dilation and the number of windows, each for three axes.

A tile is the columns of some lines of one image, or of all lines of several images. The tiles, and therefore the
sums, do not depend on the number of threads.

The columns of short lines would be copied in runs of a few numbers. Therefore the columns of eight images (or a
multiple of eight) are interleaved: each position of a window is a vector, with zeros for missing images.

If the stride along H is 1, the windows of an image overlap as whole lines and need not be unrolled along H: with as
many ``steps`` as the kernel has rows, each step reads the same columns with an offset of some lines.

For bfloat16, which is given as uint16, the factors of ``forward`` and ``transposed`` are pairs of adjacent channels, as
uint32 (see ``matrices/pairs.py``), and ``weight`` reads pairs of adjacent columns. Sums are float32.
"""
# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

import numpy as np

from ...runtime import loop_blas
from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from ...tiles.packed_products import packed_product_at
from ...tiles.tiles import BYTES, product
from ..elements.basic_loops import like
from ..matrices.product_loops import add_halves
from ..matrices.products import WIDE
from .convolution import LANES
from .interleaved import gather_lanes, pad_lanes, roll_lanes, scatter_lanes, unpad_lanes, unroll_lanes, within
from .lines import add_every_second, copy, copy_every_second, copy_inside, fill

TALL, BROAD = 64, 16  # rows of columns, and channels, from which tiles are faster than BLAS for a weight's gradient
_loop = shared("contract")
_part = njit(error_model="numpy", fastmath={"contract"})


@_part
def _shape(window, lines):
    """Return the shape (planes, rows, columns) of the padded image read by ``lines`` lines of one plane of windows."""
    (kernel_d, kernel_h, kernel_w), (_, stride_h, stride_w), _, (_, dilation_h, dilation_w), out = window
    rows = (min(lines, out[1]) - 1) * stride_h + (kernel_h - 1) * dilation_h + 1
    return kernel_d, rows, (out[2] - 1) * stride_w + (kernel_w - 1) * dilation_w + 1


@_part
def _image(channels, window, lines, lanes, like):
    """Allocate a buffer for the padded image, or for several interleaved images."""
    depth, rows, columns = _shape(window, lines)
    return np.empty((channels, depth, rows, columns * lanes), like.dtype)


@_part
def _room(columns):
    """Return the row stride of a buffer with this number of columns; strides of powers of two conflict in the cache."""
    return (-(-columns // 16) | 1) * 16


@_part
def _pad(x, plane, row, window, image):
    """Fill the padded image of the windows at a plane and from a row on; 0 outside of x."""
    _, stride, padding, dilation, _ = window
    left, right = within(-padding[2], image.shape[3], x.shape[3])
    top = row * stride[1] - padding[1]
    first, last = within(top, image.shape[2], x.shape[2])
    for d in range(image.shape[1]):
        depth = plane * stride[0] - padding[0] + d * dilation[0]
        for c in range(len(x)):
            if depth < 0 or depth >= x.shape[1]:
                image[c, d] = 0
                continue
            image[c, d, :first] = 0
            image[c, d, last:] = 0
            for h in range(first, last):
                target, source = image[c, d, h], x[c, depth, top + h]
                target[:left] = 0
                target[right:] = 0
                copy(target, left, source, left - padding[2], right - left)


@_part
def _unpad(image, plane, row, window, x):
    """The transpose of ``_pad``: add the elements inside of x to x."""
    _, stride, padding, dilation, _ = window
    left, right = within(-padding[2], image.shape[3], x.shape[3])
    top = row * stride[1] - padding[1]
    first, last = within(top, image.shape[2], x.shape[2])
    for d in range(image.shape[1]):
        depth = plane * stride[0] - padding[0] + d * dilation[0]
        if 0 <= depth < x.shape[1]:
            for c in range(len(x)):
                for h in range(first, last):
                    target = x[c, depth, top + h, left - padding[2] : right - padding[2]]
                    source = image[c, d, h, left:right]
                    for j in range(len(target)):
                        target[j] += source[j]


@_part
def _unroll(image, window, rows, height, columns, at):
    """Write ``rows`` rows of windows as columns, from column ``at`` on, with ``height`` rows of each window."""
    kernel, stride, _, dilation, out = window
    number = 0
    for c in range(len(image)):
        for d in range(kernel[0]):
            for u in range(height):
                for v in range(kernel[2]):
                    for h in range(rows):
                        source = image[c, d, h * stride[1] + u * dilation[1]]
                        if stride[2] == 1:
                            copy(columns[number], at + h * out[2], source, v * dilation[2], out[2])
                            continue
                        if stride[2] == 2:
                            copy_every_second(columns[number], at + h * out[2], source, v * dilation[2], out[2])
                            continue
                        target, source = columns[number, at + h * out[2] :], source[v * dilation[2] :]
                        for j in range(out[2]):
                            target[j] = source[j * stride[2]]
                    number += 1


@_part
def _along_lines(x, window):
    """Return whether windows move by single elements along whole lines of x, of which ``copy_inside`` copies parts."""
    return BYTES >= 32 and x.itemsize >= 4 and window[1][1] == window[1][2] == 1 and window[4][2] == x.shape[5]


@_part
def _inside_lines(x, window, lines):
    """Return for each column of the kernel, and each window of some lines, whether it reads an element of the line."""
    kernel, _, padding, dilation, out = window
    width = lines * out[2] if _along_lines(x, window) else 0
    flags = np.zeros((kernel[2], width + BYTES if width else 0), np.uint8)  # ``copy_inside`` reads whole vectors
    for v in range(len(flags)):
        first, last = within(v * dilation[2] - padding[2], out[2], out[2])
        for at in range(0, width, out[2]):
            flags[v, at + first : at + last] = 1
    return flags


@_part
def _shift(x, plane, row, window, rows, height, inside, columns, at):
    """``_pad`` and ``_unroll`` for windows ``_along_lines``: each row of columns is the plane with an offset."""
    kernel, stride, padding, dilation, out = window
    number, count, size = 0, rows * out[2], x.shape[2] * x.shape[3]
    for c in range(len(x)):
        for d in range(kernel[0]):
            depth = plane * stride[0] - padding[0] + d * dilation[0]
            exists = 0 <= depth < x.shape[1]
            source = x[c, depth if exists else 0].reshape(size)
            for u in range(height):
                for v in range(kernel[2]):
                    start = (row - padding[1] + u * dilation[1]) * out[2] + v * dilation[2] - padding[2]
                    first, last = within(start, count, size if exists else 0)
                    target = columns[number]
                    target[at : at + first] = 0
                    target[at + last : at + count] = 0
                    copy_inside(target, at + first, source, start + first, last - first, inside[v], first)
                    number += 1


@_part
def _roll(columns, at, window, rows, image):
    """The transpose of ``_unroll``: add columns to the positions that they are read from."""
    kernel, stride, _, dilation, out = window
    number = 0
    for c in range(len(image)):
        for d in range(kernel[0]):
            for u in range(kernel[1]):
                for v in range(kernel[2]):
                    for h in range(rows):
                        line = image[c, d, h * stride[1] + u * dilation[1]]
                        if stride[2] == 2:
                            add_every_second(line, v * dilation[2], columns[number], at + h * out[2], out[2])
                            continue
                        target, source = (
                            line[v * dilation[2] :],
                            columns[number, at + h * out[2] : at + (h + 1) * out[2]],
                        )
                        if stride[2] == 1:
                            for j in range(len(source)):
                                target[j] += source[j]
                        else:
                            for j in range(len(source)):
                                target[j * stride[2]] += source[j]
                    number += 1


@_part
def _padded_images(images, lanes):
    """Return the number of images with columns, rounded up to a multiple of ``lanes`` if images are interleaved."""
    return -(-images // lanes) * lanes


@_part
def _reach(window, steps):
    """Return the offset in lines between the first and the last step."""
    return (steps - 1) * window[3][1]


@_part
def _columns_of(x, group, channels, window, steps, images, lines, lanes, inside, image, buffer):
    """Return the columns of a tile and of its later steps; a view of x if each window is one element."""
    (kernel, stride, padding, _, out), (n, end), (first, last) = window, images, lines
    begin, stop = channels
    height, width = out[1], out[2]
    one = kernel[0] * kernel[1] * kernel[2] * stride[0] * stride[1] * stride[2] == 1
    if one and max(padding) == 0 and end - n == 1 and out == x.shape[3:]:
        return x[n, group].reshape(x.shape[2], out[0] * height * width)[begin:stop, first * width : last * width]
    reach = _reach(window, steps)
    rows_each = kernel[0] * (kernel[1] // steps) * kernel[2]
    if lanes > 1:
        columns = buffer[: (stop - begin) * rows_each, : _padded_images(end - n, lanes) * out[0] * height * width]
        for m in range(n, end, lanes):
            for plane in range(out[0]):
                at = ((m - n) * out[0] + plane * lanes) * height * width
                pad_lanes(x[m : min(m + lanes, end), group, begin:stop], plane, window, image[: stop - begin])
                unroll_lanes(image[: stop - begin], window, columns, at)
        return columns
    columns = buffer[: (stop - begin) * rows_each, : ((end - n) * (last - first) + reach) * width]
    for m in range(n, end):
        line = first
        while line < last:
            plane, row, at = line // height, line % height, ((m - n) * (last - first) + line - first) * width
            rows = min(height - row, last - line)
            if inside.shape[1] > 0:
                _shift(
                    x[m, group, begin:stop], plane, row, window, rows + reach, kernel[1] // steps, inside, columns, at
                )
            else:
                part = image[: stop - begin, :, : _shape(window, rows)[1]]
                _pad(x[m, group, begin:stop], plane, row, window, part)
                _unroll(part, window, rows + reach, kernel[1] // steps, columns, at)
            line += rows
    return columns


@_part
def _side_by_side(y, group, images, columns, lanes, gathered):
    """Return a group of one image at some columns, or of several images at all columns, as a matrix."""
    (n, end), (first, last) = images, columns
    count = y.shape[3]
    if lanes > 1:
        matrix = gathered[:, : _padded_images(end - n, lanes) * count]
        gather_lanes(y, group, images, matrix)
        return matrix
    if end - n == 1:
        return y[n, group, :, first:last]
    matrix = gathered[:, : (end - n) * count]
    for m in range(n, end):
        for o in range(len(matrix)):
            target, source = matrix[o, (m - n) * count : (m - n + 1) * count], y[m, group, o]
            copy(target, 0, source, 0, count)
    return matrix


@_loop
def forward(x, w, b, window, tile, y, sums, start, stop):
    """Compute the items ``start`` to ``stop`` of the convolution, each a block of channels of a tile of a group.

    ``sums``, to which products are added, is y itself, or empty if y is bfloat16.
    """
    images, lines, outs = tile
    groups, steps, all_outs, rows = w.shape
    width = window[4][2]
    count = y.shape[3]
    all_lines = count // width
    line_tiles, blocks = -(-all_lines // lines), -(-all_outs // outs)
    lanes = LANES if images >= LANES >= 2 * width else 1
    image = _image(x.shape[2], window, lines, lanes, x)
    inside = _inside_lines(x, window, lines + _reach(window, steps))
    buffer = np.empty((rows, _room((_padded_images(images, lanes) * lines + _reach(window, steps)) * width)), x.dtype)
    result = np.empty((outs, buffer.shape[1] if images > 1 or len(sums) == 0 else 0), b.dtype)
    filled, columns = -1, buffer[:, :]
    for item in range(start, stop):
        block, rest = item % blocks, item // blocks
        group, number = rest % groups, rest // groups
        n, first = number // line_tiles * images, number % line_tiles * lines
        end, last = min(n + images, len(x)), min(first + lines, all_lines)
        if rest != filled:
            columns = _columns_of(
                x, group, (0, x.shape[2]), window, steps, (n, end), (first, last), lanes, inside, image, buffer
            )
            filled = rest
        first_out, last_out = block * outs, min((block + 1) * outs, all_outs)
        here = (last - first) * width
        if end - n == lanes == 1 and len(sums) > 0:
            target = sums[n, group, first_out:last_out, first * width : last * width]
        else:
            target = result[: last_out - first_out, : _padded_images(end - n, lanes) * here]
        for o in range(len(target)):
            fill(target[o], len(target[o]), b[group, first_out + o])
        for step in range(steps):
            at = step * window[3][1] * width
            product(w[group, step, first_out:last_out], columns[:, at : at + target.shape[1]], target, True)
        if lanes > 1:
            scatter_lanes(target, y, group, (n, end), first_out)
        elif end - n > 1 or len(sums) == 0:
            for m in range(n, end):
                for o in range(len(target)):
                    source, line = target[o, (m - n) * here : (m - n + 1) * here], y[m, group, first_out + o]
                    line = line[first * width : last * width]
                    for j in range(len(line)):
                        line[j] = like(source[j], line)


@_loop
def transposed(y, w, window, tile, x, start, stop):
    """Add to x the items ``start`` to ``stop`` of the transpose, each a block of channels of a group of images."""
    images, lines, channels = tile
    all_channels, height, width = x.shape[2], window[4][1], window[4][2]
    all_lines = y.shape[3] // width
    size = w.shape[3] // all_channels
    blocks = -(-all_channels // channels)
    lanes = LANES if images >= LANES >= 2 * width else 1
    image = _image(channels, window, lines, lanes, x)
    buffer = np.empty((channels * size, _room(_padded_images(images, lanes) * lines * width)), x.dtype)
    gathered = np.empty((w.shape[2], buffer.shape[1] if images > 1 else 0), y.dtype)
    for item in range(start, stop):
        block, rest = item % blocks, item // blocks
        group, n = rest % len(w), rest // len(w) * images
        end = min(n + images, len(x))
        first_channel, last_channel = block * channels, min((block + 1) * channels, all_channels)
        matrix = w[group, 0, :, first_channel * size : last_channel * size]
        for first in range(0, all_lines, lines):
            last = min(first + lines, all_lines)
            columns = buffer[: matrix.shape[1], : _padded_images(end - n, lanes) * (last - first) * width]
            g = _side_by_side(y, group, (n, end), (first * width, last * width), lanes, gathered)
            product(matrix.T, g, columns, False)
            if lanes > 1:
                for m in range(n, end, lanes):
                    for plane in range(window[4][0]):
                        part = image[: last_channel - first_channel]
                        part[:] = 0
                        roll_lanes(columns, ((m - n) * window[4][0] + plane * lanes) * height * width, window, part)
                        some = x[m : min(m + lanes, end), group, first_channel:last_channel]
                        unpad_lanes(part, plane, window, some)
                continue
            for m in range(n, end):
                line = first
                while line < last:
                    plane, row, at = line // height, line % height, ((m - n) * (last - first) + line - first) * width
                    rows = min(height - row, last - line)
                    part = image[: last_channel - first_channel, :, : _shape(window, rows)[1]]
                    part[:] = 0
                    _roll(columns, at, window, rows, part)
                    _unpad(part, plane, row, window, x[m, group, first_channel:last_channel])
                    line += rows


@_loop
def weight(x, y, window, tile, totals, start, stop):
    """Fill the items of ``totals (P, G, K, O)``, each a block of x's channels summed over a part of the tiles.

    The result is transposed since BLAS is faster for tall products, and tiles pack the smaller factor.
    """
    images, lines, channels = tile
    parts, groups, rows, outs = totals.shape
    width, all_channels = window[4][2], x.shape[2]
    size = rows // all_channels
    all_lines = y.shape[3] // width
    line_tiles, blocks = -(-all_lines // lines), -(-all_channels // channels)
    tiles = -(-len(x) // images) * line_tiles
    lanes = LANES if images >= LANES >= 2 * width else 1
    image, inside = _image(channels, window, lines, lanes, x), _inside_lines(x, window, lines)
    buffer = np.empty((channels * size, _room(_padded_images(images, lanes) * lines * width)), x.dtype)
    gathered = np.empty((outs, buffer.shape[1] if images > 1 else 0), x.dtype)
    for item in range(start, stop):
        block, rest = item % blocks, item // blocks
        group, part = rest % groups, rest // groups
        some = block * channels, min((block + 1) * channels, all_channels)
        total = totals[part, group, some[0] * size : some[1] * size]
        total[:] = 0
        for number in range(part * tiles // parts, (part + 1) * tiles // parts):
            n, first = number // line_tiles * images, number % line_tiles * lines
            end, last = min(n + images, len(x)), min(first + lines, all_lines)
            columns = _columns_of(x, group, some, window, 1, (n, end), (first, last), lanes, inside, image, buffer)
            g = _side_by_side(y, group, (n, end), (first * width, last * width), lanes, gathered)
            if columns.itemsize == 2:
                add_halves(columns, g, total)
            elif BYTES == WIDE and len(columns) >= TALL and len(g) >= BROAD:
                k, m, n = columns.shape[1], len(columns), len(g)
                steps = columns.strides[0], g.strides[0], total.strides[0]
                at, beside, to = np.int64(columns.ctypes.data), np.int64(g.ctypes.data), np.int64(total.ctypes.data)
                packed_product_at(m, k, n, at, steps[0], 0, beside, steps[1], 1, to, steps[2], total.dtype.type(1))
            else:
                loop_blas.product(columns, g.T, total, 1)


# One channel per group, without columns: sums of multiples of the whole padded image, each with an offset.


@_loop
def forward_by_planes(x, w, b, window, y, start, stop):
    """Compute the planes ``start`` to ``stop`` of windows of all images and groups; ``w (G, O, kD, kH, kW)``.

    Windows are computed with stride 1, including windows that cross the end of a line.
    """
    kernel, stride, _, dilation, out = window
    depth, rows, width = _shape(window, out[1])
    padded = np.zeros(depth * rows * width + kernel[2] * dilation[2], x.dtype)
    image = padded[: depth * rows * width].reshape((1, depth, rows, width))
    sums = np.empty((rows - (kernel[1] - 1) * dilation[1]) * width, x.dtype)
    for item in range(start, stop):
        plane, rest = item % out[0], item // out[0]
        group, n = rest % len(w), rest // len(w)
        _pad(x[n, group], plane, 0, window, image)
        for o in range(w.shape[1]):
            sums[:] = b[group, o]
            for d in range(kernel[0]):
                for u in range(kernel[1]):
                    moved = padded[(d * rows + u * dilation[1]) * width :]
                    _add_moved(sums, moved, w[group, o, d, u], dilation[2])
            for h in range(out[1]):
                at = (plane * out[1] + h) * out[2]
                if stride[2] == 1:
                    copy(y[n, group, o], at, sums, h * stride[1] * width, out[2])
                    continue
                target, source = y[n, group, o, at : at + out[2]], sums[h * stride[1] * width :]
                for j in range(len(target)):
                    target[j] = source[j * stride[2]]


@_part
def _add_moved(sums, image, factors, apart):
    """``sums[j] += sum_v factors[v] image[j + v * apart]``."""
    v = 0
    while v < len(factors):
        x, a = image[v * apart :], factors[v]
        if v + 3 <= len(factors):
            y, z, b, c = x[apart:], x[2 * apart :], factors[v + 1], factors[v + 2]
            for j in range(len(sums)):
                sums[j] += a * x[j] + b * y[j] + c * z[j]
            v += 3
        else:
            for j in range(len(sums)):
                sums[j] += a * x[j]
            v += 1


@_part
def _spread(y, window, width, spread):
    """Write the windows of one plane to the positions that ``forward_by_planes`` uses, and 0 elsewhere."""
    stride, out = window[1], window[4]
    spread[:] = 0
    for h in range(out[1]):
        source = y[h * out[2] : (h + 1) * out[2]]
        target = spread[h * stride[1] * width :]
        if stride[2] == 1:
            copy(target, 0, source, 0, out[2])
            continue
        for j in range(len(source)):
            target[j * stride[2]] = source[j]


@_loop
def transposed_by_planes(y, w, window, x, start, stop):
    """Add to x the images and groups ``start`` to ``stop`` of the transpose of ``forward_by_planes``."""
    kernel, _, _, dilation, out = window
    depth, rows, width = _shape(window, out[1])
    padded = np.zeros(depth * rows * width + kernel[2] * dilation[2], y.dtype)
    image = padded[: depth * rows * width].reshape((1, depth, rows, width))
    spread = np.empty((rows - (kernel[1] - 1) * dilation[1]) * width, y.dtype)
    for item in range(start, stop):
        group, n = item % len(w), item // len(w)
        for plane in range(out[0]):
            padded[:] = 0
            for o in range(w.shape[1]):
                at = plane * out[1] * out[2]
                _spread(y[n, group, o, at : at + out[1] * out[2]], window, width, spread)
                for d in range(kernel[0]):
                    for u in range(kernel[1]):
                        for v in range(kernel[2]):
                            first = (d * rows + u * dilation[1]) * width + v * dilation[2]
                            target, factor = padded[first : first + len(spread)], w[group, o, d, u, v]
                            for j in range(len(target)):
                                target[j] += factor * spread[j]
            _unpad(image, plane, 0, window, x[n, group])


@_loop
def weight_by_planes(x, y, window, totals, start, stop):
    """Fill the groups ``start`` to ``stop`` of ``totals (G, O, kD, kH, kW)``."""
    kernel, _, _, dilation, out = window
    depth, rows, width = _shape(window, out[1])
    padded = np.zeros(depth * rows * width + kernel[2] * dilation[2], x.dtype)
    image = padded[: depth * rows * width].reshape((1, depth, rows, width))
    spread = np.empty((rows - (kernel[1] - 1) * dilation[1]) * width, x.dtype)
    for group in range(start, stop):
        totals[group] = 0
        for n in range(len(x)):
            for plane in range(out[0]):
                _pad(x[n, group], plane, 0, window, image)
                for o in range(totals.shape[1]):
                    at = plane * out[1] * out[2]
                    _spread(y[n, group, o, at : at + out[1] * out[2]], window, width, spread)
                    for d in range(kernel[0]):
                        for u in range(kernel[1]):
                            for v in range(kernel[2]):
                                first = (d * rows + u * dilation[1]) * width + v * dilation[2]
                                totals[group, o, d, u, v] += _dot(padded[first : first + len(spread)], spread)


@njit(fastmath={"reassoc", "contract"}, error_model="numpy")
def _dot(x, y):
    total = x.dtype.type(0)
    for j in range(len(x)):
        total += x[j] * y[j]
    return total

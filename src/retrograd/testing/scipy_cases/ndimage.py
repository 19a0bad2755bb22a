"""Example calls of ``retrograd.scipy.ndimage``."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..case import Call
from . import Draw, case

MODES = ("reflect", "mirror", "nearest", "wrap", "constant", "grid-wrap", "grid-constant", "grid-mirror")


def point_calls(order: int, mode: str, u: Draw) -> Call:
    return Call(u(-1, 1, 5, 4), u(-2.3, 6.1, 2, 3), order=order, mode=mode, cval=0.5)


def filter_calls(mode: str, u: Draw) -> Call:
    return Call(u(-1, 1, 2, 5), u(-1, 1, 4), mode=mode, cval=0.5, origin=1)


CASES = [
    case("ndimage.correlate1d", *(partial(filter_calls, mode) for mode in MODES)),
    case(
        "ndimage.convolve1d",
        *(partial(filter_calls, mode) for mode in ("reflect", "constant")),
        lambda u: Call(u(0, 1, 4, 2), u(0, 1, 3), 0),
    ),
    case(
        "ndimage.correlate",
        lambda u: Call(u(-1, 1, 4, 5), u(-1, 1, 2, 3), mode="mirror"),
        lambda u: Call(u(-1, 1, 9, 9), u(-1, 1, 9, 9), mode="wrap"),
    ),
    case(
        "ndimage.convolve",
        lambda u: Call(u(-1, 1, 4, 5), u(-1, 1, 2, 3), origin=(0, 1)),
        lambda u: Call(u(0, 1, 5), u(0, 1, 2)),
    ),
    case(
        "ndimage.gaussian_filter1d",
        *((lambda u, order=order: Call(u(-1, 1, 7), np.array(0.8), order=order)) for order in range(4)),
        lambda u: Call(u(-1, 1, 3, 5), np.array(1.2), 0, mode="constant", cval=1.0, radius=2),
        dtypes=(),
    ),
    case(
        "ndimage.gaussian_filter",
        lambda u: Call(u(-1, 1, 4, 5), u(0.5, 0.9, 2), (0, 1), truncate=3.0),
        lambda u: Call(u(-1, 1, 3, 3), 0.6),
    ),
    case("ndimage.gaussian_laplace", lambda u: Call(u(-1, 1, 4, 5), u(0.5, 0.9, 2))),
    case("ndimage.gaussian_gradient_magnitude", lambda u: Call(u(-1, 1, 4, 5), np.array(0.7)), dtypes=()),
    case("ndimage.uniform_filter1d", lambda u: Call(u(-1, 1, 5), 4, origin=-1)),
    case("ndimage.uniform_filter", lambda u: Call(u(-1, 1, 4, 5), (2, 3), mode="nearest")),
    case("ndimage.sobel", lambda u: Call(u(-1, 1, 4, 5), 0)),
    case("ndimage.prewitt", lambda u: Call(u(-1, 1, 4, 5), mode="constant")),
    case("ndimage.laplace", lambda u: Call(u(-1, 1, 4, 5))),
    case("ndimage.spline_filter1d", lambda u: Call(u(-1, 1, 4, 5), 2, 0), dtypes=()),
    case("ndimage.spline_filter", lambda u: Call(u(-1, 1, 4, 5)), dtypes=()),
    case(
        "ndimage.map_coordinates",
        *(partial(point_calls, order, mode) for order in (1, 3) for mode in MODES),
        partial(point_calls, 2, "reflect"),
        partial(point_calls, 0, "wrap"),
        dtypes=(),
    ),
    case(
        "ndimage.affine_transform",
        lambda u: Call(u(-1, 1, 4, 5), u(0.1, 0.2, 2, 2) + np.eye(2), u(0.1, 0.3, 2), (3, 4), order=1, mode="mirror"),
        lambda u: Call(u(-1, 1, 4, 5), u(0.5, 0.8, 2), order=2, mode="nearest"),
        lambda u: Call(u(-1, 1, 4, 4), np.array([[0.9, 0.1, 0.2], [-0.1, 0.8, 0.3], [0, 0, 1]]), mode="reflect"),
        dtypes=(),
    ),
    case(
        "ndimage.shift",
        lambda u: Call(u(-1, 1, 4, 5), u(0.1, 0.9, 2), mode="wrap"),
        lambda u: Call(u(-1, 1, 5), 0.3, mode="nearest"),
        dtypes=(),
    ),
    case(
        "ndimage.zoom",
        lambda u: Call(u(-1, 1, 4, 5), (1.6, 0.7), order=2),
        lambda u: Call(u(-1, 1, 4), 1.7, grid_mode=True, mode="reflect"),
        dtypes=(),
    ),
    case(
        "ndimage.rotate",
        lambda u: Call(u(-1, 1, 4, 5), 25.0, reshape=False),
        lambda u: Call(u(-1, 1, 4, 3), 30.0, order=1, mode="nearest"),
        lambda u: Call(u(-1, 1, 3, 4, 2), np.array(20.0), reshape=False, order=2, mode="mirror"),
        dtypes=(),
    ),
]

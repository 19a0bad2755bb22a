"""Interpolation on Tensors: results are differentiable by the values, by the points asked for, and by the knots.

``piecewise`` has cubic interpolants, ``splines`` B-splines, ``tables`` interpolation in tables of one or more
dimensions. Objects compute in the dtype of the Tensors. Programs call them by ``retrograd.scipy.interpolate``.
"""

from ..arguments import other_names
from .piecewise import Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator, PPoly, pchip_interpolate
from .splines import BSpline, make_interp_spline, splev
from .tables import RegularGridInterpolator, interp1d, interpn

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "RegularGridInterpolator", "interp1d", "interpn", "make_interp_spline", "pchip_interpolate", "splev",
]  # fmt: skip

__getattr__ = other_names(__name__)

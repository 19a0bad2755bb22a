"""Interpolation on Tensors: results are differentiable with respect to values, evaluation points and knots.

``piecewise`` has cubic interpolants, ``splines`` B-splines through given values, ``smoothing`` B-splines that
approximate values, ``tables`` interpolation in tables. Results have the dtype of the Tensors. Import the names from
``retrograd.scipy.interpolate``.
"""

from ..decorators import other_names
from .piecewise import Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator, PPoly, pchip_interpolate
from .smoothing import (
    InterpolatedUnivariateSpline,
    LSQUnivariateSpline,
    UnivariateSpline,
    make_lsq_spline,
    make_smoothing_spline,
)
from .splines import BSpline, make_interp_spline, splev
from .tables import RegularGridInterpolator, interp1d, interpn

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline", "InterpolatedUnivariateSpline",
    "LSQUnivariateSpline", "PPoly", "PchipInterpolator", "RegularGridInterpolator", "UnivariateSpline", "interp1d",
    "interpn", "make_interp_spline", "make_lsq_spline", "make_smoothing_spline", "pchip_interpolate", "splev",
]  # fmt: skip

__getattr__ = other_names(__name__)

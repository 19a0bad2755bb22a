"""Image processing of scipy.ndimage on Tensors of any number of dimensions.

``filters`` has correlations with small kernels, ``interpolation`` interpolation and geometric transforms.
Import the names from ``retrograd.scipy.ndimage``.
"""

from ..decorators import other_names
from .filters import (
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
    uniform_filter,
    uniform_filter1d,
)
from .interpolation import affine_transform, map_coordinates, rotate, shift, spline_filter, spline_filter1d, zoom

__all__ = [
    "affine_transform", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "map_coordinates", "prewitt", "rotate", "shift",
    "sobel", "spline_filter", "spline_filter1d", "uniform_filter", "uniform_filter1d", "zoom",
]  # fmt: skip

__getattr__ = other_names(__name__)

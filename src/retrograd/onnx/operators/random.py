"""Random operators, which draw from the global generator."""

from __future__ import annotations

from ... import _generated
from ...core.tensor.tensor import Tensor
from ..table import Attributes, checked_shape, operator

rg = _generated.toplevel


@operator("RandomNormal")
def normal(at: Attributes) -> Tensor:
    return rg.randn(checked_shape(at.type, at("shape")), dtype=at.dtype("dtype")) * at("scale", 1.0) + at("mean", 0.0)


@operator("RandomUniform")
def uniform(at: Attributes) -> Tensor:
    low, high = at("low", 0.0), at("high", 1.0)
    return rg.rand(checked_shape(at.type, at("shape")), dtype=at.dtype("dtype")) * (high - low) + low


@operator("RandomNormalLike")
def normal_like(at: Attributes, x: Tensor) -> Tensor:
    dtype = at.dtype("dtype") if "dtype" in at else x.dtype
    return rg.randn(list(x.shape), dtype=dtype) * at("scale", 1.0) + at("mean", 0.0)


@operator("RandomUniformLike")
def uniform_like(at: Attributes, x: Tensor) -> Tensor:
    low, high = at("low", 0.0), at("high", 1.0)
    dtype = at.dtype("dtype") if "dtype" in at else x.dtype
    return rg.rand(list(x.shape), dtype=dtype) * (high - low) + low


@operator("Bernoulli")
def bernoulli(at: Attributes, x: Tensor) -> Tensor:
    return (rg.rand(list(x.shape)) < x).to(at.dtype("dtype") if "dtype" in at else x.dtype)


@operator("Multinomial")
def multinomial(at: Attributes, x: Tensor) -> Tensor:
    drawn = rg.multinomial(rg.exp(x), at("sample_size", 1), replacement=True)
    return drawn.to(at.dtype("dtype", 6))

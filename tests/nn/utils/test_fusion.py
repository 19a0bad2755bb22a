"""Batch normalization folded into the layer before it."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd import nn


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_a_fused_convolution_computes_what_both_modules_do(transpose: bool, bias: bool, affine: bool) -> None:
    kind = nn.ConvTranspose2d if transpose else nn.Conv2d
    conv, bn = kind(3, 5, 3, bias=bias).eval(), nn.BatchNorm2d(5, affine=affine).eval()
    bn.running_mean.normal_()
    bn.running_var.uniform_(0.5, 2.0)
    if affine:
        bn.weight.data.normal_()
        bn.bias.data.normal_()
    x = rg.randn(2, 3, 6, 6)
    fused = nn.utils.fusion.fuse_conv_bn_eval(conv, bn, transpose=transpose)
    assert rg.allclose(fused(x), bn(conv(x)), atol=1e-5)
    assert fused is not conv and (conv.bias is None) == (not bias)


def test_a_fused_linear_layer_takes_one_channel_or_one_per_output() -> None:
    linear, one = nn.Linear(4, 3, bias=False).eval(), nn.BatchNorm1d(1).eval()
    one.running_mean.fill_(0.5)
    x = rg.randn(7, 1, 4)
    assert rg.allclose(nn.utils.fuse_linear_bn_eval(linear, one)(x), one(linear(x)), atol=1e-6)
    many = nn.BatchNorm1d(3).eval()
    many.running_var.uniform_(0.5, 2.0)
    x = rg.randn(7, 4)
    assert rg.allclose(nn.utils.fuse_linear_bn_eval(linear, many)(x), many(linear(x)), atol=1e-6)
    with pytest.raises(AssertionError, match="1 or 3"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(2).eval())


def test_fused_weights_keep_dtypes_and_what_requires_grad() -> None:
    conv = nn.Conv1d(2, 2, 1).half()
    conv.weight.requires_grad_(False)
    bn = nn.BatchNorm1d(2)
    weight, bias = nn.utils.fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    assert weight.dtype == bias.dtype == rg.float16
    assert (weight.requires_grad, bias.requires_grad) == (False, True)


def test_modules_in_training_or_without_statistics_are_not_fused() -> None:
    conv = nn.Conv1d(2, 2, 1)
    with pytest.raises(AssertionError, match="evaluation"):
        nn.utils.fuse_conv_bn_eval(conv, nn.BatchNorm1d(2))
    with pytest.raises(AssertionError, match="track_running_stats"):
        nn.utils.fuse_conv_bn_eval(conv.eval(), nn.BatchNorm1d(2, track_running_stats=False).eval())

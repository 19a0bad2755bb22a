"""Conversions of dtype and layout, and when they return the Tensor itself."""

import numpy as np

import retrograd as rg


def test_conversions():
    x = rg.tensor([1.5, -0.5])
    assert x.float() is x and x.to("cpu") is x and x.to(rg.float32) is x and x.to(x) is x and x.cpu() is x
    assert x.to(copy=True) is not x and x.to(rg.float32, copy=True).array is not x.array
    assert x.to("cpu", rg.float64, True).dtype == rg.float64 and x.to(device="cpu", dtype=rg.int64).tolist() == [1, 0]
    assert x.type() == "torch.FloatTensor" and x.type(rg.float64).dtype == rg.float64
    assert x.to(rg.uint16).type() == "torch.UInt16Tensor" and x.type("torch.UInt64Tensor").dtype == rg.uint64
    assert x.bool().tolist() == [True, True] and x.type_as(rg.tensor([1])).dtype == rg.int64
    assert x.clone().array is not x.array and rg.detach(x).array is x.array
    leaf = rg.tensor([1.0], requires_grad=True)
    assert leaf.double().requires_grad and not leaf.long().requires_grad
    leaf.half().double().sum().backward()
    assert leaf.grad.dtype == rg.float32


def test_contiguous():
    x = rg.Tensor(np.arange(6.0).reshape(2, 3))
    assert x.contiguous() is x
    y = rg.as_tensor(np.arange(6.0).reshape(3, 2).T)
    assert not y.array.flags.c_contiguous and y.contiguous().array.flags.c_contiguous
    assert rg.equal(y, y.contiguous())

"""Segments against PyTorch's."""

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.5])
def test_segments_reduce_as_in_pytorch(reduce, initial):
    torch = pytest.importorskip("torch")
    x, lengths = np.random.default_rng(0).standard_normal((6, 2)), [2, 0, 4]
    ours, theirs = rg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    got = rg.segment_reduce(ours, reduce, lengths=rg.tensor(lengths), initial=initial)
    wanted = torch.segment_reduce(theirs, reduce, lengths=torch.tensor(lengths), initial=initial)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    got[0::2].sum().backward()
    wanted[0::2].sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)

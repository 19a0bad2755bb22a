"""Fractional pooling chooses PyTorch's windows."""

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("axes", [2, 3])
def test_fractional_pooling_chooses_the_windows_that_pytorch_chooses(axes):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(axes)
    x, samples = rng.standard_normal((2, 3, 9, 8, 7)[: axes + 2]), rng.random((2, 3, axes))
    name = f"fractional_max_pool{axes}d"
    for options in ({"output_size": (4,) * axes}, {"output_ratio": (0.6,) * axes}):
        ours, theirs = [lib.tensor(x, requires_grad=True) for lib in (rg, torch)]
        got, wanted = [
            getattr(lib.nn.functional, name)(y, 2, _random_samples=lib.tensor(samples), return_indices=True, **options)
            for lib, y in ((rg, ours), (torch, theirs))
        ]
        assert got[1].tolist() == wanted[1].tolist() and got[0].tolist() == wanted[0].tolist()
        got[0].sum().backward()
        wanted[0].sum().backward()
        assert ours.grad.tolist() == theirs.grad.tolist()

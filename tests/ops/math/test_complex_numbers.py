"""Writes through real views of complex numbers."""

import numpy as np
import pytest

import retrograd as rg


def test_a_write_through_the_real_view_of_complex_numbers():
    torch = pytest.importorskip("torch")

    def run(lib, leaf):
        z = leaf * (1 + 2j)
        z.real.mul_(3)
        z.imag[1:] = 0.5
        pairs = lib.view_as_real(z)
        pairs[0] *= 2
        (z * z.conj() * (2 + 1j)).real.sum().backward()
        return leaf.grad

    values = np.array([1 + 2j, -0.5 + 1j, 3 - 1j])
    ours = run(rg, rg.Tensor(values, requires_grad=True))
    theirs = run(torch, torch.tensor(values, requires_grad=True))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())

"""The gradient of tanh, bit for bit."""

import numpy as np

import retrograd as rg


def test_the_gradient_of_tanh_has_the_same_bits_with_and_without_a_graph():
    x = rg.linspace(-4, 4, 50, requires_grad=True)
    plain, recorded = [rg.autograd.grad(x.tanh().sum(), x, create_graph=graph)[0] for graph in (False, True)]
    np.testing.assert_array_equal(plain.numpy(), recorded.detach().numpy())
    y = x.tanh().detach().numpy()
    np.testing.assert_array_equal(plain.numpy(), 1 - y * y)  # as PyTorch

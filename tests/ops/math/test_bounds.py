"""Bounds of which one is a number and one a Tensor."""

from tests.helpers.values import gradients


def test_clamp_takes_a_number_beside_a_tensor():
    x, low = [-2.0, 0.0, 2.0], [-1.0, 0.5, -1.0]
    g = gradients(lambda x, low: x.clamp(low, 1.0), x, low)
    assert [part.tolist() for part in g] == [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]

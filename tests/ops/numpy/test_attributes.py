"""Attributes and arguments of NumPy's that a Tensor has, and operands that it has not."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import func

M = np.array([[0.7, -1.3, 2.1], [0.4, 0.9, -0.6]])


def differences(function, x):
    step = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
    return np.array([(function(x + e) - function(x - e)) / 2e-6 for e in step]).reshape(x.shape)


def test_ravel_takes_numpys_order():
    t = rg.tensor(M, requires_grad=True)
    for order in ("C", "F"):
        np.testing.assert_array_equal(t.ravel(order=order).detach().numpy(), M.ravel(order=order))
        np.testing.assert_array_equal(np.ravel(t, order=order).detach().numpy(), M.ravel(order=order))
        assert rg.tensor(2.0).ravel(order=order).shape == (1,)
    (t.ravel(order="F") * np.arange(6)).sum().backward()
    np.testing.assert_array_equal(t.grad.numpy(), [[0, 2, 4], [1, 3, 5]])
    with pytest.raises(ValueError, match="order must be 'C' or 'F', got 'K'"):
        t.ravel(order="K")


def read_and_written(x):
    y = x * 1.0
    y.flat[1:4] = y.flat[2:5] ** 2
    y.flat[0] = y.flat[5] * y.flat[3]
    z = (x * 2).T  # not contiguous
    z.flat[2] = z.flat[1] ** 2
    z.flat[[0, -1]] = 3.0
    w = x + 1
    w.flat = w[0] * 2  # again and again
    return np.sum(y * y) + sum(v**2 for v in z.flat) + np.sum(w * x)


def test_flat_reads_and_writes_with_the_gradient():
    wanted = differences(read_and_written, M)
    assert float(read_and_written(rg.tensor(M))) == pytest.approx(read_and_written(M))
    np.testing.assert_allclose(func.grad(read_and_written)(rg.tensor(M)).numpy(), wanted, rtol=1e-6, atol=1e-7)
    mapped = func.vmap(func.grad(read_and_written))(rg.tensor(np.stack([M, M])))
    np.testing.assert_allclose(mapped.numpy(), [wanted, wanted], rtol=1e-6, atol=1e-7)


def test_flat_is_as_long_as_there_are_elements_and_copies_what_is_read():
    t = rg.tensor(M)
    part = t.flat[:2]
    part += 1
    assert len(t.flat) == 6 and t.flat.base is t and np.array_equal(t.flat.copy(), M.ravel())
    np.testing.assert_array_equal(t.numpy(), M)
    with pytest.raises(IndexError):
        t.flat[6]
    empty = rg.zeros(0, 2)
    assert list(empty.flat) == [] and len(empty.flat) == 0


def test_hasattr_answers_for_every_attribute_of_an_array_but_of_a_transposed_vector():
    for t in (rg.tensor(M), rg.tensor([[1, 2]]), rg.tensor([[1j]]), rg.tensor([[True]])):
        assert {name: hasattr(t, name) for name in dir(np.ndarray)}["imag"] is t.is_complex()
    with pytest.raises(RuntimeError, match=r"imag of float64\(2, 3\).*np\.imag"):
        rg.tensor(M).imag
    assert not np.imag(rg.tensor(M)).any()


OPERATORS = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x // y,
    lambda x, y: x % y,
    lambda x, y: x**y,
    lambda x, y: x @ y,
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_list_beside_a_tensor_says_what_to_write(operator):
    t = rg.tensor([1.0, 2.0])
    for pair in ((t, [1.0, 2.0]), ([1.0, 2.0], t), (t, (1.0, 2.0)), ((1.0, 2.0), t)):
        with pytest.raises(TypeError, match=r"retrograd\.tensor\([\[(]1\.0, 2\.0.*NumPy's function"):
            operator(*pair)
    assert np.multiply(t, [1.0, 2.0]).tolist() == [1.0, 4.0]


def test_an_integer_tensor_repeats_a_list_as_in_pytorch():
    assert rg.tensor(2) * [1, 2] == [1, 2] * rg.tensor(2) == [1, 2, 1, 2]

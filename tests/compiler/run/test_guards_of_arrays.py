"""NumPy arrays from outside that a function reads with NumPy's own functions, of few elements and of many."""

import warnings

import numpy as np
import pytest

import retrograd as rg

LENGTHS = pytest.mark.parametrize("length", [3, 20_000], ids=["few", "many"])


class Holder:
    array: np.ndarray


holder = Holder()
held: list[np.ndarray] = [np.ones(1)]
READS = {
    "a sum": lambda x, a: x * a.sum(),
    "a Tensor of it": lambda x, a: x + rg.from_numpy(a)[:3] * 2,
    "a copy": lambda x, a: x * rg.tensor(a[:3]),
    "a function of NumPy's": lambda x, a: np.sin(a[:3]) * x + np.dot(a, a),
    "percentile": lambda x, a: x * np.percentile(a, 30),
    "a choice": lambda x, a: x * 2 if a[0] > 5 else x * 3,
}


def assert_same(function, change):
    """The function answers as eagerly after each change, and changes the arrays as eagerly."""
    found = []
    for wrap in (lambda f: f, rg.compile):
        f = wrap(function)
        change(-1)
        answers = []
        for step in range(6):
            x = rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64, requires_grad=True)
            y = f(x)
            y.sum().backward()
            answers.append((y.tolist(), x.grad.tolist(), holder.array[:4].tolist(), held[0][:4].tolist()))
            change(step)
        found.append(answers)
    np.testing.assert_allclose([sum(row, []) for row in found[1]], [sum(row, []) for row in found[0]], rtol=1e-12)


@LENGTHS
@pytest.mark.parametrize("where", ["an attribute", "a list"])
@pytest.mark.parametrize("read", READS)
def test_an_array_that_is_changed_is_read_again(length, where, read):
    function = READS[read]

    def change(step):
        if step < 0:
            holder.array = held[0] = np.arange(float(length))
        elif step == 1:
            holder.array[-1] = -4.0
        elif step == 2:
            holder.array[0] = 7.0
        elif step == 3:
            holder.array = held[0] = holder.array[::-1]

    if where == "a list":
        assert_same(lambda x: function(x, held[0]), change)
    else:
        assert_same(lambda x: function(x, holder.array), change)


@LENGTHS
@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__setitem__(0, a[0] + 1),
        lambda a: np.multiply(a, 2.0, out=a),
        lambda a: a.sort(),
    ],
    ids=["an element", "out", "sort"],
)
def test_an_array_that_the_function_writes_is_written_in_every_call(length, write):
    def f(x):
        write(holder.array)
        return x * rg.from_numpy(holder.array)[:3] + holder.array[1]

    def change(step):
        if step < 0:
            holder.array = held[0] = np.arange(float(length))[::-1].copy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may run eagerly, with a warning
        assert_same(f, change)


def test_a_function_that_reads_a_large_array_is_traced_once_however_often_that_changes():
    holder.array = np.zeros(20_000)
    f = rg.compile(lambda x: x + holder.array.sum())
    for k in range(4):
        holder.array[k] = 1.0
        assert f(rg.zeros(2)).tolist() == [k + 1.0] * 2
    assert f.traces == 1


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_operators_of_an_array_and_a_tensor_have_numpys_dtypes(dtype):
    """``array * tensor`` is NumPy's function, whose int64 and float32 give float64; ``tensor * array`` is PyTorch's."""
    array, x = np.array([1, 2, 3], dtype), rg.tensor([0.5, 2.0, -1.0])
    for f in (lambda a, x: a * x, lambda a, x: x * a, lambda a, x: a @ x, lambda a, x: a // x, lambda a, x: a >= x):
        compiled = rg.compile(f)
        for _ in range(2):
            wanted, got = f(array, x), compiled(array, x)
            assert got.dtype == wanted.dtype and rg.equal(got, wanted)

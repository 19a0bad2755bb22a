"""Legacy constructors make the Tensors that PyTorch's make."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.compat.modules import toplevel


def test_a_list_becomes_the_default_dtype_and_an_array_keeps_its_own():
    assert rg.Tensor([1, 2]).dtype == rg.float32 and rg.Tensor([True, False]).tolist() == [1.0, 0.0]
    assert rg.Tensor(np.array([1, 2])).dtype == rg.int64
    assert rg.Tensor(rg.tensor([1])).dtype == rg.int64


def test_lengths_give_a_size():
    assert rg.Tensor(2, 3).shape == (2, 3) and rg.Tensor(3).shape == (3,) and rg.Tensor().shape == (0,)
    assert rg.Tensor(rg.ones(2, 3).shape).shape == (2, 3)
    assert rg.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert rg.Tensor(range(3)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("data", [(2.5,), (True,), ("ab",), ([1.0], [2.0])])
def test_what_is_no_size_and_no_sequence_is_refused(data):
    with pytest.raises(TypeError):
        rg.Tensor(*data)


def test_a_negative_length_is_refused():
    with pytest.raises(RuntimeError, match="negative"):
        rg.Tensor(2, -1)


@pytest.mark.parametrize(
    "name, dtype",
    [("FloatTensor", "float32"), ("DoubleTensor", "float64"), ("HalfTensor", "float16"), ("LongTensor", "int64"),
     ("IntTensor", "int32"), ("ShortTensor", "int16"), ("CharTensor", "int8"), ("ByteTensor", "uint8"),
     ("BoolTensor", "bool")],
)  # fmt: skip
def test_typed_constructors(name, dtype):
    kind = getattr(rg, name)
    x = kind([1, 0])
    assert x.dtype == dtype and x.tolist() == [1, 0] and kind(2, 3).shape == (2, 3)
    assert isinstance(x, kind) and not isinstance(x, rg.FloatTensor if dtype != "float32" else rg.LongTensor)
    assert kind(np.array([1.5, 0.0])).dtype == dtype
    assert x.type() == f"torch.{name}" and rg.ones(2).type(f"torch.{name}").dtype == dtype


def test_a_type_on_a_gpu_that_is_not_there_is_refused():
    if rg.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(TypeError, match="not available"):
        rg.cuda.FloatTensor(2)


def test_new_keeps_dtype():
    x = rg.ones(2, dtype=rg.int64)
    assert x.new([1, 2]).dtype == rg.int64 and x.new(2, 3).shape == (2, 3) and x.new().shape == (0,)


def test_set_default_tensor_type():
    try:
        with pytest.warns(UserWarning, match="deprecated"):
            rg.set_default_tensor_type("torch.DoubleTensor")
        assert rg.tensor([1.0]).dtype == rg.float64
        with pytest.warns(UserWarning, match="deprecated"):
            rg.set_default_tensor_type(rg.FloatTensor)
        assert rg.tensor([1.0]).dtype == rg.float32
    finally:
        rg.set_default_dtype(rg.float32)
        rg.set_default_device(None)
    with pytest.raises(TypeError, match="invalid type name"):
        rg.set_default_tensor_type("torch.Nonsense")


def test_tensors_of_one_element_are_numbers_in_a_sequence():
    assert rg.tensor([rg.ones(1), rg.ones(1, 1)]).shape == (2,)
    assert rg.tensor([[rg.ones(1)], [rg.ones(1)]]).shape == (2, 1)
    assert rg.tensor([rg.tensor(1.0, dtype=rg.float64), 2]).dtype == rg.float64
    assert rg.tensor([rg.tensor(1), 2.0]).dtype == rg.float32


@pytest.mark.parametrize("convert", [float, complex, lambda x: rg.tensor([x, 2.0]), lambda x: rg.Tensor([x])])
def test_a_number_that_loses_its_gradient_warns(convert):
    x = rg.tensor(1.0, requires_grad=True)
    with pytest.warns(UserWarning, match="requires_grad=True to a scalar"):
        convert(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert(x.detach())
        x.item(), int(x), bool(x), f"{x:.2f}"


def test_threads_are_counted_by_a_small_positive_integer():
    for number, error in ((0, RuntimeError), (-1, RuntimeError), (1.5, RuntimeError), (True, RuntimeError)):
        with pytest.raises(error):
            toplevel.set_num_threads(number)
        with pytest.raises(error):
            toplevel.set_num_interop_threads(number)
    with pytest.raises(ValueError, match="below"):
        toplevel.set_num_threads(2**65)


def test_functions_of_elements_are_given_numbers_and_give_numbers():
    x = rg.ones(2, 3)
    with pytest.raises(TypeError, match="number"):
        x.apply_(str)
    with pytest.raises(TypeError, match="number"):
        x.map_(rg.ones(3), lambda a, b: None)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.map2_(rg.ones(3), rg.ones(3, requires_grad=True), lambda a, b, c: a)
    with pytest.raises(RuntimeError, match="requires grad"):
        rg.ones(1, requires_grad=True).apply_(abs)
    with pytest.raises(TypeError, match="int64"):
        x.map_(rg.ones(3, dtype=rg.int64), lambda a, b: a)
    assert x.map2_(rg.ones(3), rg.ones(1, 3), lambda a, b, c: a + b * c).tolist() == [[2.0] * 3] * 2
    assert x.new(size=(3, 4)).shape == (3, 4)


class Items:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return 3

    def __getitem__(self, place):
        if not self.items:
            raise TypeError
        return self.items[place]


def test_sequences_of_numbers_and_arrays_promote_as_in_pytorch():
    assert rg.tensor(((7, np.array(5)), (np.array(9), 5.0))).dtype == rg.float32
    assert rg.tensor(((7, 5), (9, np.array(5.0)))).dtype == rg.float64
    assert rg.tensor([np.float32(1), 2]).dtype == rg.float32
    assert rg.tensor((float("nan"), 0, 2**70), dtype=rg.bool).tolist() == [True, False, True]
    assert rg.tensor(Items([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="could not determine the shape"):
        rg.tensor(Items([]))


def test_memory_that_is_shared_or_cannot_be_written(monkeypatch):
    x = rg.ones(2)
    rg.FloatTensor(x).fill_(3.0)
    assert x.tolist() == [3.0, 3.0]
    assert rg.from_numpy(x) is x
    array = np.zeros(2)
    array.flags.writeable = False
    rg.from_numpy(array).add_(1)
    monkeypatch.setattr("retrograd.core.tensor.tensor.arrays_keep_dtype", False)  # as in a program of PyTorch
    with pytest.warns(UserWarning, match="non-writable"):
        rg.from_numpy(array).add_(1)
    assert array.tolist() == [0.0, 0.0]

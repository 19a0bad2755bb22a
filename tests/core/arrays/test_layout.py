"""Size: what it may be made of."""

import copy
import pickle

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("lengths", [[1.5], [None], ["a"], [[1]], [rg.tensor(2.0)]])
def test_a_size_takes_integers_only(lengths):
    with pytest.raises(TypeError, match="Size takes integers"):
        rg.Size(lengths)


def test_a_size_takes_whatever_is_an_integer():
    assert rg.Size([True, np.int64(2), rg.tensor(3)]) == rg.Size(n for n in (1, 2, 3)) == (1, 2, 3)
    assert rg.Size() == rg.Size(()) == ()
    assert type(rg.Size([np.int64(2)])[0]) is int


def test_the_shape_of_a_tensor_is_a_size_and_so_are_its_copies():
    shape = rg.ones(2, 3).shape
    assert [type(size) for size in (shape, copy.deepcopy(shape), pickle.loads(pickle.dumps(shape)))] == [rg.Size] * 3

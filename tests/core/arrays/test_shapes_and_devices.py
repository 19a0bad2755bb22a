"""What PyTorch says of shapes, strides, layouts and devices beside what NumPy says."""

import threading

import numpy as np
import pytest

import retrograd as rg


def test_parts_sums_and_multiples_of_sizes_are_sizes():
    size = rg.ones(2, 3, 4).shape
    for result in (size[1:], size[:0], size + (1,), (1,) + size, size * 2, 2 * size):
        assert type(result) is rg.Size
    assert size[1:].numel() == 12 and size[-1] == 4 and (size + (5,)).numel() == 120
    assert (1,) + size == (1, 2, 3, 4) and type(size[0]) is int
    with pytest.raises(TypeError):
        size + [1]
    with pytest.raises(IndexError):
        size[3]


def test_strides_of_expanded_and_empty_tensors_are_pytorchs():
    assert [rg.ones(*shape).stride() for shape in [(0,), (0, 3), (3, 0), (2, 0, 4), (1, 1)]] == [
        (1,), (3, 1), (1, 1), (4, 4, 1), (1, 1)
    ]  # fmt: skip
    assert rg.ones(1, 3).expand(4, 3).stride() == rg.ones(3).expand(2, 3).stride() == (0, 1)
    assert rg.ones(1, 1).expand(4, 3).stride() == (0, 0)
    assert rg.ones(3)[None].stride() == (3, 1) and rg.ones(3)[:, None].stride() == (1, 1)
    assert rg.ones(2, 3).T.stride() == (1, 3) and rg.ones(2, 3).stride(0) == 3


def test_strides_are_pytorchs_for_views_of_all_kinds():
    torch = pytest.importorskip("torch")
    views = [
        lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(-1), lambda x: x[:1].expand(5, 3),
        lambda x: x[None].expand(4, 2, 3), lambda x: x.reshape(1, 2, 1, 3), lambda x: x[1:1], lambda x: x.t()[None],
        lambda x: x.expand(1, 2, 3), lambda x: x.unsqueeze(1).expand(2, 7, 3), lambda x: x.view(3, 2)[:, None],
    ]  # fmt: skip
    for number, view in enumerate(views):
        assert view(rg.ones(2, 3)).stride() == view(torch.ones(2, 3)).stride(), number


def test_reversed_turns_the_first_dimension():
    assert reversed(rg.arange(6).reshape(2, 3)).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert reversed(rg.tensor(3)).item() == 3


def test_a_layout_is_one_object():
    import copy

    assert rg.ones(1).layout is rg.strided
    assert copy.deepcopy(rg.strided) is rg.strided is not rg.sparse_coo
    assert rg.ones(2, 2).to_sparse().layout is rg.sparse_coo


def test_as_strided_in_place_changes_the_tensor_and_its_history():
    x = rg.arange(6.0)
    assert x.as_strided_((2, 2), (1, 2)) is x
    assert x.tolist() == [[0, 2], [1, 3]]
    leaf = rg.arange(6.0).requires_grad_()
    y = leaf * 2
    y.as_strided_((2, 2), (1, 2))
    (y * y).sum().backward()
    assert leaf.grad.tolist() == [0, 8, 16, 24, 0, 0]
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.as_strided_((1,), (1,))


def test_a_device_in_a_block_is_where_this_thread_makes_tensors():
    found = []
    with rg.device("cpu") as device:
        assert rg.get_default_device() is device and rg.ones(1).device == device
        with rg.device("cuda:7") as other:
            assert rg.get_default_device() is other
            thread = threading.Thread(target=lambda: found.append(rg.get_default_device()))
            thread.start()
            thread.join()
        assert rg.get_default_device() is device
    assert found[0] != other

    @rg.device("cuda:7")
    def inside():
        return rg.get_default_device()

    assert inside() == other and rg.get_default_device() != other


@pytest.mark.parametrize("layer", [rg.nn.RNN, rg.nn.GRU])
def test_layers_without_projection_refuse_its_size_as_pytorch_does(layer):
    with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM"):
        layer(2, 3, proj_size=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'project'"):
        layer(2, 3, project=1)


@pytest.mark.parametrize(
    "layer, options, error",
    [
        (rg.nn.LSTM, {"proj_size": -1}, ValueError),
        (rg.nn.LSTM, {"proj_size": 3}, ValueError),
        (rg.nn.GRU, {"num_layers": 0}, ValueError),
        (rg.nn.RNN, {"hidden_size": 0}, ValueError),
        (rg.nn.LSTM, {"hidden_size": "a"}, TypeError),
        (rg.nn.RNN, {"dropout": 2.0}, ValueError),
    ],
)
def test_recurrent_layers_refuse_wrong_sizes_with_pytorchs_errors(layer, options, error):
    with pytest.raises(error):
        layer(**{"input_size": 3, "hidden_size": 3, **options})


def test_an_empty_part_of_a_tensor_has_the_strides_of_the_whole():
    whole = rg.zeros(2, 3, 4, 5)[..., 1]
    assert whole[:, 1:1].stride() == whole.stride() == (60, 20, 5)
    assert rg.zeros(2, 0, 3).view(rg.int32).stride() == (3, 3, 1)


def test_a_view_of_larger_numbers_needs_strides_in_their_multiples():
    x = rg.zeros(4, 4, 3, dtype=rg.uint8)
    with pytest.raises(RuntimeError, match="multiples of 2 bytes"):
        x[:, :, 1:].view(rg.int16)
    with pytest.raises(RuntimeError, match="multiples of 2 bytes"):
        x.as_strided((4, 4, 2), (2, 1, 1)).view(rg.int16)
    assert rg.zeros(4, 4, 4, dtype=rg.uint8)[:, :, 2:].view(rg.int16).shape == (4, 4, 1)


def test_a_slice_of_step_0_is_a_value_error():
    x = rg.zeros(3)
    with pytest.raises(ValueError, match="step cannot be zero"):
        x[0:3:0]
    with pytest.raises(ValueError, match="step cannot be zero"):
        x[0:3:0] = 1


@pytest.mark.parametrize("convert", [int, float, complex])
def test_a_number_of_several_elements_is_a_value_error(convert):
    for x in (rg.zeros(2), rg.zeros(0)):
        with pytest.raises(ValueError, match="one element"):
            convert(x)


def test_a_complex_view_of_transposed_pairs_shares_memory():
    pairs = rg.zeros(3, 2, 2)
    view = rg.view_as_complex(pairs.transpose(0, 1))
    view[1, 2] = 5 + 7j
    assert pairs[2, 1].tolist() == [5, 7] and view._is_view()


def test_the_memory_of_a_buffer_is_copied_unless_it_is_to_be_shared():
    numbers = np.arange(3.0)
    rg.tensor(memoryview(numbers))[0] = 7
    rg.asarray(memoryview(numbers), dtype=rg.float64, copy=True)[0] = 7
    assert numbers.tolist() == [0, 1, 2]
    rg.asarray(memoryview(numbers), dtype=rg.float64, copy=False)[0] = 7
    assert numbers.tolist() == [7, 1, 2]
    assert rg.asarray(memoryview(numbers), dtype=rg.uint8).shape == (24,)


def test_asarray_takes_a_dlpack_capsule():
    x = rg.arange(3)
    shared = rg.asarray(x.__dlpack__())
    shared[0] = 5
    assert x.tolist() == [5, 1, 2]


def test_meshgrid_wants_one_dtype():
    with pytest.raises(RuntimeError, match="same dtype"):
        rg.meshgrid(rg.ones(2), rg.arange(2))


def test_a_list_that_contains_itself_is_a_type_error():
    numbers = [0]
    numbers.append(numbers)
    with pytest.raises(TypeError, match="contain themselves"):
        rg.tensor(numbers)


@pytest.mark.parametrize(
    ("split", "shape"), [(np.hsplit, ()), (np.vsplit, (3,)), (np.dsplit, (3, 3)), (np.dsplit, (3, 3, 4))]
)
def test_splits_of_numpy_raise_numpys_error(split, shape):
    for x in (np.zeros(shape), rg.zeros(shape)):
        with pytest.raises(ValueError):
            split(x, 3)


def test_a_value_of_a_class_whose_module_is_no_text_is_no_array():
    class Described:
        __module__ = property(lambda self: "somewhere")

    with pytest.raises(TypeError, match="Described"):
        rg.sin(Described())


def test_a_column_of_a_table_keeps_its_dtype():
    class Column:  # as pandas' Series: a sequence with __array__
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.values, dtype)

        def __len__(self):
            return len(self.values)

    values = np.array([1.0, 2.0])
    x = rg.tensor(Column(values))
    assert x.dtype == rg.float64 and rg.tensor(Column(values.astype(np.int32))).dtype == rg.int32
    x[0] = 5.0
    assert values[0] == 1.0

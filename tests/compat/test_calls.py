"""Legacy forms of calls: ``out=``, numbers before Tensors, and arguments that say nothing here."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize(
    "call",
    [
        lambda out: rg.add(rg.ones(2), rg.ones(2), out=out),
        lambda out: rg.matmul(rg.ones(2, 3), rg.ones(3), out=out) - 1,
        lambda out: rg.cat([rg.ones(1), rg.ones(1)], out=out) + 1,
        lambda out: rg.sum(rg.ones(2, 2), 0, out=out),
        lambda out: rg.full((2,), 2.0, out=out),
        lambda out: rg.mul(rg.ones(2), 2, out=out),
        lambda out: rg.exp(rg.zeros(2), out=out) + 1,
    ],
)
def test_out_takes_the_result(call):
    out = rg.zeros(2)
    result = call(out)
    assert result.tolist() == [2.0, 2.0] and out.tolist() != [0.0, 0.0]


def test_out_is_returned_and_resized():
    out = rg.empty(0)
    assert rg.add(rg.ones(2, 2), 1, out=out) is out and out.shape == (2, 2)
    with pytest.warns(UserWarning, match="resized"):
        rg.add(rg.ones(3), 1, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]


def test_out_of_several_results():
    values, places = rg.zeros(2), rg.zeros(2, dtype=rg.int64)
    rg.max(rg.tensor([[1.0, 3.0], [5.0, 2.0]]), 1, out=(values, places))
    assert values.tolist() == [3.0, 5.0] and places.tolist() == [1, 0]


def test_out_in_a_dtype_that_cannot_take_the_result_is_refused():
    out = rg.zeros(2, dtype=rg.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        rg.add(rg.ones(2), rg.ones(2), out=out)
    assert out.tolist() == [0, 0]


def test_out_with_gradients_is_refused():
    x = rg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        rg.add(x, x, out=rg.zeros(2))
    with rg.no_grad():
        assert rg.add(x, x, out=rg.zeros(2)).tolist() == [2.0, 2.0]


def test_factories_with_out_take_its_dtype():
    out = rg.ones(2, dtype=rg.int64)
    assert rg.zeros(2, out=out) is out and out.dtype == rg.int64 and out.tolist() == [0, 0]


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda x: x.add_(0.5, rg.ones(2)), [1.5, 2.5]),
        (lambda x: x.add(0.5, rg.ones(2)), [1.5, 2.5]),
        (lambda x: rg.add(x, 2, rg.ones(2)), [3.0, 4.0]),
        (lambda x: x.sub_(2, rg.ones(2)), [-1.0, 0.0]),
        (lambda x: x.addcmul_(0.5, rg.ones(2), rg.full((2,), 4.0)), [3.0, 4.0]),
        (lambda x: x.addcdiv_(-1, rg.ones(2), rg.full((2,), 2.0)), [0.5, 1.5]),
        (lambda x: rg.addcdiv(x, 2, rg.ones(2), rg.full((2,), 2.0)), [2.0, 3.0]),
        (lambda x: rg.addmv(2, x, 3, rg.eye(2), rg.ones(2)), [5.0, 7.0]),
    ],
)
def test_numbers_before_tensors(call, expected):
    with pytest.warns(UserWarning, match="deprecated"):
        result = call(rg.tensor([1.0, 2.0]))
    assert result.tolist() == expected


def test_arguments_that_say_nothing_here():
    x = rg.ones(4)
    assert [len(part) for part in x.split(split_size=2)] == [2, 2]
    assert rg.zeros(2, layout=rg.strided, pin_memory=False).shape == (2,)
    assert rg.empty_like(x, memory_format=rg.preserve_format).shape == (4,)
    assert x.clone(memory_format=rg.contiguous_format).tolist() == [1.0] * 4
    assert x.is_contiguous(memory_format=rg.contiguous_format)
    with pytest.raises(TypeError):
        rg.zeros(2, pin_memory=True)


def test_a_wrong_call_still_gives_its_own_error():
    with pytest.raises(TypeError, match="^sum"):
        rg.ones(2).sum(no_such=1)
    with pytest.raises(RuntimeError, match="^add"):
        rg.ones(2) + rg.ones(3)


def test_only_inputs_has_to_be_true():
    x = rg.ones(1, requires_grad=True)
    assert rg.autograd.grad(x * 2, x, only_inputs=True)[0].tolist() == [2.0]
    with pytest.raises(ValueError, match="only_inputs"):
        rg.autograd.grad(x * 2, x, only_inputs=False)


# Attributes and legacy methods


def test_tensors_take_attributes_and_keep_them_in_copies():
    import copy
    import pickle

    x = rg.ones(2)
    x.tag = "a"
    assert x.tag == "a" and copy.copy(x).tag == "a" and copy.deepcopy(x).tag == "a"
    assert pickle.loads(pickle.dumps(x)).tag == "a"
    with pytest.raises(AttributeError):
        x.other
    view = x[:1]
    x.mul_(2)  # the view forgets its history for a while
    view.tag = "b"
    assert view.requires_grad is False and view.tag == "b"


def test_properties_of_a_dense_tensor_on_the_cpu():
    x = rg.ones(2, 3)
    assert not x.is_sparse and not x.is_quantized and x.is_cpu and not x.is_mkldnn and x.layout == rg.strided
    assert x.get_device() == -1 and x.is_same_size(rg.zeros(2, 3)) and x.is_signed() and not x.is_pinned()


def test_resizing_counts_as_a_write():
    x = rg.ones(1)
    assert x.resize_(1, 2)._version == 1 and x.resize_as_(rg.ones(3))._version == x.resize_(3)._version == 2


def test_resize_keeps_elements_in_order():
    x = rg.arange(6.0)
    assert x.resize_(2, 3) is x and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.resize_(2).tolist() == [0, 1] and x.resize_((8,)).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    turned = rg.arange(6).view(2, 3).t()
    assert turned.resize_(3, 2).stride() == (1, 3) and turned.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    backwards = rg.arange(4)[::-1]
    assert backwards.resize_(3).tolist() == [3, 2, 1]
    with pytest.raises(RuntimeError, match="require grad"):
        rg.ones(2, requires_grad=True).resize_(3)


@pytest.mark.parametrize("size", [(-1,), (8, 8, 2**29, 2**29), (0, 4, 2**61)])
def test_resize_refuses_sizes_that_no_memory_has(size):
    with pytest.raises(RuntimeError, match="resize_"):
        rg.zeros(()).resize_(size)


def _resized(y):
    y[2:4].resize_(3)[0] = 9


def _set(y):
    rg.zeros(1).set_(y, 2, (2,))[0] = 9


def _set_to_storage(y):
    rg.zeros(1).set_(y.storage(), 2, (2,))[0] = 9


@pytest.mark.parametrize("write", [_resized, _set, _set_to_storage])
def test_a_write_through_memory_that_resize_or_set_gave_leaves_saved_values_alone(write):
    weight, y = rg.ones(6, requires_grad=True), rg.arange(6.0)
    product = (weight * y).sum()
    write(y)
    assert y.tolist() == [0, 1, 9, 3, 4, 5]
    product.backward()
    assert weight.grad.tolist() == [0, 1, 2, 3, 4, 5]


def test_parts_of_complex_numbers_have_the_storage_of_the_whole():
    x = rg.zeros(2, 2, dtype=rg.complex64)
    assert x.imag.storage_offset() == 1 and x.imag.storage().size() == 8
    assert x.imag.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_storage_is_the_memory_behind_views():
    x = rg.arange(6.0).reshape(2, 3)
    view = x[1, 1:]
    assert len(view.storage()) == 6 and view.storage_offset() == 4 and view.storage().tolist() == list(range(6))
    assert view.storage().data_ptr() == x.storage().data_ptr() and x.untyped_storage().nbytes() == 24
    view.storage()[0] = 9.0
    assert x[0, 0] == 9.0
    strided = x.as_strided((2, 2), (0, 1), 3)
    assert strided.storage_offset() == 3 and strided[1:].storage_offset() == 3 and len(strided.storage()) == 6
    strided.storage()[5] = 7.0
    assert x[1, 2] == 7.0


def test_memory_is_shared_with_forked_processes():
    import multiprocessing
    import sys

    if sys.platform == "win32":
        pytest.skip("no fork")
    x = rg.zeros(2).share_memory_()
    assert x.is_shared() and not rg.zeros(2).is_shared()

    def write() -> None:
        x.array[...] = 5.0

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's about threads and fork
        process = multiprocessing.get_context("fork").Process(target=write)
        process.start()
    process.join()
    assert x.tolist() == [5.0, 5.0]


def test_apply_and_map_write_elements():
    x = rg.tensor([1.0, 2.0])
    assert x.apply_(lambda v: v * 10).tolist() == [10.0, 20.0]
    assert x.map_(rg.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [11.0, 22.0]


def test_inplace_forms_are_functions_too():
    x = rg.tensor([0.0, 0.0])
    assert rg.exp_(x) is x and np.allclose(x.array, 1.0) and rg.relu_(rg.tensor([-1.0])).tolist() == [0.0]
    assert rg.conv2d is rg.nn.functional.conv2d and rg.dropout is rg.nn.functional.dropout


def test_a_function_that_a_class_has_as_an_attribute_is_called_without_the_object():
    class Edges(rg.nn.Module):
        convolution = rg.nn.functional.conv2d
        join = rg.cat

        def forward(self, x):
            return self.convolution(self.join([x, x]), weight=rg.ones(1, 1, 3, 3), padding=1)

    assert Edges()(rg.ones(1, 1, 2, 2)).tolist() == [[[[4, 4], [4, 4]]]] * 2
    with pytest.raises(TypeError, match="conv2d"):
        rg.nn.functional.conv2d(Edges(), rg.ones(1))


def test_methods_take_sizes_and_dims_one_by_one():
    x = rg.ones(1, 2, 1)
    assert x.broadcast_to(3, 2, 2).shape == (3, 2, 2) and x.squeeze(0, 2).shape == (2,)
    assert x.count_nonzero(0, 1).tolist() == [2]
    assert rg._C._LinAlgError is rg.linalg.LinAlgError


def test_rarer_forms_of_calls_give_what_pytorchs_give():
    with pytest.warns(UserWarning, match="deprecated"):
        assert rg.add(rg.tensor(True), rg.tensor(True), True).tolist() is True
    assert rg.add(rg.tensor(True), True, alpha=True).dtype == rg.bool
    assert rg.add(x1=rg.ones(2), x2=rg.ones(2)).tolist() == [2.0, 2.0] and rg.sum(a=rg.ones(3)).item() == 3
    assert rg.empty_strided((0, 2, 0), (12, 4, 1)).stride() == (12, 4, 1)
    sparse = rg.zeros(2, 3, layout=rg.sparse_coo, dtype=rg.int64)
    assert sparse.is_sparse and sparse.to_dense().tolist() == [[0] * 3] * 2
    assert rg.true_divide(rg.tensor([4, 0, 2]).to_sparse(), 2).to_dense().tolist() == [2.0, 0.0, 1.0]
    out = rg.zeros(2)
    assert rg.ones(2, out=out, requires_grad=True) is out and out.requires_grad
    assert rg.nuclear_norm(rg.eye(2), out=rg.zeros(())).item() == 2
    assert rg.pca_lowrank(rg.eye(4).to_sparse(), 2).S.shape == (2,)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: rg.zeros(2, layout=rg.sparse_coo, out=rg.zeros(2)), RuntimeError),
        (lambda: rg.nonzero(rg.ones(3), as_tuple=True, out=rg.zeros(3, dtype=rg.int64)), RuntimeError),
        (lambda: rg.empty(3, 3, memory_format=rg.channels_last), RuntimeError),
        (lambda: rg.empty(1, 2, 3, 4, memory_format=rg.channels_last_3d), RuntimeError),
        (lambda: rg.meshgrid(rg.ones(1), rg.ones(1, device="meta")), RuntimeError),
        (lambda: rg.histogram(rg.ones(3), rg.tensor([0.0, 1.0]), range=(0, 1)), TypeError),
        (lambda: float(rg.tensor(1.5j)), RuntimeError),
        (lambda: int(rg.tensor(1.5j)), RuntimeError),
        (lambda: rg._check(1), TypeError),
        (lambda: rg._check_tensor_all(True), TypeError),
        (lambda: rg._check_tensor_all(rg.ones(1)), TypeError),
    ],
)
def test_what_pytorch_refuses_has_its_error(call, error):
    with pytest.raises(error):
        call()


def test_addresses_signs_and_formats_at_the_edges():
    assert rg.zeros(0, 3).data_ptr() == 0
    assert rg.is_signed(rg.ones(1, dtype=rg.bfloat16)) and not rg.is_signed(rg.ones(1, dtype=rg.uint8))
    x = rg.empty((), device="meta")
    assert format(x) == repr(x)
    assert float(rg.tensor(2 + 0j)) == 2.0 and int(rg.tensor(2 + 0j)) == 2

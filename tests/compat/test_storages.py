"""Storages read as Tensors and on the device meta, and the memory that deterministic algorithms fill."""

import copy

import pytest

import retrograd as rg


@pytest.mark.parametrize("dtype", [rg.float32, rg.int16, rg.complex64, rg.bool, rg.bfloat16, rg.uint64])
def test_a_storage_is_read_in_its_own_dtype_and_bytes_in_any(dtype):
    x = rg.tensor([[3, 1], [0, 5]]).to(dtype)
    for read in (rg.tensor, rg.as_tensor):
        assert rg.equal(read(x.storage(), dtype=dtype), x.reshape(-1))
        assert rg.equal(read(x.untyped_storage(), dtype=dtype), x.reshape(-1))
    with pytest.raises(RuntimeError, match="expected a storage of"):
        rg.tensor(x.storage(), dtype=rg.int32)
    assert rg.tensor(rg.tensor([1, 2]).untyped_storage()).tolist() == [1, 2]
    assert rg.tensor(rg.ones(3, dtype=rg.uint8).untyped_storage(), dtype=rg.int16).tolist() == [257]


def test_a_storage_on_meta_has_a_size_and_no_numbers():
    for storage in (
        rg.TypedStorage([1, 2, 3], device="meta", dtype=rg.float32),
        rg.UntypedStorage(12, device="meta"),
        rg.ones(3, device="meta").storage(),
    ):
        assert (storage.nbytes(), storage.data_ptr(), storage.device.type) == (12, 0, "meta")
        for read in (storage.tolist, storage.cpu, lambda s=storage: s[0], lambda s=storage: list(s)):
            with pytest.raises(NotImplementedError):
                read()
        with pytest.raises(RuntimeError, match="only available on CPU"):
            storage.share_memory_()
        assert repr(storage).startswith("...")
        assert len(storage.resize_(10)) == 10
    with pytest.raises(NotImplementedError):
        rg.FloatStorage([1, 2, 3]).copy_(rg.TypedStorage([1, 2, 3], device="meta", dtype=rg.float32))


@pytest.mark.parametrize("dtype", [rg.float32, rg.bfloat16, rg.complex64, rg.int8, rg.uint64, rg.bool])
def test_new_memory_is_filled_while_deterministic_algorithms_are_on(dtype):
    floating = dtype.kind in "fcV"
    largest = True if dtype.kind == "b" or floating else rg.iinfo(dtype).max
    rg.use_deterministic_algorithms(True, warn_only=True)
    try:
        made = [
            rg.empty(6, dtype=dtype), rg.empty(6, out=rg.zeros(6, dtype=dtype)),
            rg.empty_like(rg.zeros(2, 3, dtype=dtype).T), rg.zeros(2, dtype=dtype).new_empty(6),
            rg.empty_strided((2, 3), (1, 2), dtype=dtype), rg.empty_permuted((2, 3), (1, 0), dtype=dtype),
            rg.zeros(2, dtype=dtype).resize_(8)[2:],
        ]  # fmt: skip
        assert rg.get_deterministic_debug_mode() == 1
        for x in made:
            numbers = x.isnan() if floating else x
            assert numbers.reshape(-1).tolist() == [largest] * 6
        rg.utils.deterministic.fill_uninitialized_memory = False
        assert rg.zeros(1, dtype=dtype).resize_(2).tolist() == [0, 0]
    finally:
        rg.utils.deterministic.fill_uninitialized_memory = True
        rg.set_deterministic_debug_mode("default")
    assert rg.get_deterministic_debug_mode() == 0
    with pytest.raises(TypeError, match="must be a bool"):
        rg.use_deterministic_algorithms(1)


def test_a_number_fills_elements_that_share_memory():
    x = rg.zeros(8, requires_grad=True)
    y = x * 1
    y.as_strided((3, 2, 4), (1, 0, 1)).fill_(2.0)
    assert y.tolist() == [2.0] * 6 + [0.0] * 2
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 6 + [1.0] * 2


def test_a_deep_copy_of_a_tensor_and_its_storage_shares_memory():
    x = rg.arange(4.0)
    copied, storage = copy.deepcopy([x, x.storage()])
    copied.add_(1)
    assert storage.tolist() == [1.0, 2.0, 3.0, 4.0] and x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert copy.deepcopy(x[1:].storage()).tolist() == x.tolist()
    assert copy.copy(x.untyped_storage()[:4]).nbytes() == copy.deepcopy(x.untyped_storage()[:4]).nbytes() == 4


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (3, 2, 0, 5, 1, 4), (1, 4, 5)])
def test_deep_copies_of_views_share_memory_as_the_views_do(order):
    x = rg.arange(25.0).reshape(5, 5).clone()
    views = [x, x.view(25), x.detach(), x[1], x[:, 1], x.T]
    given = [views[place] for place in order]
    copies = copy.deepcopy(given)
    copies[-1].add_(1)
    changed = [bool(rg.any(mine != its)) for mine, its in zip(given, copies, strict=True)]
    assert all(changed)
    assert rg.equal(x, rg.arange(25.0).reshape(5, 5))


def test_parameters_that_are_parts_of_one_tensor_stay_so_in_a_deep_copy_of_their_module():
    flat, module = rg.zeros(12), rg.nn.Linear(3, 3)
    module.weight.data, module.bias.data = flat[:9].view(3, 3), flat[9:]
    module.flat = flat
    copied = copy.deepcopy(module)
    copied.flat.fill_(2.0)
    assert copied.weight.tolist() == [[2.0] * 3] * 3 and copied.bias.tolist() == [2.0] * 3 and not flat.any()
    copied(rg.ones(2, 3)).sum().backward()
    rg.optim.SGD(copied.parameters(), 0.1).step()
    assert rg.allclose(copied.flat, rg.full((12,), 1.8))

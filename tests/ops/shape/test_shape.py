"""Views, joining and scattering: what the operator table's cases cannot say."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.gradcheck import gradgradcheck

F = rg.nn.functional


VIEWS = [
    lambda x: x.reshape(4, 3),
    lambda x: x.view(-1),
    lambda x: x.transpose(0, 1),
    lambda x: x.permute(1, 0),
    lambda x: x.T,
    lambda x: x.mT,
    lambda x: x.unsqueeze(1),
    lambda x: x.squeeze(),
    lambda x: x.flatten(),
    lambda x: x.unflatten(1, (2, 2)),
    lambda x: x.movedim(0, 1),
    lambda x: x.diagonal(1),
    lambda x: x.narrow(1, 1, 2),
    lambda x: x.select(0, 2),
    lambda x: x.unfold(1, 2, 2),
    lambda x: x.as_strided((2, 2), (4, 1), 1),
    lambda x: x.split(2, 1)[1],
    lambda x: x.unbind(1)[3],
    lambda x: x.chunk(2)[0],
    lambda x: x.expand(3, 4),
]


@pytest.mark.parametrize("view", VIEWS)
def test_a_write_through_a_view_reaches_its_base_with_its_gradient(view):
    leaf = rg.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    base = leaf * 1
    part = view(base)
    assert np.shares_memory(part.array, base.array)
    part.mul_(3.0)
    base.sum().backward()
    marks = np.ones((3, 4))
    view(rg.from_numpy(marks)).mul_(3.0)
    assert sorted(set(marks.ravel().tolist())) in ([1.0, 3.0], [3.0])
    assert base.tolist() == (marks * np.arange(12.0).reshape(3, 4)).tolist()
    assert leaf.grad.tolist() == marks.tolist()


def test_copies_do_not_share_memory():
    x = rg.zeros(2, 3)
    for make in (
        lambda x: x.flip(0),
        lambda x: x.roll(0),
        lambda x: x.repeat(1, 1),
        lambda x: x.tril(5),
        lambda x: x.rot90(0),
    ):
        assert not np.shares_memory(make(x).array, x.array)
    assert not np.shares_memory(rg.zeros(2, 2).diag().array, x.array)
    assert not np.shares_memory(F.pad(x, (0, 0)).array, x.array)


def test_all_pieces_hang_on_one_node():
    x = rg.ones(1000, requires_grad=True)
    pieces = (x * 1).unbind()
    assert len({id(piece.grad_fn.parents[0]) for piece in pieces}) == 1
    rg.stack(pieces[::2]).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0] * 500


def test_transpose_takes_both_libraries_arguments():
    x = rg.zeros(2, 3, 4)
    assert x.transpose(0, 2).shape == x.transpose(dim0=0, dim1=2).shape == (4, 3, 2)
    assert x.transpose().shape == (4, 3, 2)
    assert x.transpose(1, 2, 0).shape == x.transpose((1, 2, 0)).shape == (3, 4, 2)
    assert rg.zeros(2, 3).transpose(0, 1).shape == (3, 2)
    assert x.reshape(shape=(4, 6)).shape == x.permute(dims=(1, 0, 2)).reshape(4, 6).shape == (4, 6)


def test_shape_changing_methods_in_place():
    leaf = rg.ones(2, 3, requires_grad=True)
    x = leaf * 2
    y = x.unsqueeze_(0)
    assert y is x and x.shape == (1, 2, 3)
    x.squeeze_().t_()
    x[0] = 0.0
    (x * x).sum().backward()
    assert leaf.grad.tolist() == [[0.0, 8.0, 8.0]] * 2
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.t_()


def test_view_refuses_to_copy_and_reinterprets_dtypes():
    x = rg.zeros(2, 3)
    with pytest.raises(RuntimeError, match="view.*strides"):
        x.T.view(6)
    assert x.view(rg.int32).dtype == rg.int32
    assert rg.ones(2).view(rg.int32).tolist() == [0x3F800000] * 2


@pytest.mark.parametrize(
    "geometry", [((3, 2), (1, 2), 1), ((2, 3), (0, 1), 2), ((4,), (3,), 0), ((2, 2), (6, 1), None)]
)
@pytest.mark.parametrize("prepare", [lambda x: x, lambda x: x.T, lambda x: x[1:], lambda x: x[:1].expand(3, 4)])
def test_as_strided_agrees_with_pytorch(geometry, prepare):
    torch = pytest.importorskip("torch")
    array = np.random.default_rng(0).standard_normal((3, 4))
    weights = np.random.default_rng(1).standard_normal(geometry[0])
    ours, theirs = rg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    x = prepare(ours * 1)
    if x.shape == (2, 4) and geometry[2] is None:
        geometry = ((2, 2), (2, 1), None)
    a, b = x.as_strided(*geometry), prepare(theirs * 1).as_strided(*geometry)
    assert a.tolist() == b.tolist()
    (a * rg.tensor(weights)).sum().backward()
    (b * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-14)


def test_as_strided_to_second_order():
    x = rg.tensor([1.0, 2.0, 3.0, 4.0], dtype=rg.float64, requires_grad=True)
    assert gradgradcheck(lambda x: x.as_strided((3, 2), (1, 1)) ** 3, (x,))


def test_where_in_memory():
    x = rg.zeros(2, 3)
    assert x.stride() == (3, 1) and x.T.stride() == (1, 3) and x.T.stride(0) == 1
    assert x.is_contiguous() and not x.T.is_contiguous()
    assert x[1].data_ptr() - x.data_ptr() == 12 == 3 * x.element_size()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x.reshape(4), RuntimeError, r"reshape\(float32\(2, 3\)"),
        (lambda x: x.reshape(-2, 3), RuntimeError, "invalid length"),
        (lambda x: x.squeeze(5), IndexError, r"squeeze.*\[-2, 1\]"),
        (lambda x: x.permute(0, 0), RuntimeError, "permute"),
        (lambda x: x.permute(0), RuntimeError, "permute"),
        (lambda x: x.transpose(0, 2), IndexError, "transpose"),
        (lambda x: x.expand(2, 4), RuntimeError, "expand"),
        (lambda x: x.expand(3), RuntimeError, "expand"),
        (lambda x: x.unflatten(1, (2, 2)), RuntimeError, "unflatten"),
        (lambda x: x.narrow(0, 1, 2), RuntimeError, "narrow"),
        (lambda x: x.select(0, 2), IndexError, "select"),
        (lambda x: x.unfold(0, 3, 1), RuntimeError, "unfold"),
        (lambda x: x.unfold(0, 1, 0), RuntimeError, "unfold"),
        (lambda x: x.diagonal(0, 1, 1), RuntimeError, "diagonal"),
        (lambda x: x.as_strided((9,), (1,)), RuntimeError, "as_strided"),
        (lambda x: x.repeat(2), RuntimeError, "repeat"),
        (lambda x: x.roll((1, 2), 0), RuntimeError, "roll"),
        (lambda x: x[0].tril(), RuntimeError, "tril"),
        (lambda x: x.flip(0, 0), RuntimeError, "flip"),
        (lambda x: x.split([1, 2]), RuntimeError, "split.*must add up to 2"),
        (lambda x: x.chunk(0), RuntimeError, "chunk"),
        (lambda x: x.sum_to_size(2, 2), RuntimeError, "sum_to_size"),
        (lambda x: rg.cat([]), ValueError, "cat"),
        (lambda x: rg.cat(x), TypeError, "cat"),
        (lambda x: rg.cat([x, x[0]]), RuntimeError, "cat"),
        (lambda x: rg.cat([x, rg.tensor(1.0)]), RuntimeError, "zero-dimensional"),
        (lambda x: rg.stack([x, x[0]]), RuntimeError, "stack"),
        (lambda x: rg.meshgrid(x), RuntimeError, "meshgrid"),
        (lambda x: F.pad(x, (1,)), RuntimeError, "divisible by 2"),
        (lambda x: F.pad(x, (3, 0), "reflect"), RuntimeError, "reflect"),
        (lambda x: F.pad(x, (4, 0), "circular"), RuntimeError, "circular"),
        (lambda x: F.pad(x, (1, 1), "mirror"), NotImplementedError, "mirror"),
        (lambda x: F.pad(x, (-2, -2)), RuntimeError, "negative"),
        (lambda x: x.gather(0, rg.tensor([[2]])), RuntimeError, "index 2 is out of bounds"),
        (lambda x: x.gather(0, rg.tensor([[-1]])), RuntimeError, "index -1 is out of bounds"),
        (lambda x: x.gather(0, rg.tensor([0])), RuntimeError, "gather"),
        (lambda x: x.gather(0, rg.tensor([[0.0]])), RuntimeError, "integer"),
        (lambda x: x.index_select(0, rg.tensor([2])), IndexError, "index_select"),
        (lambda x: x.index_select(0, rg.tensor([[0]])), IndexError, "vector"),
        (lambda x: x.index_add(0, rg.tensor([0, 1]), rg.ones(1, 3)), RuntimeError, "index_add"),
        (lambda x: x.index_add(0, rg.tensor([0]), rg.ones(1, 3, dtype=rg.float64)), RuntimeError, "dtype"),
        (lambda x: x.scatter(0, rg.tensor([[0, 0]]), rg.ones(1, 1)), RuntimeError, "scatter"),
        (lambda x: x.scatter_reduce(0, rg.tensor([[0]]), rg.ones(1, 1), "median"), RuntimeError, "median"),
        (lambda x: x.take(rg.tensor([6])), IndexError, "take"),
        (lambda x: x.masked_select(rg.tensor([1, 0, 1])), RuntimeError, "bool"),
        (lambda x: x.masked_scatter(rg.ones(2, 3, dtype=rg.bool_), rg.ones(2)), RuntimeError, "fewer"),
        (lambda x: F.embedding(rg.tensor([2]), x), IndexError, "embedding"),
        (lambda x: F.embedding(rg.tensor([0.0]), x), RuntimeError, "embedding"),
        (lambda x: F.one_hot(rg.tensor([3]), 3), RuntimeError, "one_hot"),
        (lambda x: F.pixel_shuffle(rg.zeros(3, 2, 2), 2), RuntimeError, "pixel_shuffle"),
    ],
)
def test_errors_name_the_operator(call, error, words):
    with pytest.raises(error, match=words):
        call(rg.zeros(2, 3))


def test_ties_of_scatter_reduce_without_self_are_shared_by_the_sources_alone():
    x, src = rg.tensor([5.0], requires_grad=True), rg.tensor([5.0, 5.0], requires_grad=True)
    rg.scatter_reduce(x, 0, rg.tensor([0, 0]), src, "amax", include_self=False).sum().backward()
    assert x.grad.tolist() == [0.0] and src.grad.tolist() == [0.5, 0.5]


def test_a_source_larger_than_the_index_gets_zeros_where_it_was_not_read():
    src = rg.ones(2, 4, requires_grad=True)
    rg.zeros(2, 3).scatter_add(1, rg.tensor([[0, 0], [1, 1]]), src).sum().backward()
    assert src.grad.tolist() == [[1.0, 1.0, 0.0, 0.0]] * 2


@pytest.mark.parametrize("shape", [(), (7,), (50, 3), (4, 5, 6)])
def test_many_repeated_positions_add_up(shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, *shape)).astype(np.float32)
    index = rng.integers(-8, 8, 200)
    g = rng.standard_normal((200, *shape)).astype(np.float32)
    leaf = rg.tensor(x, requires_grad=True)
    leaf[rg.tensor(index)].backward(rg.tensor(g))
    wanted = np.zeros(x.shape)
    np.add.at(wanted, index, g.astype(float))
    np.testing.assert_allclose(leaf.grad.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{"padding_idx": -2}, {"scale_grad_by_freq": True}, {"padding_idx": 0, "scale_grad_by_freq": True}]
)
def test_embedding_options_agree_with_pytorch(options):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    table, index, g = rng.standard_normal((5, 3)), rng.integers(0, 5, (4, 6)), rng.standard_normal((4, 6, 3))
    ours, theirs = rg.tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
    F.embedding(rg.tensor(index), ours, **options).backward(rg.tensor(g))
    torch.nn.functional.embedding(torch.tensor(index), theirs, **options).backward(torch.tensor(g))
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-13)


def test_embedding_limits_the_norms_of_the_rows_it_reads():
    torch = pytest.importorskip("torch")
    table = np.random.default_rng(0).standard_normal((5, 3))
    ours, theirs = rg.tensor(table, requires_grad=True), torch.tensor(table)
    a = F.embedding(rg.tensor([1, 1, 4]), ours, max_norm=0.5)
    b = torch.nn.functional.embedding(torch.tensor([1, 1, 4]), theirs, max_norm=0.5)
    np.testing.assert_allclose(a.detach().numpy(), b.numpy(), rtol=1e-12)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.numpy(), rtol=1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_leaves_out_the_padding(mode):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    table, index, offsets = rng.standard_normal((5, 3)), rng.integers(0, 5, 12), np.array([0, 3, 3, 9])
    index[9:] = 2  # the last bag is all padding
    ours, theirs = rg.tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
    a = F.embedding_bag(rg.tensor(index), ours, rg.tensor(offsets), mode=mode, padding_idx=2)
    b = torch.nn.functional.embedding_bag(torch.tensor(index), theirs, torch.tensor(offsets), mode=mode, padding_idx=2)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
    (a * a).sum().backward()
    (b * b).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("shape", [(70, 90), (2, 90, 70), (97, 64)])
@pytest.mark.parametrize("diagonal", [-100, -33, -1, 0, 1, 40, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_triangles_of_large_matrices_are_numpys(shape, diagonal, dtype):
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    if dtype == np.float32:
        x[..., ::7, :] = np.nan
    for given in (x, x.swapaxes(-1, -2), x[..., ::-1]):
        for ours, its in ((rg.tril, np.tril), (rg.triu, np.triu)):
            found = ours(rg.from_numpy(given), diagonal).numpy()
            np.testing.assert_array_equal(found, its(given, diagonal))
            assert found.dtype == dtype
            assert found.flags.c_contiguous


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("repeats", [0, 1, 3])
def test_the_elements_of_large_arrays_are_repeated_as_numpy_repeats_them(repeats, dim):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 50, 70))
    expected = x.repeat(repeats, dim)
    g = rng.standard_normal(expected.shape)
    ours = rg.tensor(x, requires_grad=True)
    out = ours.repeat_interleave(repeats, dim)
    np.testing.assert_array_equal(out.detach().numpy(), expected)
    out.backward(rg.tensor(g))
    split = g.reshape(*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :])
    np.testing.assert_allclose(ours.grad.numpy(), split.sum(dim + 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("shift", [-71, -3, 0, 1, 60])
def test_large_arrays_are_rolled_as_numpy_rolls_them(shift, dim):
    x = np.random.default_rng(0).standard_normal((60, 50, 70))
    for given in (x, x.transpose(2, 0, 1)):
        found = rg.roll(rg.from_numpy(given), shift, dim).numpy()
        np.testing.assert_array_equal(found, np.roll(given, shift, dim))
        assert found.flags.c_contiguous


@pytest.mark.parametrize(("mode", "its"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
@pytest.mark.parametrize("pad", [(2, 3, 4, 1), (0, 5, 0, 0), (0, 0, 19, 19), (29, 0, 0, 19)])
def test_large_arrays_are_padded_as_numpy_pads_them(mode, its, pad):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 3, 20, 30))
    widths = ((0, 0), (0, 0), pad[2:], pad[:2])
    expected = np.pad(x, widths, its)
    g = rng.standard_normal(expected.shape)
    ours = rg.tensor(x, requires_grad=True)
    out = F.pad(ours, pad, mode=mode)
    np.testing.assert_array_equal(out.detach().numpy(), expected)
    out.backward(rg.tensor(g))
    came_from = np.pad(np.arange(x.size).reshape(x.shape), widths, its).ravel()
    gradient = np.bincount(came_from, g.ravel(), x.size).reshape(x.shape)
    np.testing.assert_allclose(ours.grad.numpy(), gradient, rtol=1e-12, atol=1e-12)


def test_small_cases_of_views_are_those_of_pytorch():
    x = rg.tensor(2.0, requires_grad=True)
    assert x.mT.shape == x.mH.shape == ()
    y = rg.ones(3, requires_grad=True)
    assert y.sum_to_size(3) is y and y.ravel() is not y and y.ravel()._base is y
    assert (
        rg.tensor(1, dtype=rg.int8).sum_to_size(()).dtype == rg.ones(0, 3, dtype=bool).sum_to_size(()).dtype == rg.int64
    )
    empty = rg.arange(9.0).view(3, 3)[:, 3:]
    assert empty.as_strided((0,), (1,)).shape == (0,)
    assert empty.as_strided((1, 2), (1, 1), 3).tolist() == [[3, 4]]
    with pytest.raises(RuntimeError, match="pass storage_offset"):
        empty.as_strided((1, 2), (1, 1))  # at 3 in PyTorch

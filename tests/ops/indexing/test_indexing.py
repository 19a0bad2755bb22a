"""Indexing, read and written: values and gradients against PyTorch, sharing of memory, errors."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.gradcheck import gradgradcheck

torch = pytest.importorskip("torch")

SHAPE = (2, 3, 4)

pytestmark = pytest.mark.filterwarnings("ignore:.*an integer beside positions:UserWarning")


def place(make):
    """The same index from either library's ``tensor``."""
    return make(rg.tensor), make(torch.tensor)


WRITES = [
    (lambda t: 1, (3, 4)),
    (lambda t: (slice(None), slice(0, 3, 2)), (2, 1, 4)),
    (lambda t: (Ellipsis, 0), ()),
    (lambda t: (None, 0), (1, 3, 4)),
    (lambda t: 0, (1, 3, 4)),
    (lambda t: (t([1, 0]), t([0, 2])), (2, 4)),
    (lambda t: (slice(None), t([2, 0])), (4,)),
    (lambda t: t([[True, False, True], [False, False, True]]), (3, 4)),
    (lambda t: (slice(0, 1), t([0, 1]), t([[1], [3]])), (1, 2, 2)),
    (lambda t: (t(1), slice(1, 3)), (2, 4)),
    (lambda t: [1, 0], (2, 3, 4)),
    (lambda t: (0, t([False, True, True])), (2, 4)),
]


@pytest.mark.parametrize(("make", "shape"), WRITES)
@pytest.mark.parametrize("saved", [False, True])
def test_a_write_agrees_with_pytorch(make, shape, saved):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(SHAPE), rng.standard_normal(shape), rng.standard_normal(SHAPE)]
    ours = [rg.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    mine, other = place(make)
    y, z = ours[0] * 2, theirs[0] * 2
    kept, kept_there = (y * y, z * z.clone()) if saved else (0.0, 0.0)
    if saved:  # PyTorch refuses to write what it saved: there, the write goes to a copy.
        z = z.clone()
        kept_there = (theirs[0] * 2) ** 2
    y[mine] = ours[1]
    z[other] = theirs[1]
    (ours[2] * y + kept).sum().backward()
    (theirs[2] * z + kept_there).sum().backward()
    np.testing.assert_array_equal(y.detach().numpy(), z.detach().numpy())
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-13)


def test_of_several_writes_to_one_place_the_last_stays_and_alone_gets_the_gradient():
    x = rg.zeros(3)
    value = rg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    x[[0, 0, 1, -3]] = value
    assert x.tolist() == [4.0, 3.0, 0.0]
    (x * rg.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert value.grad.tolist() == [0.0, 0.0, 20.0, 10.0]


def test_second_order_through_a_write_with_repeats():
    value = rg.tensor([1.0, 2.0, 3.0], requires_grad=True, dtype=rg.float64)
    base = rg.tensor([1.0, 1.0], requires_grad=True, dtype=rg.float64)

    def program(base, value):
        x = base * base
        x[[0, 0, 1]] = value**3
        return (x**2).sum()

    assert gradgradcheck(program, (base, value))


@pytest.mark.parametrize("index", [slice(1, 3), (Ellipsis, 0), [0, 2], np.array([True, False, True, False])])
def test_augmented_assignment_acts_once(index):
    array = np.arange(12.0).reshape(4, 3)
    leaf = rg.tensor(array, requires_grad=True)
    x = leaf * 1
    x[index] *= 3
    wanted = array.copy()
    wanted[index] *= 3
    assert x.tolist() == wanted.tolist()
    x.sum().backward()
    factor = np.ones_like(array)
    factor[index] = 3
    assert leaf.grad.tolist() == factor.tolist()


def test_a_write_is_in_place_unless_the_memory_is_saved():
    x = rg.zeros(4)
    memory = x.array
    x[1:3] = 5
    assert x.array is memory
    a = rg.ones(4, requires_grad=True)
    y = a * 1
    saved = y * y
    before = y.array
    y[0] = 7.0
    assert y.array is not before
    saved.sum().backward()
    assert a.grad.tolist() == [2.0] * 4


def test_an_index_that_is_written_later_leaves_the_gradient_alone():
    x = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    index = rg.tensor([0, 2])
    bound = rg.tensor(2)
    mask = rg.tensor([True, False, False])
    total = x[index].sum() + 10 * x[:bound].sum() + 100 * x[mask].sum() + 1000 * rg.gather(x, 0, index).sum()
    index.fill_(1)
    bound.zero_()
    mask.fill_(True)
    total.backward()
    assert x.grad.tolist() == [1111.0, 10.0, 1001.0]


def test_pytorch_places_the_dimensions_and_steps_may_be_negative():
    x = np.arange(24.0).reshape(SHAPE)
    y = rg.tensor(x)
    assert y[0, :, [1, 1]].shape == (3, 2)
    assert y[::-1, 2:0:-1].tolist() == x[::-1, 2:0:-1].tolist()
    assert y[True].shape == x[True].shape
    assert y[np.array(False)].shape == (0, *SHAPE)


def test_views_share_memory_and_copies_do_not():
    x = rg.zeros(3, 4)
    x[1].fill_(1)
    x[:, 1:2][0] = 2
    x[[0]].fill_(9)
    assert x.tolist() == [[0, 2, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert x[0, 0].array.base is not None


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (3, IndexError),
        ((0, 0, 0), IndexError),
        (1.5, IndexError),
        ("a", IndexError),
        ([5], IndexError),
        (rg.tensor([0.5]), IndexError),
        (rg.tensor([True]), IndexError),
        ((rg.tensor([0, 1]), rg.tensor([0, 1, 2])), IndexError),
    ],
)
def test_what_is_no_index_is_refused_in_reading_and_writing(index, error):
    x = rg.zeros(3, 4)
    with pytest.raises(error, match="getitem"):
        x[index]
    with pytest.raises(error, match="setitem"):
        x[index] = 1


def test_values_that_do_not_fit_are_refused():
    x = rg.zeros(3, 4)
    with pytest.raises(RuntimeError, match=r"setitem.*float32\(3, 4\).*float32\(3,\)"):
        x[0] = rg.ones(3)
    with pytest.raises(RuntimeError, match="complex"):
        x[0] = 1j
    leaf = rg.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = 1.0
    with pytest.raises(RuntimeError, match="clone"):
        rg.zeros(3).expand(2, 3)[:] = 1.0


def test_iteration():
    assert [row.tolist() for row in rg.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="0-d"):
        iter(rg.tensor(1.0))


def test_scatter_says_whether_neither_or_both_of_src_and_value_were_passed():
    with pytest.raises(TypeError, match="src and value, got neither"):
        rg.scatter(rg.zeros(2), 0, rg.tensor([0]))
    with pytest.raises(TypeError, match="src and value, got both"):
        rg.scatter(rg.zeros(2), 0, rg.tensor([0]), 1.0, value=2.0)


def test_copy_fill_and_zero_write_in_place_with_gradients():
    x = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    value = rg.tensor(5.0, requires_grad=True)
    y = x * 1
    y[0:1].copy_(value * 2)
    y[1].zero_()
    z = (y * rg.tensor([1.0, 10.0, 100.0])).sum() + (x * 1).fill_(value).sum()
    z.backward()
    assert y.tolist() == [10.0, 0.0, 3.0]
    assert x.grad.tolist() == [0.0, 0.0, 100.0]
    assert value.grad.item() == 5.0
    with pytest.raises(RuntimeError, match="copy_"):
        rg.zeros(3).copy_(rg.zeros(2))
    assert rg.zeros(2, dtype=rg.int64).copy_(rg.tensor([1.7, -1.7])).tolist() == [1, -1]


class Series:
    """What another library has for a column of numbers."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_whatever_becomes_an_array_is_an_index():
    x = rg.arange(4.0).requires_grad_()
    assert x[Series([True, False, True, False])].tolist() == [0.0, 2.0]
    x[Series([3, 0, 0])].sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0, 1.0]
    with pytest.raises(IndexError, match="integer or bool"):
        x[Series([0.5])]


@pytest.mark.parametrize("target", [rg.zeros(10), rg.zeros(20)[::2], rg.zeros(10, dtype=rg.int64)], ids=str)
def test_values_that_broadcast_are_added_at_positions(target):
    """NumPy's own ``add.at`` reads beyond such values where the target has one dimension."""
    index, values = rg.tensor([[0, 5], [1, 6], [2, 7]]), rg.tensor([1, 2]).to(target.dtype)
    assert target.index_put((index,), values, accumulate=True).tolist() == [1, 1, 1, 0, 0, 2, 2, 2, 0, 0]
    target.index_put_((index,), values, accumulate=True)
    assert target.tolist() == [1, 1, 1, 0, 0, 2, 2, 2, 0, 0]


@pytest.mark.parametrize(
    "index",
    [
        [[0, 1], [1, 2]],
        [[0, 1], 2],
        [(0, 1), (1, 2)],
        [[0, 1]],
        [slice(0, 2), 1],
        [0, None],
        [..., 0],
        [np.array([0, 1]), np.array([1, 2])],
        [range(2)],
        [[True, False, True]],
    ],
    ids=str,
)
def test_a_list_of_what_is_no_number_is_read_as_pytorch_reads_it_with_a_warning(index):
    x, same = rg.arange(12).reshape(3, 4), rg.arange(12).reshape(3, 4)
    with pytest.warns(UserWarning, match="NumPy reads one array of positions") as warned:
        read = x[index]
    assert warned[0].filename == __file__
    assert rg.equal(read, x[tuple(index)])
    with pytest.warns(UserWarning, match="is read as"):
        x[index] = 7
    same[tuple(index)] = 7
    assert rg.equal(x, same)


def test_lists_of_numbers_arrays_and_long_lists_are_positions():
    x = rg.arange(12).reshape(3, 4)
    assert x[[0, 2]].shape == (2, 4) and x[[True, False, True]].shape == (2, 4) and x[[]].shape == (0, 4)
    assert x[np.array([[0, 1], [1, 2]])].shape == (2, 2, 4) == x[[[0, 1], [1, 2]],].shape
    assert x[[[0]] * 40].shape == (40, 1, 4)


def test_take_along_dim_wants_int64():
    with pytest.raises(RuntimeError, match="int64"):
        rg.take_along_dim(rg.zeros(3), rg.tensor([0], dtype=rg.int32), 0)


@pytest.mark.parametrize("shape", [rg.tensor([1, 2]), (1, 2.0), (rg.tensor(1), 2), 2.0])
def test_unravel_index_wants_a_shape_of_ints(shape):
    with pytest.raises(TypeError, match="shape"):
        rg.unravel_index(rg.tensor([0]), shape)


@pytest.mark.parametrize("cuts", [rg.tensor(1.1), rg.tensor([True]), rg.tensor([1], dtype=rg.int32), rg.tensor([[1]])])
def test_tensor_split_wants_an_int64_tensor_of_cuts(cuts):
    with pytest.raises(RuntimeError, match="int64"):
        rg.tensor_split(rg.arange(3), cuts)


# Integers beside positions, with a slice or None between: PyTorch selects by the integers first.
SELECTING = [
    lambda t: (0, slice(None), t([0, 2, 1])),
    lambda t: (0, slice(None, None, 2), t([True, False, True, True])),
    lambda t: (-1, None, [0, 1]),
    lambda t: (Ellipsis, 1, None, [1, 0, 3]),
    lambda t: (-2, slice(None), True, -1),
    lambda t: (None, t([True, False]), slice(None), Ellipsis, t(1)),
    lambda t: (t(1), slice(1, 3), t([[0], [3]])),
    lambda t: (slice(None), 0, t([1, 1])),
    lambda t: (t([0, 1]), slice(None), 2),
]


@pytest.mark.parametrize("make", SELECTING)
def test_integers_select_before_positions_are_read_or_written_as_in_pytorch(make):
    start = np.arange(24.0).reshape(SHAPE)
    mine, other = place(make)
    x, same = rg.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    read, read_there = x[mine], same[other]
    assert read.shape == tuple(read_there.shape)
    np.testing.assert_array_equal(read.detach().numpy(), read_there.detach().numpy())
    weights = np.random.default_rng(1).standard_normal(read.shape)
    (read * rg.tensor(weights)).sum().backward()
    (read_there * torch.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), same.grad.numpy())
    x, same = rg.tensor(start), torch.tensor(start)
    x[mine] = rg.tensor(weights)
    same[other] = torch.tensor(weights)
    np.testing.assert_array_equal(x.numpy(), same.numpy())
    x[mine] += 1
    same[other] += 1
    np.testing.assert_array_equal(x.numpy(), same.numpy())


def test_gradients_of_reads_and_writes_with_an_integer_before_positions_agree_with_finite_differences():
    rng = np.random.default_rng(0)
    x, value = (rg.tensor(rng.standard_normal(shape), requires_grad=True) for shape in (SHAPE, (3, 2)))
    weights = rg.tensor(rng.standard_normal((3, 2)))

    def written(x, value):
        y = x * 2
        y[0, :, [3, 1]] = value
        return y * y

    assert rg.autograd.gradcheck(lambda x: x[0, :, [3, 1]] * weights, (x,))
    assert rg.autograd.gradcheck(written, (x, value))
    assert gradgradcheck(written, (x, value))


def test_vmap_reads_and_writes_an_integer_beside_positions_as_a_loop_does():
    rng = np.random.default_rng(0)
    xs, values = rg.tensor(rng.standard_normal((5, *SHAPE))), rg.tensor(rng.standard_normal((5, 3, 2)))
    i = rg.tensor([3, 1])

    def written(x, value):
        y = x.clone()
        y[0, :, i] = value
        return y

    read = rg.func.vmap(lambda x: x[0, :, i])(xs)
    assert rg.equal(read, rg.stack([x[0, :, i] for x in xs]))
    each = [written(x, value) for x, value in zip(xs, values, strict=True)]
    assert rg.equal(rg.func.vmap(written)(xs, values), rg.stack(each))
    indices = rg.tensor([[0, 1], [3, 3], [2, 0], [1, 1], [0, 0]])
    read = rg.func.vmap(lambda x, i: x[0, :, i])(xs, indices)
    assert rg.equal(read, rg.stack([x[0, :, i] for x, i in zip(xs, indices, strict=True)]))

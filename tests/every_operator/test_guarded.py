"""Every operator on the guarded array type: a call that NumPy would understand but CuPy would not fails here."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from tests.helpers.guarded import GuardedArray, NotOffered, cupy, guarded_backend
from tests.helpers.on_device import compare_with_numpy

CASES = {case.name: case for case in all_cases()}
KNOWN = sorted(name for name in CASES if name in OPERATORS)


@pytest.fixture
def backend():
    with guarded_backend() as backend:
        yield backend


@pytest.mark.slow
@pytest.mark.every(6)
@pytest.mark.parametrize("name", KNOWN)
def test_operator_on_guarded_arrays(name, backend):
    """The same numbers as on NumPy, forward, first and second order, and nowhere an array of NumPy's."""
    compare_with_numpy(OPERATORS[name], CASES[name], cupy, tolerance=1e-10)


# The guarded type itself


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.asarray(x),
        lambda x: x + np.ones(3),
        lambda x: np.ones(3) * x,
        lambda x: np.add(x, np.ones(3)),
        lambda x: np.where(np.array([True, False, True]), x, x),
        lambda x: np.concatenate([x, np.ones(3)]),
        lambda x: np.sum(x, where=x > 0),
        lambda x: np.add(x, x, where=x > 0),
        lambda x: np.add.reduce(x),
        lambda x: np.add.at(x, x > 0, 1.0),
        lambda x: np.vecdot(x, x),
        lambda x: np.spacing(x),
        lambda x: np.insert(x, 0, 1.0),
        lambda x: np.linalg.vector_norm(x),
        lambda x: x.sum(initial=1.0),
        lambda x: x.__setitem__(slice(None), np.ones(3)),
        lambda x: x[x > 0, x > 0],
        lambda x: [1, 2, 3][x[0].astype("int64")],
        lambda x: cupy.insert(x, 0, 1.0),
        lambda x: x.itemset(0, 1.0),
        lambda x: memoryview(x),
    ],
)
def test_what_cupy_refuses_is_refused(call):
    with pytest.raises((TypeError, AttributeError)):
        call(cupy.array([1.0, 2.0, 3.0]))


def test_refusals_say_what_is_not_offered():
    with pytest.raises(NotOffered, match="NumPy arrays do not mix"):
        cupy.ones(3) + np.ones(3)
    with pytest.raises(NotOffered, match="'where'"):
        np.sum(cupy.ones(3), where=True)


def test_results_are_arrays_never_scalars():
    x = cupy.array([1.0, 2.0])
    for value in (x.sum(), x[0], x[0] * 2, np.sum(x), np.exp(x[0]), np.float64(2) * x[0], cupy.linalg.norm(x)):
        assert type(value) is GuardedArray
        assert value.ndim == 0


def test_explicit_conversions_work():
    x = cupy.asarray(np.array([1.5]))
    assert float(x[0]) == 1.5
    assert x.item() == 1.5
    assert isinstance(x.get(), np.ndarray)
    assert isinstance(cupy.asnumpy(x), np.ndarray)


def test_views_know_their_base_and_copies_have_none():
    x = cupy.zeros((2, 3))
    assert x.base is None
    assert x.T.base is x
    assert x[0][1:].base is x
    assert (x + 1).base is None
    assert x.copy().base is None
    x.T[0] = 5.0
    assert x.get().tolist() == [[5.0, 0.0, 0.0], [5.0, 0.0, 0.0]]


def test_memory_at_an_address():
    x = cupy.arange(6.0)
    view = cupy.ndarray((2,), x.dtype, x.data + 8, strides=(16,))
    assert view.get().tolist() == [1.0, 3.0]
    assert view.base is None and view.data.mem is x.data.mem  # as CuPy's


def test_the_backend_takes_cupys_place(backend):
    import retrograd as rg

    x = rg.ones(2, device="cuda")
    assert type(x.array) is GuardedArray
    assert str(x.device) == "cuda:0"
    assert isinstance(x.cpu().array, np.ndarray)


def test_mapped_functions_run_on_the_device():
    """vmap of grad of a small network, with a loss of indices, random numbers and a write inside."""
    with guarded_backend():
        rg.manual_seed(0)
        net = rg.nn.Sequential(
            rg.nn.Conv1d(2, 3, 3), rg.nn.LayerNorm(4), rg.nn.ReLU(), rg.nn.Flatten(), rg.nn.Linear(12, 4)
        )
        net = net.to("cuda").double()
        state = {name: value.detach() for name, value in net.named_parameters()}
        x, y = rg.randn(5, 2, 6, dtype=rg.float64, device="cuda"), rg.tensor([0, 1, 2, 3, 0], device="cuda")

        def loss(state, x, y):
            output = rg.func.functional_call(net, state, x[None])
            return rg.nn.functional.cross_entropy(output, y[None])

        gradients = rg.func.vmap(rg.func.grad(loss), (None, 0, 0))(state, x, y)
        for row in range(5):
            wanted = rg.func.grad(loss)(state, x[row], y[row])
            for name, value in gradients.items():
                np.testing.assert_allclose(value[row].cpu().numpy(), wanted[name].cpu().numpy(), rtol=1e-9, atol=1e-12)
        dropped = rg.func.vmap(lambda a: rg.nn.functional.dropout(a, 0.5), randomness="different")(rg.ones_like(x))
        assert dropped.device.type == "cuda" and len({tuple(row.cpu().numpy().ravel()) for row in dropped}) == 5
        rg.func.vmap(lambda a: a[0].mul_(0))(x)
        assert not x[:, 0].cpu().numpy().any() and x[:, 1].cpu().numpy().all()

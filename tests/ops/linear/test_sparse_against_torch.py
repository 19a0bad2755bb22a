"""Sparse Tensors with coordinates and with compressed rows, against PyTorch's."""

import warnings

import numpy as np
import pytest

import retrograd as rg

torch = pytest.importorskip("torch")

# PyTorch warns once per process, in whichever test comes first.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")

RNG = np.random.default_rng(0)
AT, OTHER = np.array([[0, 2, 0, 1, 2], [1, 0, 1, 3, 2]]), np.array([[0, 3, 1, 1], [1, 0, 4, 4]])


def both(at, size, shape=()):
    values = RNG.standard_normal((at.shape[1], *shape))
    pairs = []
    for lib in (rg, torch):
        v = lib.tensor(values, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs.append((lib.sparse_coo_tensor(lib.tensor(at), v, size), v))
    return pairs


def compare(pairs, function):
    (ours, v), (theirs, w) = pairs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, wanted = function(rg, ours), function(torch, theirs)
        got, wanted = (x.to_dense() if hasattr(x, "to_dense") and hasattr(x, "_nnz") and x.layout != "torch.strided"
                       else x for x in (got, wanted))  # fmt: skip
        np.testing.assert_allclose(got.detach().numpy(), wanted.to_dense().detach().numpy(), rtol=1e-12)
        (got * got).sum().backward()
        (wanted.to_dense() ** 2).sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), w.grad.to_dense().numpy(), rtol=1e-12)


DENSE = RNG.standard_normal((4, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda lib, a: lib.mm(a, lib.tensor(DENSE)),
        lambda lib, a: lib.matmul(a, lib.tensor(DENSE)),
        lambda lib, a: lib.addmm(lib.ones(3, 2, dtype=lib.float64), a, lib.tensor(DENSE), beta=2.0, alpha=0.5),
        lambda lib, a: lib.sparse.mm(a, lib.tensor(DENSE)),
        lambda lib, a: a @ a.t(),
        lambda lib, a: lib.sparse.mm(a, a.t()),
        lambda lib, a: a * a,
        lambda lib, a: a + a,
        lambda lib, a: a * 2.0,
        lambda lib, a: a.to_dense(),
        lambda lib, a: lib.sparse.softmax(a, 1),
        lambda lib, a: lib.sparse.log_softmax(a, 1),
        lambda lib, a: lib.sparse.softmax(a, 0),
    ],
)
def test_operators_on_sparse_matrices_give_pytorchs_values_and_gradients(function):
    compare(both(AT, (3, 4)), function)


def test_products_of_two_sparse_matrices_add_up_all_pairs():
    a, b = both(AT, (3, 4)), both(OTHER, (4, 5))
    got, wanted = a[0][0] @ b[0][0], a[1][0] @ b[1][0]
    np.testing.assert_allclose(got.to_dense().detach().numpy(), wanted.to_dense().detach().numpy(), rtol=1e-12)
    got.to_dense().square().sum().backward()
    wanted.to_dense().square().sum().backward()
    for pair in (a, b):
        np.testing.assert_allclose(pair[0][1].grad.numpy(), pair[1][1].grad.numpy(), rtol=1e-12)


def test_values_with_dimensions_of_their_own_are_summed_and_made_dense():
    pairs = both(AT, (3, 4, 2), (2,))
    compare(pairs, lambda lib, a: a.coalesce())
    ours, theirs = pairs[0][0], pairs[1][0]
    assert (ours.sparse_dim(), ours.dense_dim(), tuple(ours.shape)) == (
        theirs.sparse_dim(),
        theirs.dense_dim(),
        (3, 4, 2),
    )


def test_compressed_rows_are_pytorchs():
    dense = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.tensor(dense).to_sparse_csr()
    ours = rg.tensor(dense).to_sparse_csr()
    for name in ("crow_indices", "col_indices", "values"):
        assert getattr(ours, name)().tolist() == getattr(theirs, name)().tolist()
    assert str(ours.layout) == str(theirs.layout) and ours.to_dense().tolist() == dense.tolist()
    assert (ours @ rg.ones(3, 1, dtype=rg.float64)).flatten().tolist() == [2.0, 0.0, 4.0]
    again = rg.sparse_csr_tensor(ours.crow_indices(), ours.col_indices(), ours.values(), (3, 3))
    assert again.to_sparse_coo().to_dense().tolist() == dense.tolist()


@pytest.mark.parametrize(
    "arguments",
    [([0, 1], [0, 1], [1.0, 2.0]), ([0, 2, 1], [0], [1.0]), ([0, 1], [5], [1.0], (1, 2)), ([0.5, 1], [0], [1.0])],
)
def test_compressed_rows_that_do_not_fit_are_refused(arguments):
    with pytest.raises(RuntimeError, match="sparse_csr_tensor"):
        rg.sparse_csr_tensor(*arguments)


def test_sparse_adam_leaves_rows_alone_that_were_not_looked_up_as_pytorchs_does():
    weights = RNG.standard_normal((6, 3))
    found = []
    for lib in (rg, torch):
        embedding = lib.nn.Embedding(6, 3, sparse=True, dtype=lib.float64)
        with lib.no_grad():
            embedding.weight.copy_(lib.tensor(weights))
        optimizer = lib.optim.SparseAdam(embedding.parameters(), lr=0.1)
        for rows in ([0, 2], [2, 2, 5], [0], [1, 5]):
            optimizer.zero_grad()
            (embedding(lib.tensor(rows)) ** 2).sum().backward()
            optimizer.step()
        found.append(embedding.weight.detach().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def test_compressed_tensors_of_a_layout_are_pytorchs():
    for name in ("sparse_csr", "sparse_csc"):
        found = []
        for lib in (rg, torch):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arguments = [lib.tensor(x) for x in ([0, 1, 3], [1, 0, 2], [2.0, 1.0, 3.0])]
                a = lib.sparse_compressed_tensor(*arguments, layout=getattr(lib, name))
                found.append((str(a.layout), a.to_dense().tolist()))
        assert found[0] == found[1]
    with pytest.raises(RuntimeError, match="layout must be"):
        rg.sparse_compressed_tensor(*[rg.tensor(x) for x in ([0, 1], [0], [1.0])], layout=rg.sparse_coo)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {}),
        ("SGD", {"maximize": True}),
        ("SGD", {"momentum": 0.9, "dampening": 0.1}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("Adagrad", {"lr_decay": 0.1, "maximize": True}),
        ("SparseAdam", {}),
        ("SparseAdam", {"maximize": True}),
        ("LBFGS", {}),
    ],
)
@pytest.mark.parametrize("shape", [(), (2,)], ids=["elements", "rows"])
def test_optimizers_update_the_coordinates_of_sparse_gradients_as_in_pytorch(name, options, shape):
    size = (3, 4, *shape)
    start, gradients = RNG.standard_normal(size), RNG.standard_normal((3, AT.shape[1], *shape))
    found = []
    for lib in (rg, torch):
        p, dense = lib.tensor(start, requires_grad=True), lib.ones(2, dtype=lib.float64, requires_grad=True)
        optimizer = getattr(lib.optim, name)([p] if name == "SparseAdam" else [dense, p], lr=0.1, **options)
        for at, values in zip((AT, AT[:, ::2], AT), gradients, strict=True):
            optimizer.zero_grad(set_to_none=False)
            dense.grad = lib.ones(2, dtype=lib.float64)
            p.grad = lib.sparse_coo_tensor(lib.tensor(at), lib.tensor(values[: at.shape[1]]), size)
            optimizer.step(lambda: 1.0)
        found.append([p.detach().numpy(), dense.detach().numpy()])
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [("Adam", {}), ("AdamW", {}), ("RMSprop", {}), ("Adadelta", {}), ("Rprop", {}), ("Adafactor", {}),
     ("SGD", {"weight_decay": 0.1}), ("Adagrad", {"weight_decay": 0.1})],
)  # fmt: skip
def test_other_optimizers_refuse_sparse_gradients_as_in_pytorch(name, options):
    messages = []
    for lib in (rg, torch):
        p = lib.ones(3, 2, requires_grad=True)
        p.grad = lib.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
        with pytest.raises(RuntimeError) as error:
            getattr(lib.optim, name)([p], **options).step()
        messages.append(str(error.value))
        assert p.detach().tolist() == [[1.0, 1.0]] * 3
    if name not in ("SGD", "AdamW"):  # PyTorch's messages are of add and of Adam
        assert messages[1] in messages[0]


def test_a_dense_gradient_adds_to_a_sparse_one_as_in_pytorch():
    found = []
    for lib in (rg, torch):
        p = lib.ones(3, requires_grad=True)
        p.grad = lib.sparse_coo_tensor([[0, 2, 2]], [1.0, 2.0, 3.0], (3,))
        (p * 2).sum().backward()
        found.append(p.grad.tolist())
        with pytest.raises(RuntimeError):
            p.grad = lib.sparse_coo_tensor([[0]], [1.0], (4,))
    assert found[0] == found[1]


@pytest.mark.parametrize("steps", [True, False])
def test_a_compiled_function_with_a_sparse_gradient_runs_eagerly(steps):
    p = rg.ones(3, requires_grad=True)
    optimizer = rg.optim.SGD([p], lr=0.1)

    @rg.compile
    def step(values):
        p.grad = rg.sparse_coo_tensor([[0, 2]], values, (3,))
        if steps:
            optimizer.step()
        return (p * 2).sum()

    loss = step(rg.tensor([1.0, 2.0]))
    np.testing.assert_allclose(loss.item(), 5.4 if steps else 6.0, rtol=1e-6)
    assert p.grad.to_dense().tolist() == [1.0, 0.0, 2.0]


CONSTRUCTIONS = [
    ("sparse_coo_tensor", ([[0, 2, 1]], [1.0, 2.0, 3.0], (3,)), {"is_coalesced": True}),
    ("sparse_coo_tensor", ([[0, 1], [2, 1]], [1.0, 2.0], (2, 3)), {"is_coalesced": True}),
    ("sparse_csr_tensor", ([0, 2, 3], [2, 0, 1], [1.0, 2.0, 3.0], (2, 3)), {}),
    ("sparse_csc_tensor", ([0, 2, 3], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2)), {}),
    ("sparse_csr_tensor", ([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3)), {}),
]


def accepted(lib, **options):
    found = []
    for name, arguments, own in CONSTRUCTIONS:
        try:
            getattr(lib, name)(*arguments, **own, **options)
            found.append(True)
        except RuntimeError:
            found.append(False)
    return found


def test_checks_of_invariants_are_pytorchs():
    found = []
    for lib in (rg, torch):
        switch = lib.sparse.check_sparse_tensor_invariants
        states = [accepted(lib), accepted(lib, check_invariants=True)]
        with switch():
            states += [switch.is_enabled(), accepted(lib), accepted(lib, check_invariants=False)]
            with switch(False):
                states.append(accepted(lib))
        states += [switch.is_enabled(), switch(True)(accepted)(lib)]
        switch.enable()
        states += [switch.is_enabled(), accepted(lib), switch(False)(switch.is_enabled)()]
        switch.disable()
        states += [switch.is_enabled(), accepted(lib)]
        context = switch()
        with context, pytest.raises(RuntimeError, match="already activated"), context:
            pass
        found.append(states)
    assert found[0] == found[1]
    assert found[0][:2] == [[True] * 5, [False, True, False, False, True]]

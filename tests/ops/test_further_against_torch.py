"""Values of operators whose derivatives PyTorch has not, or which it computes in another way, against PyTorch's."""

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.table.registry import OPERATORS

torch = pytest.importorskip("torch")

POLYNOMIALS = sorted(name.removeprefix("special.") for name in OPERATORS if "_polynomial_" in name)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_all_degrees_equal_pytorchs_and_those_of_negative_ones_are_zero(name):
    x, n = np.random.default_rng(0).uniform(-1.5, 1.5, (5, 1)), np.array([-2, 0, 1, 2, 7])
    got = getattr(rg.special, name)(rg.tensor(x), rg.tensor(n)).numpy()
    wanted = getattr(torch.special, name)(torch.tensor(x), torch.tensor(n)).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["real", "symmetric", "hermitian"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 12])
def test_ldl_factors_and_pivots_are_lapacks(n, kind):
    rng = np.random.default_rng(n)
    for trial in range(20):
        a = rng.standard_normal((n, n)) + (0 if kind == "real" else 1j * rng.standard_normal((n, n)))
        a = a + (a.conj().T if kind == "hermitian" else a.T)
        if trial % 2:
            a[np.diag_indices(n)] *= 0.01
        got = rg.linalg.ldl_factor(rg.tensor(a), hermitian=kind == "hermitian")
        wanted = torch.linalg.ldl_factor(torch.tensor(a), hermitian=kind == "hermitian")
        assert got.pivots.tolist() == wanted.pivots.tolist()
        np.testing.assert_allclose(got.LD.numpy(), np.tril(wanted.LD.numpy()), rtol=1e-9, atol=1e-9)
        b = rng.standard_normal((n, 2)).astype(a.dtype)
        x = rg.linalg.ldl_solve(*got, rg.tensor(b), hermitian=kind == "hermitian")
        np.testing.assert_allclose(a @ x.numpy(), b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["matrix_rank", "pinv"])
def test_a_tolerance_that_is_a_number_does_not_change_the_type_of_an_error(name):
    for lib in (torch, rg):
        with pytest.raises(RuntimeError, match="2 (or more )?dimensions|at least 2"):
            getattr(lib.linalg, name)(lib.ones(5), rtol=1.0)


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_gives_the_eigenvalues_that_pytorchs_gives(largest):
    a = np.diag(np.arange(1.0, 13)) + 0.1
    values, vectors = rg.lobpcg(rg.tensor(a), 3, largest=largest)
    torch.manual_seed(0)
    wanted = torch.lobpcg(torch.tensor(a), 3, largest=largest, niter=200, tol=1e-10)[0].numpy()
    np.testing.assert_allclose(values.numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(a @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-9)


@pytest.mark.parametrize("axes", [2, 3])
def test_fractional_pooling_chooses_the_windows_that_pytorch_chooses(axes):
    rng = np.random.default_rng(axes)
    x, samples = rng.standard_normal((2, 3, 9, 8, 7)[: axes + 2]), rng.random((2, 3, axes))
    name = f"fractional_max_pool{axes}d"
    for options in ({"output_size": (4,) * axes}, {"output_ratio": (0.6,) * axes}):
        ours, theirs = [lib.tensor(x, requires_grad=True) for lib in (rg, torch)]
        got, wanted = [
            getattr(lib.nn.functional, name)(y, 2, _random_samples=lib.tensor(samples), return_indices=True, **options)
            for lib, y in ((rg, ours), (torch, theirs))
        ]
        assert got[1].tolist() == wanted[1].tolist() and got[0].tolist() == wanted[0].tolist()
        got[0].sum().backward()
        wanted[0].sum().backward()
        assert ours.grad.tolist() == theirs.grad.tolist()


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.5])
def test_segments_reduce_as_in_pytorch(reduce, initial):
    x, lengths = np.random.default_rng(0).standard_normal((6, 2)), [2, 0, 4]
    ours, theirs = rg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    got = rg.segment_reduce(ours, reduce, lengths=rg.tensor(lengths), initial=initial)
    wanted = torch.segment_reduce(theirs, reduce, lengths=torch.tensor(lengths), initial=initial)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    got[0::2].sum().backward()
    wanted[0::2].sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("pad", [0, 2])
def test_conv_tbc_is_pytorchs(pad):
    rng = np.random.default_rng(pad)
    arrays = [rng.standard_normal(shape) for shape in ((5, 2, 3), (2, 3, 4), (4,))]
    ours, theirs = [[lib.tensor(array, requires_grad=True) for array in arrays] for lib in (rg, torch)]
    got, wanted = rg.conv_tbc(*ours, pad), torch.conv_tbc(*theirs, pad)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    got.square().sum().backward()
    wanted.square().sum().backward()
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["dropout2d", "feature_alpha_dropout"])
def test_dropout_of_channels_takes_a_vector_where_nothing_is_drawn(name):
    function = getattr(rg.nn.functional, name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="dropout2d")
        for x, p, training in ((rg.ones(3), 0.5, False), (rg.ones(3), 0.0, True), (rg.ones(0), 0.5, True)):
            assert rg.equal(function(x, p, training), x)
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            function(rg.ones(3), 0.5, True)

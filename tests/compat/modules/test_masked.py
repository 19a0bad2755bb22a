"""``torch.masked`` and ``hash_tensor``, against PyTorch's own."""

import numpy as np
import pytest

import retrograd as rg

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((2, 3, 4))
MASK = np.random.default_rng(1).random((2, 3, 4)) < 0.7
REDUCTIONS = ["sum", "prod", "amax", "amin", "mean", "norm", "var", "std", "logsumexp", "argmax", "argmin"]
NORMALIZATIONS = ["softmax", "log_softmax", "softmin", "cumsum", "cumprod"]
ARGUMENTS = (
    *((name, arguments) for name in REDUCTIONS[:9] for arguments in ({}, {"dim": (2, 0), "keepdim": True})),
    *((name, {"dim": dim}) for name in REDUCTIONS[9:] for dim in (None, -1)),
    *((name, {"dim": 1}) for name in NORMALIZATIONS),
    *(("norm", {"ord": order, "dim": 1}) for order in (0, 3, -np.inf)),
    *(("normalize", {"ord": order, "dim": -1}) for order in (1,)),
    ("var", {"dim": 1, "unbiased": False}),
    ("std", {"dim": 2, "correction": 2}),
    ("median", {"dim": 2}),
)


@pytest.mark.parametrize(("name", "arguments"), ARGUMENTS)
def test_masked_operations_give_pytorchs_values_and_gradients(name, arguments):
    for mask in (MASK, MASK[0, :, 0][:, None].astype(np.int64), None):
        results = []
        for lib in (rg, torch):
            x = lib.tensor(X, requires_grad=True)
            given = None if mask is None else lib.tensor(mask)
            result = getattr(lib.masked, name)(x, **arguments, mask=given)
            gradient = None
            if result.requires_grad:
                finite = lib.where(lib.isfinite(result), result, 0.0)
                (finite * lib.arange(1.0, finite.numel() + 1, dtype=lib.float64).reshape(finite.shape)).sum().backward()
                gradient = None if x.grad is None else x.grad.numpy()  # PyTorch's norm of order 0 has none
            results.append((result.detach().numpy(), gradient))
        (ours, our_gradient), (theirs, their_gradient) = results
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
        assert ours.dtype == theirs.dtype
        if their_gradient is not None and np.isfinite(their_gradient).all():
            np.testing.assert_allclose(our_gradient, their_gradient, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "complex64"])
def test_masked_operations_have_pytorchs_dtypes_and_errors(dtype):
    numbers = np.array([[3, 0, 7], [1, 5, 0]]).astype(dtype)
    mask = np.array([[True, False, True], [False, True, True]])
    for name in (*REDUCTIONS, *NORMALIZATIONS, *(() if "c" in dtype else ("median",))):
        for arguments in ({"dim": 1}, {"dim": 1, "dtype": "complex128" if "c" in dtype else "float64"}, {"dim": 2}):
            outcomes = []
            for lib in (rg, torch):
                given = {k: getattr(lib, v) if k == "dtype" else v for k, v in arguments.items()}
                try:
                    result = getattr(lib.masked, name)(lib.tensor(numbers), mask=lib.tensor(mask), **given)
                    outcomes.append((result.numpy(), None))
                except Exception as error:
                    outcomes.append((None, error))
            (ours, error), (theirs, expected) = outcomes
            if theirs is not None:
                assert error is None, (name, arguments, error)
                np.testing.assert_allclose(ours, theirs, rtol=2e-2 if dtype == "float16" else 1e-4)
                assert ours.dtype == theirs.dtype, (name, arguments)
            elif arguments["dim"] == 2:
                assert isinstance(error, (type(expected), RuntimeError, ValueError)), (name, arguments, error)


def test_elements_that_a_mask_excludes_have_no_gradient_even_if_they_are_nan():
    mask = rg.tensor([True, False, True])
    for name in ("sum", "prod", "amax", "mean", "norm", "var", "std", "logsumexp"):
        x = rg.tensor([1.0, float("nan"), 3.0], requires_grad=True)
        getattr(rg.masked, name)(x, mask=mask).backward()
        assert x.grad[1] == 0 and rg.isfinite(x.grad).all(), name


def test_masked_sums_of_exponentials_count_each_operand_where_its_mask_is_true():
    for lib in (rg, torch):
        pair = lib.tensor([-100.0, -200.0]), lib.tensor([-1.0, -2.0])
        mask = lib.tensor([True, False])
        result = lib.masked.logaddexp(*pair, input_mask=mask, other_mask=mask)
        np.testing.assert_allclose(result.numpy(), [-1.0, -np.inf])


def test_masks_that_do_not_fit_are_refused_as_in_pytorch():
    for lib in (rg, torch):
        x = lib.ones(2, 3)
        for mask, error in ((lib.ones(2, 2, 3), IndexError), (lib.ones(2), RuntimeError)):
            with pytest.raises(error):
                lib.masked.sum(x, mask=mask)
        with pytest.raises(ValueError):
            lib.masked.mean(lib.ones(2, 3, dtype=lib.int64))
        with pytest.raises(ValueError):
            lib.masked.median(lib.ones(2, 3, dtype=lib.int64), mask=lib.zeros(3, dtype=lib.bool))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_hashes_are_pytorchs(dtype):
    for arguments in ({}, {"dim": 1}, {"dim": (0, 2), "keepdim": True}, {"dim": ()}):
        ours, theirs = (lib.hash_tensor(lib.tensor(10 * X).to(getattr(lib, dtype)), **arguments) for lib in (rg, torch))
        assert ours.dtype == rg.uint64
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_hashes_of_what_has_none_are_refused_as_in_pytorch():
    for lib in (rg, torch):
        for shape, arguments, error in (
            ((0,), {}, RuntimeError),
            ((2,), {"mode": 1}, RuntimeError),
            ((0, 3), {"dim": 0}, IndexError),
            ((2, 3), {"dim": 2}, IndexError),
        ):
            with pytest.raises(error):
                lib.hash_tensor(lib.zeros(shape), **arguments)
        with pytest.raises(NotImplementedError):
            lib.hash_tensor(lib.zeros(2, dtype=lib.complex64))
        assert lib.hash_tensor(lib.zeros(0, 3), 1).shape == (0,)

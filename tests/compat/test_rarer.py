"""Rarer names of PyTorch, against PyTorch's own."""

import warnings

import numpy as np
import pytest

import retrograd as rg

torch = pytest.importorskip("torch")

F, nn = rg.nn.functional, rg.nn


def values(result):
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [x.detach().numpy() if hasattr(x, "detach") else np.asarray(x) for x in results]


X = np.random.default_rng(0).standard_normal((2, 4, 6)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((4,)).astype(np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x, w: lib.native_layer_norm(x, (6,), None, None, 1e-5),
        lambda lib, x, w: lib.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5),
        lambda lib, x, w: lib.native_group_norm(x, w, w, 2, 4, 6, 2, 1e-5),
        lambda lib, x, w: lib.native_channel_shuffle(x.unsqueeze(-1), 2),
        lambda lib, x, w: lib.native_dropout(x, 0.3, False),
        lambda lib, x, w: lib.norm_except_dim(x, 2, 1),
        lambda lib, x, w: lib.nuclear_norm(x[0]),
        lambda lib, x, w: lib.frobenius_norm(x, (1, 2)),
        lambda lib, x, w: lib.max_pool1d_with_indices(x, 2),
        lambda lib, x, w: lib.convolution(x, lib.ones(3, 4, 2), None, [1], [0], [1], False, [0], 1),
        lambda lib, x, w: lib.convolution(x, lib.ones(4, 3, 2), None, [2], [0], [1], True, [0], 1),
        lambda lib, x, w: lib.grid_sampler(x.unsqueeze(0)[:, :1], lib.zeros(1, 2, 2, 2), 0, 0, False),
        lambda lib, x, w: lib.affine_grid_generator(lib.ones(1, 2, 3), [1, 1, 2, 2], True),
        lambda lib, x, w: lib.selu_(x.clone()),
        lambda lib, x, w: lib.celu_(x.clone()),
        lambda lib, x, w: lib.threshold_(x.clone(), 0.1, 2.0),
        lambda lib, x, w: lib.gcd_(lib.tensor([12, 18]), lib.tensor([8, 27])),
        lambda lib, x, w: lib.vander(w, 3),
        lambda lib, x, w: (lib.sym_max(2, 3), lib.sym_min(2, 3), lib.sym_int(-1.5), lib.sym_not(True)),
    ],
)
def test_operators_under_their_inner_names_give_pytorchs_values(call):
    got = values(call(rg, rg.from_numpy(X.copy()), rg.from_numpy(W.copy())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's own
        wanted = values(call(torch, torch.from_numpy(X.copy()), torch.from_numpy(W.copy())))
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_of_convolutions_as_functions(axes, groups):
    rng = np.random.default_rng(axes)
    x, w = rng.standard_normal((2, 4, *(7,) * axes)), rng.standard_normal((6, 4 // groups, *(3,) * axes))
    options = {"stride": 2, "padding": 1, "groups": groups}
    y = getattr(torch.nn.functional, f"conv{axes}d")(torch.tensor(x), torch.tensor(w), **options)
    g = rng.standard_normal(tuple(y.shape))
    for kind, size, other in (("input", x.shape, w), ("weight", w.shape, x)):
        first = (size, other) if kind == "input" else (other, size)
        found = []
        for lib in (rg, torch):
            arguments = [lib.tensor(part) if isinstance(part, np.ndarray) else part for part in first]
            function = getattr(lib.nn.grad, f"conv{axes}d_{kind}")
            found.append(function(*arguments, lib.tensor(g), **options).numpy())
        np.testing.assert_allclose(found[0], found[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("size", "stride"), [((2, 3), (1, 2)), ((2, 0), (1, 1)), ((), ()), ((3,), (2,))])
def test_empty_strided_has_the_strides(size, stride):
    x = rg.empty_strided(size, stride)
    assert x.shape == size and x.stride() == torch.empty_strided(size, stride).stride()
    x.fill_(1.0)
    assert rg.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride()


@pytest.mark.parametrize("call", [lambda: rg.empty_strided((2,), (1, 2)), lambda: rg.empty_strided((-2,), (1,)),
                                  lambda: rg.empty_permuted((2, 3), (0, 0)), lambda: rg.symeig(rg.eye(2))])  # fmt: skip
def test_what_does_not_fit_or_was_removed_is_a_runtime_error(call):
    with pytest.raises(RuntimeError):
        call()


def test_binomial_numbers_have_their_mean():
    rg.manual_seed(0)
    drawn = rg.binomial(rg.full((4000,), 10.0), rg.full((4000,), 0.3))
    assert drawn.dtype == rg.float32 and abs(float(drawn.mean()) - 3.0) < 0.1
    with pytest.raises(RuntimeError, match="probabilities"):
        rg.binomial(rg.ones(1), rg.full((1,), 1.5))


def test_fork_rng_leaves_the_random_numbers_as_they_were():
    rg.manual_seed(0)
    with rg.random.fork_rng():
        inside = rg.rand(3)
    assert rg.rand(3).tolist() == inside.tolist()


def test_a_module_has_hooks_before_its_state_dict_and_memory_without_values():
    model, seen = nn.Linear(2, 3), []
    handle = model.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    nn.Sequential(model).state_dict()
    handle.remove()
    model.state_dict()
    assert seen == [("0.", False)]
    assert model.to_empty(device="cpu") is model and model.weight.shape == (3, 2)


def test_a_module_hands_its_arguments_on_only_where_it_says_so():
    class Mixin:
        def __init__(self, value):
            self.value = value

    class Both(nn.Module, Mixin):
        call_super_init = True

        def __init__(self):
            super().__init__(3)

    assert Both().value == 3
    with pytest.raises(TypeError, match="arguments"):
        nn.Module(3)


def test_an_operator_of_the_programs_own_has_the_derivative_that_it_registers():
    @rg.library.custom_op("mine::cube", mutates_args=())
    def cube(x: rg.Tensor) -> rg.Tensor:
        return rg.from_numpy(x.numpy() ** 3)

    @cube.register_fake
    def _(x):
        return rg.empty_like(x)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    cube.register_autograd(lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g, setup_context=setup_context)
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_the_current_accelerator_is_another_for_a_while_where_there_is_one():
    with rg.accelerator.device_index(None):
        pass
    if not rg.accelerator.is_available():
        with pytest.raises(RuntimeError, match="no GPU is available"), rg.accelerator.device_index(0):
            pass

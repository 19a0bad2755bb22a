"""Every optimizer against PyTorch, step by step, over its options."""

import itertools

import numpy as np
import pytest

import retrograd as rg
from retrograd import optim

torch = pytest.importorskip("torch")

STEPS = 30
TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}
SHAPES = [(3, 4), (5,), (), (2, 3, 2)]
MATRICES = [(3, 4), (6, 2), (4, 4)]

OPTIONS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.05, "weight_decay": 0.1},
        {"lr": 0.05, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.05, "momentum": 0.9},
        {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "maximize": True},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    ],
    "Adam": [
        {"lr": 0.1, "amsgrad": a, "weight_decay": w, "maximize": m, "decoupled_weight_decay": d}
        for a, w, m, d in itertools.product([False, True], [0, 0.2], [False, True], [False, True])
    ]
    + [{"betas": (0.5, 0.6), "eps": 0.1}],
    "AdamW": [
        {"lr": 0.1, "amsgrad": a, "weight_decay": w, "maximize": m}
        for a, w, m in itertools.product([False, True], [0, 0.2], [False, True])
    ],
    "Adamax": [{"lr": 0.1}, {"lr": 0.1, "weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.7), "eps": 1e-2}],
    "NAdam": [
        {"lr": 0.1, "weight_decay": w, "maximize": m, "decoupled_weight_decay": d, "momentum_decay": 0.01}
        for w, m, d in itertools.product([0, 0.2], [False, True], [False, True])
    ],
    "RAdam": [
        {"lr": 0.1, "weight_decay": w, "maximize": m, "decoupled_weight_decay": d}
        for w, m, d in itertools.product([0, 0.2], [False, True], [False, True])
    ]
    + [{"lr": 0.1, "betas": (0.8, 0.7)}],
    "Adagrad": [
        {"lr": 0.1},
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.7, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}],
    "RMSprop": [
        {"lr": 0.02, "momentum": m, "centered": c, "weight_decay": w, "maximize": x}
        for m, c, w, x in itertools.product([0, 0.9], [False, True], [0, 0.1], [False, True])
    ],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2), "maximize": True}],
    "ASGD": [
        {"lr": 0.1},
        {"lr": 0.1, "lambd": 0.01, "alpha": 0.5, "t0": 10, "weight_decay": 0.1},
        {"lr": 0.1, "t0": 5, "maximize": True},
    ],
    "Adafactor": [
        {"lr": 0.1},
        {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-3, 1e-2), "d": 2.0, "weight_decay": 0.1, "maximize": True},
    ],
    "Muon": [
        {"lr": 0.1},
        {"lr": 0.1, "nesterov": False, "weight_decay": 0.0, "momentum": 0.5, "ns_steps": 3},
        {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw"},
    ],
}
CASES = [(name, options) for name, all_options in OPTIONS.items() for options in all_options]


@pytest.fixture(autouse=True)
def full_precision_muon(monkeypatch):
    """PyTorch's Muon rounds to bfloat16; without that the two must agree in full."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())


class Problem:
    """Parameters in both libraries with the same values, whose gradients depend on where they are."""

    def __init__(self, shapes, seed=0, dtype=np.float64):
        self.random = np.random.default_rng(seed)
        start = [self.random.normal(size=shape).astype(dtype) for shape in shapes]
        self.ours = [rg.tensor(value, requires_grad=True) for value in start]
        self.theirs = [torch.tensor(value, requires_grad=True) for value in start]

    def set_gradients(self, without=()):
        for index, (ours, theirs) in enumerate(zip(self.ours, self.theirs)):
            noise = self.random.normal(size=ours.shape).astype(ours.dtype)
            if index in without:
                ours.grad = theirs.grad = None
                continue
            g = (np.sin(theirs.detach().numpy() * 3) + noise).astype(ours.dtype)
            ours.grad, theirs.grad = rg.tensor(g), torch.tensor(g)

    def check(self, **tolerance):
        for ours, theirs in zip(self.ours, self.theirs):
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), **(tolerance or TOLERANCE))


def shapes_for(name):
    return MATRICES if name == "Muon" else SHAPES


def groups(parameters):
    """The first one with the given options, the others in a group with another learning rate."""
    return [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.01}]


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: str(value))
def test_agrees_with_pytorch_step_by_step(name, options):
    problem = Problem(shapes_for(name))
    ours = getattr(optim, name)(groups(problem.ours), **options)
    theirs = getattr(torch.optim, name)(groups(problem.theirs), **options)
    for step in range(STEPS):
        # The second parameter never has a gradient, the last one only now and then.
        problem.set_gradients(without={1} if step % 3 else {1, len(problem.ours) - 1})
        ours.step()
        theirs.step()
        problem.check()
    for key, state in theirs.state_dict()["state"].items():
        for entry, value in state.items():
            np.testing.assert_allclose(ours.state_dict()["state"][key][entry].numpy(), value.numpy(), **TOLERANCE)


@pytest.mark.parametrize("name", OPTIONS)
def test_defaults_and_groups_are_pytorchs(name):
    problem = Problem(shapes_for(name))
    ours, theirs = (
        getattr(library, name)(parameters)
        for library, parameters in ((optim, problem.ours), (torch.optim, problem.theirs))
    )
    assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - {"Adafactor", "Muon"}))
def test_complex_parameters(name):
    values = np.array([[1 + 2j, -1j], [0.5, -2 + 1j]])
    ours, theirs = rg.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    our_optimizer, their_optimizer = getattr(optim, name)([ours]), getattr(torch.optim, name)([theirs])
    random = np.random.default_rng(0)
    for _ in range(5):
        g = random.normal(size=(2, 2)) + 1j * random.normal(size=(2, 2))
        ours.grad, theirs.grad = rg.tensor(g), torch.tensor(g)
        our_optimizer.step()
        their_optimizer.step()
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), **TOLERANCE)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("layout", ["transposed", "strided", "gradient transposed"])
def test_any_layout_and_more_than_one_block(name, layout, monkeypatch):
    monkeypatch.setattr("retrograd.optim.array_updates.BLOCK", 16)
    random = np.random.default_rng(0)
    start, g = random.normal(size=(2, 12, 10))
    plain = rg.tensor(start, requires_grad=True)
    array = start.copy()
    if layout == "transposed":
        array = np.asfortranarray(start)
    elif layout == "strided":
        array = np.zeros((12, 20))[:, ::2]
        array[...] = start
    other = rg.from_numpy(array).requires_grad_()
    one, two = getattr(optim, name)([plain]), getattr(optim, name)([other])
    for _ in range(4):
        plain.grad = rg.tensor(g)
        other.grad = rg.from_numpy(np.asfortranarray(g) if layout == "gradient transposed" else g)
        one.step()
        two.step()
    np.testing.assert_allclose(other.detach().numpy(), plain.detach().numpy(), rtol=1e-14, atol=1e-15)
    assert other.array is array  # in place


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtype_is_kept(name, dtype):
    problem = Problem(shapes_for(name), dtype=dtype)
    optimizer = getattr(optim, name)(problem.ours)
    for _ in range(3):
        problem.set_gradients()
        optimizer.step()
    for parameter in problem.ours:
        assert parameter.dtype == dtype
        for key, value in optimizer.state[parameter].items():
            assert value.dtype == (dtype if key not in optimizer.scalar_state else np.float32)


def rosenbrock(x, y):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2 + ((y - 1) ** 2).sum()


@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
@pytest.mark.parametrize("options", [{}, {"history_size": 3}, {"max_iter": 4, "max_eval": 6}, {"lr": 0.3}], ids=str)
def test_lbfgs(line_search_fn, options):
    start = [np.array([-1.5, 2.0]), np.array([[0.3, -2.0]]), np.array([7.0])]
    ours = [rg.tensor(value, requires_grad=True) for value in start]
    theirs = [torch.tensor(value, requires_grad=True) for value in start]
    if line_search_fn is None:
        options = {"lr": 0.02, **options, "tolerance_change": 0.0}
    sides = [
        (ours, optim.LBFGS(ours, line_search_fn=line_search_fn, **options)),
        (theirs, torch.optim.LBFGS(theirs, line_search_fn=line_search_fn, **options)),
    ]

    def closure_for(parameters, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = rosenbrock(parameters[0], parameters[1])  # the third one gets no gradient
            loss.backward()
            return loss.detach()

        return closure

    # Rounding grows from iteration to iteration, the first step has the least of it.
    for tolerance in (1e-9, 1e-7, 1e-5, 1e-5):
        losses = [optimizer.step(closure_for(parameters, optimizer)).item() for parameters, optimizer in sides]
        assert losses[0] == pytest.approx(losses[1], rel=tolerance, abs=1e-12)
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=1e-9)
        evaluations = [optimizer.state_dict()["state"][0]["func_evals"] for _, optimizer in sides]
        assert evaluations[0] == evaluations[1]


def test_lbfgs_needs_a_closure_and_one_group():
    x, y = rg.zeros(1, requires_grad=True), rg.zeros(1, requires_grad=True)
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([x]).step()
    with pytest.raises(ValueError, match="groups"):
        optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optim.LBFGS([x], line_search_fn="armijo")


def test_the_muon_of_pytorch_in_bfloat16_is_near(monkeypatch):
    monkeypatch.undo()
    problem = Problem(MATRICES, dtype=np.float32)
    ours, theirs = optim.Muon(problem.ours, lr=0.1), torch.optim.Muon(problem.theirs, lr=0.1)
    problem.set_gradients()
    ours.step()
    theirs.step()
    problem.check(atol=5e-3)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_takes_a_loss_that_is_an_integer_and_has_no_gradient(line_search):
    for tolerance in (float("inf"), float("-inf")):
        parameter = rg.zeros(2, requires_grad=True)
        optimizer = rg.optim.LBFGS([parameter], 0.01, tolerance_grad=tolerance, line_search_fn=line_search)
        assert optimizer.step(lambda: rg.tensor([10])).tolist() == [10]
        assert optimizer.step(lambda: rg.tensor(10)).item() == 10
        assert parameter.tolist() == [0, 0]


@pytest.mark.parametrize(
    "name",
    ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD"],
)
def test_parameters_of_bfloat16_are_updated_in_float32_and_rounded_with_their_state(name):
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    numbers, gradients = rg.linspace(-2, 2, 9), [rg.linspace(-1, 0.7, 9) * scale for scale in (1.0, 0.3, -2.0)]
    half = rg.nn.Parameter(numbers.bfloat16())
    single = rg.nn.Parameter(half.detach().float())
    of_half, of_single = [getattr(rg.optim, name)([p], lr=0.125, **options) for p in (half, single)]
    for gradient in gradients:
        half.grad = gradient.bfloat16()
        single.grad = half.grad.float()
        of_half.step()
        of_single.step()
        with rg.no_grad():
            for x in (single, *of_single.state[single].values()):
                if isinstance(x, rg.Tensor) and x.ndim:
                    x.copy_(x.bfloat16())
        assert half.dtype == rg.bfloat16
        np.testing.assert_array_equal(half.float().detach().numpy(), single.detach().numpy())
    assert not np.array_equal(single.detach().numpy(), numbers.numpy())

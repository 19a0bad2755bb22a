"""Hyper-parameters: what is refused, with which words, and optimizers that others derive from ours."""

import inspect
import math
import typing

import numpy as np
import pytest

import retrograd as rg
from retrograd import optim
from retrograd.optim.optimizer import required

NAMES = ["SGD", "ASGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop"]
NAMES += ["Adafactor", "Muon", "LBFGS"]
NUMBERS = [-1.0, 0.0, 0.5, 1.0, 1.5, 120, math.inf, math.nan]
PAIRS = [(a, b) for a in (-0.1, 0.5, 1.0) for b in (0.5, 1.0, 1.2, math.nan)]


def parameter(library):
    return library.ones(1, 1, requires_grad=True)


def candidates(default):
    """Values to try in place of a default; None for an option that is neither a number nor a pair of numbers."""
    if isinstance(default, tuple) and len(default) == 2:
        return PAIRS
    return NUMBERS if isinstance(default, (int, float)) and not isinstance(default, bool) else []


@pytest.mark.parametrize("name", NAMES)
def test_what_pytorch_refuses_is_refused(name):
    torch = pytest.importorskip("torch")
    checked = 0
    for option, given in inspect.signature(getattr(torch.optim, name)).parameters.items():
        for value in candidates(given.default):
            if option == "ns_steps":  # PyTorch's Muon refuses the number of iterations when it steps
                continue
            try:
                getattr(torch.optim, name)([parameter(torch)], **{option: value})
                refused = False
            except ValueError:
                refused = True
            refused |= name == "SGD" and value != value and option != "dampening"  # PyTorch's SGD takes NaN
            if refused:
                with pytest.raises(ValueError, match=rf"^{name}: {option}.* must be "):
                    getattr(optim, name)([parameter(rg)], **{option: value})
            else:
                getattr(optim, name)([parameter(rg)], **{option: value})
            checked += 1
    assert checked >= 8


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Adam", {"lr": -1}, "Adam: lr must be >= 0, got -1"),
        ("AdamW", {"betas": (0.9, 1.0)}, r"AdamW: betas\[1\] must be in \[0, 1\), got 1.0"),
        ("NAdam", {"betas": (0.9, 0.9, 0.9)}, "NAdam: betas must be 2 numbers"),
        ("Adadelta", {"rho": 2}, r"Adadelta: rho must be in \[0, 1\], got 2"),
        ("Rprop", {"etas": (1.5, 1.2)}, r"Rprop: etas must be 0 < etas\[0\] < 1 < etas\[1\], got \(1.5, 1.2\)"),
        (
            "Muon",
            {"adjust_lr_fn": "other"},
            "Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got other",
        ),
        ("SGD", {"lr": rg.ones(2)}, r"SGD: lr must be a number or a Tensor with 1 element, got float32\(2,\)"),
    ],
)
def test_the_message_names_optimizer_argument_range_and_value(name, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        getattr(optim, name)([parameter(rg)], **options)


@pytest.mark.parametrize("value", ["0.1", None, []])
def test_what_is_no_number_is_a_type_error(value):
    with pytest.raises(TypeError, match="Adam: lr must be >= 0, got"):
        optim.Adam([parameter(rg)], lr=value)


def test_the_name_of_a_derived_optimizer_stands_in_its_errors():
    class Mine(optim.Adam):
        def __init__(self, params, rate):
            super().__init__(params, lr=rate)

    with pytest.raises(ValueError, match="^Mine: lr must be >= 0"):
        Mine([parameter(rg)], -1)


@pytest.mark.parametrize("name", [*NAMES, "Optimizer"])
def test_signatures_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (inspect.signature(getattr(library, name)) for library in (optim, torch.optim))
    described = [[(p.name, p.kind, p.default) for p in signature.parameters.values()] for signature in (ours, theirs)]
    assert described[0] == described[1]


@pytest.mark.parametrize("name", NAMES)
def test_editors_see_plain_types(name):
    hints = typing.get_type_hints(getattr(optim, name).__init__)
    assert hints["lr"] == float | rg.Tensor
    assert all(option in hints for option in inspect.signature(getattr(optim, name)).parameters)


def test_an_optimizer_of_ones_own():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr=required, noise=0.0):
            super().__init__(params, {"lr": lr, "noise": noise})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data.add_(p.grad.sign(), alpha=-group["lr"])

    x = rg.tensor([1.0, -1.0], requires_grad=True)
    x.grad = rg.tensor([0.1, -5.0])
    Sign([x], lr=0.5).step()
    assert x.tolist() == [0.5, -0.5]
    Sign([{"params": [x], "lr": 0.1}])
    with pytest.raises(ValueError, match="Sign: the parameter group has no value for the required option 'lr'"):
        Sign([x])


def test_an_optimizer_around_another_that_never_calls_the_base_initializer():
    class Lookahead(optim.Optimizer):
        def __init__(self, base, k=2, alpha=0.5):
            self.base, self.k, self.alpha, self.count = base, k, alpha, 0
            self.param_groups, self.state, self.defaults = base.param_groups, base.state, base.defaults
            self.slow = [[p.detach().clone() for p in group["params"]] for group in self.param_groups]

        def step(self, closure=None):
            loss = self.base.step(closure)
            self.count += 1
            if self.count % self.k == 0:
                for group, slow in zip(self.param_groups, self.slow):
                    for p, q in zip(group["params"], slow):
                        q.add_(p.data - q, alpha=self.alpha)
                        p.data.copy_(q)
            return loss

    x = rg.tensor([1.0], requires_grad=True)
    optimizer = Lookahead(optim.SGD([x], lr=0.25))
    calls = []
    optimizer.register_step_post_hook(lambda *args: calls.append(x.item()))
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        optimizer.zero_grad()
        (x * 1.0).sum().backward()
        optimizer.step()
    scheduler.step()
    assert calls == [0.75, 0.75]
    assert optimizer.state_dict()["param_groups"][0]["lr"] == pytest.approx(0.025)
    assert "Lookahead (" in repr(optimizer)


def test_options_that_an_older_state_lacks_have_their_defaults():
    x = parameter(rg)
    x.grad = rg.ones(1, 1)
    optimizer = optim.AdamW([x])
    optimizer.step()
    state = optimizer.state_dict()
    state["param_groups"] = [
        {k: v for k, v in group.items() if k in ("lr", "params")} for group in state["param_groups"]
    ]
    state["state"][0]["step"] = 1  # a number, as PyTorch kept it before 1.12
    other = optim.AdamW([x], betas=(0.5, 0.9))
    other.load_state_dict(state)
    assert other.param_groups[0]["betas"] == (0.5, 0.9)
    assert other.param_groups[0]["decoupled_weight_decay"]
    other.step()
    assert other.state[x]["step"].item() == 2


def test_an_option_turned_on_later_finds_its_state():
    x = rg.ones(2, requires_grad=True)
    optimizer = optim.RMSprop([x], lr=0.1)
    x.grad = rg.ones(2)
    optimizer.step()
    optimizer.param_groups[0].update(momentum=0.9, centered=True)
    optimizer.step()
    assert np.isfinite(x.detach().numpy()).all()
    assert set(optimizer.state[x]) == {"step", "square_avg", "momentum_buffer", "grad_avg"}


def test_the_state_of_an_optimizer_of_ones_own_has_any_shape():
    class ByNorm(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state.setdefault("norm", rg.zeros(()))
                    state["norm"] += p.grad.norm()
                    p.data.add_(p.grad / state["norm"], alpha=-group["lr"])

    x = rg.tensor([1.0, -1.0], requires_grad=True)
    x.grad = rg.tensor([3.0, 4.0])
    optimizer = ByNorm([x], lr=1.0)
    optimizer.step()
    other = ByNorm([x], lr=1.0)
    other.load_state_dict(optimizer.state_dict())
    assert other.state[x]["norm"].item() == 5.0

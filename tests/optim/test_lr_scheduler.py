"""Every scheduler against PyTorch, step by step."""

import copy
import math

import pytest

import retrograd as rg
from retrograd import optim

torch = pytest.importorskip("torch")

# A few tests step schedulers only, as PyTorch's own do; the warning has a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of:UserWarning")


class Decay:
    """A function of the epoch with a state."""

    def __init__(self):
        self.rate = 0.9

    def __call__(self, epoch):
        return self.rate**epoch


SCHEDULERS = {
    "LambdaLR": [{"lr_lambda": lambda epoch: 0.95**epoch}, {"lr_lambda": [lambda epoch: 1 / (1 + epoch), Decay()]}],
    "MultiplicativeLR": [{"lr_lambda": lambda epoch: 0.9 + 0.01 * epoch}],
    "StepLR": [{"step_size": 3, "gamma": 0.5}, {"step_size": 1}],
    "MultiStepLR": [{"milestones": [2, 5, 5, 11], "gamma": 0.5}],
    "ConstantLR": [{}, {"factor": 0.5, "total_iters": 3}],
    "LinearLR": [
        {},
        {"start_factor": 0.2, "end_factor": 0.7, "total_iters": 8},
        {"start_factor": 1.0, "end_factor": 0.0},
    ],
    "ExponentialLR": [{"gamma": 0.9}],
    "PolynomialLR": [{}, {"total_iters": 9, "power": 2.5}],
    "CosineAnnealingLR": [{"T_max": 7}, {"T_max": 5, "eta_min": 0.01}, {"T_max": 1}],
    "CosineAnnealingWarmRestarts": [{"T_0": 4}, {"T_0": 3, "T_mult": 2, "eta_min": 0.01}],
    "CyclicLR": [
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4},
        {"base_lr": [0.01, 0.02], "max_lr": [0.1, 0.3], "step_size_up": 3, "step_size_down": 5, "mode": "triangular2"},
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9},
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4, "scale_fn": lambda x: 1 / x, "cycle_momentum": False},
    ],
    "OneCycleLR": [
        {"max_lr": 0.1, "total_steps": 25},
        {"max_lr": [0.1, 0.2], "epochs": 5, "steps_per_epoch": 5, "three_phase": True, "anneal_strategy": "linear"},
        {"max_lr": 0.1, "total_steps": 30, "pct_start": 0.5, "cycle_momentum": False, "div_factor": 10.0},
    ],
}
CASES = [(name, options) for name, all_options in SCHEDULERS.items() for options in all_options]


def optimizer_of(library, kind="SGD"):
    make = rg.zeros if library is rg else torch.zeros
    x, y = make(1, requires_grad=True), make(1, requires_grad=True)
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(library.optim, kind)([{"params": [x]}, {"params": [y], "lr": 0.3}], lr=0.5, **options)


def settings(optimizer):
    """All that a scheduler sets."""
    return [[group["lr"], group.get("momentum") or group["betas"][0]] for group in optimizer.param_groups]


def check_alike(build, steps=20, kind="SGD", step=lambda scheduler, epoch: scheduler.step()):
    optimizers = [optimizer_of(library, kind) for library in (rg, torch)]
    ours, theirs = (build(library, optimizer) for library, optimizer in zip((rg, torch), optimizers))
    for epoch in range(steps):
        for found, wanted in zip(settings(optimizers[0]), settings(optimizers[1])):
            assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15), epoch
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12, abs=1e-15)
        assert ours.last_epoch == theirs.last_epoch if hasattr(theirs, "last_epoch") else True
        for optimizer, scheduler in zip(optimizers, (ours, theirs)):
            optimizer.step()
            step(scheduler, epoch)
    return ours, theirs


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_agrees_with_pytorch_step_by_step(name, options, kind):
    check_alike(
        lambda library, optimizer: getattr(library.optim.lr_scheduler, name)(optimizer, **copy.deepcopy(options)),
        kind=kind,
    )


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_state_dict_midway(name, options):
    def build():
        optimizer = optimizer_of(rg)
        return optimizer, getattr(optim.lr_scheduler, name)(optimizer, **options)

    def run(optimizer, scheduler, epochs):
        rates = []
        for _ in range(epochs):
            optimizer.step()
            scheduler.step()
            rates.append(settings(optimizer))
        return rates

    optimizer, scheduler = build()
    run(optimizer, scheduler, 7)
    state = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    wanted = run(optimizer, scheduler, 7)
    optimizer, scheduler = build()
    scheduler.load_state_dict(state[1])
    optimizer.load_state_dict(state[0])
    assert run(optimizer, scheduler, 7) == wanted


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "CosineAnnealingLR", "OneCycleLR"])
def test_pytorchs_state_dict_can_be_loaded(name):
    def build(library):
        optimizer = optimizer_of(library)
        return optimizer, getattr(library.optim.lr_scheduler, name)(optimizer, **SCHEDULERS[name][0])

    their_optimizer, theirs = build(torch)
    for _ in range(4):
        their_optimizer.step()
        theirs.step()
    our_optimizer, ours = build(rg)
    ours.load_state_dict(theirs.state_dict())
    our_optimizer.load_state_dict(their_optimizer.state_dict())
    for _ in range(6):
        their_optimizer.step()
        theirs.step()
        our_optimizer.step()
        ours.step()
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12)


def test_sequential():
    def build(library, optimizer):
        s = library.optim.lr_scheduler
        parts = [
            s.LinearLR(optimizer, 0.1, total_iters=4),
            s.CosineAnnealingLR(optimizer, T_max=8),
            s.ExponentialLR(optimizer, 0.9),
        ]
        return s.SequentialLR(optimizer, parts, milestones=[4, 12])

    ours, theirs = check_alike(build)
    assert len(ours.state_dict()["_schedulers"]) == 3


def test_sequential_of_sequential_and_warm_restarts():
    def build(library, optimizer):
        s = library.optim.lr_scheduler
        inner = s.SequentialLR(
            optimizer, [s.ConstantLR(optimizer, 0.5, 2), s.CosineAnnealingWarmRestarts(optimizer, 3)], milestones=[3]
        )
        return s.SequentialLR(optimizer, [inner, s.StepLR(optimizer, 2, 0.5)], milestones=[9])

    check_alike(build)


def test_chained():
    def build(library, optimizer):
        s = library.optim.lr_scheduler
        return s.ChainedScheduler(
            [s.ConstantLR(optimizer, 0.5, 4), s.ExponentialLR(optimizer, 0.9), s.PolynomialLR(optimizer, 12)]
        )

    check_alike(build)


METRICS = [1.0, 0.9, 0.9, 0.91, 0.9, 0.89, 0.5, 0.51, 0.52, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.2, 0.2]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize(
    "options", [{"patience": 1}, {"patience": 2, "cooldown": 2, "min_lr": [0.01, 0.1], "factor": 0.3}]
)
def test_reduce_on_plateau(mode, threshold_mode, options):
    def build(library, optimizer):
        return library.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode=mode, threshold_mode=threshold_mode, threshold=0.05, **options
        )

    check_alike(build, step=lambda scheduler, epoch: scheduler.step(METRICS[epoch]))


def test_warm_restarts_take_fractions_of_an_epoch():
    def build(library, optimizer):
        return library.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3, T_mult=2)

    check_alike(build, step=lambda scheduler, epoch: scheduler.step(epoch * 1.3))


def test_resuming_by_last_epoch():
    optimizer = optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    with pytest.raises(KeyError, match="initial_lr"):
        optim.lr_scheduler.StepLR(optimizer, 2, last_epoch=3)
    optimizer.param_groups[0]["initial_lr"] = 1.0
    scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch, last_epoch=3)
    assert scheduler.get_last_lr() == [0.5**4]


def test_the_epoch_argument_is_deprecated():
    optimizer = optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10)
    optimizer.step()
    with pytest.warns(UserWarning, match="deprecated"):
        scheduler.step(4)
    assert scheduler.get_last_lr() == [0.6]


def test_stepping_before_the_optimizer_warns():
    optimizer = optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="before optimizer.step"):
        scheduler.step()


def test_errors():
    s = optim.lr_scheduler
    optimizer, other = optimizer_of(rg), optimizer_of(rg)
    with pytest.raises(TypeError, match="not an Optimizer"):
        s.StepLR(object(), 3)
    with pytest.raises(ValueError, match="2 lr_lambdas"):
        s.LambdaLR(optimizer, [math.sqrt])
    with pytest.raises(TypeError, match="should be a function"):
        s.MultiplicativeLR(optimizer, 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        s.ConstantLR(optimizer, 1.5)
    with pytest.raises(ValueError, match="Starting"):
        s.LinearLR(optimizer, 0.0)
    with pytest.raises(ValueError, match="Ending"):
        s.LinearLR(optimizer, end_factor=2.0)
    with pytest.raises(ValueError, match="T_0"):
        s.CosineAnnealingWarmRestarts(optimizer, 0)
    with pytest.raises(ValueError, match="same length"):
        s.CyclicLR(optimizer, [0.1], 0.2)
    with pytest.raises(ValueError, match="mode must be .* got .square."):
        s.CyclicLR(optimizer, 0.1, 0.2, mode="square")
    with pytest.raises(ValueError, match="momentum or beta1"):
        s.CyclicLR(optim.Adagrad([rg.zeros(1, requires_grad=True)]), 0.1, 0.2)
    with pytest.raises(ValueError, match="total_steps OR"):
        s.OneCycleLR(optimizer, 0.1)
    with pytest.raises(ValueError, match="pct_start"):
        s.OneCycleLR(optimizer, 0.1, total_steps=10, pct_start=2.0)
    with pytest.raises(ValueError, match="Factor"):
        s.ReduceLROnPlateau(optimizer, factor=1.0)
    with pytest.raises(ValueError, match="milestones"):
        s.SequentialLR(optimizer, [s.StepLR(optimizer, 2)], [1])
    with pytest.raises(ValueError, match="same optimizer"):
        s.ChainedScheduler([s.StepLR(optimizer, 2), s.StepLR(other, 2)])
    with pytest.raises(ValueError, match="metric"):
        s.ChainedScheduler([s.ReduceLROnPlateau(optimizer)])
    one_cycle = s.OneCycleLR(optimizer, 0.1, total_steps=2)
    optimizer.step()
    one_cycle.step()
    one_cycle.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        one_cycle.step()

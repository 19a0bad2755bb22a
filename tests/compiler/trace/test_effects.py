"""What a compiled step does to Tensors, modes and optimizers from outside: in replays the same as in eager calls."""

import warnings

import pytest

import retrograd as rg
from retrograd import nn

Optimizers = pytest.mark.parametrize("kind", ["SGD", "Adam"])


@Optimizers
@pytest.mark.parametrize("own", [True, False], ids=["own", "other"])
def test_a_backward_after_a_step_adds_to_the_gradient_that_is_there(kind, own):
    def losses(compiled):
        w, x = rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)
        optimizer = getattr(rg.optim, kind)([w] if own else [x.clone().detach().requires_grad_()], lr=0.1)

        def step(x):
            w.grad = x.grad = None
            (w * x * 2).sum().backward()
            optimizer.step()
            (w * x * 3).sum().backward()

        step = rg.compile(step) if compiled else step
        found = []
        for _ in range(4):
            step(x)
            found.append((w.grad.tolist(), x.grad.tolist(), w.tolist()))
        return found

    assert losses(True) == losses(False)


def test_a_discriminator_also_gets_the_gradient_of_the_generators_loss():
    def gradients(compiled):
        rg.manual_seed(0)
        first, second = nn.Linear(2, 2), nn.Linear(2, 1)
        of_second, of_first = rg.optim.SGD(second.parameters(), 0.1), rg.optim.SGD(first.parameters(), 0.1)

        def step(x):
            of_second.zero_grad()
            second(first(x).detach()).square().mean().backward()
            of_second.step()
            of_first.zero_grad()
            second(first(x)).mean().backward()
            of_first.step()

        step = rg.compile(step) if compiled else step
        found = []
        for seed in range(4):
            step(rg.full((3, 2), 1.0 + seed))
            found += [p.grad.tolist() for p in (*first.parameters(), *second.parameters())]
        return found

    for one, other in zip(gradients(True), gradients(False), strict=True):
        rg.testing.assert_close(rg.tensor(one), rg.tensor(other))


def test_memory_that_a_tensor_was_given_is_written_afterwards():
    def values(compiled):
        w = rg.zeros(3)

        def step(x):
            fresh = x * 2
            w.data = fresh
            fresh.add_(1.0)

        step = rg.compile(step) if compiled else step
        found = []
        for k in range(3):
            step(rg.full((3,), float(k)))
            found.append(w.tolist())
        return found

    assert values(True) == values(False)


def warns():
    return warnings.catch_warnings(action="ignore")  # that the function runs eagerly


@pytest.mark.parametrize("by", ["method", "attribute", "module"])
def test_requires_grad_that_a_step_toggles_is_toggled_in_every_call(by):
    module = nn.Linear(1, 1)
    w = module.weight

    def step(x):
        if by == "method":
            w.requires_grad_(not w.requires_grad)
        elif by == "attribute":
            w.requires_grad = not w.requires_grad
        else:
            module.requires_grad_(not w.requires_grad)
        return x + 1

    step, found = rg.compile(step), []
    with warns():
        for _ in range(6):
            step(rg.ones(3))
            found.append(w.requires_grad)
    assert found == [False, True, False, True, False, True]


def test_requires_grad_that_a_step_switches_off_is_off_after_every_call():
    w = nn.Parameter(rg.ones(3))
    step = rg.compile(lambda x: w.requires_grad_(False) * x)
    with warns():
        for number in range(8):
            w.requires_grad_(number % 3 != 1)
            step(rg.ones(3))
            assert not w.requires_grad


def test_a_step_that_freezes_and_thaws_is_a_program():
    w, v = nn.Parameter(rg.ones(3)), nn.Parameter(rg.ones(3))

    @rg.compile
    def step(x):
        w.grad = v.grad = None
        w.requires_grad_(False)
        (w * v * x).sum().backward()
        w.requires_grad_(True)

    for _ in range(4):
        step(rg.ones(3))
        assert w.grad is None
        assert v.grad.tolist() == [1.0, 1.0, 1.0]
    assert len(step.entries) == 1


def test_a_mode_that_a_call_leaves_changed_is_changed_in_every_call():
    @rg.compile
    def step(x):
        rg.set_grad_enabled(not rg.is_grad_enabled())
        return x + 1

    found = []
    try:
        with warns():
            for _ in range(6):
                step(rg.ones(3))
                found.append(rg.is_grad_enabled())
    finally:
        rg.set_grad_enabled(True)
    assert found == [False, True, False, True, False, True]


def test_a_default_dtype_that_a_call_sets_is_set_in_every_call():
    @rg.compile
    def step(x):
        rg.set_default_dtype(rg.float64)
        return x + 1

    try:
        with warns():
            for _ in range(5):
                rg.set_default_dtype(rg.float32)
                step(rg.ones(3))
                assert rg.get_default_dtype() == rg.float64
    finally:
        rg.set_default_dtype(rg.float32)


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "between"])
def test_a_parameter_group_that_is_added_is_trained(inside):
    def values(compiled):
        parameters = [rg.ones(2, requires_grad=True) for _ in range(8)]
        optimizer = rg.optim.SGD(parameters[:1], lr=0.1)

        def step(x):
            if inside:
                optimizer.add_param_group({"params": [parameters[len(optimizer.param_groups)]]})
            optimizer.zero_grad()
            sum((p * x).sum() for p in parameters).backward()
            optimizer.step()

        step = rg.compile(step) if compiled else step
        with warns():
            for number in range(6):
                step(rg.ones(2))
                if not inside and number == 2:
                    optimizer.add_param_group({"params": [parameters[1]]})
        return [p.tolist() for p in parameters], [p.grad.tolist() for p in parameters]

    assert values(True) == values(False)


def test_a_hook_on_a_tensor_from_outside_runs_in_no_call_without_a_backward():
    seen, w = [], rg.ones(3, requires_grad=True)
    function = rg.compile(lambda x: x * w)
    function(rg.ones(3))
    w.register_hook(lambda g: seen.append(1))
    with warns():
        for length in (3, 3, 1, 3):
            result = function(rg.ones(length))
    assert seen == []
    result.sum().backward()
    assert seen == [1]


@pytest.mark.parametrize("what", ["an optimizer", "a schedule"])
def test_what_a_step_makes_is_made_anew_in_every_call(what):
    def values(compiled):
        w = rg.ones(2, requires_grad=True)
        outer = rg.optim.SGD([w], lr=0.1, momentum=0.9)

        def step(x):
            optimizer = outer if what == "a schedule" else rg.optim.SGD([w], lr=0.1, momentum=0.9)
            w.grad = None
            (w * w * x).sum().backward()
            if what == "a schedule":
                schedule = rg.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
                optimizer.step()
                schedule.step()
                schedule.step()
            optimizer.step()
            optimizer.step()

        step = rg.compile(step) if compiled else step
        with warns():
            for _ in range(5):
                step(rg.ones(2))
        return w.tolist(), outer.param_groups[0]["lr"]

    assert values(True) == values(False)


def test_tensors_that_share_the_memory_of_a_written_one_follow_it_in_replays():
    """The trace met ``w`` while a graph needed its values, so that the program gives ``w`` other memory."""
    w = rg.tensor([1.0, 2.0], requires_grad=True)

    @rg.compile
    def f(x):
        with rg.no_grad():
            w.mul_(0.5)
        return x * w

    x = rg.ones(2, requires_grad=True)
    result = [f(x)]  # its graph lives on
    result.append(f(x))
    alias, part = w.detach(), w.detach()[1:]
    for _ in range(3):
        result.append(f(x))
        assert alias.tolist() == w.tolist() and part.tolist() == w.tolist()[1:]


def test_what_a_trace_could_not_record_may_write_into_shared_memory():
    base = rg.ones(2, 2)
    row = base[1]

    def f(x):
        y = x * base
        z = y.sum() + (1.0 if y.sum() > 0 else 2.0)
        base.diagonal().zero_()
        return z + base.sum()

    compiled = rg.compile(f, fallback=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [compiled(rg.ones(2, requires_grad=True)) for _ in range(4)]
    assert [result.item() for result in results] == [7.0, 5.0, 5.0, 5.0]
    assert row.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("lr", [0.5, rg.tensor(0.5)], ids=["number", "Tensor"])
def test_a_method_that_sets_options_of_an_optimizer_sets_them_in_every_call(lr):
    class Trainer:
        def __init__(self):
            self.w = nn.Parameter(rg.ones(2))
            self.optimizer = rg.optim.SGD([self.w], lr=rg.tensor(0.1))

        def set_rate(self):
            for group in self.optimizer.param_groups:
                group["lr"] = 0.25

        def step(self, x):
            self.set_rate()
            self.optimizer.zero_grad()
            (x * self.w).sum().backward()
            self.optimizer.step()

        def rate(self):
            return self.optimizer.param_groups[0]["lr"]

    class Scaled(Trainer, nn.Module):
        def __init__(self):
            nn.Module.__init__(self)
            Trainer.__init__(self)

        forward = Trainer.step

    eager, compiled, module = Trainer(), Trainer(), Scaled()
    steps = eager.step, rg.compile(compiled.step), rg.compile(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they run eagerly in the end
        for _ in range(6):
            for trainer, step in zip((eager, compiled, module), steps, strict=True):
                step(rg.ones(2))
                assert trainer.w.tolist() == eager.w.tolist() and trainer.rate() == 0.25
                trainer.optimizer.param_groups[0]["lr"] = lr


@pytest.mark.filterwarnings("ignore:.*runs eagerly. it writes a value that requires grad")
@pytest.mark.parametrize("part", ["all", "row", "view"])
def test_an_argument_that_is_written_has_its_history_in_every_call(part):
    def write(a, b):
        if part == "all":
            a.mul_(b)
        elif part == "row":
            a[0] = b[0]
        else:
            a[1:].add_(b[1:])
        return (a * 2).sum()

    compiled = rg.compile(write, fallback=True)
    found = []
    for function in (write, compiled, compiled, compiled):
        a, b = rg.full((3,), 2.0), rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (function(a, b) + a.sum()).backward()
        found.append((a.requires_grad, b.grad.tolist()))
    assert found[1:] == found[:1] * 3


def emptied_slice(x, w):
    y = x * 1
    y[2:2].copy_(w[2:2])
    return y


def emptied_part_of_a_split(x, w):
    y = x * 1
    y.split([0, 4])[0].add_(w[:0])
    return y * 2


def emptied_view_of_a_view(x, w):
    y = x * 1
    view = y.view(2, 2)[1:]
    view.narrow(1, 1, 0).mul_(w[:0])
    view.mul_(3)
    return y


def emptied_argument(x, w):
    x[1:1].add_(w[1:1])
    return x * 2


@pytest.mark.filterwarnings("ignore:compile.*runs eagerly")  # a write to an argument
@pytest.mark.parametrize("program", [emptied_slice, emptied_part_of_a_split, emptied_view_of_a_view, emptied_argument])
def test_a_write_to_an_empty_view_gives_its_base_the_history(program):
    w = rg.ones(4, requires_grad=True)
    compiled = rg.compile(program)
    for i in range(3):
        x, same = rg.arange(4.0) + i, rg.arange(4.0) + i
        y, expected = compiled(x, w), program(same, w)
        assert y.requires_grad and x.requires_grad is same.requires_grad
        assert y.tolist() == expected.tolist()
        (gradient,) = rg.autograd.grad(y.sum(), w)
        assert gradient.tolist() == [0.0] * 4


def test_an_empty_view_is_a_view_in_a_compiled_program():
    w = rg.ones(4, requires_grad=True)
    results = rg.compile(lambda w: (w[:0], *w.split([0, 4])))(w)
    assert all(y._is_view() for y in results)


@pytest.mark.parametrize("write", [lambda x, y: x.copy_(y), lambda x, y: x.__setitem__(slice(None), y)])
@pytest.mark.filterwarnings("ignore:compile. .*runs eagerly")
def test_a_write_into_a_view_of_a_tensor_that_the_call_does_not_know_gives_it_a_history(write) -> None:
    def step(x, y):
        write(x, y)
        return (x * x).sum()

    step = rg.compile(step)
    for _ in range(2):
        base, y = rg.ones(3, 3), rg.arange(3.0).requires_grad_()
        value = step(base[1], y)
        (value + base.sum()).backward()
        assert (value.item(), base.requires_grad, y.grad.tolist()) == (5.0, True, [1.0, 3.0, 5.0])

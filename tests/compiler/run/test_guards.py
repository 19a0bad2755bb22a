"""What a trace assumed: each change is seen, and numbers that vary become inputs."""

import types
import warnings
from collections import OrderedDict, deque
from dataclasses import dataclass

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.compiler import DataDependent

scale = 1.0


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.factor = 1.0

    def forward(self, x):
        return self.linear(x) * self.factor


@pytest.fixture
def pair():
    module = Scaled()
    return module, rg.compile(module)


def same(module, compiled, x=None):
    x = rg.ones(4, 3) if x is None else x
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x).detach().numpy(), module(x).detach().numpy())


def test_arguments_that_are_numbers_become_inputs_at_their_second_value():
    @rg.compile
    def f(x, k):
        return x * k

    assert [f(rg.ones(2), float(k)).tolist() for k in range(6)] == [[k, k] for k in range(6)]
    assert f.traces == 2


def test_globals_and_attributes_that_are_numbers_do_too(pair):
    global scale

    @rg.compile
    def f(x):
        return x * scale

    found = []
    for value in (1.0, 2.0, 3.0, 4.0):
        scale = value
        found.append(f(rg.ones(1)).item())
    assert found == [1.0, 2.0, 3.0, 4.0] and f.traces == 2
    module, compiled = pair
    for module.factor in (1.0, 2.0, 3.0, 4.0):
        same(module, compiled)
    assert compiled.compiled.traces == 2


def test_choices_by_numbers_are_made_again():
    @rg.compile
    def f(x, k):
        return x * k if k > 2 else -x

    assert [f(rg.ones(1), k).item() for k in (1, 2, 3, 4, 1, 5)] == [-1, -1, 3, 4, -1, 5]


def test_changes_of_a_module_are_seen(pair):
    module, compiled = pair
    same(module, compiled)
    module.load_state_dict({name: x * 2 for name, x in module.state_dict().items()})
    same(module, compiled)
    handle = module.linear.register_forward_hook(lambda module, inputs, output: output + 1)
    same(module, compiled)
    handle.remove()
    same(module, compiled)
    module.linear.weight = nn.Parameter(rg.ones(2, 3))
    same(module, compiled)
    module.linear.weight.data = rg.full((2, 3), 3.0)
    same(module, compiled)
    module.linear = nn.Linear(3, 5)
    same(module, compiled)
    module.double()
    same(module, compiled, rg.ones(4, 3, dtype=rg.float64))


def test_frozen_parameters_get_no_gradient(pair):
    module, compiled = pair
    same(module, compiled)
    module.linear.weight.requires_grad_(False)
    compiled(rg.ones(4, 3)).sum().backward()
    assert module.linear.weight.grad is None and module.linear.bias.grad.tolist() == [4, 4]
    module.linear.weight.requires_grad_(True)
    compiled(rg.ones(4, 3)).sum().backward()
    assert module.linear.weight.grad is not None


def test_modes_are_seen():
    module = nn.Sequential(nn.Dropout(0.5))
    compiled = rg.compile(module)
    x = rg.ones(200)
    assert (compiled(x) == 0).any() and (compiled(x) == 0).any()
    module.eval()
    assert compiled(x).tolist() == x.tolist()
    linear = rg.compile(nn.Linear(2, 2))
    assert linear(rg.ones(2)).requires_grad
    with rg.no_grad():
        assert not linear(rg.ones(2)).requires_grad
    assert linear(rg.ones(2)).requires_grad


def test_random_numbers_are_the_eager_ones():
    dropout = nn.Dropout(0.5)
    compiled = rg.compile(dropout)
    compiled(rg.ones(30))
    rg.manual_seed(3)
    found = [compiled(rg.ones(30)).tolist() for _ in range(3)]
    rg.manual_seed(3)
    assert [dropout(rg.ones(30)).tolist() for _ in range(3)] == found


def test_an_array_that_is_read_from_outside_is_read_again():
    array = np.ones(3, np.float32)

    @rg.compile
    def f(x):
        return x + array

    f(rg.zeros(3))
    array[:] = 5
    assert f(rg.zeros(3)).tolist() == [5, 5, 5]


def test_a_choice_by_elements_is_an_error_that_names_the_line():
    @rg.compile
    def f(x):
        if x.sum() > 3:
            return x
        return -x

    with pytest.raises(DataDependent, match=r"if x\.sum\(\) > 3:\n.*where\(condition, a, b\)"):
        f(rg.ones(2))


@pytest.mark.parametrize("read", [lambda x: float(x.sum()), lambda x: x.numpy()[0], lambda x: x.tolist()[0]])
def test_so_is_whatever_reads_them(read):
    with pytest.raises(DataDependent):
        rg.compile(lambda x: x * read(x))(rg.ones(2))


def test_with_fallback_it_runs_eagerly():
    @rg.compile(fallback=True)
    def f(x):
        return x if x.sum() > 3 else -x

    with pytest.warns(UserWarning, match="runs eagerly: reads the number"):
        assert [f(rg.full((2,), k)).tolist() for k in (1.0, 2.0, 1.0, 3.0)] == [[-1, -1], [2, 2], [-1, -1], [3, 3]]


def test_a_number_of_a_tensor_can_be_computed_with_and_returned():
    @rg.compile
    def f(x):
        total = x.sum().item()
        return x * total, total + 1

    for k in (1.0, 2.0, 3.0):
        y, total = f(rg.full((2,), k))
        assert y.tolist() == [2 * k * k] * 2 and total == 2 * k + 1 and type(total) is float
    assert f.traces == 1


def test_programs_are_bounded():
    @rg.compile(limit=3)
    def f(x):
        return x * 2

    for size in range(1, 9):
        assert f(rg.ones(size)).tolist() == [2.0] * size
    assert len(f.entries) == 3


def test_a_function_whose_programs_never_fit_again_runs_eagerly():
    table = {}

    @rg.compile(limit=3)
    def f(x):
        return x * len(table)

    with pytest.warns(UserWarning, match="runs eagerly: hardly any call fits .*: a dict has other contents"):
        for number in range(30):
            assert f(rg.ones(1)).item() == number
            table[number] = object()
    assert f.traces < 10

    @rg.compile(limit=3, dynamic=False)
    def g(x):
        return x * 2

    for size in range(1, 30):  # but not where some of them do
        for x in (rg.ones(size), rg.ones(40)):
            assert g(x).tolist() == [2.0] * len(x)
    assert not g.eager and g.traces == 30


def test_a_list_that_a_module_collects_in_is_no_part_of_its_program():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.actions = []

        def forward(self, x):
            return self.linear(x)

    policy = Policy()
    compiled = rg.compile(policy)
    for _ in range(5):
        policy.actions.append(compiled(rg.ones(3)))
        policy.actions.append(len(policy.actions))
    assert compiled.compiled.traces == 1


def test_lists_dicts_and_dataclasses_that_are_arguments_are_changed_as_eagerly():
    @dataclass
    class State:
        total: rg.Tensor
        inner: list

    @rg.compile
    def f(x, losses, table, state):
        y = x * 2
        losses.append(y)
        table["last"], table["first"] = y, table.get("first", x)
        state.total = state.total + y
        state.inner.insert(0, losses)
        return y.sum()

    losses, table, state = [], {}, State(rg.zeros(2), [])
    x = rg.ones(2)
    with pytest.warns(UserWarning, match="runs eagerly: it changes a list or dict among its arguments"):
        for number in range(1, 6):
            assert f(x, losses, table, state).item() == 4.0
            assert len(losses) == number and all(y.tolist() == [2.0, 2.0] for y in losses)
            assert table["first"] is x and table["last"] is losses[-1]
            assert state.total.tolist() == [2.0 * number] * 2 and all(item is losses for item in state.inner)


def test_what_stands_in_the_class_of_a_module_is_seen_to_change():
    class Scaled(nn.Module):
        scale = 2.0

        def forward(self, x):
            return self.scaled(x)

        def scaled(self, x):
            return x * self.scale

    compiled = rg.compile(Scaled())
    assert [compiled(rg.ones(1)).item() for _ in range(2)] == [2, 2]
    Scaled.scale = 3.0
    assert [compiled(rg.ones(1)).item() for _ in range(2)] == [3, 3]
    Scaled.scaled = lambda self, x: x * 5
    assert [compiled(rg.ones(1)).item() for _ in range(2)] == [5, 5]
    Scaled.forward = lambda self, x: x * 7
    assert [compiled(rg.ones(1)).item() for _ in range(2)] == [7, 7]


def test_an_attribute_that_only_code_behind_another_module_names_is_seen():
    tools, options = types.ModuleType("other_tools"), types.SimpleNamespace(level=2.0)
    exec("def level_of(options): return options.level", vars(tools))

    @rg.compile
    def f(x):
        found = options
        return x * tools.level_of(found)

    assert [f(rg.ones(1)).item() for _ in range(2)] == [2, 2]
    options.level = 5.0
    assert [f(rg.ones(1)).item() for _ in range(2)] == [5, 5]


def test_a_program_belongs_to_its_casts():
    a, b = rg.randn(8, 8), rg.randn(8, 8)

    @rg.compile
    def product(a, b):
        return a @ b

    def under_autocast():
        with rg.autocast("cpu", dtype=rg.bfloat16):
            return product(a, b).dtype

    pytest.importorskip("ml_dtypes")
    dtypes = [product(a, b).dtype, product(a, b).dtype, under_autocast(), product(a, b).dtype, under_autocast()]
    assert dtypes == [rg.float32, rg.float32, rg.bfloat16, rg.float32, rg.bfloat16]


def test_a_function_that_seeds_a_generator_draws_the_same_numbers_in_every_call():
    @rg.compile
    def draw():
        rg.manual_seed(3)
        return rg.rand(4)

    first = draw()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it runs eagerly
        assert all(rg.equal(draw(), first) for _ in range(4))


class Slotted:
    __slots__ = ("value",)
    factor = 1.0


class Hidden:
    def __getattr__(self, name):
        if name != "value":
            raise AttributeError(name)
        return self.__dict__["other"]


slotted, hidden, holder = Slotted(), Hidden(), types.SimpleNamespace(value=1.0, inner=types.SimpleNamespace(value=1.0))
table = {"value": 1.0, "inner": OrderedDict(value=1.0)}
queue, chosen = deque([1.0]), {1.0}
text = 1.0


@pytest.mark.parametrize(
    "read, change",
    [
        (lambda: slotted.value, lambda v: setattr(slotted, "value", v)),
        (lambda: slotted.factor, lambda v: setattr(Slotted, "factor", v)),
        (lambda: Slotted.factor, lambda v: setattr(Slotted, "factor", v)),
        (lambda: hidden.value, lambda v: hidden.__dict__.update(other=v)),
        (lambda: holder.inner.value, lambda v: setattr(holder.inner, "value", v)),
        (lambda: holder.inner.value, lambda v: setattr(holder, "inner", types.SimpleNamespace(value=v))),
        (lambda: getattr(holder, "value"), lambda v: setattr(holder, "value", v)),  # noqa: B009
        (lambda: table["inner"]["value"], lambda v: table["inner"].update(value=v)),
        (lambda: queue[0], lambda v: queue.__setitem__(0, v)),
        (lambda: max(chosen), lambda v: (chosen.clear(), chosen.add(v))),
        (lambda: globals()["text"], lambda v: globals().update(text=v)),
    ],
)
def test_numbers_are_seen_to_change_wherever_code_can_name_them(read, change):
    change(1.0)
    f = rg.compile(lambda x: x * read())
    found = []
    for value in (1.0, 2.0, 3.0, 1.0):
        change(value)
        found.append(f(rg.ones(1)).item())
    assert found == [1.0, 2.0, 3.0, 1.0] and not f.eager

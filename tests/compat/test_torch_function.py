"""``__torch_function__``: subclasses of Tensor, objects that are no Tensors, and modes.

Most programs run in processes of their own, since the first subclass wraps all operators for good. The processes are
forks of one that has imported what all programs need.
"""

import json
import operator
import os
import subprocess
import sys

import pytest
from retrograd.overrides import has_torch_function, is_tensor_like

import retrograd as rg

FORKS = """
import json, os, sys, traceback
for line in sys.stdin:
    reader, writer = os.pipe()
    if not os.fork():
        status = "passed"
        try:
            exec(json.loads(line), {"__name__": "__main__", **shared})
        except BaseException:
            status = traceback.format_exc()
        os.write(writer, json.dumps(status).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        print(told.read(), flush=True)
    os.wait()
"""


@pytest.fixture(scope="module")
def run():
    """Run a program in a fork of one process."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this platform")
    imported = PRELUDE.partition("class Sub")[0] + "shared = dict(globals())\n"
    command = [sys.executable, "-c", imported + FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def run(program):
            print(json.dumps(PRELUDE + program), file=process.stdin, flush=True)
            status = json.loads(process.stdout.readline() or '"the process ended"')
            assert status == "passed", status

        yield run


PRELUDE = """
import numpy as np
import pytest
import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F
from retrograd.overrides import *
from retrograd.overrides import TorchFunctionMode, resolve_name, _get_current_function_mode

class Sub(torch.Tensor):
    pass

class Log(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})
"""


class Plain:
    """Answers for some functions, without being a Tensor."""

    handled = {}

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.handled[func](*args, **(kwargs or {})) if func in cls.handled else NotImplemented


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (rg.mean, lambda x: rg.mean(x)),
        (rg.add, lambda x: rg.add(x, x)),
        (rg.add, lambda x: rg.add(rg.ones(2), x)),
        (rg.exp, lambda x: rg.exp(x)),
        (rg.cat, lambda x: rg.cat([x, rg.ones(2)], dim=0)),
        (rg.linalg.cholesky, lambda x: rg.linalg.cholesky(x)),
        (rg.nn.functional.relu, lambda x: rg.nn.functional.relu(x)),
        (rg.matmul, lambda x: rg.ones(2, 2).matmul(x)),
    ],
)
def test_an_object_that_is_no_tensor_answers_for_a_function(function, call, monkeypatch):
    with pytest.raises(TypeError, match="gave NotImplemented"):
        call(Plain())
    monkeypatch.setitem(Plain.handled, function, lambda *args, **kwargs: ("answered", *map(type, args)))
    answered, *kinds = call(Plain())
    assert answered == "answered" and kinds
    with pytest.raises(TypeError):
        rg.exp(object())


def test_objects_with_the_protocol_are_known():
    assert has_torch_function((Plain(),)) and not has_torch_function((rg.ones(1), rg.nn.Parameter(rg.ones(1)), 1.0))
    assert is_tensor_like(Plain()) and is_tensor_like(rg.ones(1)) and not is_tensor_like(1.0)


def test_operators_give_instances_of_the_subclass_of_their_arguments(run):
    run("""if True:
    x = torch.ones(2, 3).as_subclass(Sub)
    for y in (
        x + 1, 1 - x, -x, x == x, x @ x.T, x[0], x.T, x.sum(), torch.add(x, 1), torch.exp(x), torch.cat([x, x]),
        torch.ones(2, 3) * x, x.clone(), x.max(1).values, x.split(1)[0], F.relu(x), F.linear(x, torch.ones(4, 3)),
        nn.Linear(3, 2)(x), x.add_(1), np.exp(x) if False else x.exp(),
    ):
        assert type(y) is Sub, y
    assert type(x.shape) is torch.Size and type(x.tolist()) is list and isinstance(x.array, np.ndarray)
    assert type(nn.Parameter(torch.ones(2)) + 1) is torch.Tensor and type(torch.ones(2) + 1) is torch.Tensor
    plain = torch.ones(2)
    assert type(torch.atleast_1d(plain)) is torch.Tensor and type(plain) is torch.Tensor
    class Child(Sub):
        pass
    assert type(x.as_subclass(Child) + x) is Child and type(x + x.as_subclass(Child)) is Child
    """)


def test_subclasses_are_differentiated(run):
    run("""if True:
    leaf = torch.ones(3, requires_grad=True)
    y = leaf.as_subclass(Sub)
    assert not y.is_leaf and type((y * 2).sum()) is Sub
    (y * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]
    x = torch.Tensor._make_subclass(Log, torch.ones(3), True)
    assert x.is_leaf and x.requires_grad
    (x * 2).sum().backward()
    assert Log.seen == ["mul", "sum", "backward"] and type(x.grad) is torch.Tensor and x.grad.tolist() == [2, 2, 2]
    """)


def test_subclasses_have_constructors_of_their_own(run):
    run("""if True:
    class New(torch.Tensor):
        def __new__(cls, data, info=None):
            return super().__new__(cls, data)
        def __init__(self, data, info=None):
            self.info = info
    x = New([1.0, 2.0], info=5)
    assert x.info == 5 and x.tolist() == [1, 2] and type(x * 2) is New
    class Made(torch.Tensor):
        @staticmethod
        def __new__(cls, data, *args, **kwargs):
            return torch.as_tensor(data).as_subclass(cls)
        def __init__(self, data, tag=None):
            super().__init__()
            self.tag = tag
        @property
        def array(self):
            return self.numpy()
    y = Made([1.0, 2.0], tag="t")
    assert y.tag == "t" and y.tolist() == [1, 2] and y.array.tolist() == [1, 2] and type(y + y) is Made
    assert Sub([1.0]).tolist() == [1] and type(Sub(2, 3)) is Sub and type(torch.Tensor([1.0])) is torch.Tensor
    class OnSphere(Sub, nn.Parameter):
        def __new__(cls, data, place=None, requires_grad=True):
            made = Sub._make_subclass(cls, data, requires_grad)
            made.place = place
            return made
    class Named(nn.Parameter):
        def __new__(cls, data, name):
            made = super().__new__(cls, data, requires_grad=False)
            made.label = name
            return made
    p, q = OnSphere(torch.ones(2), place="pole"), Named(torch.ones(2), "q")
    assert p.place == "pole" and p.requires_grad and p.is_leaf and q.label == "q" and not q.requires_grad
    module = nn.Module()
    module.p, module.q, module.lazy = p, q, nn.LazyLinear(2)
    assert [name for name, _ in module.named_parameters()] == ["p", "q", "lazy.weight", "lazy.bias"]
    w = torch.Tensor._make_wrapper_subclass(Sub, (2, 3), dtype=torch.float64, requires_grad=True)
    assert type(w) is Sub and w.shape == (2, 3) and w.dtype is torch.float64 and w.requires_grad
    try:
        class Wrong(torch.Tensor):
            _node = None
    except TypeError as error:
        assert "use another name" in str(error)
    else:
        raise AssertionError
    """)


def test_the_protocol_can_be_switched_off(run):
    run("""if True:
    class Off(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl
    class Weight(nn.Parameter):
        pass
    assert type(torch.ones(2).as_subclass(Off) + 1) is torch.Tensor
    assert type(Weight(torch.ones(2)) + 1) is torch.Tensor
    x = torch.ones(2).as_subclass(Sub)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor and not has_torch_function((x,))
    assert type(x + 1) is Sub and has_torch_function((x,))
    """)


def test_a_mode_sees_every_operator_once(run):
    run("""if True:
    class Mode(TorchFunctionMode):
        def __init__(self):
            self.seen = []
        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(resolve_name(func))
            return func(*args, **(kwargs or {}))
    with Mode() as outer:
        with Mode() as inner:
            assert _get_current_function_mode() is inner
            F.gelu(torch.zeros(3).exp() + 1).sum()
    wanted = ["torch.zeros", "torch.exp", "torch.add", "torch.nn.functional.gelu", "torch.sum"]
    assert inner.seen == outer.seen == wanted, inner.seen
    torch.ones(2)
    assert len(inner.seen) == 5 and _get_current_function_mode() is None
    class Double(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 2 * func(*args, **(kwargs or {}))
    with Double():
        x = torch.ones(2)
    assert x.tolist() == [2, 2]
    """)


def test_functions_of_programs_take_part(run):
    run("""if True:
    def scale(x, *, by=1):
        if has_torch_function((x,)):
            return handle_torch_function(scale, (x,), x, by=by)
        return x * by
    x = torch.ones(2).as_subclass(Log)
    assert type(scale(x, by=3)) is Log and Log.seen[0] == "scale" and scale(torch.ones(1), by=2).item() == 2
    functions = get_overridable_functions()
    assert torch.exp in functions[torch] and F.relu in functions[F] and torch.Tensor.add_ in functions[torch.Tensor]
    assert get_testing_overrides()[torch.exp](1, 2) == -1 and is_tensor_method_or_property(torch.Tensor.add_)
    assert resolve_name(torch.linalg.inv) == "torch.linalg.inv" and resolve_name(len) is None
    """)


class Answers:
    """An object with ``__torch_function__`` and no operators of its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, type(args[0])


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (lambda x, a: x + a, "add"), (lambda x, a: x / a, "div"), (lambda x, a: x @ a, "matmul"),
        (lambda x, a: x**a, "pow"), (lambda x, a: x < a, "lt"), (lambda x, a: x == a, "eq"),
        (lambda x, a: a - x, "__rsub__"), (lambda x, a: a < x, "gt"), (lambda x, a: operator.iadd(x, a), "__iadd__"),
    ],
)  # fmt: skip
def test_an_operator_of_a_tensor_asks_an_object_that_has_none(operation, name):
    assert operation(rg.ones(1), Answers()) == (name, rg.Tensor)

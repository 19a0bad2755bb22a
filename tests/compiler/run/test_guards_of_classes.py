"""What code reads that is reached through a class is guarded: methods, metaclasses, Functions, patterns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from operator import attrgetter

import pytest

import retrograd as rg
from retrograd.autograd import Function


class Box:
    def __init__(self, k: float = 1.0):
        self.k = k


class Point:
    __match_args__ = ("place",)

    def __init__(self, place: float):
        self.place = place


box, point = Box(), Point(1.0)
factor = 1.0


class Scaled(Function):
    @staticmethod
    def forward(ctx, x):
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * (1.0 + factor)


def gradient(x):
    return rg.autograd.grad(Scaled.apply(x).sum(), x)[0]


class Initialized:
    def __init__(self):
        self.v = box.k


class Created:
    def __new__(cls):
        made = object.__new__(cls)
        made.v = box.k
        return made


class Raised(Exception):
    def __init__(self):
        self.v = box.k


def caught(x):
    try:
        raise Raised
    except Raised as error:
        return x * error.v


class Kind(type):
    def __call__(cls):
        return box.k

    def __getitem__(cls, index):
        return box.k

    def __iter__(cls):
        return iter([box.k])


class OfKind(metaclass=Kind):
    pass


class Generic:
    def __class_getitem__(cls, index):
        return box.k


class Methods:
    @classmethod
    def of_class(cls):
        return box.k

    @staticmethod
    def static():
        return box.k

    @property
    def asked(self):
        return box.k

    def __enter__(self):
        return box.k

    def __exit__(self, *error):
        pass


def entered(x):
    with Methods() as k:
        return x * k


class Setter:
    @property
    def p(self):
        return self._p

    @p.setter
    def p(self, value):
        self._p = value * box.k


def set_(x):
    made = Setter()
    made.p = 1.0
    return x * made.p


class Cached:
    @classmethod
    @lru_cache(maxsize=0)
    def of_class(cls):
        return box.k

    @cached_property
    def once(self):
        return box.k


initialized = Initialized()


class Table(dict):
    def __missing__(self, key):
        return box.k


class Row(list):
    def __getitem__(self, index):
        return box.k


class Pair(tuple):
    def first(self):
        return box.k


class Amount(float):
    def doubled(self):
        return 2 * box.k


table, row, pair, amount = Table(), Row([0]), Pair((0,)), Amount(1.0)
of_box = attrgetter("k")


@dataclass
class Record:
    v: float = field(default_factory=lambda: box.k)


class Parent:
    def __init_subclass__(cls):
        cls.v = box.k


def subclassed(x):
    class Child(Parent):
        pass

    return x * Child.v


def by_pattern(x):
    match box:
        case Box(k=2.0):
            return x * 5
        case _:
            return x


def by_position(x):
    match point:
        case Point(2.0):
            return x * 5
        case _:
            return x


def by_names(x):
    for name in ("j", "k"):
        x = x * getattr(box, name, 1.0)
    return x


PROGRAMS: dict[str, Callable[[rg.Tensor], rg.Tensor]] = {
    "a Function": lambda x: Scaled.apply(x),
    "a Function's backward": gradient,
    "__init__": lambda x: x * Initialized().v,
    "__new__": lambda x: x * Created().v,
    "an exception": caught,
    "a metaclass's __call__": lambda x: x * OfKind(),
    "a metaclass's __getitem__": lambda x: x * OfKind[0],
    "a metaclass's __iter__": lambda x: x * next(iter(OfKind)),
    "__class_getitem__": lambda x: x * Generic[0],
    "a class method": lambda x: x * Methods.of_class(),
    "a static method": lambda x: x * Methods.static(),
    "a property": lambda x: x * Methods().asked,
    "a context": entered,
    "a setter": set_,
    "a cached class method": lambda x: x * Cached.of_class(),
    "a cached property": lambda x: x * Cached().once,
    "the class of an object": lambda x: x * type(initialized)().v,
    "the __class__ of an object": lambda x: x * initialized.__class__().v,
    "__missing__": lambda x: x * table["k"],
    "a list's __getitem__": lambda x: x * row[0],
    "a tuple's method": lambda x: x * pair.first(),
    "a float's method": lambda x: x * amount.doubled(),
    "a default factory": lambda x: x * Record().v,
    "__init_subclass__": subclassed,
    "a pattern by keyword": by_pattern,
    "a pattern by position": by_position,
    "attrgetter": lambda x: x * of_box(box),
    "names in a tuple": by_names,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_read_through_a_class_is_guarded(name, monkeypatch):
    function = PROGRAMS[name]
    compiled = rg.compile(function)
    for number in (1.0, 2.0, 1.0, 2.0, 3.0):
        monkeypatch.setattr(box, "k", number)
        monkeypatch.setattr(point, "place", number)
        monkeypatch.setitem(globals(), "factor", number)
        x = rg.ones(3, requires_grad=True)
        assert compiled(x).tolist() == function(x).tolist()
    assert compiled.entries


def test_default_values_that_are_exchanged_are_seen():
    def scaled(x, *, by=1.0):
        return x * by

    double = partial(scaled, by=2.0)
    f = rg.compile(lambda x: scaled(x) + double(x))
    x = rg.ones(1)
    assert f(x).item() == f(x).item() == 3.0
    scaled.__kwdefaults__ = {"by": 10.0}
    assert f(x).item() == 12.0
    double.keywords["by"] = 5.0
    assert f(x).item() == 15.0


def test_hooks_on_all_modules_are_seen_to_come_and_go():
    linear = rg.nn.Linear(1, 1, bias=False)
    linear.weight.data.fill_(2.0)
    f = rg.compile(lambda x: linear(x))
    x = rg.ones(1)
    assert f(x).item() == f(x).item() == 2.0
    handles = [rg.nn.modules.module.register_module_forward_hook(lambda module, args, result: result + 1)]
    handles.append(rg.nn.modules.module.register_module_forward_pre_hook(lambda module, args: (args[0] * 3,)))
    assert f(x).item() == f(x).item() == 7.0
    for handle in handles:
        handle.remove()
    assert f(x).item() == 2.0


class NoLength(tuple):
    def __len__(self):
        raise NotImplementedError


def test_a_tuple_whose_class_refuses_len_is_compared_by_its_items():
    holder = Box()
    holder.pair = NoLength((2.0, 3.0))

    def affine(x):
        a, b = holder.pair
        return a * x + b

    compiled = rg.compile(affine)
    x = rg.ones(1)
    assert compiled(x).item() == compiled(x).item() == 5
    holder.pair = NoLength((4.0, 3.0))
    assert compiled(x).item() == 7


def test_classes_made_by_exec_without_a_module_name_are_guarded():
    names: dict[str, object] = {"rg": rg}
    exec(
        "class Scale:\n    k = 1.0\n    def __call__(self, x): return x * self.k\n"
        "class Net(rg.nn.Module):\n    def forward(self, x): return x * self.w\n"
        "scale, net = Scale(), Net()\nnet.w = rg.nn.Parameter(rg.ones(3))\n"
        "def f(x): return scale(net(x))",
        names,
    )
    scale, net, function = names["scale"], names["net"], names["f"]
    compiled = rg.compile(function)
    changes = [
        lambda: None,
        lambda: setattr(scale, "k", 2.0),
        lambda: setattr(net, "w", rg.nn.Parameter(rg.zeros(3))),
        lambda: net.register_forward_hook(lambda m, args, out: out + 1),
    ]
    for change in changes:
        change()
        for _ in range(2):
            assert compiled(rg.ones(3)).tolist() == function(rg.ones(3)).tolist()

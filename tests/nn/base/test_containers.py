"""The containers, beside PyTorch's: the same operations give the same contents."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import retrograd as rg

torch = pytest.importorskip("torch")

SEQUENTIAL = [
    "m",
    "m[1:]",
    "m[-1]",
    "m.append(nn.Tanh())",
    "m.insert(1, nn.Tanh())",
    "m.insert(-1, nn.Tanh())",
    "m.extend([nn.Tanh(), nn.Sigmoid()])",
    "m.extend(nn.Sequential(nn.Tanh()))",
    "m.pop(0)",
    "delete(m, 1)",
    "delete(m, slice(0, 2))",
    "replace(m, -1, nn.Tanh())",
    "m + nn.Sequential(nn.Tanh())",
    "m * 2",
    "2 * m",
    "imul(m, 2)",
    "iadd(m, nn.Sequential(nn.Tanh()))",
    "len(m)",
    "[type(x).__name__ for x in m]",
    "nn.Sequential(OrderedDict([('a', nn.ReLU()), ('b', nn.Tanh())]))[1:]",
    "nn.Sequential(OrderedDict([('a', nn.ReLU()), ('b', nn.Tanh())])).b",
    "delete(nn.Sequential(OrderedDict([('a', nn.ReLU()), ('b', nn.Tanh())])), 0)",
    "[name for name in dir(m) if name.isdigit()]",
]
LIST = [
    "m",
    "m[1:]",
    "m[-1]",
    "m.append(nn.Tanh())",
    "[m.insert(1, nn.Tanh()), m][1]",
    "m.extend([nn.Tanh()])",
    "m.pop(0)",
    "delete(m, 1)",
    "delete(m, slice(0, 2))",
    "replace(m, -1, nn.Tanh())",
    "m + [nn.Tanh()]",
    "iadd(m, [nn.Tanh()])",
    "len(m)",
    "nn.ModuleList()",
    "nn.ModuleList([nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU()), nn.Tanh()])",
    "m.state_dict().keys()",
]
DICT = [
    "m",
    "m['b']",
    "len(m)",
    "list(m)",
    "'a' in m",
    "list(m.keys())",
    "list(m.items())",
    "list(m.values())",
    "m.pop('a')",
    "delete(m, 'a')",
    "update(m, {'c': nn.Tanh(), 'a': nn.Sigmoid()})",
    "update(m, [('c', nn.Tanh())])",
    "update(m, OrderedDict(z=nn.Tanh()))",
    "update(m, nn.ModuleDict({'z': nn.Tanh()}))",
    "m.clear()",
    "replace(m, 'q', nn.Tanh())",
    "m.a",
    "nn.ModuleDict()",
]
PARAMETERS = [
    "numbers(m)",
    "numbers(m[1:])",
    "numbers([m[-1]])",
    "len(m)",
    "numbers(m.append(ones(2)))",
    "numbers(m.extend([ones(2)]))",
    "numbers(iadd(m, [ones(3)]))",
    "numbers(replace(m, 0, ones(4)))",
    "list(m.state_dict())",
    "m[0].requires_grad",
    "[n for n, _ in m.named_parameters()]",
    "numbers(nn.ParameterList([ones(2), 3, 'a']))",
    "type(nn.ParameterList([ones(2)])[0]).__name__",
    "len(nn.ParameterList())",
]
PARAMETER_DICT = [
    "list(m)",
    "numbers(m.values())",
    "len(m)",
    "'a' in m",
    "m.get('q', 3)",
    "numbers([m.pop('a')])",
    "list(m)",
    "m.popitem()[0]",
    "list(delete(m, 'a'))",
    "numbers(update(m, {'c': ones(3)}).values())",
    "list(m.copy())",
    "numbers([m.setdefault('z', ones(1))])",
    "list(reversed(m))",
    "list(m | nn.ParameterDict({'q': ones(1)}))",
    "list({'q': ones(1)} | m)",
    "list(m.fromkeys(['x', 'y'], 0).items())",
    "list(m.state_dict())",
    "list(m.keys())",
    "list(replace(m, 'b', ones(5)))",
    "[k for k, _ in m.items()]",
    "list(update(m, [('z', ones(2))]))",
]


def delete(m: Any, key: Any) -> Any:
    del m[key]
    return m


def replace(m: Any, key: Any, value: Any) -> Any:
    m[key] = value
    return m


def update(m: Any, other: Any) -> Any:
    m.update(other)
    return m


def iadd(m: Any, other: Any) -> Any:
    m += other
    return m


def imul(m: Any, other: int) -> Any:
    m *= other
    return m


def numbers(values: Any) -> list[Any]:
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]


def evaluate(library: Any, start: str, expression: str) -> str:
    names = {
        "nn": library.nn,
        "ones": library.ones,
        "OrderedDict": OrderedDict,
        "delete": delete,
        "replace": replace,
        "update": update,
        "iadd": iadd,
        "imul": imul,
        "numbers": numbers,
    }
    names["m"] = eval(start, names)
    return repr(eval(expression, names))


@pytest.mark.parametrize(
    ("start", "expression"),
    [("nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))", each) for each in SEQUENTIAL]
    + [("nn.ModuleList([nn.Linear(2, 3), nn.ReLU(), nn.ReLU(), nn.Linear(3, 1)])", each) for each in LIST]
    + [("nn.ModuleDict({'a': nn.Linear(2, 3), 'b': nn.ReLU()})", each) for each in DICT]
    + [("nn.ParameterList([nn.Parameter(ones(2)), ones(3)])", each) for each in PARAMETERS]
    + [("nn.ParameterDict({'a': nn.Parameter(ones(2)), 'b': ones(3)})", each) for each in PARAMETER_DICT],
)
def test_as_pytorch(start: str, expression: str) -> None:
    assert evaluate(rg, start, expression) == evaluate(torch, start, expression)


@pytest.mark.parametrize(
    "expression",
    [
        "nn.Sequential(nn.ReLU())[1]",
        "nn.Sequential(3)",
        "nn.Sequential(nn.ReLU()).insert(5, nn.ReLU())",
        "nn.Sequential(nn.ReLU()) * 0",
        "nn.Sequential(nn.ReLU()) * 1.5",
        "nn.ModuleList([3])",
        "nn.ModuleList([nn.ReLU()])[-2]",
        "nn.ModuleList([]).extend(3)",
        "nn.ModuleList([nn.ReLU()])(1)",
        "nn.ModuleDict({'a': 3})",
        "nn.ModuleDict({'a.b': nn.ReLU()})",
        "nn.ModuleDict({'a': nn.ReLU()})['b']",
        "nn.ModuleDict().update(3)",
        "nn.ModuleDict([('a', nn.ReLU(), 1)])",
        "nn.ModuleDict({'items': nn.ReLU()})",
        "nn.ParameterList([ones(2)])[1]",
        "nn.ParameterList().extend(3)",
        "nn.ParameterDict({'a': ones(2)})['b']",
        "nn.ParameterDict().popitem()",
    ],
)
def test_errors_as_pytorch(expression: str) -> None:
    with pytest.raises(Exception) as theirs:
        eval(expression, {"nn": torch.nn, "ones": torch.ones})
    with pytest.raises(type(theirs.value)):
        eval(expression, {"nn": rg.nn, "ones": rg.ones})


def test_lists_and_dicts_of_parameters_print_the_shape_of_each() -> None:
    start = "nn.ModuleDict({'a': nn.ParameterDict({'b': ones(2, 3), 'c': [1]}), 'd': nn.ParameterList([ones(4)])})"
    theirs = evaluate(torch, start, "str(m)").replace("torch.FloatTensor", "torch.float32")
    assert evaluate(rg, start, "str(m)") == theirs.replace("torch", "retrograd")

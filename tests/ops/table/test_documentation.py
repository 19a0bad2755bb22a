"""What the composed lines of docstrings state is true of the example calls of the operators."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.table.documentation import Definition, compose, compose_all, items, like, sections
from retrograd.ops.table.registry import DEFINITIONS, OPERATORS, operator
from retrograd.ops.table.wording import DTYPES, OF_ARGUMENTS, OF_DTYPES, REFUSALS, SHAPES
from retrograd.testing.case import Call, Case, Fixed
from retrograd.testing.cases import all_cases
from retrograd.testing.comparison import numbers
from retrograd.testing.programs import make_tensor, replaced
from tests.helpers.together import in_one_test

CASES = {case.name: case for case in all_cases() if case.name in OPERATORS}
CALLS = 6  # that are checked per operator

pytestmark = pytest.mark.filterwarnings("ignore")


def example_calls(case: Case, count: int) -> list[Call]:
    return [call for call, _ in zip(case.calls(np.random.default_rng(0)), range(count), strict=False)]


def tensors_in(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument of a call with Tensors in place of its arrays, after ``change``."""
    return replaced(value, lambda array, differentiated: make_tensor(change(np.asarray(array))))


def flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


class Record(NamedTuple):
    """A call of an operator: its arguments by name, shape and dtype of its Tensors, and its results."""

    arguments: dict[str, Any]
    shapes: list[tuple[int, ...]]
    dtypes: list[Any]
    results: list[Any]


def recorded(name: str, call: Call, change: Callable[[Any], Any] = lambda array: array) -> Record:
    """The call with ``change`` of all its arrays."""
    function, case = OPERATORS[name].function, CASES[name]
    seen: list[Record] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        tensors = [value for value in flat(given.values()) if isinstance(value, rg.Tensor)]
        shapes, dtypes = [x.shape for x in tensors], [x.dtype for x in tensors]  # before it is written in place
        result = function(*args, **kwargs)
        seen.append(Record(dict(given), shapes, dtypes, list(numbers(result))))
        return result

    with rg.no_grad():
        args = [tensors_in(value, change) for value in call.args]
        kwargs = {key: tensors_in(value, change) for key, value in call.kwargs.items()}
        case.wrapped(watched)(*args, **kwargs)
    return seen[0]


def stated(table: dict[str, str], title: str, checked: dict[str, Any]) -> list[tuple[str, str]]:
    """The operators that state a line of the table, each with the key of the line, as far as it is checked."""
    keys = {text: key for key, text in table.items()}
    lines = {
        name: (OPERATORS[name].function.__doc__ or "").partition(f"\n{title}: ")[2].partition("\n")[0] for name in CASES
    }
    return [(name, keys[line]) for name, line in lines.items() if line in keys and keys[line] in checked]


def reduced_shape(call: Record) -> tuple[int, ...]:
    shape, dim, keepdim = call.shapes[0], call.arguments.get("dim"), call.arguments.get("keepdim", False)
    every = dim is None or isinstance(dim, (bool, tuple, list)) and not dim or dim is True
    named = range(len(shape)) if every else dim if isinstance(dim, (tuple, list)) else [dim]
    places = {place % (len(shape) or 1) for place in named}
    return tuple([1 if i in places else n for i, n in enumerate(shape) if i not in places or keepdim])


SHAPE_OF: dict[str, Callable[[Record], tuple[int, ...]]] = {
    "same": lambda call: call.shapes[0],
    "broadcast": lambda call: np.broadcast_shapes(*call.shapes),
    "reduced": reduced_shape,
    "reduced dimension": reduced_shape,
    "square": lambda call: call.shapes[0],
    "square to number": lambda call: call.shapes[0][:-2],
    "channels": lambda call: call.shapes[0],
}


@in_one_test("name, key", stated(SHAPES, "Shape", SHAPE_OF))
def test_results_have_the_shape_that_a_composed_line_states(name: str, key: str) -> None:
    for call in example_calls(CASES[name], CALLS):
        record = recorded(name, call)
        for result in record.results:
            assert result.shape == SHAPE_OF[key](record), call


def kept(call: Record) -> Any:
    return call.dtypes[0]


def floating(call: Record) -> Any:
    dtype = call.dtypes[0]
    return dtype if dtype.kind in "fc" else rg.get_default_dtype()


def of_bools(call: Record) -> Any:
    return rg.bool


def real(call: Record) -> Any:
    return np.zeros((), call.dtypes[0]).real.dtype


# For which kinds of numbers an operator is called, and the dtype that its results then have.
KINDS = {"b": np.bool_, "i": np.int32, "f": np.float32, "c": np.complex64}
DTYPE_OF: dict[str, tuple[str, Callable[[Record], Any]]] = {
    "same": ("bifc", kept),
    "float": ("if", floating),
    "float or complex": ("ifc", floating),
    "not complex": ("bif", kept),
    "floating": ("f", kept),
    "real": ("f", kept),
    "real or integer": ("if", kept),
    "number": ("if", kept),
    "equal": ("fc", kept),
    "equal real": ("f", kept),
    "equal floating": ("fc", kept),
    "matrix": ("fc", kept),
    "equal matrix": ("fc", kept),
    "magnitude": ("fc", real),
    "single or double": ("if", floating),
    "integer sum": ("bif", lambda call: rg.int64 if call.dtypes[0].kind in "bi" else call.dtypes[0]),
    "condition": ("bifc", of_bools),
    "tested": ("bifc", of_bools),
    "tested real": ("bif", of_bools),
    "compared": ("bif", of_bools),
}
OF_INDICES = {"lstsq", "linalg.lstsq"}  # whose further results are of integers


@in_one_test("name, key", stated(DTYPES, "Dtype", DTYPE_OF))
def test_results_have_the_dtype_that_a_composed_line_states(name: str, key: str) -> None:
    kinds, dtype_of = DTYPE_OF[key]
    for call in example_calls(CASES[name], 2):
        for kind in kinds:
            record = recorded(name, call, lambda x, to=KINDS[kind]: x.astype(to) if x.dtype.kind in "fc" else x)
            results = record.results[:1] if name in OF_INDICES else record.results
            if "dtype" not in record.arguments:
                assert [result.dtype for result in results] == [dtype_of(record)] * len(results), (call, kind)


# Errors: how a call is spoilt so that it must be refused for a reason.


def as_complex(arguments: dict[str, Any]) -> dict[str, Any] | None:
    arrays = [x.array if isinstance(x, Fixed) else x for x in flat(arguments.values())]
    if not any(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in arrays):
        return None
    changed = {key: tensors_in(x, lambda a: a + 0j if a.dtype.kind == "f" else a) for key, x in arguments.items()}
    return changed


def without_tensor(arguments: dict[str, Any]) -> dict[str, Any] | None:
    return arguments | {next(iter(arguments)): object()}


def with_far_dimension(arguments: dict[str, Any]) -> dict[str, Any] | None:
    several = isinstance(arguments.get("dim"), tuple) and len(arguments["dim"]) == 2
    return arguments | {"dim": (100, 101) if several else 100}


def with_unknown_reduction(arguments: dict[str, Any]) -> dict[str, Any] | None:
    return arguments | {"reduction": "unknown"}


def with_other_lengths(arguments: dict[str, Any]) -> dict[str, Any] | None:
    lengths = iter((5, 7, 3))
    arrays = {key: x for key, x in arguments.items() if isinstance(x, (np.ndarray, Fixed))}
    if len(arrays) not in (2, 3):
        return None
    dtypes = {key: np.asarray(x.array if isinstance(x, Fixed) else x).dtype for key, x in arrays.items()}
    return arguments | {key: np.ones(next(lengths), dtype) for key, dtype in dtypes.items()}


SPOILT: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    OF_ARGUMENTS["dim"].strip(): with_far_dimension,
    OF_ARGUMENTS["reduction"].strip(): with_unknown_reduction,
    OF_DTYPES["real"].strip(): as_complex,
    REFUSALS["complex"].strip(): as_complex,
    REFUSALS["broadcast"].strip(): with_other_lengths,
}
ERRORS = {kind.__name__: kind for kind in (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)}


def refusals(name: str) -> list[str]:
    section = sections(OPERATORS[name].function.__doc__ or "")[6]
    return [item.strip() for item in items(section)] if section else []


@in_one_test("name", sorted(CASES))
def test_an_operator_refuses_what_a_composed_line_states(name: str) -> None:
    function = OPERATORS[name].function
    parameters = inspect.signature(inspect.unwrap(function)).parameters
    if any(parameter.kind is not parameter.POSITIONAL_OR_KEYWORD for parameter in list(parameters.values())[:1]):
        return
    pairs = [("dim", parameters["dim"].default)] if "dim" in parameters else []
    defaults = {key: value for key, value in pairs if value is not inspect.Parameter.empty}
    for reason in refusals(name):
        spoil = without_tensor if reason.endswith("is not a Tensor, array or number.") else SPOILT.get(reason)
        for call in example_calls(CASES[name], 2) if spoil else ():
            arguments = spoil(dict(zip(parameters, call.args, strict=False)) | {**defaults, **call.kwargs})
            if arguments is not None and parameters.keys() >= arguments.keys():
                plain = {key: tensors_in(value, lambda array: array) for key, value in arguments.items()}
                with pytest.raises(ERRORS[reason.partition(":")[0]]):
                    function(**plain)


# The composer


def described(docstring: str, **declared: Any) -> str:
    def function(input: rg.Tensor, dim: int = -1) -> rg.Tensor:
        raise AssertionError

    function.__annotations__ = {"input": "Tensor", "dim": "Dim"}
    return compose(Definition(function, docstring, **declared), "")


SHORT = """``f(input)``.

    Derivative: ``g``.

    Args:
        dim: the dimension that is halved.

    >>> f(1)
    1
    """


def test_an_own_line_replaces_the_composed_one() -> None:
    text = described(SHORT)
    assert "    input: the input Tensor.\n    dim: the dimension that is halved.\n\nRaises:\n" in text
    assert text.startswith(
        "``f(input)``.\n\nDerivative: ``g``.\nShape: any; the result has the input's shape.\nDtype: any"
    )
    assert text.endswith("IndexError: ``dim`` is out of range.\n\n>>> f(1)\n1")


def test_an_own_reason_for_an_error_replaces_the_composed_one() -> None:
    text = described(SHORT.replace(">>>", "Raises:\n        IndexError: ``dim`` is odd.\n\n    >>>"))
    assert text.count("IndexError") == 1 and "is odd" in text


def test_an_operator_that_the_generator_has_not_seen_is_composed_at_its_definition() -> None:
    @operator(namespace="nowhere", method=False, raises="scipy")
    def unseen(input: rg.Tensor) -> rg.Tensor:
        """``f(input)``.

        >>> f(1)
        1
        """
        raise AssertionError

    del OPERATORS["nowhere.unseen"], DEFINITIONS["nowhere.unseen"]
    assert "Dtype: any" in (unseen.__doc__ or "") and "SciPy is not installed" in (unseen.__doc__ or "")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python removes the indentation from which they are composed")
def test_docstrings_that_were_composed_ahead_of_time_are_those_that_the_definitions_give() -> None:
    texts = compose_all({name: Definition(*definition) for name, definition in DEFINITIONS.items()})
    assert len(texts) > 600
    assert [name for name, text in texts.items() if OPERATORS[name].function.__doc__ != text] == []


def test_a_composed_docstring_stays_as_it_is_when_it_is_composed_again() -> None:
    changed = []
    for name, entry in OPERATORS.items():
        before = entry.function.__doc__
        method, differentiable = entry.namespace == "Tensor", entry.differentiable
        again = Definition(entry.function, before, method=method, differentiable=differentiable)
        changed += [name] if compose(again, "") != before else []
    assert changed == []


def test_every_section_begins_after_an_empty_line() -> None:
    titles = re.compile(r"[^\n]\n(?:Args|Returns|Raises|Source):")
    assert [name for name, entry in OPERATORS.items() if titles.search(entry.function.__doc__ or "")] == []


class Base:
    """A base.

    Args:
        size: its size.
        name: its name.

    Returns:
        itself.

    Raises:
        TypeError: the size is not a number.
        ValueError: the size is negative.

    Source: Base, 2001.

    >>> 1
    1
    """


def test_a_docstring_is_completed_by_that_of_a_relative() -> None:
    @like(Base, raises="ValueError", source=True)
    class Derived:
        """A derived class.

        Args:
            name: another name.

        >>> 1
        1
        """

        def __init__(self, name: str, size: int, other: int = 0) -> None:
            raise AssertionError

    assert Derived.__doc__ == (
        "A derived class.\n\nArgs:\n    name: another name.\n    size: its size.\n\n"
        "Raises:\n    ValueError: the size is negative.\n\nSource: Base, 2001.\n\n>>> 1\n1"
    )

    @like(Base)
    def function(size: int) -> None:
        """A function."""

    assert function.__doc__ == "A function.\n\nArgs:\n    size: its size."

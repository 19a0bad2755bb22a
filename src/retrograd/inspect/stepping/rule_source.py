"""The source code of derivative rules, and the values that a rule read."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from ...core.graph.nodes import Node
from ...core.graph.plan import rule_arguments
from ...core.graph.primitive import Primitive

ELEMENTS = "retrograd.elements."  # the package of elementwise functions


def input_names(node: Node) -> tuple[str, ...]:
    """Return the names that the rules use for the inputs of a recorded call, one per parent."""
    primitive = node.plan.primitive
    function = user_function(primitive)
    if function is not None:
        try:
            names = tuple(inspect.signature(function.forward).parameters)
        except ValueError:
            names = ()
        names = names[1:] if _takes_context(function) else names
        if len(names) == len(node.parents):
            return names
    if primitive.variadic:
        return tuple([f"{primitive.inputs[0]}[{index}]" for index in range(len(node.parents))])
    return primitive.inputs


def rule_source(node: Node) -> str:
    """Return the source of the rules that a backward pass calls for this node, with comments; one rule per input."""
    primitive = node.plan.primitive
    function = user_function(primitive)
    if function is not None:
        backward = function.vjp if "vjp" in vars(function) else function.backward
        return source_of(backward)
    if primitive.joint is not None:
        return source_of(primitive.joint)
    rules = primitive.rules or ()
    called = [(index, rules[index]) for index, _, _ in node.plan.rules]
    texts = [(input_names(node)[index], source_of(rule)) for index, rule in called if rule is not None]
    if len(rules) == 1:
        return "\n".join(text for _, text in texts)
    return "\n".join(
        f"{name}:\n{textwrap.indent(text, '    ')}" if "\n" in text else f"{name}: {text}" for name, text in texts
    )


def values_read(node: Node, saved: tuple[object, ...]) -> dict[str, Any]:
    """Return the values, other than the cotangent, that the node's rules read, by the names in the rules."""
    primitive = node.plan.primitive
    if user_function(primitive) is not None:
        return _values_of_context(saved[primitive.position["ctx"]])
    if primitive.joint is not None:
        rules: list[Any] = [primitive.joint]
    else:
        rules = [(primitive.rules or ())[index] for index, _, _ in node.plan.rules]
    names = dict.fromkeys(name for rule in rules if rule is not None for name in rule_arguments(rule)[1:])
    return {name: saved[primitive.position[name]] for name in names if name != "needs"}


def names_read(node: Node, place: int, everything: Iterable[str]) -> list[str]:
    """Return the names in ``everything``, the values that the node's rules read, that the rule of one input reads."""
    rules = node.plan.primitive.rules
    own = rules[place] if rules and node.plan.primitive.joint is None and place < len(rules) else None
    return [name for name in everything if own is None or name in rule_arguments(own)]


def _values_of_context(context: Any) -> dict[str, object]:
    values: dict[str, object] = {}
    for index, x in enumerate(context.saved_tensors):
        values[f"saved_tensors[{index}]"] = None if x is None else x.array
    values.update((f"ctx.{name}", value) for name, value in vars(context).items() if not name.startswith("_"))
    values.pop("ctx.needs_input_grad", None)
    return values


def user_function(primitive: object) -> Any:
    """Return the custom Function of a primitive, or None."""
    if not isinstance(primitive, Primitive) or primitive.fills or primitive.joint is None:
        return None
    return inspect.getclosurevars(primitive.joint).nonlocals.get("cls")


def _takes_context(function: Any) -> bool:
    from ...autograd import Function

    return function.setup_context is Function.setup_context


def source_of(rule: Callable[..., object]) -> str:
    """Return the code of a rule with its comment, followed by the functions in its closure.

    For a lambda function, return only the lambda expression and not the whole source line.

    >>> source_of(eval("lambda g, x: g * x"))
    'no source: <lambda> of <string>'
    """
    rule = getattr(rule, "reference", rule)  # a compiled loop has a NumPy reference
    code = rule.__code__
    text = _lambda_source(code) if rule.__name__ == "<lambda>" else _definition(rule)
    if text is None:
        return f"no source: {rule.__name__} of {code.co_filename}"
    comment = inspect.getcomments(rule)
    lines = [*textwrap.dedent(comment or "").splitlines(), text, *_closed_over(rule)]
    return "\n".join(line.rstrip() for line in lines)


def _definition(rule: Callable[..., object]) -> str | None:
    """Return the source of a function, without the decorator of functions of ``elements/``."""
    try:
        text = textwrap.dedent(inspect.getsource(rule)).rstrip()
    except (OSError, TypeError):
        return None
    return text[text.index("def ") :] if rule.__module__.startswith(ELEMENTS) else text


@lru_cache(maxsize=1024)
def _lambda_source(code: CodeType) -> str | None:
    """Return the lambda with the source positions of ``code``: a line may contain several."""
    lines = linecache.getlines(code.co_filename)
    spans = [
        ((first, begin), (last, end))
        for first, last, begin, end in code.co_positions()
        if first is not None
        and last is not None
        and begin is not None
        and end is not None
        and (first, begin) < (last, end)
    ]
    if not lines or not spans:
        return None
    body = min(begin for begin, _ in spans), max(end for _, end in spans)
    source = "".join(lines)
    for found in _lambdas(source):
        place = found.body
        if ((place.lineno, place.col_offset), (place.end_lineno, place.end_col_offset)) == body:
            segment = ast.get_source_segment(source, found) or ""
            head, *rest = segment.split("\n")
            return "\n".join([head, *textwrap.dedent("\n".join(rest)).splitlines()]) if rest else head
    return None


@lru_cache(maxsize=64)
def _lambdas(source: str) -> tuple[ast.Lambda, ...]:
    try:
        return tuple([node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)])
    except SyntaxError:
        return ()


def _closed_over(rule: Callable[..., object]) -> Iterator[str]:
    """Yield the source of the functions and the names of the operators in a rule's closure.

    Elementwise functions (``elements/``) may also be global variables of the rule.
    """
    known = inspect.getclosurevars(rule)
    functions = {name: value for name, value in known.globals.items() if isinstance(value, FunctionType)}
    elements = {name: value for name, value in functions.items() if _element_source(value)}
    for name, value in {**elements, **known.nonlocals}.items():
        if isinstance(value, Primitive):
            yield f"# {name} is the operator {value.name}"
        elif isinstance(value, FunctionType) and value is not rule:
            text = _lambda_source(value.__code__) if value.__name__ == "<lambda>" else _element_source(value)
            yield f"# {name} is " + (text or f"{value.__module__}.{value.__qualname__}").replace("\n", "\n# ")


def _element_source(function: Callable[..., object]) -> str | None:
    """Return the source of an elementwise function (``elements/``), without its wrappers."""
    inner = inspect.unwrap(function)
    return _definition(inner) if inner.__module__.startswith(ELEMENTS) else None

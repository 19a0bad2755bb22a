"""Compose the docstring of an operator from its definition and from what its own docstring states.

The docstring in the source states what is particular: the formula, the derivative, the source, an example, and
arguments, errors, shapes and dtypes that are unlike those of other operators. The rest follows from the definition:

* ``Shape:`` and ``Dtype:`` from the keys in ``@operator(shape=..., dtype=...)``, or from the arguments and primitive;
* ``Args:`` from the names of the arguments, with their annotations and defaults where these decide;
* ``Raises:`` from the arguments, ``real=True``, the shape, and the keys in ``raises=``;
* whatever is still missing from the operator ``like=``, of whose family this one is.

A line of the operator's own docstring always replaces the composed one. The words are in ``wording.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

from ...core.primitive import Primitive
from .wording import ARGUMENTS, DTYPES, OF_ARGUMENTS, OF_DTYPES, REFUSALS, SHAPES

_OPERANDS = ("Tensor", "Operand")  # annotations of arguments for which anything else is refused
_BROADCAST = SHAPES["broadcast"]
_DERIVATIVE, _ARGS, _RETURNS = "\nDerivative: ", "\n\nArgs:\n", "\n\nReturns:"
_RAISES, _SOURCE, _EXAMPLE = "\n\nRaises:\n", "\n\nSource:", "\n\n>>>"
_NONE: tuple[str, ...] = ("",) * 9


def sections(text: str) -> tuple[str, ...]:
    """Take a docstring apart, from its end: all parts with a title stand behind the free text, in one order.

    Returns:
        Summary, derivative, shape, dtype, arguments, returns, raises, source and example, empty where there is none.
    """
    text, _, example = text.partition(_EXAMPLE)
    text, _, source = text.partition(_SOURCE)
    text, _, raises = text.partition(_RAISES)
    text, _, returns = text.partition(_RETURNS)
    text, _, arguments = text.partition(_ARGS)
    text, _, dtype = text.partition("\nDtype: ")
    text, _, shape = text.partition("\nShape: ")
    text, _, derivative = text.partition("\nDerivative: ")
    return text.rstrip("\n"), derivative, shape, dtype, arguments, returns, raises, source, example


def items(section: str) -> list[str]:
    """The entries of a section of arguments or errors, each with its continuation lines."""
    found: list[str] = []
    for line in section.split("\n"):
        if line.startswith("     "):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def compose(
    function: Callable[..., Any],
    *,
    primitive: object = None,
    method: bool = False,
    real: bool = False,
    differentiable: bool = True,
    shape: str = "",
    dtype: str = "",
    raises: str = "",
    like: Callable[..., Any] | None = None,
) -> None:
    """Complete ``function.__doc__``. Every import does this for all operators: it must cost few string operations.

    Args:
        function: the function of an operator.
        primitive: the primitive that computes the result, where the definition names it.
        method: the first argument is the Tensor itself.
        real: complex numbers are refused.
        differentiable: the operator has a derivative.
        shape: a key of ``SHAPES``.
        dtype: a key of ``DTYPES``.
        raises: keys of ``REFUSALS``, separated by commas.
        like: an operator whose docstring says what this one's leaves out.
    """
    if not function.__doc__:
        return  # python -OO
    own = sections(_dedented(function.__doc__))
    summary, derivative, own_shape, own_dtype, arguments, returns, own_raises, source, example = own
    plain: Any = function
    while "__wrapped__" in plain.__dict__:
        plain = plain.__wrapped__
    code = plain.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    family = _family(like.__doc__ or "") if like else _NONE
    if like:
        derivative, returns, source = derivative or family[1], returns or family[5], source or family[7]
    if not derivative and not differentiable:
        derivative = "none."
    shapes = own_shape or (SHAPES[shape] if shape else family[2]) or _shape(names)
    dtypes = own_dtype or (DTYPES[dtype] if dtype else family[3]) or _dtype(names, primitive)
    if arguments or len(names) != 1 or code.co_flags & CO_VARARGS:
        theirs = _by_name(family[4]) if family[4] else {}
        arguments = _arguments(arguments, theirs, names, plain)

    usual = []
    if code.co_argcount and not method and plain.__annotations__.get(names[0]) in _OPERANDS:
        usual.append(f"    TypeError: ``{names[0]}`` is not a Tensor, array or number.")
    for name in names:
        if name in OF_ARGUMENTS:
            usual.append(OF_ARGUMENTS[name])
    if dtype in OF_DTYPES:
        usual.append(OF_DTYPES[dtype])
    elif real:
        usual.append(REFUSALS["complex"])
    if shapes is _BROADCAST:
        usual.append(REFUSALS["broadcast"])
    refusals = _refusals(own_raises, family[6], usual, raises) if own_raises or raises or like else "\n".join(usual)

    text = f"{summary}\n{_DERIVATIVE}{derivative}" if derivative else f"{summary}\n"
    text += f"\nShape: {shapes}\nDtype: {dtypes}"
    if arguments:
        text += _ARGS + arguments
    if returns:
        text += _RETURNS + returns
    if refusals:
        text += _RAISES + refusals
    if source:
        text += _SOURCE + source
    function.__doc__ = text + _EXAMPLE + example if example else text


def complete(
    names: dict[str, Any], base: type, arguments: dict[str, str], errors: dict[str, str] | None = None
) -> None:
    """Complete the docstrings of classes, which describe the arguments of their ``__init__``.

    Args:
        names: what a module holds.
        base: the subclasses of this one are completed.
        arguments: descriptions by name, of arguments that a class does not describe itself.
        errors: by the name of an argument: what a class that has it refuses, where it names no such error itself.
    """
    for value in {*filter(lambda value: isinstance(value, type) and issubclass(value, base), names.values())}:
        _complete_class(value, arguments, errors or {})


def _complete_class(cls: type, arguments: dict[str, str], errors: dict[str, str]) -> None:
    init: Any = cls.__init__  # type: ignore[misc]
    while hasattr(init, "__wrapped__"):
        init = init.__wrapped__
    text = _dedented(cls.__doc__ or "")
    if not text or not hasattr(init, "__code__"):
        return
    names = init.__code__.co_varnames[1 : init.__code__.co_argcount + init.__code__.co_kwonlyargcount]
    theirs = {name: f"    {name}: {arguments[name]}" for name in names if name in arguments}
    if _ARGS in text or theirs and len(theirs) == len(names):
        text = _replaced(text, _ARGS, lambda own: _arguments(own, theirs, names))
    usual = ["    " + errors[name] for name in names if name in errors and errors[name].partition(":")[0] not in text]
    if usual:
        text = _replaced(text, _RAISES, lambda own: "\n".join([*usual, own] if own else usual))
    cls.__doc__ = text


def _replaced(text: str, title: str, change: Callable[[str], str]) -> str:
    """The text with a changed section, which may begin here."""
    before, found, after = text.partition(title)
    own, blank, rest = after.partition("\n\n")
    if not found:
        place = min([text.index(mark) for mark in (_RAISES, _SOURCE, _EXAMPLE) if mark in text], default=len(text))
        before, rest = text[:place], text[place:]
    section = change(own)
    return before + title + section + blank + rest if section else text


def _dedented(text: str) -> str:
    """A docstring without its indentation, which Python 3.13 removes at compile time."""
    margin = text[text.rfind("\n") :]
    return text.replace(margin, "\n").rstrip() if margin.isspace() else text


_family = lru_cache(1)(sections)  # operators of one family stand together


def _shape(names: tuple[str, ...]) -> str:
    if "keepdim" in names:
        return SHAPES["reduced"]
    return _BROADCAST if "other" in names else SHAPES["same"]


def _dtype(names: tuple[str, ...], primitive: object) -> str:
    if isinstance(primitive, Primitive) and primitive.promote == "float":
        return DTYPES["float promoted" if "other" in names else "float or complex"]
    return DTYPES["promoted" if "other" in names else "same"]


def _arguments(own: str, theirs: dict[str, str], names: tuple[str, ...], function: FunctionType | None = None) -> str:
    """The descriptions of the arguments, in the signature's order; those of ``function`` also from the table."""
    if function and function.__code__.co_flags & CO_VARARGS:
        count = function.__code__.co_argcount
        names = (*names[:count], function.__code__.co_varnames[len(names)], *names[count:])
    missing: Sequence[str] = names
    if own:
        missing = [
            name
            for name in names
            if f"    {name}: " not in own and f"    {name}, " not in own and f", {name}: " not in own
        ]
    if not missing:
        return own
    lines = {name: theirs.get(name) or (_usual(function, name) if function else "") for name in missing}
    if own:
        before = 0  # of the arguments that the operator describes itself
        while before < len(missing) and missing[before] == names[before]:
            before += 1
        after = len(missing) - before
        if not after or tuple(missing[before:]) == names[-after:]:
            lines = {**{name: lines[name] for name in missing[:before]}, "": own, **lines}
        else:
            described = _by_name(own)
            lines = {name: described.pop(name, "") or lines.get(name, "") for name in names} | described
    return "\n".join(dict.fromkeys(filter(None, lines.values())))


def _usual(function: FunctionType, name: str) -> str:
    usual = ARGUMENTS.get(name)
    if not usual:
        return ""
    if isinstance(usual, dict):
        usual = usual.get(_declared(function, name)) or usual.get("")
    return f"    {name}: {usual}" if usual else ""


def _by_name(section: str) -> dict[str, str]:
    found = {}
    for line in items(section):
        for name in line[4 : line.index(":")].split(", "):
            found[name] = line
    return found


def _declared(function: FunctionType, name: str) -> str:
    """What the signature says of an argument: ``"Dim = -1"``."""
    code, values = function.__code__, function.__defaults__ or ()
    defaults = dict(zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=True))
    defaults |= function.__kwdefaults__ or {}
    annotation = str(function.__annotations__.get(name))
    return f"{annotation} = {defaults[name]}" if name in defaults else annotation


def _refusals(own: str, family: str, usual: list[str], declared: str) -> str:
    """The errors. An exception that the operator describes itself replaces the usual and the family's reason for it."""
    lines = usual
    if family:
        theirs = [line for line in items(family) if line[: line.index(":") + 1] not in own] if own else [family]
        lines = [line for line in usual if line[: line.index(":") + 1] not in family] + theirs
    if own:
        lines = [line for line in lines if line[: line.index(":") + 1] not in own]
    if declared:
        text = "\n".join([*lines, own])
        lines += [line for token in declared.split(", ") if (line := REFUSALS[token]) not in text]
    if own:
        lines.append(own)
    return "\n".join(lines)

"""Compose the docstring of an operator from its definition and from the docstring in the source.

The docstring in the source has the formula, the derivative, the source, an example, and those arguments, errors, shapes
and dtypes that differ from the usual ones. The rest follows from the definition:

* ``Shape:`` and ``Dtype:`` from the keys in ``@operator(shape=..., dtype=...)``, or from the arguments and primitive;
* ``Derivative:`` from the key in ``derivative=``;
* ``Args:`` from the keys in ``args=``, and from the names of the arguments, with their annotations and defaults if
these select the text;
* ``Raises:`` from the arguments, ``real=True``, the shape, and the keys in ``raises=``;
* sections that are still missing, from the operator ``like=`` of the same family.

A line of the operator's own docstring always replaces the composed line. The texts are in ``wording.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from inspect import CO_VARARGS, unwrap
from types import CodeType, FunctionType
from typing import Any, TypeVar

from ...core.graph.primitive import Primitive
from ...core.named_tuples import NamedTuple
from .wording import ARGUMENTS, DERIVATIVES, DTYPES, OF_ARGUMENTS, OF_DTYPES, PARTICULAR_ARGUMENTS, REFUSALS, SHAPES

_OPERANDS = ("Tensor", "Operand")  # an argument with one of these annotations raises TypeError for other types
_BROADCAST = SHAPES["broadcast"]
_DERIVATIVE, _ARGS, _RETURNS = "\nDerivative: ", "\n\nArgs:\n", "\n\nReturns:"
_RAISES, _SOURCE, _EXAMPLE = "\n\nRaises:\n", "\n\nSource:", "\n\n>>>"
_ABOUT = re.compile(r"    \w+: ``(\w+)`` ")  # a line of ``Raises:`` about an argument
_TITLES = (_ARGS, _RETURNS, _RAISES, "\n\nAttributes:\n", _SOURCE, _EXAMPLE)
_NONE: tuple[str, ...] = ("",) * 9

D = TypeVar("D", bound=Callable[..., object])


def sections(text: str) -> tuple[str, ...]:
    """Split a docstring into its sections. Sections with a title follow the free text, in a fixed order.

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
    """Return the entries of a section of arguments or errors, each with its continuation lines."""
    found: list[str] = []
    for line in section.split("\n"):
        if line.startswith("     "):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


class Definition(NamedTuple):
    """The data from which the docstring of an operator is composed."""

    function: Callable[..., object]
    docstring: str  # the docstring in the source
    primitive: object = None  # the primitive that computes the result, if the definition names it
    method: bool = False  # the first argument is the Tensor itself
    real: bool = False  # complex inputs raise an error
    differentiable: bool = True
    shape: str = ""  # a key of ``SHAPES``
    dtype: str = ""  # a key of ``DTYPES``
    derivative: str = ""  # a key of ``DERIVATIVES``
    args: str = ""  # keys of ``PARTICULAR_ARGUMENTS``, separated by commas
    raises: str = ""  # keys of ``REFUSALS``, separated by commas
    like: Callable[..., object] | None = None  # an operator whose docstring provides missing sections


def compose_all(definitions: dict[str, Definition]) -> dict[str, str]:
    """Compose the docstrings of all operators, by name, in the order of their definitions."""
    found: dict[str, str] = {}
    texts: dict[Callable[..., object], str] = {}
    for name, definition in definitions.items():
        family = texts[unwrap(definition.like)] if definition.like else ""
        texts[unwrap(definition.function)] = found[name] = compose(definition, family)
    return found


def compose(definition: Definition, of_family: str) -> str:
    """Return the whole docstring of an operator. ``of_family`` is the docstring of ``definition.like``."""
    function, docstring, primitive, method, real, differentiable, shape, dtype, rule, args, raises, like = definition
    own = sections(_dedented(docstring))
    summary, derivative, own_shape, own_dtype, arguments, returns, own_raises, source, example = own
    derivative = derivative or (DERIVATIVES[rule] if rule else "")
    if args:
        particular = [PARTICULAR_ARGUMENTS[key] for key in args.split(", ")]
        arguments = "\n".join([*particular, arguments] if arguments else particular)
    plain: Any = unwrap(function)
    code = plain.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    family = _family(of_family) if like else _NONE
    if like:
        derivative, returns, source = derivative or family[1], returns or family[5], source or family[7]
    if not derivative and not differentiable:
        derivative = "none."
    shapes = own_shape or (SHAPES[shape] if shape else family[2]) or _shape(names)
    dtypes = own_dtype or (DTYPES[dtype] if dtype else family[3]) or _dtype(names, primitive)
    if code.co_flags & CO_VARARGS:
        arguments = _arguments(arguments, _of_family(family[4]) if family[4] else {}, _with_variadic(code), plain)
    elif arguments or len(names) != 1:
        arguments = _arguments(arguments, _of_family(family[4]) if family[4] else {}, names, plain)

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
    theirs = _of_arguments(family[6], names) if family[6] else ""
    refusals = _refusals(own_raises, theirs, usual, raises) if own_raises or raises or like else "\n".join(usual)

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
    return text + _EXAMPLE + example if example else text


def complete(
    names: dict[str, Any], base: type, arguments: dict[str, str], errors: dict[str, str] | None = None
) -> None:
    """Complete the docstrings of classes, which describe the arguments of their ``__init__``.

    Args:
        names: the names of a module.
        base: subclasses of this class are completed.
        arguments: descriptions by name, for arguments that a class does not describe itself.
        errors: by the name of an argument, the error of classes with this argument that do not describe it themselves.
    """
    theirs = {name: f"    {name}: {line}" for name, line in arguments.items()}
    refusals = {name: f"    {line}" for name, line in (errors or {}).items()}
    for value in {*filter(lambda value: isinstance(value, type) and issubclass(value, base), names.values())}:
        _complete(value, theirs, refusals)


def like(*others: object, raises: str = "", source: bool = False) -> Callable[[D], D]:
    """Complete the docstring of a function or class from the docstrings of others.

    Args:
        others: functions and classes; an argument that the docstring does not describe gets the description in the
            first of these docstrings that has one.
        raises: names of exceptions, separated by commas, whose descriptions are also copied.
        source: also copy the section of the source.

    >>> @like(complete)
    ... def complete_functions(names, arguments):
    ...     \"\"\"Complete the docstrings of functions.\"\"\"
    >>> print(complete_functions.__doc__)
    Complete the docstrings of functions.
    <BLANKLINE>
    Args:
        names: the names of a module.
        arguments: descriptions by name, for arguments that a class does not describe itself.
    """

    def enter(described: D) -> D:
        if described.__doc__:  # not with python -OO
            theirs: dict[str, str] = {}
            refusals: dict[str, str] = {}
            for other in reversed(others):
                text = _dedented(other.__doc__ or "")
                theirs |= _by_name(_section(text, _ARGS))
                if raises:
                    refusals |= {line.partition(":")[0]: line for line in items(_section(text, _RAISES))}
            usual = {name: refusals["    " + name] for name in raises.split(", ") if name}
            _complete(described, theirs, usual, begins=True)
            if source:
                publication = _section(_dedented(others[0].__doc__ or ""), _SOURCE)
                described.__doc__ = _replaced(described.__doc__, _SOURCE, lambda own: publication)
        return described

    return enter


def _complete(described: Any, arguments: dict[str, str], errors: dict[str, str], begins: bool = False) -> None:
    """Add lines for the arguments and errors that a docstring lacks; keys of ``errors`` are arguments or exceptions.

    A docstring without a section of arguments gets one only with ``begins``, or if ``arguments`` describes all of them.
    """
    function = unwrap(described.__init__ if isinstance(described, type) else described)  # type: ignore[misc]
    if not described.__doc__ or not hasattr(function, "__code__"):
        return
    code = function.__code__
    names = code.co_varnames[isinstance(described, type) : code.co_argcount + code.co_kwonlyargcount]
    theirs = {name: arguments[name] for name in names if name in arguments}
    if not theirs and not errors:
        return
    text = _dedented(described.__doc__)
    if theirs and (begins or _ARGS in text or len(theirs) == len(names)):
        text = _replaced(text, _ARGS, lambda own: _arguments(own, theirs, names))
    usual: dict[str, str] = {}
    for name, line in errors.items():
        kind = line.partition(":")[0]
        if (name in names or name == kind.strip()) and kind not in text:
            usual.setdefault(kind, line)
    if usual:
        text = _replaced(text, _RAISES, lambda own: "\n".join([*usual.values(), own] if own else usual.values()))
    described.__doc__ = text


def _section(text: str, title: str) -> str:
    return text.partition(title)[2].partition("\n\n")[0]


def _replaced(text: str, title: str, change: Callable[[str], str]) -> str:
    before, found, after = text.partition(title)
    own, blank, rest = after.partition("\n\n")
    if not found:
        later = _TITLES[_TITLES.index(title) + 1 :]
        place = min([text.index(mark) for mark in later if mark in text], default=len(text))
        before, rest = text[:place], text[place:]
    section = change(own)
    return before + title + section + blank + rest if section else text


def _dedented(text: str) -> str:
    """Return a docstring without its indentation, which Python 3.13 removes at compile time."""
    margin = text[text.rfind("\n") :]
    return text.replace(margin, "\n").rstrip() if margin.isspace() else text


_family = lru_cache(1)(sections)  # one entry is enough: operators of one family follow each other


def _shape(names: tuple[str, ...]) -> str:
    if "keepdim" in names:
        return SHAPES["reduced"]
    return _BROADCAST if "other" in names else SHAPES["same"]


def _dtype(names: tuple[str, ...], primitive: object) -> str:
    if isinstance(primitive, Primitive) and primitive.promote == "float":
        return DTYPES["float promoted" if "other" in names else "float or complex"]
    return DTYPES["promoted" if "other" in names else "same"]


def _arguments(own: str, theirs: dict[str, str], names: tuple[str, ...], function: FunctionType | None = None) -> str:
    """Return the descriptions of the arguments in the signature's order, for ``function`` also from ``ARGUMENTS``."""
    described = _by_name(own) if own else {}
    lines: list[str] = []
    for name in names:
        line = described.get(name) or theirs.get(name)
        if line is None:
            if function is None or name not in ARGUMENTS:
                continue
            usual = ARGUMENTS[name]
            if isinstance(usual, dict):
                usual = usual.get(_declared(function, name)) or usual.get("", "")
                if not usual:
                    continue
            line = f"    {name}: {usual}"
        if line not in lines:
            lines.append(line)
    for name, line in described.items():
        if name not in names and line not in lines:  # an argument passed by **keywords
            lines.append(line)
    return "\n".join(lines).replace("\0", "\n     ")


def _by_name(section: str) -> dict[str, str]:
    """Return the entries of a section of arguments by name; line breaks within an entry are replaced by NUL."""
    found = {}
    for line in section.replace("\n     ", "\0").split("\n"):
        title = line[4:].partition(":")[0]
        if "," in title:
            for name in title.split(", "):
                found[name] = line
        else:
            found[title] = line
    return found


_of_family = lru_cache(1)(_by_name)


def _with_variadic(code: CodeType) -> tuple[str, ...]:
    """Return the names of the arguments in order; code objects list ``*args`` after the keyword-only arguments."""
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    return (*names[:count], names[count + keywords], *names[count : count + keywords])


def _declared(function: FunctionType, name: str) -> str:
    """Return annotation and default of an argument, such as ``"Dim = -1"``."""
    code, values = function.__code__, function.__defaults__ or ()
    defaults = dict(zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=True))
    defaults |= function.__kwdefaults__ or {}
    annotation = str(function.__annotations__.get(name))
    return f"{annotation} = {defaults[name]}" if name in defaults else annotation


def _of_arguments(section: str, names: tuple[str, ...]) -> str:
    """Return the errors of a family, without those about an argument that is not among ``names``."""
    return "\n".join([line for line in items(section) if not (found := _ABOUT.match(line)) or found[1] in names])


def _refusals(own: str, family: str, usual: list[str], declared: str) -> str:
    """Return the errors: what the operator itself says about an exception replaces the usual and the family's text."""
    stated = own + family
    lines = [line for line in usual if line.partition(":")[0] not in stated] if stated else usual
    if family:
        lines += [line for line in items(family) if line.partition(":")[0] not in own] if own else [family]
    if declared:
        text = "\n".join([*lines, own])
        lines += [line for token in declared.split(", ") if (line := REFUSALS[token]) not in text]
    if own:
        lines.append(own)
    return "\n".join(lines)

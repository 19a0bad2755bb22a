"""Compose the docstring of an operator from its definition and from what its own docstring states.

The docstring in the source states what is particular: the formula, the derivative, the source, an example, and
arguments, errors, shapes and dtypes that are unlike those of other operators. The rest follows from the definition:

* ``Shape:`` and ``Dtype:`` from the tokens of ``@operator(shape=..., dtype=...)``, or from the arguments and primitive;
* ``Args:`` from the names of the arguments, with their annotations and defaults where these decide;
* ``Raises:`` from the arguments, ``real=True``, the shape, and the tokens of ``raises=``;
* whatever is still missing from the operator ``like=``, of whose family this one is.

A line of the operator's own docstring always replaces the composed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

from ...core.primitive import Primitive

SHAPES = {
    "same": "any; the result has the input's shape.",
    "broadcast": "any; the arguments broadcast, and the result has their common shape.",
    "reduced": "any; the result lacks the reduced dimensions, or has length 1 there with ``keepdim``.",
    "reduced dimension": "any; the result lacks the reduced dimension, or has length 1 there with ``keepdim``.",
    "size": "``size``.",
    "points": "``(M,)``.",
    "square": "``(..., n, n)``; the result has the input's shape.",
    "square to number": "``(..., n, n)`` to ``(...)``.",
    "channels": "``(N, C, *)``; the result has the input's shape.",
    "loss": 'input and target broadcast; the result is 0-d, or with reduction ``"none"`` has the common shape.',
    "sequence": "input ``(T, N, features)`` to ``(T, N, directions * H)``.",
}

DTYPES = {
    "same": "any; the result has the input's dtype.",
    "default": "floating, by default the default dtype.",
    "float": "floating; integers become the default dtype.",
    "float or complex": "floating and complex; integers become the default dtype.",
    "float promoted": "floating: PyTorch's result type of all; integers become the default dtype.",
    "promoted": "any; the result has PyTorch's result type of all.",
    "promoted real": "real; the result has PyTorch's result type of all.",
    "not complex": "any but complex; the result has the input's dtype.",
    "floating": "floating; the result has the input's dtype.",
    "real": "real floating; the result has the input's dtype.",
    "real or integer": "real floating and integers; the result has the input's dtype.",
    "number": "floating and integers; the result has the input's dtype.",
    "equal": "any, the same of all arguments; the result has it.",
    "equal real": "real floating, the same of all arguments; the result has it.",
    "equal floating": "floating and complex, the same of all arguments; the result has it.",
    "matrix": "float32, float64 and complex; the result has the input's dtype.",
    "equal matrix": "float32, float64 and complex, the same of all arguments; the result has it.",
    "magnitude": "floating and complex; the result is real.",
    "single or double": "float32 and float64; integers become the default dtype.",
    "promoted integer": "integers and bools; the result has PyTorch's result type of all.",
    "integer sum": "any; integers and bools give int64.",
    "condition": "any, where all but 0 is true; the result is of bools.",
    "tested": "any; the result is of bools.",
    "tested real": "any but complex; the result is of bools.",
    "compared": "compared in PyTorch's result type; the result is of bools.",
    "indices": "any but complex; values keep the input's dtype, indices are int64.",
}

# By the name of an argument; where its annotation and default decide, by these.
ARGUMENTS: dict[str, str | dict[str, str]] = {
    "A": "the matrices.",
    "B": "the right-hand sides.",
    "ceil_mode": "also windows that start inside but end outside of the input.",
    "data": "a number, nested sequences of numbers, an array or a Tensor.",
    "descending": "sort the largest first.",
    "device": "the device, by default the default device.",
    "dim": {
        "": "the dimension.",
        "Dim = -1": "the dimension, by default the last.",
        "Dim | None = None": "the dimension, by default all.",
        "Dims": "a dimension or several.",
        "Dims = ()": "a dimension or several, by default all.",
        "Dims = (-2, -1)": "the dimensions, by default the last two.",
        "Dims | None = None": "a dimension or several, by default all.",
    },
    "dim1": "the dimension of the rows.",
    "dim2": "the dimension of the columns.",
    "dtype": "the dtype, by default the default dtype.",
    "fill_value": "a number, or a Tensor or array that holds one.",
    "generator": "the source of the random numbers, by default the default generator.",
    "inplace": "write the result over the input.",
    "input": "the input Tensor.",
    "keepdim": "keep the reduced dimensions, with length 1.",
    "M": "the number of points.",
    "left": "False solves ``X @ A = B``.",
    "mask": "a Tensor of bools.",
    "memory_format": "taken for compatibility; arrays keep NumPy's layout.",
    "negative_slope": "the slope below 0.",
    "offset": "which diagonal: 0 the main one, > 0 above it, < 0 below it.",
    "other": "the second operand, a Tensor or a number.",
    "reduce": "deprecated form of ``reduction``.",
    "reduction": '``"none"``, ``"mean"`` or ``"sum"``.',
    "requires_grad": "whether gradients with respect to the result are wanted.",
    "size": "the lengths of the dimensions.",
    "size_average": "deprecated form of ``reduction``.",
    "stride": {"Size | None = None": "the distance of windows, by default ``kernel_size``."},
    "tensors": "a list or tuple of Tensors.",
}

# The tokens of raises=, and the refusals that follow from an argument or from a token of dtype=.
REFUSALS = {
    "broadcast": "    RuntimeError: the shapes do not broadcast.",
    "complex": "    NotImplementedError: an input is complex.",
    "convergence": "    LinAlgError: the algorithm did not converge.",
    "dimension": "    IndexError: a dimension is out of range.",
    "dtypes": "    RuntimeError: the shapes or dtypes do not match.",
    "length": "    RuntimeError: a length is negative.",
    "matrix": "    RuntimeError: the input is not a matrix, or not of float32, float64 or complex numbers.",
    "probability": "    ValueError: ``p`` is not between 0 and 1.",
    "scipy": "    RuntimeError: SciPy is not installed.",
    "singular": "    LinAlgError: a matrix is singular.",
    "square": "    RuntimeError: the matrices are not square, or not of float32, float64 or complex numbers.",
    "windows": "    RuntimeError: the rank is wrong, an argument is out of range, or no window fits.",
}
OF_ARGUMENTS = {
    "dim": "    IndexError: ``dim`` is out of range.",
    "dims": "    IndexError: a dimension is out of range.",
    "reduction": "    ValueError: ``reduction`` is not one of the names above.",
}
OF_DTYPES = {
    "real": "    NotImplementedError: the input is not real floating.",
    "not complex": "    NotImplementedError: an input is complex.",
}

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
    text, _, example = text.rstrip().partition(_EXAMPLE)
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
    text = function.__doc__
    if not text:
        return  # python -OO
    margin = text[text.rfind("\n") :]
    if margin.isspace():  # Python 3.13 removes the indentation at compile time
        text = text.replace(margin, "\n")
    summary, derivative, own_shape, own_dtype, arguments, returns, own_raises, source, example = sections(text)
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
        arguments = _arguments(arguments, family[4], plain, names)

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


_family = lru_cache(1)(sections)  # operators of one family stand together


def _shape(names: tuple[str, ...]) -> str:
    if "keepdim" in names:
        return SHAPES["reduced"]
    return _BROADCAST if "other" in names else SHAPES["same"]


def _dtype(names: tuple[str, ...], primitive: object) -> str:
    if isinstance(primitive, Primitive) and primitive.promote == "float":
        return DTYPES["float promoted" if "other" in names else "float or complex"]
    return DTYPES["promoted" if "other" in names else "same"]


def _arguments(own: str, family: str, function: FunctionType, names: tuple[str, ...]) -> str:
    """The descriptions of the arguments, in the signature's order."""
    code = function.__code__
    if code.co_flags & CO_VARARGS:
        count = code.co_argcount
        names = (*names[:count], code.co_varnames[len(names)], *names[count:])
    missing: Sequence[str] = names
    if own:
        missing = [
            name
            for name in names
            if f"    {name}: " not in own and f" {name}, " not in own and f", {name}: " not in own
        ]
    if not missing:
        return own
    theirs = _of_family(family) if family else {}
    lines = {name: theirs.get(name) or _usual(function, name) for name in missing}
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


_of_family = lru_cache(1)(_by_name)


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

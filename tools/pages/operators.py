"""Write one page for each operator: signature, formulas, curves, declaration in the source, and names elsewhere."""

from __future__ import annotations

import ast
import inspect
import posixpath
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

import retrograd
from retrograd.core.graph.primitive import Primitive
from retrograd.ops.numpy.function_table import RULES
from retrograd.ops.table.registry import OPERATORS, UFUNCS, Operator
from retrograd.testing.cases import all_cases

from .curves import Curves, draw, elementwise, measure

PACKAGE = Path(retrograd.__file__).parent
LONGEST = 60  # lines of source that a page shows
FOLDER = "operators"
DEPTH = 2  # of calls, in which an operator's primitive is looked for
MOST = 3  # primitives that a page shows of a composed operator
# What composed operators use beside the primitives that compute.
LAYOUT = frozenset(
    ("cast", "clone", "expand", "flatten", "getitem", "permute", "reshape", "squeeze", "transfer", "transpose")
    + ("unsqueeze", "view_copy", "where")
)


@cache
def cases() -> dict[str, Any]:
    return {case.name: case for case in all_cases()}


def page_name(qualified: str) -> str:
    """Return the file name of an operator's page, without its ending."""
    return qualified.replace(".", "_")


def write(folder: Path, families: dict[str, str]) -> None:
    """Write all pages into a folder; ``families`` are the titles by package of `ops`."""
    folder.mkdir(parents=True, exist_ok=True)
    for qualified, entry in OPERATORS.items():
        family = entry.function.__module__.split(".")[2]
        if family not in families:
            continue
        text = page(qualified, entry, f"../operators_{family}", families[family])
        (folder / f"{page_name(qualified)}.rst").write_text(text, encoding="utf-8")


def page(qualified: str, entry: Operator, family: str, title: str) -> str:
    name = f"retrograd.{qualified}"
    heading = qualified.removeprefix("nn.functional.")
    lines = [
        ":orphan:",
        f":description: {said(entry)}",
        f":section: {posixpath.normpath(f'reference/{FOLDER}/{family}')}",
        "",
        heading,
        "=" * len(heading),
        "",
        f":doc:`{title} <{family}>`",
        "",
    ]
    lines += [f".. autofunction:: {name}", ""]
    if curves := curves_of(entry):
        lines += ["Value and derivative", "--------------------", "", ".. raw:: html", ""]
        lines += [f"   {draw(curves, escape(qualified))}{LEGEND}", "", *map(kink, curves.kinks)]
    lines += ["Names", "-----", "", *names(qualified, entry), ""]
    lines += declaration(entry)
    return "\n".join(lines) + "\n"


def said(entry: Operator) -> str:
    """Return what an operator computes, as its docstring says it first, for the description of its page."""
    first = (inspect.getdoc(entry.function) or "").partition("\n\n")[0]
    return re.sub(r"([\\|*_<>])", r"\\\1", " ".join(first.replace("`", "").split()))  # no markup in it


LEGEND = '<p class="curves-legend"><span class="value">value</span> <span class="derivative">derivative</span></p>'


def curves_of(entry: Operator) -> Curves | None:
    """Return the curves of an operator that is elementwise with one argument."""
    if not entry.differentiable or not elementwise(entry.function):
        return None
    return measure(entry.function)


def kink(found: tuple[float, float, float, float]) -> str:
    place, left, at, right = found
    return (
        f"Kink at {place:g}: the derivative is {left:.4g} from the left and {right:.4g} from the right; "
        f"at {place:g} it is {at:.4g}.\n"
    )


def names(qualified: str, entry: Operator) -> list[str]:
    """Return the lines of a list of names, here, in PyTorch and in NumPy."""
    here = [f"retrograd.{qualified}"] if entry.namespace != "Tensor" else []
    functional = entry.namespace == "" and entry.name in dir(retrograd.nn.functional)
    here += [f"retrograd.nn.functional.{entry.name}"] * functional
    here += [f"retrograd.{alias}" for alias in entry.aliases if entry.namespace == ""]
    if entry.method or entry.namespace == "Tensor":
        here += [f"Tensor.{name}" for name in (entry.name, *entry.aliases)]
    here += [f"Tensor.{entry.name}_"] * entry.inplace
    case = cases().get(qualified)
    torch = f"torch.{qualified}" if case is None or case.torch is None else case.torch
    there = [torch] * bool(torch) + [f"torch.nn.functional.{entry.name}"] * functional
    listed = [("Here", here), ("PyTorch", there), ("NumPy", numpy_names(qualified, entry))]
    return [f"* {where}: {', '.join(f'``{name}``' for name in found)}" for where, found in listed if found]


def numpy_names(qualified: str, entry: Operator) -> list[str]:
    """Return NumPy's functions of this meaning: those that Tensors answer, and the reference of the tests."""
    found = [f"numpy.{qualified}"] if qualified in RULES else []
    ufuncs = [ufunc.__name__ for ufunc, function in UFUNCS.items() if function is entry.function]
    found += [f"numpy.{name}" for name in ufuncs if hasattr(np, name)]
    case = cases().get(qualified)
    reference = None if case is None else case.reference
    for module, prefix in ((np, "numpy"), (np.linalg, "numpy.linalg"), (np.fft, "numpy.fft")):
        name = getattr(reference, "__name__", "")
        if name and getattr(module, name, None) is reference:
            found.append(f"{prefix}.{name}")
    return list(dict.fromkeys(found))


def declaration(entry: Operator) -> list[str]:
    """Return a section with the primitive's declaration, or the function's body where it is composed of others."""
    function = inspect.unwrap(entry.function)
    module = inspect.getmodule(function)
    if module is None or not module.__name__.startswith("retrograd"):
        return []
    own, parts = _called(function, entry.name)
    rules = [statement for value in own or parts * entry.differentiable for statement in _declared(value)]
    if own:
        return listing("Derivative in the source", rules)
    file = Path(inspect.getsourcefile(function) or "")
    whole = [(file, *statement) for statement in _statements(file, function.__code__.co_qualname.split(".")[0])]
    return listing("In the source", whole) + listing("Derivatives of its parts in the source", rules)


def listing(title: str, source: list[tuple[Path, int, str]]) -> list[str]:
    """Return a section with statements of the source, each a file, its first line and its text."""
    lines = [title, "-" * len(title), ""] if source else []
    for file, start, text in dict.fromkeys(source):
        code = text.splitlines()
        more = [f"... and {len(code) - LONGEST} more lines"] if len(code) > LONGEST else []
        lines += [f"``src/retrograd/{file.relative_to(PACKAGE).as_posix()}``, line {start}:", ""]
        lines += [".. code-block:: python", "   :linenos:", f"   :lineno-start: {start}", ""]
        lines += [f"   {line}".rstrip() for line in code[:LONGEST]] + ["", *more, ""]
    return lines


@cache
def primitives() -> dict[int, tuple[Path, str]]:
    """Return the file and the name of each primitive at the top level of a module, by the primitive's id."""
    found: dict[int, tuple[Path, str]] = {}
    for module in [module for name, module in sys.modules.items() if name.startswith("retrograd.")]:
        for name, value in list(vars(module).items()):
            if isinstance(value, Primitive) and module.__file__ and name in _parsed(Path(module.__file__))[1]:
                found[id(value)] = Path(module.__file__), name
    return found


def _declared(value: Primitive) -> list[tuple[Path, int, str]]:
    """Return the statements that declare a primitive, and the functions of elements that its rules call."""
    file, name = primitives()[id(value)]
    found = [(file, *statement) for statement in _statements(file, name)]
    for rule in filter(None, value.rules or ()):
        rule = getattr(rule, "reference", rule)
        known = inspect.getclosurevars(rule)
        called = [rule, *known.nonlocals.values(), *known.globals.values()]
        for function in map(inspect.unwrap, filter(inspect.isfunction, called)):
            if function.__module__.startswith("retrograd.elements."):
                (_, *lines), first = inspect.getsourcelines(function)  # without the decorator
                found.append((Path(inspect.getsourcefile(function) or ""), first + 1, textwrap.dedent("".join(lines))))
    return found


def _called(function: FunctionType, name: str) -> tuple[list[Primitive], list[Primitive]]:
    """Return the primitives that a function applies, and those that the functions nearest to it apply.

    The first are those of the function's name, or else those that its own code names.
    """
    own: list[Primitive] = []
    parts: dict[int, list[Primitive]] = {}
    pending, seen = [(function, 0)], {function}
    while pending:
        one, depth = pending.pop(0)
        known = inspect.getclosurevars(one)
        values = [known.globals.get(word) for word in _mentioned(one.__code__)] + list(known.nonlocals.values())
        found = [value for value in values if isinstance(value, Primitive) and id(value) in primitives()]
        if named := [value for value in found if value.name.lstrip("_").startswith(name)]:
            return named, []
        own += found if depth == 0 else []
        parts.setdefault(depth, []).extend(found)
        for value in values:
            inner = inspect.unwrap(value) if inspect.isfunction(value) and depth < DEPTH else None
            if inner is not None and inner not in seen and inner.__module__.startswith("retrograd.ops"):
                seen.add(inner)
                pending.append((inner, depth + 1))
    computing = [[value for value in found if value.name not in LAYOUT] for found in parts.values()]
    layout = parts.values() if function.__module__.startswith("retrograd.ops.shape.") else ()
    nearest = next((found for found in (*computing, *layout) if found), [])
    return own, list({value.name: value for value in nearest}.values())[:MOST]


def _mentioned(code: CodeType) -> list[str]:
    """Return the global names that a function's code reads, in its order."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += _mentioned(constant)
    return list(dict.fromkeys(found))


@cache
def _parsed(file: Path) -> tuple[list[str], dict[str, ast.stmt]]:
    """Return a file's lines, and its statements at the top level by the name that they define."""
    text = file.read_text(encoding="utf-8")
    found: dict[str, ast.stmt] = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.FunctionDef):
            found[statement.name] = statement
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if statement.value is not None:  # a type without a value defines nothing
                single = [x for target in targets for x in (target.elts if isinstance(target, ast.Tuple) else [target])]
                found |= {target.id: statement for target in single if isinstance(target, ast.Name)}
    return text.splitlines(), found


def _statements(file: Path, name: str, levels: int = 2) -> list[tuple[int, str]]:
    """Return the statement that defines a name, and the derivative rules that it names, with their first lines.

    A rule that a declaration names may call another one, which is two levels below.
    """
    lines, statements = _parsed(file)
    statement = statements.get(name)
    if statement is None:
        return []
    own: list[tuple[int, str]] = []
    if levels and not isinstance(statement, ast.FunctionDef):
        for node in _derivatives(statement):
            if isinstance(node, ast.Name) and node.id.startswith("_"):
                own += _statements(file, node.id, levels - 1)
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    text = lines[first - 1 : statement.end_lineno]
    if isinstance(statement, ast.FunctionDef) and ast.get_docstring(statement) is not None:
        docs = statement.body[0]
        text = lines[first - 1 : docs.lineno - 1] + lines[docs.end_lineno : statement.end_lineno]
    return [(first, "\n".join(text)), *own]


def _derivatives(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the parts of a primitive's declaration without its rules for `vmap` and for shapes."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop(0)
        yield node
        skipped = isinstance(node, ast.keyword) and node.arg in ("batch", "shaped", "layout")
        pending += [] if skipped else ast.iter_child_nodes(node)

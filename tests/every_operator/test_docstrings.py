"""What is public is described: every operator in full, every other public name with a summary and an example."""

from __future__ import annotations

import inspect
import re

import pytest

import retrograd as rg
from retrograd import nn, optim
from retrograd.ops.table.registry import OPERATORS

FUNCTIONS = {name: entry.function for name, entry in OPERATORS.items()}


def docstring(function) -> str:
    return inspect.getdoc(function) or ""


def has(section: str, text: str) -> bool:
    return re.search(rf"^{section}:", text, re.MULTILINE) is not None


def arguments(function) -> list[str]:
    """The arguments that a docstring has to name: all but a lone first one, which the formula shows."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "generator")]
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters[1:] if p.kind not in kinds and not p.name.startswith("_")]


# Methods without an argument that can be wrong, and what answers for any object.
NEVER_REFUSE = {"is_tensor"} | {
    name for name, function in FUNCTIONS.items() if name.startswith("Tensor.") and not arguments(function)
}


def test_an_operator_states_what_it_refuses():
    assert [name for name in sorted({*FUNCTIONS} - NEVER_REFUSE) if not has("Raises", docstring(FUNCTIONS[name]))] == []


def test_an_operator_states_formula_derivative_shape_dtype_and_arguments():
    assert [(name, missing) for name in sorted(FUNCTIONS) if (missing := left_out(FUNCTIONS[name]))] == []


def left_out(function) -> list[str]:
    """What the docstring of an operator does not state."""
    text = docstring(function)
    missing = [section for section in ("Derivative", "Shape", "Dtype") if not has(section, text)]
    if "``" not in text.partition("\n")[0]:
        missing.append("a formula in the first line")
    missing += [argument for argument in arguments(function) if not re.search(rf"\b{argument}\b", text)]
    return missing if ">>>" in text else [*missing, "an example"]


def public(module) -> dict[str, object]:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return {
        name: value
        for name in names
        if (inspect.isclass(value := getattr(module, name)) or inspect.isfunction(value))
        and value.__module__.startswith("retrograd")
    }


CLASSES = {
    **{f"nn.{name}": value for name, value in public(nn).items() if inspect.isclass(value) and "Base" not in name},
    **{f"optim.{name}": value for name, value in public(optim).items() if inspect.isclass(value)},
}


def test_a_class_of_layers_or_optimizers_has_an_example():
    texts = {name: docstring(value) for name, value in CLASSES.items()}
    assert [name for name, text in texts.items() if ">>>" not in text or len(text.partition("\n")[0]) <= 10] == []


@pytest.mark.parametrize(
    "module", [rg, rg.autograd, rg.func, rg.linalg, rg.fft, rg.special, rg.training, rg.data, nn.utils]
)
def test_every_public_function_and_class_has_a_docstring(module):
    missing = [name for name, value in public(module).items() if not docstring(value)]
    assert missing == []


def test_no_docstring_line_is_a_crumb():
    """A word alone on a line inside a paragraph is what a careless re-wrap leaves behind."""
    crumbs = [
        f"{name}: {line.strip()!r}"
        for name, value in {**FUNCTIONS, **CLASSES}.items()
        for before, line, after in neighbours(docstring(value))
        if re.fullmatch(r"\s*[\w`'(]+[a-z)]\s*", line) and len(before) > 90 and after.strip()
    ]
    assert crumbs == []


def neighbours(text: str) -> list[tuple[str, str, str]]:
    lines = text.splitlines()
    return list(zip(lines, lines[1:], lines[2:], strict=False))

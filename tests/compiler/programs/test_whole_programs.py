"""Example programs and training runs, compiled: they print what they print eagerly."""

import importlib.util
import json
import os
import re
from functools import partial
from pathlib import Path

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.cli import main
from retrograd.training import plots
from tests.helpers.small_sets import use_small_sets

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MODELS = {
    "mlp": ["--steps", "10"],
    "cnn": ["--steps", "3"],
    "char_gpt": ["--steps", "3", "--sample", "3"],
    "names_lstm": ["--steps", "12"],
    "vae": ["--steps", "6"],
}
FUNCTIONS = {  # by name the arguments, and which functions of the program, or of its classes, are compiled
    "custom_function": ([], ["RoundStraightThrough.apply", "LogCosh.apply"]),
    "linear_regression": (["--steps", "60"], ["descend"]),
    "numpy_program": (["--steps", "4"], ["shoot"]),
}
LEFT_OUT = {
    "finite_elements": "SciPy solves its sparse system, which a trace does not see",
    "manual_mlp": "its gradients are written out by hand on NumPy's arrays: there is nothing to trace",
    "scalar_expression": "single numbers, of which scalar.compile makes programs (tests/scalar)",
    "scalar_fit": "single numbers",
    "scalar_moons": "single numbers",
    "scalar_trace": "single numbers",
}
needs_data = pytest.mark.skipif("RETROGRAD_DATA" not in os.environ, reason="RETROGRAD_DATA is not set")


@pytest.fixture
def modules_are_compiled(monkeypatch):
    """Whatever module a program calls is compiled at its first call; returns them."""
    eager, compiled = nn.Module.__call__, {}
    inside: list[bool] = []

    def call(self, *args, **kwargs):
        if inside:
            return eager(self, *args, **kwargs)
        if id(self) not in compiled:
            compiled[id(self)] = rg.compiler.Compiled(lambda *a, **k: eager(self, *a, **k), False, None), self
        inside.append(True)
        try:
            return compiled[id(self)][0](*args, **kwargs)
        finally:
            inside.pop()

    monkeypatch.setattr(nn.Module, "__call__", call)
    return compiled


def printed(name: str, arguments: list[str], capsys, change=lambda module: None) -> str:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    change(module)
    module.main(arguments)
    return capsys.readouterr().out


def test_no_example_is_left_out_without_a_reason():
    names = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert names == sorted([*MODELS, *FUNCTIONS, *LEFT_OUT])


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_print_the_same_with_compiled_functions(name, capsys):
    arguments, functions = FUNCTIONS[name]
    compiled = []

    def change(module):
        for path in functions:
            *owner, attribute = path.split(".")
            holder = getattr(module, owner[0]) if owner else module
            made = rg.compile(partial(getattr(holder, attribute)))
            compiled.append(made)
            setattr(holder, attribute, staticmethod(made) if owner else made)

    wanted = printed(name, arguments, capsys)
    assert printed(name, arguments, capsys, change) == wanted
    for function in compiled:
        assert not function.eager and sum(entry.calls for entry in function.entries) >= 1


@pytest.mark.every(3)
@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_examples_print_the_same_with_compiled_modules(name, capsys, request):
    arguments = MODELS[name]
    wanted = printed(name, arguments, capsys)
    compiled = request.getfixturevalue("modules_are_compiled")
    assert printed(name, arguments, capsys) == wanted
    assert compiled and all(function.entries and not function.eager for function, _ in compiled.values())


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "mnist --model cnn --steps 6 --batch-size 32",
        "shakespeare --steps 3 --batch-size 2",
        "housing --model mlp --steps 10",
    ],
)
def test_training_ends_with_the_same_figures(line, tmp_path, capsys, monkeypatch):
    use_small_sets(monkeypatch)
    monkeypatch.setattr(plots, "available", lambda: False)  # drawing takes most of the time
    ends = []
    for folder, more in (("eager", []), ("compiled", ["--compile"])):
        assert main(["train", *line.split(), *more, "--out", str(tmp_path / folder)]) == 0
        text = capsys.readouterr().out
        assert not more or re.search(r"compiled: \d+ programs? in", text), text
        records = [json.loads(row) for row in (tmp_path / folder / "metrics.jsonl").read_text().splitlines()]
        ends.append({name: value for name, value in records[-1].items() if "second" not in name})
    assert ends[1] == pytest.approx(ends[0], rel=1e-5)

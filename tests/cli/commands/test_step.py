"""`retrograd step`: a program's backward walk in the terminal."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.cli.commands.step import stopping_at_backward
from retrograd.cli.commands.step_debugger import Debugger, Quit
from retrograd.inspect import step

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

PROGRAM = """\
import retrograd as rg
from retrograd import nn

rg.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
x = rg.randn(5, 3)
for step in range(2):
    h = model(x)
    loss = (h ** 2).mean()
    loss.backward()
    print("grad", model[0].weight.grad is not None)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def debug(program, monkeypatch, capsys):
    """Run the command with these lines on standard input; its exit code and what it printed."""

    def run(*lines, script=program):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        code = main(["step", str(script)])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def stops(text):
    return re.findall(r"^(prog\.py:\d+ \w+)", text, re.MULTILINE)


def test_each_stop_begins_with_its_line_and_operator(debug):
    code, out, err = debug("next", "n", "back", "quit")
    assert (code, err) == (0, "")
    assert stops(out) == ["prog.py:9 mean", "prog.py:9 square", "prog.py:8 linear", "prog.py:9 square"]
    assert out.startswith("prog.py:9 mean") and "return g * (two * x)" in out


def test_it_goes_to_places_and_conditions(debug):
    _, out, _ = debug("to relu", "b 2", "to 8", "until norm < 1 and operator == 'relu'", "watch model[0].weight", "q")
    went = ["8 relu", "8 linear", "9 square", "8 linear", "8 relu", "8 linear"]
    assert stops(out)[1:] == [f"prog.py:{place}" for place in went]
    _, out, _ = debug("to line=8", "to module=1", "to operator=linear", "to prog.py:8", "to 77", "u nans", "q")
    assert stops(out)[1:] == ["prog.py:8 linear", "prog.py:8 relu", "prog.py:8 linear"]
    assert "no later operator matches prog.py:8" in out
    assert "no later operator matches 77" in out
    assert "no later operator matches nans" in out


GRADIENTS = """\
import retrograd as torch
from retrograd.autograd import grad

x, w, unused = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), torch.ones(1, requires_grad=True)
(penalty,) = grad((x**3).sum(), x, create_graph=True)
g, none = grad((x**2 * w).sum(), [x, unused], allow_unused=True)
print(g.tolist(), none, x.grad)
(w * 4).sum().backward()
print(w.grad.tolist())
"""


def test_it_stops_at_gradients_that_fill_no_grad_too(debug, tmp_path):
    path = tmp_path / "prog.py"
    path.write_text(GRADIENTS)
    code, out, err = debug("to pow", "n 9", "c", "n", "c", script=path)
    assert (code, err) == (0, "")
    assert stops(out) == ["prog.py:6 sum", "prog.py:6 square", "prog.py:8 sum", "prog.py:8 mul"]
    assert "[2.0, 2.0, 2.0] None None" in out and out.rstrip().endswith("[4.0, 4.0, 4.0]")
    assert "autograd.grad returns its gradients" in out


def test_continue_goes_on_with_the_program_to_its_next_walk(debug):
    code, out, _ = debug("c", "n 99", "continue")
    assert code == 0 and out.count("grad True") == 2
    assert out.count("the end of the backward pass: .grad is filled") == 1


def test_it_shows_gradients_values_lines_and_the_walk(debug):
    _, out, _ = debug("to relu", "grad", "grad model[2].weight", "p h.shape", "p event.operator", "list", "w", "q")
    assert "0.weight: nothing yet" in out and "2.bias: float32(1,)" in out and "(5, 1)" in out and "'relu'" in out
    assert "->    8     h = model(x)" in out and "->    4 of 5: prog.py:8 relu" in out


def test_mistakes_are_told_and_change_nothing(debug):
    code, out, err = debug("next x", "p 1/0", "p nothing", "until", "to", "watch", "grad x.shape", "fly", "p", "q")
    assert code == 0 and err == ""
    wanted = ["expected an expression", "expected a line", "expected a Tensor", "got 'x'", "unknown command 'fly'"]
    for text in (*wanted, "ZeroDivisionError", "NameError", "x.shape is not a Tensor but Size"):
        assert text in out
    assert stops(out) == ["prog.py:9 mean"] * 2


def test_help_names_every_command_and_explains_one(debug):
    _, out, _ = debug("help", "h until", "help nothing", "q")
    assert all(
        f"\n  {name}" in out for name in ("next", "back", "to", "until", "watch", "grad", "list", "where", "quit")
    )
    assert "until norm > 10" in out and "unknown command 'nothing'" in out


def test_save_writes_the_page(debug, tmp_path):
    debug(f"save {tmp_path / 'walk.html'}", "q")
    assert "const WALK" in (tmp_path / "walk.html").read_text()


def test_a_page_that_cannot_be_written_is_told_in_a_line(debug, tmp_path):
    code, out, _ = debug(f"save {tmp_path}/none/walk.html", "save walk.txt", "n", "q")
    assert code == 0
    assert "save: [Errno 2] No such file or directory" in out
    assert "save: path must end in .html, got 'walk.txt'" in out
    assert stops(out)[1:]  # and on it goes


def test_end_of_input_quits(debug):
    code, out, _ = debug()
    assert code == 0 and stops(out) == ["prog.py:9 mean"] and "grad True" not in out


def test_a_missing_file_is_one_line_and_exit_code_2(debug, capsys):
    code, out, err = debug(script="missing.py")
    assert (code, out) == (2, "") and err == "retrograd: error: there is no file or folder missing.py\n"


def test_a_program_without_backward_says_so(debug, tmp_path):
    path = tmp_path / "plain.py"
    path.write_text("print(1)\n")
    code, out, err = debug(script=path)
    assert (code, out) == (2, "1\n") and "ended without a call of backward()" in err


def test_a_programs_error_is_its_own_traceback(debug, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import retrograd as rg\nrg.ones(2) @ rg.ones(3)\n")
    code, _, err = debug(script=path)
    assert code == 1 and "broken.py" in err and "cli/commands/step.py" not in err


@pytest.mark.slow
def test_a_program_that_imports_torch_gets_retrograd(tmp_path):
    import os
    import subprocess

    path = tmp_path / "prog.py"
    path.write_text(
        "import sys, torch\nx = torch.ones(2, requires_grad=True)\nloss = (x * 3).sum()\n"
        "torch.autograd.backward(loss)\nprint(sys.argv[1:], x.grad, torch.is_retrograd)\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "retrograd", "step", str(path), "a", "--b"],
        input="n\nn\nc\n", capture_output=True, text=True, env=os.environ,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert stops(run.stdout) == ["prog.py:3 sum", "prog.py:3 mul"]
    assert "['a', '--b'] tensor([3., 3.]) True" in run.stdout


def test_names_are_completed():
    weight = rg.ones(2, requires_grad=True)
    debugger = Debugger(step((weight * 2).exp().sum()), sys._getframe())
    assert debugger.completenames("u") == ["until"] and debugger.complete_to("e") == ["exp"]
    assert debugger.complete_grad("weig") == ["weight"] and "weight.grad" in debugger.complete_print("weight.gr")
    assert debugger.complete_until("no") == ["norm"] and debugger.complete_help("wh") == ["where"]
    with pytest.raises(Quit):
        debugger.onecmd("EOF")


def test_a_walk_with_inputs_or_a_graph_of_its_own_is_as_without():
    x, w = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    seen = []
    with stopping_at_backward(lambda stepper: seen.append(list(stepper))):
        (x * w).backward(gradient=rg.ones(2), inputs=[x])
        (x * x).sum().backward(create_graph=True)
    assert w.grad is None and len(seen) == 1 and x.grad.requires_grad
    np.testing.assert_array_equal(x.grad.detach().array, [3, 3])


REDUCED = {
    "custom_function": [], "linear_regression": ["--steps", "3"], "numpy_program": ["--steps", "2"],
    "mlp": ["--steps", "2"], "cnn": ["--steps", "2"], "char_gpt": ["--steps", "1", "--sample", "2"],
    "names_lstm": ["--steps", "2"], "vae": ["--steps", "2"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REDUCED))
def test_the_walks_of_the_examples_are_those_of_backward_bit_for_bit(name, tmp_path, monkeypatch, capsys):
    import os

    from retrograd.compat.as_torch import run_program

    if "RETROGRAD_DATA" not in os.environ and name not in ("custom_function", "linear_regression", "numpy_program"):
        pytest.skip("RETROGRAD_DATA is not set")
    monkeypatch.chdir(tmp_path)
    walks, grad = 0, rg.autograd.grad  # inside, it would stop, too

    def stop(stepper):
        nonlocal walks
        walks += 1
        leaves = [leaf for _, leaf in stepper.leaves()]
        before = [None if x.grad is None else x.grad.array.copy() for x in leaves]
        found = grad(stepper._outputs, leaves, retain_graph=True)
        list(stepper)
        for x, old, g in zip(leaves, before, found, strict=True):
            assert (g.array if old is None else old + g.array).tobytes() == x.grad.array.tobytes()

    with stopping_at_backward(stop):
        assert run_program(str(EXAMPLES / f"{name}.py"), REDUCED[name]) == 0
    assert walks

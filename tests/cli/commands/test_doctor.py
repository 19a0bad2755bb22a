"""`retrograd doctor`, `explain`, `draw`, `profile`, and `run` with `--guard`, `--watch` and `--profile`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.cli.commands.scripts import model_of
from retrograd.nn import Linear, Parameter
from retrograd.training import plots

BROKEN = """\
import sys
import retrograd as rg
from retrograd import nn
rg.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = rg.optim.SGD(model.parameters(), lr=0.05)
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 40):
    x = rg.randn(16, 3)
    loss = ((model(x) - x[:, 0]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done", step)
"""
TORCH = BROKEN.replace("import retrograd as rg", "import torch as rg").replace("from retrograd", "from torch")
HEALTHY = BROKEN.replace("x[:, 0]", "x[:, :1]")
NAN = """\
import retrograd as rg
w = rg.tensor([1.0, 2.0], requires_grad=True)
optimizer = rg.optim.SGD([w], lr=0.001)
print("started")
for step in range(20):
    x = rg.zeros(2) if step == 12 else rg.ones(2)
    loss = (w * x).sum().log()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def generators():
    state = rg.get_rng_state()
    yield
    rg.set_rng_state(state)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write a program and return its path; the working folder is another one."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")

    def write(text: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(text)
        return str(path)

    return write


def test_the_first_cause_is_printed_with_its_line_figures_and_edit(script, capsys):
    assert main(["doctor", script(BROKEN), "30"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("done 29\n")
    assert "train.py:9: broadcast-loss\n    loss = ((model(x) - x[:, 0]) ** 2).mean()\n" in out
    assert "Edit: " in out and "Tried for 30 steps on one recorded batch" in out


@pytest.mark.slow
def test_an_unchanged_torch_script_is_examined(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TORCH)
    command = [sys.executable, "-m", "retrograd", "doctor", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "broadcast-loss" in done.stdout


def test_a_healthy_script_has_no_finding(script, capsys):
    assert main(["doctor", script(HEALTHY)]) == 0
    assert "doctor: nothing found (40 steps watched" in capsys.readouterr().out


def test_json_has_all_findings(script, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["doctor", "--json", str(out), script(BROKEN)]) == 0
    (one,) = json.loads(out.read_text())["findings"]
    assert (one["kind"], one["line"]) == ("broadcast-loss", 9)
    assert set(one["evidence"]["curves"]) == {"with", "without", "edited_loss"}


def test_steps_end_the_script(script, capsys):
    assert main(["doctor", "--steps", "15", script(BROKEN), "100000"]) == 0
    out = capsys.readouterr().out
    assert "done" not in out and "15 steps watched" in out


def test_a_script_that_fails_gives_its_exit_code_and_the_finding(script, capsys):
    text = BROKEN.replace("nn.ReLU()", "nn.BatchNorm1d(8)").replace("rg.randn(16, 3)", "rg.randn(1, 3)")
    assert main(["doctor", script(text)]) == 1
    output = capsys.readouterr()
    assert "Traceback" in output.err and "batch-norm-of-one" in output.out
    assert main(["doctor", script("import sys\nsys.exit(3)\n")]) == 3


def test_a_birth_of_nan_is_traced_by_a_second_run_without_output(script, capsys):
    assert main(["doctor", script(NAN)]) == 0
    out = capsys.readouterr().out
    assert out.count("started") == 1
    assert "train.py:7: nan-birth" in out
    assert "log" in out and "Edit: " in out


def test_a_missing_script_is_an_error_of_one_line(capsys):
    for command in (["doctor"], ["explain"], ["draw"], ["profile"], ["run", "--guard"]):
        assert main([*command, "nowhere.py"]) == 2
        assert capsys.readouterr().err == "retrograd: error: there is no file or folder nowhere.py\n"


@pytest.mark.slow
def test_explain_lists_gradients_and_explains_one(script, capsys):
    assert main(["explain", "--name", "0.weight", "--step", "2", script(BROKEN)]) == 0
    out = capsys.readouterr().out
    assert "2.bias" in out and "gradient of norm" in out
    assert "\n0.weight\ngradient of mean at train.py:9 for 0.weight" in out
    assert main(["explain", "--name", "model.0.weight", script(BROKEN)]) == 0  # by the variable of the script
    assert "\nmodel.0.weight\ngradient of mean at train.py:9 for 0.weight" in capsys.readouterr().out
    assert main(["explain", "--name", "nobody", script(BROKEN)]) == 2
    assert "there is no parameter 'nobody'" in capsys.readouterr().err
    assert main(["explain", "--step", "50", script(BROKEN)]) == 2
    assert "ended after 40 backward passes" in capsys.readouterr().err
    assert main(["explain", script(BROKEN.replace("loss.backward()", "loss.item()"))]) == 2
    assert "ended without a backward pass" in capsys.readouterr().err
    hidden = BROKEN.replace("model = ", "class Box: pass\nbox = Box()\nbox.hidden = nn.Linear(3, 3)\nmodel = ")
    hidden = hidden.replace("model(x)", "model(nn.functional.linear(x, box.hidden.weight))")
    assert main(["explain", script(hidden)]) == 0
    assert "leaf" not in capsys.readouterr().out


def test_an_option_after_the_script_is_noted_unless_the_script_knows_it(script, capsys):
    fixed = HEALTHY.replace("sys.argv[1]", "12")
    for text, noted in ((fixed, True), (fixed + "# --steps\n", False)):
        assert main(["doctor", script(text), "--steps", "3"]) == 0
        assert ("--steps comes after the script's name" in capsys.readouterr().err) is noted


def test_draw_writes_the_graph(script, capsys):
    assert main(["draw", script(BROKEN)]) == 0
    assert "<!doctype html>" in Path("train.graph.html").read_text()
    assert main(["draw", "--step", "3", script(BROKEN)]) == 0
    assert '"steps":["step 1 of 3","step 2 of 3","step 3 of 3"],"step":2' in Path("train.graph.html").read_text()
    assert main(["draw", "--out", "graph.svg", script(BROKEN)]) == 0
    assert Path("graph.svg").read_text().startswith("<svg")
    assert main(["draw", "--out", "graph.png", script(BROKEN)]) == 2


def test_profile_lists_lines_and_writes_a_page(script, capsys):
    assert main(["profile", "--steps", "5", "--out", "flame.html", script(BROKEN)]) == 0
    out = capsys.readouterr().out
    assert "sub at train.py:9" in out and "done 39" not in out
    assert "<!doctype html>" in Path("flame.html").read_text().lower()


@pytest.mark.slow
def test_a_profile_does_not_measure_the_start_of_the_command(script):
    long = "x = [" + "1.0 + 1.0, " * 100_000 + "]\n"  # compiling it is sampled
    command = [sys.executable, "-m", "retrograd", "profile", script(f"import torch\ntorch.ones(3).exp()\n{long}")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "exp" in done.stdout and "<frozen" not in done.stdout, done.stdout + done.stderr


def run(*args: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own: it installs Retrograd as torch."""
    return subprocess.run([sys.executable, "-m", "retrograd", "run", *args], capture_output=True, text=True)


@pytest.mark.slow
def test_run_takes_a_guard_a_watch_and_a_profile(script):
    done = run("--guard", script(NAN))
    assert done.returncode == 1 and "log" in done.stderr and "what helps" in done.stderr
    assert "guard_mode.py" not in done.stderr, "the traceback ends at the line of the script"
    done = run("--watch", "watch.html", script(HEALTHY))
    assert done.returncode == 0 and "watched: no alarms" in done.stdout
    assert "0.weight" in Path("watch.html").read_text()
    done = run("--profile", "flame.html", script(HEALTHY), "5")
    assert done.returncode == 0 and "done 4" in done.stdout and Path("flame.html").exists()


def watched(script):
    """Run a script with --watch in a process of its own, since ``run`` replaces torch for good; return both records."""
    command = [sys.executable, "-m", "retrograd", "run", "--watch", "out.json", script, "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, json.loads(Path("out.json").read_text())


@pytest.mark.slow
def test_a_watch_begins_at_the_first_step_and_has_the_numbers_of_its_page(script):
    root = "nn.init.zeros_(model[2].weight)\nfor step"  # the output is constant, and the root of its variance is at 0
    text = BROKEN.replace("for step", root, 1).replace("loss = ", "loss = model(x).var(0).sqrt().sum() + ")
    out, data = watched(script(text))
    assert data["steps"] == list(range(8))
    assert re.findall(r"alarm at step (\d+): (.*)", out) == [(str(x["step"]), x["text"]) for x in data["alarms"]]
    assert data["alarms"][0]["step"] == 0 and "not finite" in data["alarms"][0]["text"]
    two = "other = nn.Linear(3, 1)\nsecond = rg.optim.SGD(other.parameters(), lr=0.05)\nfor step"
    step = "    other(x).mean().backward()\n    second.step()\nprint"
    text = HEALTHY.replace("for step", two, 1).replace("print", step)
    _, data = watched(script(text))
    assert data["steps"] == list(range(8)) and len(data["optimizers"]) == 2


def test_the_model_of_optimizers_is_the_smallest_module_or_one_of_several():
    a, b, p = Linear(2, 3), Linear(3, 1), Parameter(rg.ones(1))
    assert model_of([rg.optim.SGD(a.parameters(), lr=0.1)]) is a
    both = model_of([rg.optim.SGD([*a.parameters(), p], lr=0.1), rg.optim.SGD(b.parameters(), lr=0.1)])
    assert {id(x) for x in both.parameters()} == {id(x) for x in (*a.parameters(), *b.parameters(), p)}
    assert list(both._modules) == ["a", "b"]  # by the variables


@pytest.mark.slow
def test_train_takes_a_doctor(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)  # drawing takes most of the time
    out = tmp_path / "run"
    assert main(["train", "housing", "--steps", "12", "--doctor", "--out", str(out)]) == 0
    assert "12 steps watched" in capsys.readouterr().out
    assert json.loads((out / "doctor.json").read_text()) == {"findings": []}
    assert main(["train", "housing", "--steps", "2", "--doctor", "--compile", "--out", str(out)]) == 2
    assert "--compile" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [("doctor", "--page", "x.txt"), ("doctor", "--json", "nowhere/x.json"), ("run", "--watch", "x.xyz")]
    + [("draw", "--out", "nowhere/g.svg"), ("profile", "--out", "nowhere/w.html"), ("doctor", "--json", ".")],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_run(arguments, script, capsys):
    assert main([*arguments, script(BROKEN)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"retrograd: error: {arguments[1]}") and shown.err.count("\n") == 1


def test_explain_tells_frozen_unused_and_unknown_parameters_apart(script, capsys):
    text = BROKEN.replace("optimizer =", "spare = nn.Linear(2, 2)\nmodel[0].bias.requires_grad_(False)\noptimizer =")
    assert main(["explain", "--name", "bias", script(text)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"0\.bias +\(8,\) +no gradient: frozen", out)
    assert re.search(r"bias +\(2,\) +no gradient: the loss does not depend on it", out)
    assert main(["explain", "--name", "nosuch", script(text)]) == 2
    assert "there is no parameter 'nosuch'" in capsys.readouterr().err


def test_explain_and_draw_accept_a_loss_without_parameters(script, capsys):
    text = BROKEN.replace("** 2).mean()", "** 2).argmax().float().requires_grad_(True)")
    assert main(["explain", script(text)]) == 0
    assert "requires_grad was set on the loss itself" in capsys.readouterr().out
    assert main(["draw", script(text)]) == 0

"""Every `--help` has examples, and every example is a command that runs; shells complete what the parser knows."""

import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from retrograd.cli import main, tasks
from retrograd.cli.application import build_parser
from retrograd.cli.commands import completion
from retrograd.cli.commands.scripts import check_script
from retrograd.cli.console import plural
from retrograd.cli.parser import walk
from retrograd.training import plots
from tests.helpers.small_sets import use_small_sets

PARSERS = list(walk(build_parser()))
EXAMPLE = re.compile(r"^  (retrograd .*?)(?: {2,}.*)?$", re.MULTILINE)
NOT_RUN = ("torch install", "torch remove", "--weights", "COMMAND", "step ", "check  ")


def examples(parser):
    return EXAMPLE.findall(parser.epilog or "")


@pytest.mark.parametrize(("path", "parser"), PARSERS, ids=[" ".join(path) or "retrograd" for path, _ in PARSERS])
def test_every_help_has_examples_of_that_command_which_parse(path, parser):
    found = examples(parser)
    assert found
    for line in found:
        words = shlex.split(line)[1:]
        assert words[: len(path)] == list(path) or path[:1] == ("train",) and words[0] == "train"
        if "COMMAND" not in line and "cuda" not in line:
            build_parser().parse_args(words)


@pytest.mark.parametrize("parser", [parser for _, parser in PARSERS])
def test_descriptions_fit_into_the_terminal(parser, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    about = parser.format_help().partition("examples:")[0]
    assert max(map(len, about.splitlines())) <= 80


def test_an_option_after_the_script_that_the_script_does_not_mention_is_pointed_out(tmp_path, capsys):
    script = tmp_path / "own.py"
    script.write_text("print('--steps')\n")
    check_script(build_parser().parse_args(["profile", str(script), "--steps", "3", "--out=x.html"]))
    errors = capsys.readouterr().err
    assert "--out comes after the script's name" in errors and "--steps comes" not in errors


@pytest.mark.slow
def test_a_script_without_torchvision_says_how_to_install_it(tmp_path):
    (tmp_path / "own.py").write_text("import sys\nsys.modules['torchvision'] = None\nimport torchvision\n")
    command = [sys.executable, "-m", "retrograd", "run", str(tmp_path / "own.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "`pip install 'torchvision==0.28.*'`" in done.stderr


TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    loss = (model(torch.randn(8, 2)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


EXAMPLES = list(dict.fromkeys(line for _, parser in PARSERS for line in examples(parser)))
OF_SCRIPTS = [line for line in EXAMPLES if ".py" in line and not any(part in line for part in NOT_RUN)]


@pytest.mark.slow
@pytest.mark.parametrize("line", OF_SCRIPTS)
def test_an_example_with_a_script_runs(tmp_path, line):
    for name in ("train.py", "script.py"):
        (tmp_path / name).write_text(TRAIN)
    # In a process of its own: Retrograd stays torch in one that has run a script.
    command = [sys.executable, "-m", "retrograd", *shlex.split(line)[1:]]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.distributed.reduce_op. is deprecated")  # PyTorch's, if a test has loaded it
def test_every_other_example_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("safetensors")
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    use_small_sets(monkeypatch)
    monkeypatch.setattr(plots, "available", lambda: False)  # drawing takes most of the time; test_tables.py draws
    monkeypatch.setattr(tasks.images, "HIDDEN", (64, 64, 64))
    random = np.random.default_rng(0)
    rows = [f"{random.normal():.3f},{random.choice(['Rome', 'Oslo'])},{random.normal():.3f}" for _ in range(60)]
    (tmp_path / "my.csv").write_text("\n".join(["size,city,price", *rows]))
    (tmp_path / "book.txt").write_text("The best of times, the worst of times. " * 60)
    lines = [line for line in EXAMPLES if ".py" not in line]
    # Runs are made before the commands that read them, and resumed last.
    lines.sort(key=lambda line: ("train " not in line, "--resume" in line, "predict" in line or "compare" in line))
    for line in lines:
        words = shlex.split(line)[1:]
        if words == ["check"] or any(part in line for part in NOT_RUN):
            continue
        if words[0] == "train" and "--resume" not in words:
            words += ["--steps", "4", "--batch-size", "4"] if "--steps" not in words else ["--batch-size", "4"]
            words = shortened(words)
        if "--resume" in words:
            words += ["--steps", "6"]
        assert main(words) == 0, (line, capsys.readouterr().err)


def shortened(words):
    """A training command of four steps."""
    kept = []
    for place, word in enumerate(words):
        if word == "--epochs" or words[place - 1] == "--epochs":
            continue
        kept.append("4" if words[place - 1] == "--steps" else word)
    return kept


def complete_in_bash(line):
    words = line.split(" ")
    program = (
        f"{completion.script(build_parser(), 'bash')}\nCOMP_WORDS=({' '.join(map(shlex.quote, words))})\n"
        f"COMP_CWORD={len(words) - 1}\n_retrograd\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_tasks_options_and_choices():
    assert complete_in_bash("retrograd comp") == ["compare", "completion"]
    assert set(complete_in_bash("retrograd train ")) >= {*tasks.TASKS, "--help"}
    assert complete_in_bash("retrograd train mnist --mod") == ["--model"]
    assert complete_in_bash("retrograd train mnist --model ") == ["cnn", "mlp"]
    assert complete_in_bash("retrograd completion f") == ["fish"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command_and_option(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for path, parser in PARSERS:
        assert all(name in script for name in path)
        for action in parser._actions:
            long = [option for option in action.option_strings if option.startswith("--")]
            assert all(option in script or f"-l {option[2:]}" in script for option in long)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_a_count_has_its_noun():
    assert [plural(n, "step") for n in (0, 1, 2000)] == ["0 steps", "1 step", "2,000 steps"]

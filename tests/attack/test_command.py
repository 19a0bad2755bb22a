"""Random command lines: whatever they say, the command ends with an exit code and at most one line of error."""

import contextlib
import io
import shlex

import pytest

from retrograd.cli import main
from retrograd.cli.training.checkpoints import FILE
from retrograd.training import plots

NUMBERS = [
    "0",
    "1",
    "2",
    "-1",
    "3.5",
    "1e400",
    "nan",
    "",
    " ",
    "99999999999999999999",
    "0x10",
    "1_0",
    "ten",
    "9" * 5000,
]
RATES = ["0", "1e-3", "1e30", "1e308", "1e-320", "-1", "inf", "nan", "", "½", "1,5"]
NAMES = [
    "mnist",
    "housing",
    "linear",
    "mlp",
    "cpu",
    "cpu:0",
    "cuda:99",
    "cuda:",
    "gpu",
    "sgd",
    "adamw",
    "Ä",
    "\udcff",
    "\n",
]
OPTIONS = {
    "--epochs": NUMBERS,
    "--steps": NUMBERS,
    "--batch-size": [*NUMBERS, "64", "16512", "16513"],
    "--lr": RATES,
    "--seed": [*NUMBERS, "18446744073709551615", "18446744073709551616"],
    "--device": NAMES,
    "--model": NAMES,
    "--optimizer": [*NAMES, "rmsprop", "adam"],
    "--threads": NUMBERS,
    "--engine": NAMES,
    "--order": NUMBERS,
    "--length": NUMBERS[:8],
    "--temperature": RATES,
    "--top-k": NUMBERS,
    "--prompt": NAMES,
    "--unknown": NAMES,
}
COMMANDS = ["train housing", "train housing", "train housing", "generate", "evaluate", "check exp", "check", "info", ""]


@pytest.fixture(autouse=True)
def without_plots(monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)


def line_of(random, folder):
    """A command line: a command, some options of its own or another's, and a run's folder or what is none."""
    words = COMMANDS[random.integers(len(COMMANDS))].split()
    if words == ["check"]:
        words.append(["expp", "exp", "gelu", "", "linalg.", "Ä"][random.integers(6)])
    for option in random.permutation(list(OPTIONS))[: random.integers(4)]:
        values = OPTIONS[str(option)]
        words += [str(option), values[random.integers(len(values))]]
    places = [folder / "run", folder / "new", folder / "file", folder / "file" / "below", folder / "Ä \udcff", "\0"]
    place = str(places[random.integers(len(places))])
    if words[:1] == ["train"]:
        words += ["--resume", place] if random.random() < 0.2 else ["--out", place]
        words += ["--steps", "1"] if "--steps" not in words and "--epochs" not in words else []
    elif words[:1] in (["generate"], ["evaluate"]):
        words.append(place)
    return words


def run(words):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code
    assert code in (0, 1, 2), words
    assert error.getvalue().count("\n") == (code == 2), (shlex.join(map(repr, words)), error.getvalue())


def long_running(words):
    """Epochs and batches of one, which are right and take minutes."""
    given = dict(zip(words, words[1:]))
    return given.get("--epochs") in ("99999999999999999999", "1_0", "2") or given.get("--batch-size") in ("1", "2")


def test_random_command_lines_end_with_a_code_and_at_most_one_line(tmp_path, random, rounds):
    (tmp_path / "file").write_text("no folder")
    run(["train", "housing", "--steps", "1", "--out", str(tmp_path / "run")])
    for _ in rounds:
        words = line_of(random, tmp_path)
        if not long_running(words):
            run(words)


def test_damaged_checkpoints_and_settings_are_one_line(tmp_path, random, rounds):
    folder = tmp_path / "run"
    run(["train", "housing", "--steps", "1", "--out", str(folder)])
    whole = (folder / FILE).read_bytes()
    settings = b'model = "linear"\nlr = 1e-3\nsteps = 1\n'
    for _ in rounds:
        for path, content in ((folder / FILE, whole), (tmp_path / "run.toml", settings)):
            data = bytearray(content[: random.integers(1, len(content) + 1)])
            for place in random.integers(len(data), size=random.integers(4)):
                data[place] = random.integers(256)
            path.write_bytes(data)
        for words in (["evaluate", str(folder)], ["train", "housing", "--resume", str(folder)]):
            run(words)
        run(
            ["train", "housing", "--config", str(tmp_path / "run.toml"), "--steps", "1", "--out", str(tmp_path / "new")]
        )

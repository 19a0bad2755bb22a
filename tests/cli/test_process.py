"""The command as a process of its own: interrupts, closed and full outputs, odd environments, and full disks."""

import ast
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import retrograd
from retrograd.cli.training.checkpoints import FILE, read_run

COMMAND = [sys.executable, "-m", "retrograd"]
# The same without plots, which are most of the time of a short run.
UNDRAWN = "import sys\nsys.modules['matplotlib'] = None\n"
PLAIN = [sys.executable, "-c", f"{UNDRAWN}from retrograd.cli import main\nsys.exit(main())"]
TRAIN = ["train", "housing", "--steps", "3", "--out"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="signals, descriptors and limits are POSIX's"),
]


def run(*arguments, stdout=subprocess.PIPE, env=None, command=COMMAND, **options):
    environment = {**os.environ, **(env or {})}
    for name in [name for name, value in environment.items() if value is None]:
        del environment[name]
    return subprocess.run(
        [*command, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, env=environment, timeout=60, **options
    )


def one_line(result):
    error = result.stderr.decode("utf-8", "surrogateescape")
    assert error.count("\n") == 1, error
    return error


# Interrupts


@pytest.mark.parametrize("module", ["numpy", "argparse"])
def test_ctrl_c_during_the_imports_is_quiet(tmp_path, module):
    # A module of that name, found first, presses Ctrl-C.
    program = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)"
    (tmp_path / f"{module}.py").write_text(program)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    result = run("info", env={"PYTHONPATH": path})
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


def test_nothing_is_imported_before_ctrl_c_is_quiet():
    statements = ast.parse(Path(retrograd.__file__).read_text()).body
    first = next(statement for statement in statements if isinstance(statement, (ast.Import, ast.ImportFrom)))
    assert ast.unparse(first) == "from . import _command"


def test_a_program_that_imports_retrograd_keeps_its_ctrl_c():
    program = "import signal, retrograd; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def interrupt(process, begun):
    limit = time.monotonic() + 40
    while not begun() and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=40)
    return process.returncode, error


def test_ctrl_c_saves_a_checkpoint_and_tells_how_to_resume_in_one_line_for_the_shell(tmp_path):
    folder = tmp_path / "it's a run; really"
    command = [*COMMAND, "train", "housing", "--epochs", "1000000", "--out", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            code, error = interrupt(process, (folder / FILE).exists)
        finally:
            process.kill()
    assert code == 130
    assert error.count("\n") == 1
    words = shlex.split(error.partition("resume with: ")[2])
    assert words == ["retrograd", "train", "housing", "--resume", str(folder / FILE)]
    assert read_run(folder).step > 0


def test_ctrl_c_before_the_first_checkpoint_says_so(tmp_path):
    program = (
        "import os, signal, sys\n"
        "from retrograd.cli import main; from retrograd.cli.commands.runs import train\n"
        "train.make_run = lambda settings: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.exit(main(['train', 'housing', '--out', {str(tmp_path)!r}]))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert result.returncode == 130
    assert "the run cannot be resumed" in one_line(result)


def test_ctrl_c_while_the_report_is_written_leaves_a_run_that_resumes_to_its_report(tmp_path):
    program = (
        f"{UNDRAWN}import os, signal\n"
        "from retrograd.cli import main; from retrograd.cli.commands.runs import train\n"
        "train.write_report = lambda *arguments: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.exit(main(['train', 'housing', '--steps', '3', '--out', {str(tmp_path)!r}]))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert result.returncode == 130
    assert f"--resume {tmp_path / FILE}" in one_line(result)
    assert not (tmp_path / "report.html").exists()
    assert run("train", "housing", "--resume", tmp_path, command=PLAIN).returncode == 0
    assert (tmp_path / "report.html").exists()


# Where the output goes


def test_a_reader_that_has_gone_ends_it_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    result = run("info", stdout=writer)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


def test_head_ends_a_training_run_quietly(tmp_path):
    command = (
        f"{shlex.join(COMMAND)} train housing --out {shlex.quote(str(tmp_path))} | head -1; exit ${{PIPESTATUS[0]}}"
    )
    result = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
    assert (result.returncode, result.stderr) == (141, b"")
    assert result.stdout.count(b"\n") == 1


@pytest.mark.parametrize("line", [["info"], ["check", "exp"], TRAIN])
def test_closed_output_is_no_error(tmp_path, line):
    line = [*PLAIN, *line, str(tmp_path)] if line is TRAIN else [*COMMAND, *line]
    result = subprocess.run(["bash", "-c", f"{shlex.join(line)} >&-"], capture_output=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, b"")


def test_closed_errors_are_no_error_either():
    result = subprocess.run(["bash", "-c", f"{shlex.join(COMMAND)} train >&- 2>&-"], capture_output=True, timeout=60)
    assert result.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_to_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        result = run("info", stdout=full)
    assert result.returncode == 2
    assert "No space left" in one_line(result)


def test_a_full_disk_is_one_line(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    result = run(*TRAIN, tmp_path, preexec_fn=limit)
    assert result.returncode == 2
    assert "File too large" in one_line(result)


def test_too_little_memory_is_one_line(tmp_path):
    program = (
        "import sys\n"
        "import numpy\n"
        "from retrograd.cli import main; from retrograd.cli.commands.runs import train\n"
        "train.make_run = lambda settings: numpy.zeros(2**58)\n"
        f"sys.exit(main({[*TRAIN, str(tmp_path)]!r}))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert result.returncode == 2
    assert "not enough memory: Unable to allocate" in one_line(result)


# Odd environments


def test_a_folder_with_any_name_works_in_an_ascii_locale(tmp_path):
    folder = tmp_path / "Zürich ünd \udcff"  # the last is a byte that is no UTF-8
    ascii_only = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}
    result = run(*TRAIN, folder, env=ascii_only, command=PLAIN)
    assert (result.returncode, result.stderr) == (0, b"")
    assert os.fsencode(folder / "report.html") in result.stdout
    assert (folder / "report.html").exists()
    result = run("train", "housing", "--resume", folder, env=ascii_only)
    assert result.returncode == 2
    assert "3 of 3 steps" in one_line(result)


def test_a_user_without_a_home_trains(tmp_path):
    program = (
        "import pwd, sys\n"
        "def unknown(number): raise KeyError(number)\n"
        "pwd.getpwuid = unknown\n"
        "from retrograd.cli import main\n"
        f"sys.exit(main({[*TRAIN, str(tmp_path)]!r}))"
    )
    given = "HOME", "RETROGRAD_DATA", "XDG_CACHE_HOME"
    environment = {name: value for name, value in os.environ.items() if name not in given}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    missing = program.replace("'housing', '--steps', '3'", "'names', '--steps', '3'")
    result = subprocess.run([sys.executable, "-c", missing], capture_output=True, env=environment)
    assert result.returncode == 2
    assert "RETROGRAD_DATA" in one_line(result)


def test_a_learning_rate_far_too_large_is_one_line_without_warnings(tmp_path):
    program = (
        "from retrograd.cli import main\n"
        "for model in ('linear', 'mlp'):\n"
        "    for rate in ('1e30', '1e300'):\n"
        "        line = ['train', 'housing', '--model', model, '--lr', rate, '--out']\n"
        f"        assert main([*line, {str(tmp_path)!r}]) == 2\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    errors = result.stderr.splitlines()
    assert result.returncode == 0 and len(errors) == 4, result.stderr
    assert all("step" in error and "smaller --lr" in error and "loss" in error for error in errors)

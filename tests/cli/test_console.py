"""Tables and progress: plain text into files and pipes, drawn by Rich on a terminal."""

import io
import sys

import pytest

from retrograd.cli import application
from retrograd.cli.console import ProgressLine, Table, print_table

TABLE = Table("Errors", ["operator", "error"], [["exp", "1e-9"], ["[log]", "12e-9"]])


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def terminal_as_stdout(monkeypatch):
    # Called in the test, not a fixture: pytest puts its own stdout in place after the fixtures have run.
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return sys.stdout


def test_table_in_a_pipe_is_plain(capsys):
    print_table(TABLE)
    assert capsys.readouterr().out == "Errors\noperator  error\nexp        1e-9\n[log]     12e-9\n"


def test_table_on_a_terminal_is_drawn(monkeypatch):
    terminal = terminal_as_stdout(monkeypatch)
    pytest.importorskip("rich")
    print_table(TABLE)
    text = terminal.getvalue()
    assert "│" in text
    assert "[log]" in text


def test_table_on_a_terminal_without_rich_is_plain(monkeypatch):
    terminal = terminal_as_stdout(monkeypatch)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    print_table(TABLE)
    assert terminal.getvalue().startswith("Errors\noperator  error\n")


def test_empty_table_prints_its_headers(capsys):
    print_table(Table("Nothing", ["a", "b"], []))
    assert capsys.readouterr().out == "Nothing\na  b\n"


def test_progress_in_a_pipe_is_a_line_each_tenth(capsys):
    with ProgressLine("step", total=40) as progress:
        for step in range(1, 41):
            progress.update(step, {"loss": 1 / step})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("step 4/40  loss 0.2500  ")
    assert lines[-1].startswith("step 40/40  loss 0.0250  ")


def test_progress_on_a_terminal_is_live(monkeypatch):
    terminal = terminal_as_stdout(monkeypatch)
    pytest.importorskip("rich")
    with ProgressLine("step", total=2) as progress:
        progress.update(1, {"loss": 0.5})
        progress.update(2, {"loss": 0.25})
    assert "step 2/2  loss 0.2500" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()


def test_without_a_command_the_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as ended:
        application.main([])
    assert ended.value.code == 0 and "retrograd doctor script.py" in capsys.readouterr().out


def test_the_help_of_every_command_says_what_it_does(capsys):
    (commands,) = application.build_parser()._subparsers._group_actions
    assert len(commands.choices) >= len(application.COMMANDS)
    for name in commands.choices:
        with pytest.raises(SystemExit):
            application.build_parser().parse_args([name, "--help"])
        usage, _, rest = capsys.readouterr().out.partition("\n\n")
        assert usage.startswith(f"usage: retrograd {name}") and rest[0].isupper(), name

"""The command line's entry point, and its contract: a mistake of the user's is one line on stderr and exit code 2."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import retrograd
from retrograd.data import DataError

from . import check, evaluate, generate, info, run, train
from .console import UserError

COMMANDS = (check, train, generate, evaluate, info, run)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UserError`s: one line instead of the usage text."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see '{self.prog} --help')")


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line. Each command adds its own part and sets `run`."""
    parser = Parser(prog="retrograd", description="Automatic differentiation and neural networks over NumPy and CuPy.")
    parser.add_argument("--version", action="version", version=f"retrograd {retrograd.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name) and return its exit code.

    0: done. 1: done, and the answer is no (a gradient check failed). 2: a bad argument, a missing file, an
    unwritable folder. 130: interrupted from the keyboard. `--help` and `--version` leave by `SystemExit(0)`.

    >>> from retrograd.cli import main
    >>> main(["train", "housing", "--epochs", "0"])
    2
    """
    try:
        options = build_parser().parse_args(argv)
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except (UserError, DataError) as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); the interpreter must not try to flush to it again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _fail(message: str) -> int:
    print(f"retrograd: error: {' '.join(message.split())}", file=sys.stderr)
    return 2

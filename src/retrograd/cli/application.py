"""The entry point of the command line. A user's mistake is reported in one line on stderr, with exit code 2."""

import argparse
import codecs
import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

import retrograd
from retrograd._command import quit_at_once
from retrograd.data import DataError
from retrograd.kernels import turned_on
from retrograd.serialization import CorruptFileError
from retrograd.training import CheckpointError

from .commands import check, completion, doctor, info, inspections, run, step, torch
from .commands.runs import compare, evaluate, export, generate, predict, train
from .console import UserError, sentence
from .parser import Parser

COMMANDS = (
    *(check, train, evaluate, predict, generate, export, compare),
    *(info, run, doctor, inspections, step, torch, completion),
)
EXAMPLES = """\
  retrograd train --data my.csv --target price    train on a table
  retrograd run script.py                         run a PyTorch script
  retrograd doctor script.py                      say why a script does not learn
  retrograd COMMAND --help                        the options and examples of a command
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line. Each command adds its own part and sets `run`."""
    parser = Parser(
        prog="retrograd",
        description="Automatic differentiation and neural networks over NumPy and CuPy.",
        examples=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"retrograd {retrograd.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    parser.set_defaults(parser=parser)  # the `completion` command needs the parser
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name) and return its exit code.

    0: success. 1: a gradient check failed. 2: a bad argument, a missing file, an unwritable folder, too little memory
        or disk, a loss that is not finite. 130: interrupted from the keyboard. 141: the reader of the output has closed
        it (`| head`). No argument is `--help`; `--help` and `--version` raise `SystemExit(0)`.

    >>> from retrograd.cli import main
    >>> main(["train", "housing", "--epochs", "0"])
    2
    """
    with _standard_streams():
        try:
            if signal.getsignal(signal.SIGINT) is quit_at_once:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            arguments = sys.argv[1:] if argv is None else argv
            options = build_parser().parse_args(arguments or ["--help"])
            _check_kernels()
            code: int = options.run(options)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            return 141
        except OSError as error:
            return _fail(sentence(error))
        except MemoryError as error:
            return _fail(f"not enough memory: {error}" if str(error) else "not enough memory")
        except (UserError, DataError, CorruptFileError, CheckpointError) as error:
            return _fail(str(error))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130


def _check_kernels() -> None:
    try:
        turned_on()
    except RuntimeError as error:
        raise UserError(str(error)) from None


def _fail(message: str) -> int:
    """Print the error; if several processes run, print it once."""
    from retrograd.distributed.launcher import launched

    if launched()[1] > 1:
        from retrograd.distributed.guard import guard

        guard.end(f"error: {message}", code=2)
    with contextlib.suppress(OSError):  # standard error may be closed
        print(f"retrograd: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _standard_streams() -> Iterator[None]:
    """Make standard output and error accept any text, even if closed, and flush without a second error."""
    with contextlib.ExitStack() as stack:
        for name in ("stdout", "stderr"):
            stack.enter_context(_tolerant(name, getattr(sys, name)))
        yield


@contextlib.contextmanager
def _tolerant(name: str, stream: TextIO | None) -> Iterator[None]:
    if stream is None:  # closed by the shell (`>&-`)
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            setattr(sys, name, nowhere)
            try:
                yield
            finally:
                setattr(sys, name, None)
        return
    errors = stream.errors
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=ENCODE_ANYTHING)
    try:
        yield
    finally:
        try:
            stream.flush()
        except OSError:  # disk full, or no reader; the interpreter flushes again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _encode_anything(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode undecodable bytes of a file name as they are, and other characters by their code points."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    try:
        return text.encode("ascii", "surrogateescape"), error.end
    except UnicodeEncodeError:
        return text.encode("ascii", "backslashreplace"), error.end


ENCODE_ANYTHING = "retrograd.encode_anything"
codecs.register_error(ENCODE_ANYTHING, _encode_anything)

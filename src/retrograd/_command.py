"""Ctrl-C while the command `retrograd` is still importing ends it quietly, with exit code 130.

The package imports this module before any other. In a process that is not the command it does nothing; `cli.main` gives
Ctrl-C its usual meaning back.
"""

# `signal` itself begins with imports of 20 milliseconds.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys


def quit_at_once(number: int, frame: object) -> None:
    """The handler: nothing has been begun that would have to be ended."""
    os._exit(130)


def is_command() -> bool:
    """Whether this process is `retrograd ...` or `python -m retrograd ...`, from its arguments."""
    program = os.path.basename(getattr(sys, "argv", [""])[0])
    if program == "-m":  # what it is called until the module's place is known
        return sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] == ["retrograd"]
    return program in ("retrograd", "retrograd.exe")


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, quit_at_once)

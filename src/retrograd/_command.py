"""Exit with code 130 and no traceback on Ctrl-C while the command `retrograd` is still importing.

The package imports this module first. In other processes it does nothing; `cli.main` restores the usual handling of
Ctrl-C.
"""

# `signal` itself starts with imports that take 20 milliseconds.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys


def quit_at_once(number: int, frame: object) -> None:
    """Handle the signal by exiting at once, because there is nothing to clean up."""
    os._exit(130)


def is_command() -> bool:
    """Whether this process is `retrograd ...` or `python -m retrograd ...`, according to its arguments."""
    program = os.path.basename(getattr(sys, "argv", [""])[0])
    if program == "-m":  # the value of sys.argv[0] until the path of the module is known
        return sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] == ["retrograd"]
    return program in ("retrograd", "retrograd.exe")


if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, quit_at_once)

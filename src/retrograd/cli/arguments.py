"""Argument types that several commands share; each refuses a bad value in words."""

import argparse
import math
import tempfile
from pathlib import Path

from .console import UserError


def positive_int(text: str) -> int:
    """A whole number above zero.

    >>> from retrograd.cli.arguments import positive_int
    >>> positive_int("64")
    64
    """
    return _whole_number(text, minimum=1)


def seed(text: str) -> int:
    """A whole number from zero up, as random generators take it."""
    return _whole_number(text, minimum=0)


def positive_float(text: str) -> float:
    """A finite number above zero.

    >>> from retrograd.cli.arguments import positive_float
    >>> positive_float("1e-3")
    0.001
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0")
    return value


def output_folder(path: Path) -> Path:
    """Make the folder where it is missing, and see that files can be written into it before any work is done.

    Raises `UserError` when the path is a file or the folder cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UserError(f"cannot write to the folder {path}: {error.strerror}") from None
    return path


def _whole_number(text: str, minimum: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {minimum}")
    return value

"""Argument types that several commands share."""

import argparse
import math
import os
import tempfile
from pathlib import Path

import retrograd as rg

from .console import UserError


def positive_int(text: str) -> int:
    """Parse a positive integer.

    >>> from retrograd.cli.arguments import positive_int
    >>> positive_int("64")
    64
    """
    return _whole_number(text, 1, 2**63 - 1)


def seed(text: str) -> int:
    """Parse a 64-bit integer, as random generators accept it."""
    return _whole_number(text, 0, 2**64 - 1)


def threads(text: str) -> int:
    """Parse a number of threads."""
    return _whole_number(text, 1, 1024)


def device(text: str) -> str:
    """Parse the name of a device of this machine."""
    if text.startswith("cpu:"):
        raise argparse.ArgumentTypeError(f"{text!r}: the CPU is called 'cpu'; limit its use with --threads")
    try:
        rg.zeros(1, device=rg.device(text))
    except (RuntimeError, ValueError, ImportError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return text


def temperature(text: str) -> float:
    """Parse a finite number of at least zero."""
    value = _number(text)
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number of at least 0")
    return value


def path(text: str) -> Path:
    """Parse a path; a NUL cannot be part of a file name."""
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid file name")
    return Path(text)


def positive_float(text: str) -> float:
    """Parse a finite positive number.

    >>> from retrograd.cli.arguments import positive_float
    >>> positive_float("1e-3")
    0.001
    """
    value = _number(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0")
    return value


def make_output_folder(folder: Path) -> None:
    """Create the folder if it is missing, and check that files can be written to it.

    Raises `UserError` if the path is a file or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"cannot write to the folder {folder}: {error.strerror}") from None


def check_output(option: str, file: Path | str | None, *endings: str) -> None:
    """Raise `UserError` if the file cannot be written, or its name does not end in one of ``endings``."""
    if file is None:
        return
    place = Path(file)
    if endings and place.suffix.lower() not in endings:
        raise UserError(f"{option} must end in {' or '.join(endings)}, got {file}")
    if place.is_dir():
        raise UserError(f"{option} is a folder, and must be a file: {file}")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        problem = "is not writable" if place.parent.is_dir() else "does not exist"
        raise UserError(f"{option} {file}: {place if place.exists() else place.parent} {problem}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _whole_number(text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        shown = text if len(text) <= 30 else text[:30] + "..."
        raise argparse.ArgumentTypeError(f"{shown!r} is not an integer from {least} to {most}")
    return value

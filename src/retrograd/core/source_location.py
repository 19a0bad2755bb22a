"""Locate the line of the user's program that runs an operator: the innermost line outside this package."""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType, FrameType

import numpy as np

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PASSED = (_PACKAGE, os.path.dirname(os.path.abspath(np.__file__)) + os.sep)


class Site:
    """A line of a program; its text is read on first access."""

    __slots__ = ("_code", "line")

    module = ""  # the interface of a traced call, which knows its module

    def __init__(self, code: CodeType, line: int) -> None:
        self._code = code
        self.line = line

    @property
    def file(self) -> str:
        """The path of the file."""
        return self._code.co_filename

    @property
    def function(self) -> str:
        """The function's name."""
        return self._code.co_name

    @property
    def code(self) -> str:
        """The text of the line, where it can be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"

    def in_traceback(self) -> str:
        """Return the line in the format of a traceback, with its text."""
        where = f'File "{self.file}", line {self.line}, in {self.function}'
        return f"{where}\n    {self.code}" if self.code else where


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from ``frame`` outward, that is neither in this package nor in NumPy."""
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED):
        frame = frame.f_back
    return frame


def user_level() -> int:
    """Return the ``stacklevel`` with which a warning of the caller names the innermost line outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PASSED) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


# Keys are the id of a code object with either the (negative) instruction or the line. A Site refers to its code object,
# so that the id cannot be reused.
_sites: dict[tuple[int, int], Site] = {}


def user_site(depth: int = 1) -> Site:
    """Return the innermost line outside this package, starting ``depth`` calls up."""
    frame = sys._getframe(depth)
    known = _sites.get((id(frame.f_code), -1 - frame.f_lasti))
    if known is not None:
        return known
    while frame.f_code.co_filename.startswith(_PASSED) and frame.f_back is not None:
        frame = frame.f_back
    return _site_of(frame)


def user_stack(base: int) -> tuple[Site, ...]:
    """Return the lines of the program on the stack, from the frame with id ``base`` to the innermost frame."""
    return stack_of(sys._getframe(1), base)


def stack_of(innermost: FrameType, base: int) -> tuple[Site, ...]:
    """Return the lines of the program on the stack, from the frame with id ``base`` to ``innermost``."""
    sites: list[Site] = []
    frame = user_frame(innermost)
    while frame is not None and len(sites) < 64:
        sites.append(_site_of(frame))
        if id(frame) == base:
            break
        frame = user_frame(frame.f_back)
    return tuple(reversed(sites))


def _site_of(frame: FrameType) -> Site:
    code = frame.f_code
    place = id(code), -1 - frame.f_lasti
    site = _sites.get(place)
    if site is None:
        if len(_sites) >= 20_000:  # a program that keeps creating functions must not leak their code
            _sites.clear()
        number = line_of(code, frame.f_lasti, frame.f_lineno)
        line = id(code), number
        site = _sites[place] = _sites[line] = _sites.get(line) or Site(code, number)
    return site


def line_of(code: CodeType, instruction: int, line: int | None) -> int:
    """Return the line of an instruction; if Python has none, the line of the nearest instruction before it."""
    if line is not None:
        return line
    known = [number for start, _, number in code.co_lines() if number is not None and start <= instruction]
    return known[-1] if known else code.co_firstlineno

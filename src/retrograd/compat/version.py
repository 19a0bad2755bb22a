"""``version``: which PyTorch's names and meanings Retrograd follows."""

from __future__ import annotations

import re
from typing import Any


class TorchVersion(str):
    """A version that compares with texts and tuples by its numbers.

    >>> from retrograd.compat.version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def _compared(self, other: Any) -> tuple[list[int], list[int]]:
        pair = [_numbers(self), _numbers(other)]
        length = max(map(len, pair))
        mine, its = (numbers + [0] * (length - len(numbers)) for numbers in pair)
        return mine, its

    def __lt__(self, other: Any) -> bool:
        mine, its = self._compared(other)
        return mine < its

    def __le__(self, other: Any) -> bool:
        mine, its = self._compared(other)
        return mine <= its

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, tuple)) and self._compared(other)[0] == self._compared(other)[1]

    def __hash__(self) -> int:
        return str.__hash__(self)


def _numbers(version: Any) -> list[int]:
    if isinstance(version, (tuple, list)):
        return [int(part) for part in version]
    return [int(part) for part in re.findall(r"\d+", str(version).partition("+")[0])]


__version__ = TorchVersion("2.13.0")
cuda = None
hip = None
git_version = "unknown"
debug = False

"""``_six``: names of Python's for programs that ran on two Pythons."""

from __future__ import annotations

import collections.abc as container_abcs
from math import inf as inf
from math import nan as nan

string_classes = (str, bytes)
int_classes = int
FileNotFoundError = FileNotFoundError
PY3, PY37 = True, True
__all__ = ["container_abcs", "inf", "int_classes", "nan", "string_classes"]

"""Names of nodes and Tensors in an explanation."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...core.errors import describe
from ...core.graph.nodes import Node
from ..tracing import site_of


def line_of(node: Node) -> str:
    """Return ``file.py:31``; empty if the line is not known."""
    site = site_of(node)
    return "" if site is None else f"{os.path.basename(site.file)}:{site.line}"


def call_of(node: Node) -> str:
    """Return ``relu at file.py:31``, or ``relu``."""
    line = line_of(node)
    return f"{node.operator} at {line}" if line else node.operator


def name_of(edge: object, names: dict[int, str]) -> str:
    """Return the name of an edge's end: an operator call, a leaf's name, or the leaf's dtype and shape."""
    if type(edge) is Node:
        return call_of(edge)
    known = names.get(id(edge))
    return known or f"a leaf {describe(edge)}"


def distinct(labels: Iterable[str]) -> list[str]:
    """Return the labels, with repeated ones numbered: ``mul``, ``mul (2)``."""
    seen: dict[str, int] = {}
    result = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return result


def counted(count: int, what: str) -> str:
    """Return ``1 input``, ``4,096 inputs``.

    >>> counted(4096, "input")
    '4,096 inputs'
    """
    return f"{count:,} {what}" + ("" if count == 1 else "s")

"""What goes wrong between processes."""

from __future__ import annotations


class DistError(RuntimeError):
    """Ranks that do not agree on a call, or do not come to it."""


class DistBackendError(DistError):
    """An error of the library that carries the messages."""

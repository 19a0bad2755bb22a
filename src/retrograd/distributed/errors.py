"""Exceptions of distributed communication."""

from __future__ import annotations


class DistError(RuntimeError):
    """Ranks make different calls, or a rank does not reach a call in time."""


class DistBackendError(DistError):
    """An error of the communication library."""

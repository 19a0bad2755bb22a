"""``profile``: time and memory by operator, line and module."""

from .profile_mode import profile

__all__ = ["profile"]

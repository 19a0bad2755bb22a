"""``guard``: stop at the first number that is not finite, and report where it came from."""

from .guard_mode import guard

__all__ = ["guard"]

"""``guard``: stop at the first number that is not finite, and report where it came from.

``guard_mode`` checks each result, ``history`` remembers where a number came from, ``gradient_norms`` and
``optimizer_steps`` check the backward pass and the update. Only ``retrograd.inspect`` imports the folder.
"""

from .guard_mode import guard

__all__ = ["guard"]

"""What environment variables turn off."""

from __future__ import annotations

import os


def turned_on(name: str) -> bool:
    """Whether an environment variable is not ``off``.

    Raises:
        RuntimeError: it is neither ``on`` nor ``off``.
    """
    wanted = os.environ.get(name, "on")
    if wanted not in ("on", "off"):
        raise RuntimeError(f"{name}: wanted on or off, got {wanted!r}")
    return wanted == "on"

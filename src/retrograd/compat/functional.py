"""``functional``: operators that PyTorch writes in Python, from the top level."""

from .._generated.toplevel import *  # noqa: F403

"""``profile``: time and memory by operator, line and module.

``profiler`` observes operators, ``profile_mode`` is the context manager with its tables, ``live_arrays`` counts memory,
``export`` and ``page`` write files. Only ``retrograd.inspect`` imports the folder.
"""

from .profile_mode import profile

__all__ = ["profile"]

"""Module and what every layer is built on.

``module`` is the base class, ``state`` its ``state_dict``, ``fields`` declares layers by their settings, ``containers``
hold modules, ``lazy`` and ``uninitialized`` infer sizes, and ``gradient_hooks`` and ``global_hooks`` call users' code.
Layers import these modules; users find their names in ``retrograd.nn``.
"""

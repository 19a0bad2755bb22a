"""Module and the code that all layers are built on.

``module`` has the base class, ``state`` its ``state_dict``, ``fields`` declares layers by their settings,
``containers`` group modules, ``lazy`` and ``uninitialized`` infer sizes, ``gradient_hooks`` and ``global_hooks`` run
hooks. Layers import these modules; users find the public names in ``retrograd.nn``.
"""

"""Module and the code that all layers are built on.

``module`` has the base class, ``state`` saves and loads its state, ``fields`` generates layers from declared settings,
``containers`` has lists and dictionaries of modules, ``lazy`` and ``uninitialized`` infer sizes from the first input,
``gradient_hooks`` and ``global_hooks`` run hooks. The public names are also in ``retrograd.nn``.
"""

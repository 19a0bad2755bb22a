"""Pooling.

``maximum``, ``average``, ``lp``, ``adaptive``, ``fractional`` and ``unpooling`` define the operators; ``sliding`` and
``tables`` choose between slices and tables of indices. Programs find the operators in ``nn.functional``; only
``ops/nn`` imports the modules.
"""

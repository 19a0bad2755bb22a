"""Pooling.

``maximum``, ``average``, ``adaptive`` and ``fractional`` define the operators; ``sliding`` and ``tables`` choose
between slices and tables of indices. Programs find the operators in ``nn.functional``; only ``ops/nn`` imports the
modules.
"""

"""Pooling.

``maximum``, ``average``, ``adaptive`` and ``fractional`` define the operators; ``sliding`` and ``tables`` read windows
by slices or by tables of indices. Programs find the operators in ``nn.functional``; only ``ops/nn`` imports
these modules.
"""

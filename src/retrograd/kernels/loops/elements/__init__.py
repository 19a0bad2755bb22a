"""Loops over elements: elementwise functions, NumPy's ufuncs, and updates of many arrays.

``elementwise``, ``ufuncs`` and ``updates`` are called by operators and optimizers; the modules named ``*_loops`` define
the loops; ``scalar_functions`` defines scalar functions for use in loops.
"""

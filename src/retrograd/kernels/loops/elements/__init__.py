"""Loops over elements: elementwise functions, NumPy's ufuncs, and updates of many arrays.

``elementwise``, ``ufuncs`` and ``updates`` are called by operators and optimizers; the modules named ``*_loops`` hold
the loops; ``scalar_functions`` has functions of one number from which loops are built.
"""

"""The compiled loops by family, and the functions that call them.

A module ``X`` defines functions that operators call; the module ``X_loops`` defines the loops, which only ``X`` uses.
Every function has a NumPy reference in ``ops``, which is called where the loop does not apply.
"""

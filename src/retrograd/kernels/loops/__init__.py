"""The compiled loops by family, each beside the function that calls it.

A module ``X`` has functions that operators call; the module ``X_loops`` has the loops, which only ``X`` names. Every
function has a NumPy reference in ``ops`` and is not called where its loop does not apply.
"""

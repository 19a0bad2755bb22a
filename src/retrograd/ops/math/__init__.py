"""Elementwise operators: arithmetic, functions, comparisons.

A module per family; most operators are one declaration with ``unary`` or ``binary`` of ``ops/table``. ``special`` has
the functions that need series or SciPy. The other folders of ``ops`` build their rules on these operators.
"""

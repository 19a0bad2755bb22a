"""Rules on the dimensions of arrays: operators that mix examples, and reshapes that exchange lengths but no elements.

The rules in ``data`` and ``labels`` and the interventions call these functions.
"""

"""Taylor mode: derivatives of high order along a curve, by arithmetic with truncated power series.

``jet`` is public (``func.jet``). ``expansion`` computes the series of every node of a recorded graph, ``recurrences``
has the recurrences of primitives. A primitive without a recurrence is expanded by its derivative rule.
"""

"""Loops that move elements: copies and casts, gather and scatter, search.

``copies`` transposes and casts, ``lanes`` reads and adds elements at positions along a dimension, ``search`` finds
nonzero elements. ``ops`` and other loops call them.
"""

"""Operators on shapes and layouts: views, joins, copies and conversions.

``views`` and ``permutation`` share memory with their input, ``copies`` has the same operators as copies, with names
that end in ``_copy``, ``joining`` concatenates, ``conversion`` changes dtype and device. Any package above ``core`` may
import them.
"""

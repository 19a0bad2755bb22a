"""Layout of pictures as nested layered drawings.

``nesting`` splits a picture into one level per box, ``layering`` assigns the items of a level to rows, ``placing``
computes positions, and ``scene`` is the result. Only drawings, the stepper and the doctor's page import this package.
"""

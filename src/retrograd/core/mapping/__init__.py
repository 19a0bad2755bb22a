"""Batched arrays, the implementation of ``vmap``.

``batched`` defines an array type with the shape of one example that contains all examples; ``batching`` calls
primitives on such arrays. Batching rules are given by ``Primitive(batch=...)`` and ``ops/table/batching``; ``func``
enters and leaves levels.
"""

"""Batched arrays, which are what ``vmap`` is made of.

``batched`` is an array type that shows one example and holds all; ``batching`` calls primitives on such arrays.
Operators reach them by ``Primitive(batch=...)`` and ``ops/table/batching``; ``func`` enters and leaves the mapping.
"""

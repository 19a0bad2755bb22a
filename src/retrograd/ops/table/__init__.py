"""The operator table, and helpers for the definition of operators.

``registry`` has the decorator ``@operator``, ``documentation`` and ``wording`` compose docstrings,
``elementwise_primitives`` and ``composites`` define primitives in one line, ``batching`` has rules for ``vmap``,
``arguments`` and ``errors`` check calls. Every module that defines an operator imports it.
"""

"""Tracing: running a function once on traced arrays and writing down what it does.

``tracer`` drives the trace, ``traced`` is its array type, ``effects`` and ``escapes`` find what the function changes
outside itself, ``sizes`` makes sizes symbolic. The result is a ``Program`` for ``compiler/passes`` and
``compiler/run``; nothing outside the compiler imports these modules.
"""

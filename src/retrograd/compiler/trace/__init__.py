"""Tracing: run a function once on traced arrays and write its program.

``tracer`` drives the trace and ``traced_arrays`` has its array type. ``effects`` and ``escapes`` find changes to
objects outside of the function, ``sizes`` merges the programs of several sizes. The result is a ``Program`` for
``compiler/passes`` and ``compiler/run``; outside of the compiler only ``compat`` imports a module.
"""

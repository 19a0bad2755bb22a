"""Loops of a compiled function: ``func.scan`` with a body that is compiled once.

``body`` traces one step as a program of its own, ``native`` compiles the program with the loop around it to one
function, ``execution`` runs it, there or step by step, and ``rolled`` makes the loop one primitive, whose derivative is
a loop again. Called by the tracer of a compiled function, through ``run/compiled_function``.
"""

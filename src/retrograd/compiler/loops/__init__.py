"""Loops of a compiled function: one step is compiled, whatever the number of steps.

``body`` traces a step of ``func.scan``, ``rolled`` makes the loop one primitive, whose derivative is a loop again, and
``repeated_steps`` makes the same of the equal blocks of a Python loop (``signatures`` and ``matching`` find them,
``accumulators`` writes their rows). ``execution`` runs a loop, compiled by ``native``, with rolled arrays as views by
``halos``, or step by step. Called by the tracer of a compiled function and by ``run/``.
"""

"""Loops of a compiled function: one step is compiled, whatever the number of steps.

``body`` traces a step of ``func.scan``, ``rolled`` makes the loop one primitive, whose derivative is a loop again, and
``following`` makes the same of a Python loop while it runs (``call_log`` finds it, ``expected_calls`` compares its
steps). ``repeated_steps`` rolls the equal
blocks of a traced program (``signatures`` and ``matching`` find them, ``accumulators`` writes their rows).
``execution`` runs a loop, compiled by ``native``, with rolled arrays as views by ``halos``, or step by step. Called by
the tracer of a compiled function and by ``run/``.
"""

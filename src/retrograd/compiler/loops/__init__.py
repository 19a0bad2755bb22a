"""Loops of a compiled function: one step is compiled, whatever the number of steps.

``body`` traces a step of ``func.scan``, ``rolled`` makes the loop one primitive, whose derivative is a loop again, and
``following`` turns a Python loop into such a primitive while it runs (``call_log`` finds the loop, ``expected_calls``
compares its steps). ``repeated_steps`` rolls the equal blocks of a traced program (``signatures`` and ``matching`` find
the blocks, ``accumulators`` writes their rows). ``execution`` runs a loop compiled by ``native``, with ``np.roll`` as
views by ``halos``, or step by step. The tracer of a compiled function and ``run/`` call these modules.
"""

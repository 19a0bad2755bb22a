"""``memory_budget``: limit what a graph saves for the backward pass, and recompute the rest in segments.

``budget`` observes calls of operators, ``recipes`` say how to repeat a call, ``segments`` has the tape of the calls and
decides what to free, ``cuts`` finds places to cut the tape, and ``ledger`` counts memory. Only ``rg.memory_budget`` is
public.
"""

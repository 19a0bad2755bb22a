"""``memory_budget``: limit what a graph saves for the backward pass, and recompute the rest in segments.

``budget`` observes the calls, ``recipes`` say how to repeat them, ``segments`` is the tape and its plan, ``cuts`` finds
places to cut it, and ``ledger`` counts memory. Only ``rg.memory_budget`` is public.
"""

"""The computational graph and the backward pass.

``primitive`` defines operators with derivative rules, ``plan`` and ``call_node`` create the node of a call, ``nodes``
defines nodes and edges, ``backward`` is the backward pass, and ``handles``, ``hooks`` and ``reentrant`` run user code
during a backward pass. ``modes`` and ``observers`` are the thread-local state. All packages above ``core`` may import
these modules.
"""

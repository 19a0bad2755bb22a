"""The computational graph and the backward pass.

``primitive`` defines operators with their derivative rules, ``plan`` and ``record`` make the node of a call, ``nodes``
holds nodes and edges, ``backward`` visits them, and ``handles``, ``hooks`` and ``reentrant`` run users' code during the
visit. ``modes`` and ``observers`` hold what is on for a thread. Every room above ``core`` may import these modules.
"""

"""The engine: Tensors, primitives, the computational graph and the backward pass. It imports no operators.

``graph`` has nodes and the backward pass, ``tensor`` the class and its memory, ``arrays`` dtypes and devices,
``mapping`` what ``vmap`` needs, ``meta`` arrays without elements. Every package may import it; it imports no other.
"""

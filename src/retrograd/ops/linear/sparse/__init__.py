"""Sparse matrices as coordinates or compressed rows, and their products.

``sparse`` is the class behind ``to_sparse``, ``compressed`` has rows or columns in compressed form, ``products`` and
``systems`` the primitives. ``retrograd.sparse``, ``nn`` and ``scipy.sparse`` import them.
"""

"""Sparse matrices as coordinates or compressed rows, and their products.

``sparse`` has the class ``SparseTensor``, ``compressed`` the matrices with compressed rows or columns, ``products`` and
``systems`` the primitives. ``retrograd.sparse``, ``nn`` and ``scipy.sparse`` import them.
"""

"""Operators that read or write elements at indices or under masks.

``indexing`` and ``index_write`` are ``x[i]`` and ``x[i] = y``; ``gather``, ``scatter`` and ``selection`` take index
Tensors; ``positions`` and ``placing`` check and convert positions. Other folders of ``ops``, ``nn`` and ``func`` import
them.
"""

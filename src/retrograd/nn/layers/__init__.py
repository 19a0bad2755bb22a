"""Layers that apply to one input: activations, linear, convolution, pooling, normalization, embedding.

Each module holds one family; each class calls a function of ``retrograd.nn.functional``. Users find the names in
``retrograd.nn``.
"""

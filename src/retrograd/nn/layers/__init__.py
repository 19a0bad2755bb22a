"""Layers that apply to one input: activations, linear, convolution, pooling, normalization, embedding.

Each module has one family of layers; each class calls a function of ``retrograd.nn.functional``. The names are also in
``retrograd.nn``.
"""

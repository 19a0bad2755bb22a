"""Attention.

``scaled_dot_product`` is attention itself, with masks and dropout; ``multihead`` adds the projections of
``nn.MultiheadAttention``. Programs find both in ``nn.functional``; no other package imports the modules.
"""

"""Recurrent layers and cells.

``cells`` computes one step; ``rnn``, ``gru`` and ``lstm`` compute one layer over a sequence; ``layers`` stacks layers
and runs them in both directions. ``nn.sequence`` and PyTorch's functions such as ``rg.lstm`` call them.
"""

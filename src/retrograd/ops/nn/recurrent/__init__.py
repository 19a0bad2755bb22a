"""Recurrent layers and cells.

``cells`` computes one step, ``rnn``, ``gru`` and ``lstm`` a sequence, ``layers`` stacks of layers in both directions.
``nn.sequence`` and PyTorch's functions such as ``rg.lstm`` call them.
"""

"""Loss functions as modules, and losses over very many classes.

Users find the names in ``retrograd.nn``, PyTorch's module paths give them, too; no other package imports the folder.
The arithmetic is in ``ops/nn/losses``.
"""

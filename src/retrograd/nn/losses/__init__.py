"""Loss functions as modules, and losses over very many classes.

The names are also in ``retrograd.nn``; no other package imports this one. The arithmetic is in ``ops/nn/losses``.
"""

"""Loss functions as modules, and losses over very many classes.

Users find the names in ``retrograd.nn``.
"""

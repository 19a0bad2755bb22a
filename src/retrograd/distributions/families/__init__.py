"""The families of distributions, by the kind of their values.

A module per kind (``real_line``, ``positive``, ``binary``, ``simplex``, ...); ``multivariate`` has matrices as
parameters. ``retrograd.distributions`` gives them their public names; ``kl`` imports them.
"""

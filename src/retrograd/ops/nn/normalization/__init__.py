"""Normalization: batches, layers, groups, instances, root mean squares, vectors and channels.

``statistics`` has the operators with a mean and a variance, ``sizes`` those that divide by a norm or by neighboring
channels; ``fused`` has the primitive that computes mean and variance. The layers of ``nn`` call the operators through
``nn.functional``.
"""

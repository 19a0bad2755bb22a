"""Normalization: batches, layers, groups, instances, root mean squares, vectors and channels.

``statistics`` has the operators with a mean and a variance, ``sizes`` those that divide by a norm or by neighboring
channels; ``fused`` is the primitive behind the former. The layers of ``nn`` reach them through ``nn.functional``.
"""

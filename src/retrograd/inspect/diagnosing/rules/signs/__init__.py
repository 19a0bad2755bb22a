"""Rules on the sign of a loss: rewards and scores that a step should increase, pairs, and losses of adversaries.

``policies`` reads weights of log-probabilities, ``qualities`` similarities, overlaps and probabilities, ``pairs``
contrastive losses, and ``adversaries`` the two losses of a GAN. The rule ``loss-sign`` in the folder above calls them.
"""

"""Questions on the sign of what a step lowers: rewards, results that are to grow, pairs, and losses of adversaries.

``policies`` reads weights of log-probabilities, ``qualities`` similarities, overlaps and probabilities, ``pairs``
contrastive losses, and ``adversaries`` the two losses of a GAN. The rule ``loss-sign`` in the folder above calls them.
"""

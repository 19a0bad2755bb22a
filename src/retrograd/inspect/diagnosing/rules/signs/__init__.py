"""Questions on the sign of what a step lowers: rewards of a policy, and results that are to grow.

``policies`` reads weights of log-probabilities, ``qualities`` similarities, overlaps and probabilities. Only the rule
``loss-sign`` in the folder above calls them, and ``policies`` the one on cuts.
"""

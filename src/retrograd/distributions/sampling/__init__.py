"""Random draws, and the derivatives of gamma and beta samples with respect to their parameters.

``draws`` has the random numbers that the families share; the other modules differentiate samples of gamma, beta and von
Mises implicitly. Only ``distributions.families`` imports them.
"""

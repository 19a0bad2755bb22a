"""Random draws, and the derivatives of gamma and beta samples with respect to their parameters."""

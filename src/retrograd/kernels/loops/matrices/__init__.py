"""Products of matrices, and distances between their rows."""

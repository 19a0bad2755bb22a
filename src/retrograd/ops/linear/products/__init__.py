"""Products of vectors and matrices, affine maps, and Einstein summation."""

"""Systems of linear equations, inverses, least squares, and the norms and ranks of matrices."""

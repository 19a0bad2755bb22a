"""Linear maps: products, linear algebra, Fourier transforms."""

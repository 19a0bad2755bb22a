"""The families of distributions, by the kind of their values."""

"""Convolution, pooling, resampling and sampling with one to three spatial axes."""

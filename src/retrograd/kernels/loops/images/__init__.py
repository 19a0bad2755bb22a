"""Convolution, pooling, resampling and sampling of images, and of what has one or three spatial axes."""

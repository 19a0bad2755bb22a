"""Convolution, pooling, resampling and sampling with one to three spatial axes.

``X`` has the functions that operators call, ``X_loops`` the compiled loops; ``three_axes`` turns one and two spatial
axes into three. Only ``ops`` calls them.
"""

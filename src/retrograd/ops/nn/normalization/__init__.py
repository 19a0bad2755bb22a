"""Normalization: batches, layers, groups, instances, root mean squares, vectors and channels."""

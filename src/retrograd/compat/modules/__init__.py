"""Contents of PyTorch's modules that Retrograd has under another name, only in part, or without effect.

``compat.legacy_names`` looks names up in the ``NAMES`` of these files, one entry per module of PyTorch.
"""

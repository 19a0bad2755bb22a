"""Layers over sequences: recurrent networks, attention and the transformer.

Users find the names in ``retrograd.nn``; ``models`` and ``onnx`` build on them.
"""

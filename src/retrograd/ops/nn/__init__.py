"""The operators of neural networks.

A folder per family: ``activations``, ``attention``, ``losses``, ``normalization``, ``pooling``, ``recurrent`` and
``spatial`` (convolution, padding, resizing); dropout, embeddings, softmax and similarities are single modules.
``nn.functional`` gives the operators their public names; ``nn``, ``inspect`` and ``compiler`` import modules.
"""

"""Modules of PyTorch that packages build on more than programs do.

``library`` registers operators (``torch.library``, ``torch.ops``), ``pytree`` is ``torch.utils._pytree``, ``foreach``
the functions over lists of Tensors, and ``flex_attention`` attention with functions of scores and masks.
``compat.legacy_names`` and ``compat.paths`` look their names up, as those of the other files in ``compat.modules``.
"""

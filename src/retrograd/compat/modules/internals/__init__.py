"""Modules of PyTorch that packages build on more than programs do.

``library`` registers operators (``torch.library``, ``torch.ops``), ``pytree`` is ``torch.utils._pytree``, ``foreach``
has the functions over lists of Tensors, and ``private`` the names around ``compile``. ``private``, ``helpers`` and
``questions`` have private names of many modules. ``compat.legacy_names`` lists which module has which of these names.
"""

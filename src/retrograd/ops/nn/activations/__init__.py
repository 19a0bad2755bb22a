"""The activation functions of ``nn.functional``.

``smooth``, ``piecewise`` and ``rectifiers`` define them, ``inplace`` has the names with an underscore, and
``application`` applies a primitive with the argument ``inplace``. ``nn``, ``inspect`` and ``compiler`` import modules.
"""

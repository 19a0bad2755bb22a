"""The activation functions of ``nn.functional``.

``smooth``, ``piecewise`` and ``rectifiers`` define them, ``inplace`` the names with an underscore, and ``application``
applies a primitive with the argument ``inplace``. ``inspect`` asks here which operators are activation functions.
"""

"""What packages written for PyTorch need beyond the modules of ``torch``.

``distribution`` is the distribution ``torch`` that pip and ``importlib.metadata`` see, and writes it into an
environment (``retrograd torch install``); ``torchvision`` has the operators of torchvision's C library.
``compat.as_torch``, ``compat.modules`` and the command call these files, and nothing else does.
"""

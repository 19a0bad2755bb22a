"""Private names of PyTorch that scientific packages import.

``distributions``: helpers of ``torch.distributions``; ``functional``: of ``autograd.functional``, ``vmap``, L-BFGS and
``utils.data``; ``futures``: ``torch.futures``. ``compat.legacy_names`` and ``compat.paths`` list which module has which
of these names. Besides, ``modules.utils`` imports ``tensorboard``.
"""

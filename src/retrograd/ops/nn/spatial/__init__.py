"""Operators on images, signals and volumes.

``convolution``, ``unfold``, ``padding``, ``interpolation`` and ``grid`` define operators; ``sliding_windows`` has the
windows that pooling uses, too. Programs find the operators in ``nn.functional``; ``ops`` and ``func`` import modules.
"""

"""Operators on images, signals and volumes.

``convolution``, ``unfold``, ``padding``, ``interpolation`` and ``grid`` define operators; ``sliding_windows`` has the
windows, which pooling also uses. Programs find the operators in ``nn.functional``; ``ops`` and ``func`` import modules.
"""

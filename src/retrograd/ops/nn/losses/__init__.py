"""Losses.

A module per kind of target: ``classes`` and ``entropy``, ``class_margins`` and ``margin``, ``regression``, ``ctc``.
``reduction`` has the argument that all share. Programs find the losses in ``nn.functional``; ``nn.losses`` wraps them
in modules.
"""

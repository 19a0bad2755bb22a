"""Gradients, weights and activations over a whole training run, and alarms where they go wrong.

``watcher`` takes the ``measures`` of each step, ``alarm_rules`` turns them into alarms, ``figures`` and ``page`` show
them, ``tensorboard`` writes them. Only ``retrograd.inspect`` imports the folder.
"""

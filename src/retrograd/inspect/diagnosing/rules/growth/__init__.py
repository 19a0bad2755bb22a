"""Rules on sizes: of the steps, of gradients and values from layer to layer, and of the loss.

``depth`` compares the layers of a recorded step, ``rates`` the steps of the run. ``rules`` calls them, other rules
read their sizes of steps, and ``doctor_mode`` calls ``divergence`` and ``intervene``.
"""

"""Trials on copies of the network: repeat a recorded step with edits, at other rates, with other labels.

``replay`` runs a recorded step again as a function of its parameters. ``proof`` trains this function with and without
an edit, and restores the program's random generators and modes. Only ``kinds``, ``rules`` and ``doctor_mode`` call
these modules.
"""

"""What the doctor tries on copies: the recorded step run again, with edits, at other rates, with other labels.

``replay`` runs a recorded step again as a function of its parameters. ``proof`` trains it with and without an edit, and
keeps the program's random generators and modes as they are. Only ``kinds``, ``rules`` and ``doctor_mode`` call them.
"""

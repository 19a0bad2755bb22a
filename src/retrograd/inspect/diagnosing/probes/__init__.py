"""What the doctor tries on copies: the recorded step run again, with edits, at other rates, with other labels.

``state`` keeps the program undisturbed, ``replay`` runs a recorded step again, ``proof`` compares a training with and
without an edit, and ``probes`` has the questions that need a trial. Only ``rules`` and ``examination`` call it.
"""

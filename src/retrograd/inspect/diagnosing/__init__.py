"""The doctor: watches the steps of a training, finds why the training does not learn, and proves the answer.

``observing`` watches the program and fills a ``Run``; ``step_recorder`` records single steps in full. ``rules/`` has
one function per kind of finding, and ``probes/`` has the trials on copies of the network. ``doctor_mode`` combines
these modules; users call it as ``inspect.doctor``, ``inspect.diagnose`` and ``retrograd doctor``.
"""

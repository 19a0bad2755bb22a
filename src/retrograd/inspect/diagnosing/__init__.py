"""The doctor: watches the steps of a training, asks why it does not learn, and proves the answer.

``observing`` watches the program and fills a ``Run``; ``step_recorder`` keeps single steps in full. ``rules/`` has the
questions, one function per kind of finding, and ``probes/`` what is tried on copies. ``doctor_mode`` joins them; users
call it as ``inspect.doctor`` and ``inspect.diagnose``, and the command as ``retrograd doctor``.
"""

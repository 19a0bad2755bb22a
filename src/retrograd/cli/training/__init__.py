"""Settings, trainers, metrics and reports, shared by ``retrograd train`` and related commands.

``recipes`` are the defaults of each task, ``runs`` trains a task by its trainer, ``report`` writes the HTML page of a
run. Only ``cli.commands`` and ``cli.tasks`` import it.
"""

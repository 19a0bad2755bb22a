"""Settings, trainers, metrics and reports, shared by ``retrograd train`` and related commands."""

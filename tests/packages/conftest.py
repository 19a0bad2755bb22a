"""Programs are run by ``test_packages.py``; they import what may not be installed."""

collect_ignore = ["programs", "record.py"]

"""The programs are run by mpiexec, not imported."""

collect_ignore = ["programs"]

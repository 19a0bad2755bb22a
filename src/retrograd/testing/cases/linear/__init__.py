"""Example calls of the operators in ``ops/linear``, which ``testing.cases`` collects for the harness."""

"""Example calls of the operators in ``ops/math``, which ``testing.cases`` collects for the harness."""

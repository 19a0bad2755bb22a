"""Example calls of the operators in ``ops/nn``, which ``testing.cases`` collects for the harness."""

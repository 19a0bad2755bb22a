"""The operator table, and what definitions of operators have in common."""

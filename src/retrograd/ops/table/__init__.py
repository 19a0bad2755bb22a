"""The operator table, and helpers for the definition of operators."""

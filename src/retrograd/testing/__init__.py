"""The operator harness: example calls of every operator, and what each must fulfil."""

"""Elements moved: copies and casts, gathered, scattered and sorted lanes."""

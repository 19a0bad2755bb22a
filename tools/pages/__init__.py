"""Pages of documentation that run: Markdown whose Python blocks are executed and whose printed output is checked."""

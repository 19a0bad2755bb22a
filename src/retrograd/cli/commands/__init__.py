"""One module per command of ``retrograd``; each registers itself with ``cli/application``."""

"""One module per command of ``retrograd``; each module registers its command in ``cli/application``."""

"""One module per command of `retrograd`. Only `retrograd.cli.application` imports them.

Commands about training runs are in `runs/`. `scripts` is shared by the commands that run a user's script.
"""

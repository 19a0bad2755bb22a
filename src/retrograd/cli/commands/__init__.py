"""One module per command of `retrograd`; `retrograd.cli.application` adds each to the command line, and only it.

Commands about training runs are in `runs/`. `scripts` is shared by the commands that run a user's script.
"""

"""Commands about training runs: train, evaluate, generate, predict, export, compare.

`retrograd.cli.application` adds each to the command line. They use the tasks of `retrograd.cli.tasks` and the settings,
checkpoints and reports of `retrograd.cli.training`; nothing else may import them.
"""

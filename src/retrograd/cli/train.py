"""`retrograd train TASK`: train a model on real data. Each task is a module with its own `add_parser` and `run`."""

from typing import Any

from . import housing

TASKS = (housing,)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("train", help="train a model on real data")
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", dest="task", required=True)
    for task in TASKS:
        task.add_parser(tasks)

"""`retrograd evaluate CHECKPOINT`: a trained model's loss and accuracy on the data it was not trained on."""

import argparse
from pathlib import Path
from typing import Any

from .checkpoints import load_checkpoint
from .console import Table, print_table
from .recipes import RECIPES
from .tasks import make_task
from .trainers import EngineTrainer


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("evaluate", help="measure a trained model on its test data")
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the file, or the folder of the run")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    checkpoint = load_checkpoint(options.checkpoint)
    config = checkpoint["config"]
    task = make_task(config["task"], config["model"], config["batch_size"], config["seed"])
    # The engine runs the weights of manual layers, too.
    trainer = EngineTrainer(task, RECIPES[config["task"]][config["model"]])
    trainer.model.load_state_dict(checkpoint["model"])
    figures = task.evaluate(trainer.predict)
    title = f"{config['task']}: {config['model']} after {checkpoint['step']} steps"
    print_table(Table(title, ["figure", "value"], [[n.replace("_", " "), f"{v:.6g}"] for n, v in figures.items()]))
    return 0

"""`retrograd evaluate CHECKPOINT`: a trained model's loss and accuracy on test data."""

import argparse

from ...arguments import path
from ...console import Table, figure_text, print_table
from ...parser import Subparsers
from ...tasks import make_task
from ...training.checkpoints import load_weights, read_run
from ...training.recipes import RECIPES
from ...training.trainers import EngineTrainer


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "evaluate",
        help="measure a trained model on its test data",
        description="Measure a model trained by 'retrograd train' on the test data of its task.",
        examples="  retrograd evaluate runs/housing\n  retrograd evaluate runs/my/checkpoint.safetensors\n",
    )
    parser.add_argument("checkpoint", type=path, metavar="CHECKPOINT", help="the file, or the folder of the run")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    saved = read_run(options.checkpoint)
    config = saved.config
    task = make_task(config)
    # The engine also runs the weights of manual layers.
    load_weights(task.model, saved)
    figures = task.evaluate(EngineTrainer(task, RECIPES[config["task"]][config["model"]]).predict)
    title = f"{config['task']}: {config['model']} after {saved.step} steps"
    rows = [(name.replace("_", " "), figure_text(name, value)) for name, value in figures.items()]
    print_table(Table(title, ["figure", "value"], rows))
    return 0

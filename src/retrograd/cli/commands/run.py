"""`retrograd run`: run an unchanged PyTorch program with Retrograd in place of PyTorch."""

import argparse
import os

from ..console import UserError


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="run a PyTorch script with Retrograd in place of torch",
        description="Run an unchanged PyTorch script; `import torch` and its submodules give Retrograd.",
    )
    parser.add_argument("script", help="the Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's sys.argv")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; its errors are printed with their traceback, and its exit code is passed on."""
    from retrograd.compat.as_torch import run as run_script

    if not os.path.isfile(options.script):
        raise UserError(f"{options.script}: no such file")
    return run_script(options.script, options.arguments)

"""`retrograd run`: a PyTorch program as it is, with Retrograd in PyTorch's place."""

import argparse
import os

from ..console import UserError


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's own parser to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="run a PyTorch script with Retrograd for torch",
        description="Run a PyTorch script, unchanged, with `import torch` and its submodules being Retrograd.",
    )
    parser.add_argument("script", help="the Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; its errors are shown with their traceback, and its exit code is passed on."""
    from retrograd.compat.as_torch import run as run_script

    if not os.path.isfile(options.script):
        raise UserError(f"{options.script}: no such file")
    return run_script(options.script, options.arguments)

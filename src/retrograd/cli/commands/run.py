"""`retrograd run`: run an unchanged PyTorch program with Retrograd in place of PyTorch."""

import argparse
import contextlib

from ..arguments import check_output, path
from ..parser import Subparsers
from .scripts import check_script, watching_script

EXAMPLES = """\
  retrograd run train.py --lr 0.1
  retrograd run --guard train.py                stop at the first NaN or infinity, and say where it came from
  retrograd run --watch run.html train.py       record gradients, weights and activations; alarms and a page
  retrograd run --profile flame.html train.py   time and memory by line
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a PyTorch script with Retrograd in place of torch",
        description="Run an unchanged PyTorch script; `import torch` and its submodules give Retrograd.",
        examples=EXAMPLES,
    )
    parser.add_argument("--guard", action="store_true", help="run under inspect.guard")
    parser.add_argument("--watch", type=path, metavar="OUT", help="run under inspect.watch; .html, .json or .png")
    parser.add_argument("--profile", type=path, metavar="OUT.html", help="run under inspect.profile")
    parser.add_argument("script", help="the Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's sys.argv")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; its errors are printed with their traceback, and its exit code is passed on."""
    from retrograd.compat.as_torch import run as run_script

    check_script(options)
    check_output("--profile", options.profile, ".html", ".htm")
    check_output("--watch", options.watch, ".html", ".htm", ".json", ".png")
    profiles = []
    try:
        with contextlib.ExitStack() as stack:
            if options.watch is not None:
                stack.enter_context(watching_script(options.watch))
            if options.guard:
                from retrograd.inspect import guard

                stack.enter_context(guard())
            if options.profile is not None:
                from retrograd.inspect import profile

                profiles.append(stack.enter_context(profile()))
            return run_script(options.script, options.arguments)
    finally:
        for p in profiles:
            print(p)
            p.save(options.profile)
            print(options.profile)

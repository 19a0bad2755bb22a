"""`retrograd doctor`: run a training script, and say why it does not learn."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

from ..arguments import check_output, path, positive_int
from ..parser import Subparsers
from .scripts import check_script, random_states, run_script

SECONDS = 60.0
LEAST = 30

EXAMPLES = """\
  retrograd doctor train.py                     the first cause, with its line, figures and edit
  retrograd doctor --all train.py --lr 0.1      all findings; train.py gets --lr 0.1
  retrograd doctor --steps 200 --json out.json --page out.html train.py
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="say why a training script does not learn, and prove it",
        description="Run an unchanged training script (one that imports torch gets Retrograd), watch its training "
        "steps, and print the first cause of what is wrong: the line, the figures, and the edit. Where the edit can "
        "be tried on a recorded step, both versions are run from the same state. The exit code is 0, also with "
        "findings, unless the script itself fails.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--steps", type=positive_int, help=f"training steps to watch; default: those of a minute, at least {LEAST}"
    )
    parser.add_argument("--json", type=path, metavar="OUT", help="write all findings to this file")
    parser.add_argument("--page", type=path, metavar="OUT.html", help="write a page that explains the training")
    parser.add_argument("--all", action="store_true", help="print all findings, not only the first")
    parser.add_argument("script", help="the Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's sys.argv")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script under the doctor and print the report after the script's own output."""
    from retrograd.inspect import doctor

    check_script(options)
    check_output("--json", options.json)
    check_output("--page", options.page, ".html", ".htm")
    d = doctor()
    d.watch_script(options.script, lambda count, seconds: _enough(options.steps, count, seconds))
    restore = random_states()
    code = 0
    with d:
        code = run_script(options.script, options.arguments, d.note_error)
    if d.lost_its_numbers:
        restore()
        d.add_story(_guarded(options.script, options.arguments))
    sys.stdout.flush()
    print(d.report(options.all))
    if options.json is not None:
        Path(options.json).write_text(d.to_json() + "\n", encoding="utf-8")
    if options.page is not None:
        d.save(options.page)
    return code


def _enough(steps: int | None, count: int, seconds: float) -> bool:
    return count >= steps if steps is not None else count >= LEAST and seconds > SECONDS


def _guarded(script: str, arguments: list[str]) -> BaseException | None:
    """Run the script once more, without its output, under a guard; return the error that ended it."""
    from retrograd.inspect import guard

    errors: list[BaseException] = []
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
        guard(),
    ):
        run_script(script, arguments, errors.append)
    return errors[0] if errors else None

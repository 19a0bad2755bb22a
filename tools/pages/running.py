"""Run the programs of a page, compare their output, and save the pictures that they show."""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .blocks import Program, read

NUMBER = re.compile(r"~?[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
TOLERANCE = 2e-3  # relative, of printed non-integers: other processors add in another order
WIDTH = 100  # columns of the programs' terminal
ROUGHLY = 0.15  # relative, of numbers printed after a "~" or beside an "->": results of training


@dataclass
class Result:
    """The output of a program, and the representations of its last line's value as ``{suffix: text}``."""

    program: Program
    output: str
    picture: dict[str, str] = field(default_factory=dict)


class Failure(AssertionError):
    """A program of a page failed, or printed something else than the page shows."""


def run(path: Path) -> Iterator[Result]:
    """Run a page's programs in order, until one lacks its data."""
    name = f"{path.stem}.py"
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": name}
    written = ""  # all programs so far, so that tracebacks have the right lines
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), columns(WIDTH):
        for program in read(path):
            if not isinstance(program, Program) or not program.runs:
                continue
            if (data := program.value("data")) and not has_data(data):
                return
            if program.value("two") and find_spec("mpi4py") is None:
                return
            if program.package and find_spec(program.package) is None:
                continue
            try:
                if program.file:
                    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
                    launcher = [mpiexec, "-n", "2", sys.executable] if program.value("two") else [sys.executable]
                    if program.package:
                        launcher += ["-W", "ignore", "-m", "retrograd", "run"]
                    yield Result(program, run_file(Path(folder) / program.file, program.code, launcher))
                else:
                    start = written.count("\n")
                    written += program.code + "\n"
                    linecache.cache[name] = (len(written), None, written.splitlines(keepends=True), name)
                    yield execute(program, name, start, namespace)
            except Failure as failure:
                raise Failure(f"{path.name}:{program.line}: {failure}") from failure.__cause__


@contextlib.contextmanager
def columns(width: int) -> Iterator[None]:
    """Set the terminal width that programs see."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def has_data(name: str) -> bool:
    """Whether a data set exists on this machine."""
    folder = os.environ.get("RETROGRAD_DATA")
    return bool(folder) and any(name in entry.name for entry in Path(folder).iterdir())


def run_file(file: Path, code: str, launcher: list[str]) -> str:
    """Run a program as a script, and return its output."""
    file.write_text(code, encoding="utf-8")
    done = subprocess.run([*launcher, file.name], capture_output=True, text=True, cwd=file.parent)
    if done.returncode:
        raise Failure(f"exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def execute(program: Program, name: str, start: int, namespace: dict[str, Any]) -> Result:
    """Run one block; the value of a last line that is an expression is displayed as in notebooks."""
    tree = ast.increment_lineno(ast.parse(program.code, name), start)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, picture = io.StringIO(), {}
    raises = program.note == "raises"
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, name, "exec"), namespace)
            if last is not None and (value := eval(compile(last, name, "eval"), namespace)) is not None:
                picture = pictures(value)
                if not picture:
                    print(repr(value))
    except Exception as error:
        if not raises:
            raise Failure("".join(traceback.format_exception(error))) from error
        printed.write("".join(traceback.format_exception_only(error)))
    else:
        if raises:
            raise Failure("the block is marked `raises`, but raised no exception")
    return Result(program, printed.getvalue(), picture)


def pictures(value: Any) -> dict[str, str]:
    """Return the representations of a value: an SVG, a Matplotlib figure, an interactive page."""
    if hasattr(value, "savefig"):
        return {"svg": figure(value)}
    draw, page = getattr(value, "_repr_svg_", None), getattr(value, "to_html", None)
    forms = {"svg": draw and draw(), "html": page and page()}
    return {ending: content for ending, content in forms.items() if content}


DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.88) hue-rotate(180deg); } }</style>"


def figure(value: Any) -> str:
    """Return a Matplotlib figure as an SVG for light and dark pages, the same for the same figure."""
    import matplotlib

    memory = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "retrograd", "svg.fonttype": "none"}):
        value.savefig(memory, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(value)  # pyplot would keep it until the process ends
    return re.sub(r"(<svg [^>]*>)", rf"\1{DARK}", memory.getvalue(), count=1)


def checked(path: Path) -> list[Result]:
    """Return the results of a page after checking its output.

    Raises:
        Failure: a program fails or prints something else than the page shows.
    """
    results = list(run(path))
    for result in results:
        check(result)
    return results


def check(result: Result) -> None:
    """Compare a program's output with the page.

    Raises:
        Failure: the words differ, or a number beyond the tolerance.
    """
    wanted = result.program.output or ""
    if not agree(wanted, result.output):
        raise Failure(f"line {result.program.line}: expected\n{wanted}\ngot\n{result.output}")


def agree(wanted: str, printed: str) -> bool:
    """Whether two texts are equal up to the last digits of their numbers."""
    if wanted == printed:
        return True
    if NUMBER.sub("#", wanted).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(NUMBER.finditer(wanted), NUMBER.finditer(printed), strict=True)
    return all(a[0] == b[0] or close(a[0], b[0], beside_arrow(a)) for a, b in pairs)


def beside_arrow(number: re.Match[str]) -> bool:
    """Whether "->" is next to a number, as in the doctor's "1.58 -> 0.45": a loss before and after some training."""
    before, after = number.string[: number.start()], number.string[number.end() :]
    return before.rstrip().endswith("->") or after.lstrip().startswith("->")


def close(a: str, b: str, trained: bool = False) -> bool:
    if a[0] == b[0] == "~":
        return abs(float(a[1:]) - float(b[1:])) <= ROUGHLY * abs(float(a[1:]))
    if "~" in a + b:
        return False
    if a.lstrip("+-").isdigit() or b.lstrip("+-").isdigit():
        return False
    return abs(float(a) - float(b)) <= (ROUGHLY if trained else TOLERANCE) * max(abs(float(a)), abs(float(b))) + 1e-6

"""`retrograd explain`, `draw` and `profile`: the tools of `retrograd.inspect` on an unchanged script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

from ..arguments import check_output, path, positive_int
from ..console import UserError, plural
from ..parser import Subparsers
from .scripts import StoppedError, acting_at_backward, check_script, run_script

if TYPE_CHECKING:
    from retrograd import Tensor
    from retrograd.inspect import trace
    from retrograd.inspect.record import Departure, Record
    from retrograd.nn import Module

    End: TypeAlias = "tuple[Record | Departure | None, int]"


_EXPLAINED_GRADIENTS = 3  # the number of gradients explained by default
_DRAWN_STEPS = 12  # the number of steps that a drawing shows

EXAMPLES = {
    "explain": "  retrograd explain train.py                    gradients that are zero or missing\n"
    "  retrograd explain --name 0.weight train.py    one parameter\n",
    "draw": "  retrograd draw train.py\n  retrograd draw --out graph.svg --step 10 train.py --lr 0.1\n",
    "profile": "  retrograd profile train.py\n  retrograd profile --out flame.html --steps 20 train.py\n",
}


def add_parser(subparsers: Subparsers) -> None:
    """Add the parsers of the three commands."""
    one = _parser(subparsers, "explain", "explain the gradients of a script's loss", explain_script)
    one.description = (
        "Run a script up to a backward pass, list the gradients of its parameters, and explain where one comes from, "
        "or why it is zero or missing."
    )
    one.add_argument("--name", action="append", help="a parameter, by its path or variable; may be given several times")
    _add_step(one)
    two = _parser(subparsers, "draw", "draw the computational graph of a script", draw_script)
    two.description = (
        "Run a script up to a backward pass, and draw the graph of its loss. The page shows the gradients of this step "
        "and, with a slider, of those before it."
    )
    two.add_argument(
        "--out", type=path, metavar="OUT", help=".html, .svg, .dot or .mmd; default: the script's name with .graph.html"
    )
    _add_step(two)
    three = _parser(subparsers, "profile", "measure time and memory of a script by line", profile_script)
    three.description = "Run a script, and list time and memory by line, forward and backward."
    three.add_argument("--out", type=path, metavar="OUT.html", help="write a flame graph to this file")
    three.add_argument("--steps", type=positive_int, help="end the script after this many backward passes")
    for each in (one, two, three):
        each.add_argument("script", help="the Python file")
        each.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's sys.argv")


def _parser(
    subparsers: Subparsers, name: str, text: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=text, examples=EXAMPLES[name])
    parser.set_defaults(run=run)
    return parser


def _add_step(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=positive_int, default=1, help="the backward pass to stop at; default 1")


def _until_backward(options: argparse.Namespace, act: Callable[[Tensor, trace, list[End]], None], kept: int) -> int:
    """Run the script under a trace to its n-th backward pass, call ``act`` with the loss, and end the script.

    The trace has the records of the last ``kept`` steps. ``act`` receives the ends of these steps: the record of
    each loss, and the number of records before its step.
    """
    from retrograd.inspect import trace

    check_script(options)
    passes = start = 0
    ends: list[End] = []
    problems: list[UserError] = []  # ``act`` raised these errors, not the script

    def at(loss: Tensor) -> None:
        nonlocal passes, start
        passes += 1
        if passes == options.step:
            try:
                act(loss, t, [*ends, (t.record_of(loss), start)])
            except UserError as error:
                problems.append(error)
            raise StoppedError(0)
        if passes <= options.step - kept:
            t.records.clear()
        else:
            ends.append((t.record_of(loss), start))
        start = t.recorder.count

    with trace() as t, acting_at_backward(at):
        code = run_script(options.script, options.arguments)
    for problem in problems:
        raise problem
    if code == 0 and not passes:
        raise UserError(f"{options.script}: ended without a backward pass; does it call loss.backward()?")
    if code == 0 and passes < options.step:
        raise UserError(
            f"{options.script}: ended after {plural(passes, 'backward pass')}, before number {options.step}"
        )
    return code


def explain_script(options: argparse.Namespace) -> int:
    """Print the gradients of the script's loss, and explain some of them."""
    present = WeakSet(_modules())  # modules that exist already are not the script's

    def act(loss: Tensor, t: trace, ends: list[End]) -> None:
        from retrograd import autograd
        from retrograd.core.graph.nodes import edge_of, reachable
        from retrograd.inspect import explain

        sys.stdout.flush()
        _, completes = reachable([edge_of(loss)])
        modules = [module for module in _modules() if module not in present]
        reached = [x for xs in completes.values() for x in xs]
        held = {id(p): name for name, p in _without_gradient({}, modules).items()}
        leaves = {t.name_of(p) or held.get(id(p)) or f"leaf {i}": p for i, p in enumerate(reached)}
        names = list(leaves)
        given = [leaves[name] for name in names]
        found = autograd.grad(loss.sum(), given, retain_graph=True, allow_unused=True) if given else ()
        others = _without_gradient(leaves, modules)
        norms = [0.0 if g is None else float(g.norm()) for g in found]
        width = max(map(len, [*names, *others]), default=0)
        for name, norm in zip(names, norms, strict=True):
            print(f"{name:<{width}}  {tuple(leaves[name].shape)!s:<18} gradient of norm {norm:.4g}")
        for name, p in others.items():
            why = "the loss does not depend on it" if p.requires_grad else "frozen: requires_grad is False"
            print(f"{name:<{width}}  {tuple(p.shape)!s:<18} no gradient: {why}")
        zero = [name for name, norm in zip(names, norms, strict=True) if norm == 0]
        wanted = options.name or [*zero, *(name for name, p in others.items() if p.requires_grad)] or names[:1]
        for name in wanted[: None if options.name else _EXPLAINED_GRADIENTS]:
            one = next((table[name] for table in (leaves, others) if name in table), None)
            one = _by_variable(name) if one is None else one
            if one is None:
                raise UserError(f"there is no parameter {name!r}; there are {', '.join([*names, *others])}")
            print(f"\n{name}\n{explain(loss, one)}")

    return _until_backward(options, act, kept=1)


def _by_variable(name: str) -> Tensor | None:
    """Return the Tensor of a variable of the script, or a parameter of a module, as in ``model.bias``."""
    from retrograd import Tensor, nn
    from retrograd.core.source_location import user_frame

    variable, _, path = name.partition(".")
    frame = user_frame(sys._getframe(1))
    while frame is not None:
        found = frame.f_locals.get(variable, frame.f_globals.get(variable))
        parameters = dict(found.named_parameters()) if isinstance(found, nn.Module) else {}
        one = parameters.get(path) if path else found
        if isinstance(one, Tensor):
            return one
        frame = user_frame(frame.f_back)
    return None


def _modules() -> list[Module]:
    """Return all modules of the process."""
    import gc

    from retrograd import nn

    return [x for x in gc.get_objects() if issubclass(type(x), nn.Module)]


def _without_gradient(given: dict[str, Tensor], modules: list[Module]) -> dict[str, Tensor]:
    """Return the parameters of modules, by name, that are not among the given Tensors; equal names get a number."""
    inner = {id(part) for m in modules for part in m.modules() if part is not m}
    known = {id(p) for p in given.values()}
    found: dict[str, Tensor] = {}
    for module in modules:
        for name, p in module.named_parameters() if id(module) not in inner else ():
            if id(p) not in known:
                known.add(id(p))
                same = sum(other.partition(" ")[0] == name for other in [*given, *found])
                found[f"{name} #{same + 1}" if same else name] = p
    return found


def draw_script(options: argparse.Namespace) -> int:
    """Write the drawing of the script's graph."""
    out = options.out or Path(options.script).with_suffix(".graph.html").name
    check_output("--out", out)

    def act(loss: Tensor, t: trace, ends: list[End]) -> None:
        from retrograd import autograd
        from retrograd.core.graph.nodes import edge_of, reachable
        from retrograd.inspect import draw

        needed = _leading_to(ends, t)
        _, completes = reachable([edge_of(loss)])
        found = [x for leaves in completes.values() for x in leaves]
        if found:
            autograd.grad(loss.sum(), found)  # the drawing shows gradients by color
        try:
            draw(t.filter(lambda record: record.index in needed)).save(out)
        except ValueError as error:
            raise UserError(str(error)) from None
        print(out)

    return _until_backward(options, act, kept=_DRAWN_STEPS)


def _leading_to(ends: list[End], t: trace) -> set[int]:
    """Return the numbers of the trace's records that the ends depend on, without those that initialized parameters.

    A batch that the previous step created is an input of the step that uses the batch.
    """
    from retrograd.inspect.record import Departure

    found: set[int] = set()
    first = t.records[0].index if t.records else 0
    pending = list(ends)
    while pending:
        record, start = pending.pop()
        while isinstance(record, Departure):
            record = record.source
        if record is None or record.index < first or record.index in found:
            continue
        if record.requires_grad or record.index >= start:
            found.add(record.index)
            read = [*record.inputs, *([record.writes] if record.writes else [])]
            pending += [(x.source, start) for x in read if not (x.leaf and x.requires_grad)]
    return found


def profile_script(options: argparse.Namespace) -> int:
    """Print the listing of a profile of the script."""
    from retrograd.inspect import profile

    check_script(options)
    check_output("--out", options.out, ".html", ".htm")
    passes = 0

    def at(loss: Tensor) -> None:
        nonlocal passes
        passes += 1
        if options.steps is not None and passes > options.steps:
            raise StoppedError(0)

    p = profile()
    with acting_at_backward(at):
        code = run_script(options.script, options.arguments, within=p)
    print(p)
    if options.out is not None:
        p.save(options.out)
        print(options.out)
    return code

"""Run a user's script again, stop it, and watch it without an edit: shared by the commands that run scripts."""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import gc
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..console import plural
from ..parser import subparsers

if TYPE_CHECKING:
    import argparse

    from retrograd import Tensor, nn
    from retrograd.optim import Optimizer


_MOST_OPTIMIZERS = 4  # maximum number of optimizers of a script that is watched from its first step on


class StoppedError(SystemExit):
    """Ends a script when the command needs nothing more from it."""


def check_script(options: argparse.Namespace) -> None:
    """Raise an OSError, which the command line reports, if there is no such file.

    Print a note for an option of the command given after the script's name, if the script does not mention it.
    """
    script = options.script
    if os.path.isdir(script):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", script)
    if not os.path.isfile(script):
        raise FileNotFoundError(errno.ENOENT, "No such file", script)
    known = {
        option for action in subparsers(options.parser)[options.command]._actions for option in action.option_strings
    }
    text = Path(script).read_text(encoding="utf-8", errors="replace")
    for option in [word.partition("=")[0] for word in options.arguments]:
        if option.startswith("--") and option in known and option not in text:
            note = f"{option} comes after the script's name and is passed to the script; for retrograd "
            print(f"retrograd: note: {note}write it before: retrograd {options.command} {option} ...", file=sys.stderr)


def run_script(
    script: str,
    arguments: list[str],
    failed: Callable[[BaseException], object] | None = None,
    within: contextlib.AbstractContextManager[object] | None = None,
) -> int:
    """Run a script, and return its exit code, even if it calls ``sys.exit``. Its ``import torch`` imports Retrograd.

    ``within`` is entered when the command itself is ready, so that a profile does not measure the command.
    """
    from retrograd.compat.as_torch import installed_when_imported, run_program

    try:
        with installed_when_imported(), contextlib.nullcontext() if within is None else within:
            return run_program(script, arguments, failed)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1


def random_states() -> Callable[[], None]:
    """Return a function that restores the present states of the global random generators."""
    import numpy as np

    import retrograd as rg

    ours, of_numpy, of_python = rg.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002

    def restore() -> None:
        rg.set_rng_state(ours)
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)

    return restore


@contextlib.contextmanager
def acting_at_backward(act: Callable[[Tensor], None]) -> Iterator[None]:
    """Call ``act`` with the Tensor of each backward pass before it begins."""
    from retrograd import autograd
    from retrograd.autograd import gradients
    from retrograd.core.tensor.tensor import Tensor

    def patched(plain: Callable[..., None]) -> Callable[..., None]:
        def backward(tensors: Tensor | Sequence[Tensor], *args: object, **kwargs: object) -> None:
            act(tensors if isinstance(tensors, Tensor) else tensors[0])
            plain(tensors, *args, **kwargs)

        return backward

    with contextlib.ExitStack() as stack:
        for owner, name in ((Tensor, "backward"), (autograd, "backward"), (gradients, "backward")):
            plain = getattr(owner, name)
            stack.callback(setattr, owner, name, plain)
            setattr(owner, name, patched(plain))
        yield


@contextlib.contextmanager
def watching_script(out: Path) -> Iterator[None]:
    """Watch the models and optimizers of a script; at the end, write ``out`` and print the alarms.

    Watching begins at the first call of a module if all optimizers exist then and each takes a step; otherwise at the
    second step of one optimizer.
    """
    from retrograd.core.graph.modes import modes
    from retrograd.inspect import watch
    from retrograd.nn.base.global_hooks import register_module_forward_pre_hook
    from retrograd.optim.optimizer import register_optimizer_step_post_hook

    seen: list[Optimizer] = []
    active: list[watch] = []
    early: list[watch] = []

    def started(optimizers: list[Optimizer], steps: int) -> watch:
        w = watch(model_of(optimizers), optimizers, every=1)
        w.steps = steps
        return w.__enter__()

    def called(module: nn.Module, args: object) -> None:
        if created and modes.grad_enabled:
            at_call.remove()
            if len(created) < _MOST_OPTIMIZERS:
                early.append(started(created[:], 0))

    def stepped(optimizer: Optimizer, args: object, kwargs: object) -> None:
        if active:
            return
        at_call.remove()
        if all(optimizer is not x for x in seen):
            seen.append(optimizer)
            return
        known = [w for w in early if {*map(id, seen)} == {*map(id, w.optimizers)}]
        for w in early:
            if w not in known:  # other optimizers are in the loop
                w.__exit__(None, None, None)
        active.extend(known or [started(seen, 2)])

    at_call = register_module_forward_pre_hook(called)
    handle = register_optimizer_step_post_hook(stepped)
    try:
        with optimizers_created() as created:
            yield
    finally:
        handle.remove()
        at_call.remove()
        for w in {id(w): w for w in (*early, *active)}.values():
            w.__exit__(None, None, None)
        for w in active:
            w.save(out)
            for alarm in w.alarms:
                print(f"alarm at step {alarm.step}: {alarm}")
            print(f"watched: {plural(len(w.alarms), 'alarm') if w.alarms else 'no alarms'}; {out}")
        if not active:
            print(f"watch: no optimizer made two steps; {out} was not written", file=sys.stderr)


@contextlib.contextmanager
def optimizers_created() -> Iterator[list[Optimizer]]:
    """Yield a list that receives the first optimizers which the block creates."""
    from retrograd.optim.optimizer import Optimizer

    created: list[Optimizer] = []
    plain: Callable[..., None] = Optimizer.__init__

    @functools.wraps(plain)
    def init(optimizer: Optimizer, *args: object, **kwargs: object) -> None:
        plain(optimizer, *args, **kwargs)
        if len(created) < _MOST_OPTIMIZERS:  # a program may create an optimizer for each task
            created.append(optimizer)

    setattr(Optimizer, "__init__", init)  # noqa: B010
    try:
        yield created
    finally:
        setattr(Optimizer, "__init__", plain)  # noqa: B010


def model_of(optimizers: list[Optimizer]) -> nn.Module:
    """Return the smallest module with all parameters of the optimizers, or a new module that contains several.

    Parameters that belong to no module become parameters of the new module.
    """
    from retrograd import nn
    from retrograd.inspect.names import variable_name

    wanted = {id(p): p for o in optimizers for group in o.param_groups for p in group["params"]}
    modules = [x for x in gc.get_objects() if issubclass(type(x), nn.Module)]  # isinstance reads dead weak proxies
    held = {id(m): {id(p) for p in m.parameters()} for m in modules}
    whole = [m for m in modules if wanted.keys() <= held[id(m)]]
    if whole:
        return min(whole, key=lambda m: (len(held[id(m)]), -sum(1 for _ in m.modules())))
    inner = {id(part) for m in modules for part in m.modules() if part is not m}
    everything = nn.Module()
    covered: set[int] = set()
    for module in modules:
        if id(module) not in inner and held[id(module)] & wanted.keys():
            name = variable_name(sys._getframe(1), module)
            if not name.isidentifier() or hasattr(everything, name):
                name = f"{type(module).__name__.lower()}{len(everything._modules)}"
            everything.add_module(name, module)
            covered |= held[id(module)]
    for number, (key, p) in enumerate(wanted.items()):
        if key not in covered:
            everything._parameters[f"parameter{number}"] = p
    return everything

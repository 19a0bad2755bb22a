"""Generate the reference: one page per operator, operator family and package, from the public names.

Sphinx inserts the docstrings. A public name without a docstring is an error.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from retrograd.ops.table.registry import OPERATORS

from . import operators as pages_of_operators
from .formulas import typeset
from .formulas.notation import Unreadable

FAMILIES = {
    "math": "Elementwise mathematics",
    "reduce": "Sums, extremes and other reductions",
    "shape": "Shapes, views and copies",
    "indexing": "Indexing, sorting and selection",
    "linear": "Linear algebra, products and Fourier transforms",
    "make": "Creation of Tensors, random numbers, windows",
    "nn": "Neural network operators",
}
ROOMS = {
    "retrograd": "Modes, dtypes, devices and generators",
    "retrograd.autograd": "Gradients: autograd",
    "retrograd.autograd.functional": "Jacobians and vector products: autograd.functional",
    "retrograd.func": "Function transforms: func",
    "retrograd.core.graph.primitive": "User-defined operators: core.primitive",
    "retrograd.inspect": "Inspection and debugging: inspect",
    "retrograd.inspect.stepping": "Stepping through a backward pass: inspect.step",
    "retrograd.inspect.explaining": "Explanations: inspect.explain",
    "retrograd.compiler": "Compiled steps: compile",
    "retrograd.nn": "Modules: nn",
    "retrograd.nn.init": "Initialization: nn.init",
    "retrograd.nn.utils": "Module utilities: nn.utils",
    "retrograd.nn.parallel": "Data-parallel modules: nn.parallel",
    "retrograd.optim": "Optimizers: optim",
    "retrograd.optim.lr_scheduler": "Learning rate schedules: optim.lr_scheduler",
    "retrograd.data": "Data sets and loaders: data",
    "retrograd.training": "Training loops, metrics, checkpoints: training",
    "retrograd.models": "Models: models",
    "retrograd.serialization": "Saving and loading: save and load",
    "retrograd.distributions": "Probability distributions: distributions",
    "retrograd.random": "Random numbers by keys: random",
    "retrograd.quasirandom": "Sobol sequences: quasirandom",
    "retrograd.polynomial": "Series of polynomials: polynomial",
    "retrograd.sparse": "Sparse matrices: sparse",
    "retrograd.linalg": "Linear algebra errors: linalg",
    "retrograd.distributed": "Distributed training: distributed",
    "retrograd.distributed.nn": "Differentiable collectives: distributed.nn",
    "retrograd.distributed.optim": "Sharded optimizers: distributed.optim",
    "retrograd.onnx": "ONNX files: onnx",
    "retrograd.weights": "Pretrained weights: weights",
    "retrograd.sklearn": "Estimators for scikit-learn: sklearn",
    **{
        f"retrograd.scipy.{name}": f"SciPy's functions on Tensors: scipy.{name}"
        for name in (
            "special",
            "linalg",
            "interpolate",
            "stats",
            "signal",
            "ndimage",
            "fft",
            "optimize",
            "integrate",
            "sparse",
            "sparse.linalg",
        )
    },
    "retrograd.ode": "Differential equations: ode",
    "retrograd.utils.checkpoint": "Gradient checkpointing: utils.checkpoint",
    "retrograd.scalar": "Scalar engine: scalar",
    "retrograd.manual": "Layers written by hand: manual",
    "retrograd.testing": "Operator tests: testing",
}
ONLY = {"retrograd.core.graph.primitive": ("Primitive",)}  # of packages that are otherwise internal


class Undocumented(Exception):
    """A public name has no docstring, or a docstring with a formula that cannot be parsed."""


def write(folder: Path) -> None:
    """Write the reference pages into a folder.

    Raises:
        Undocumented: public names lack docstrings; the message lists all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages: list[tuple[str, str]] = []
    missing: list[str] = []
    unread = [said for entry in OPERATORS.values() for said in unreadable(entry.name, entry.function, says=True)]
    seen: set[tuple[str, str]] = set()
    pages_of_operators.write(folder / pages_of_operators.FOLDER, FAMILIES)
    for family, title in FAMILIES.items():
        (folder / f"operators_{family}.rst").write_text(contents_of(family, title), encoding="utf-8")
        pages.append((f"operators_{family}", title))
        seen.update(identity(entry.function) for entry in OPERATORS.values())
    for room, title in ROOMS.items():
        try:
            module = importlib.import_module(room)
        except ModuleNotFoundError as error:
            if error.name and error.name.startswith("retrograd"):
                continue  # a module that does not exist
            raise
        if not getattr(module, "__file__", None) or "compat" in module.__file__:
            continue
        entries = []
        for name, value in sorted(public(module)):
            if identity(value) in seen:
                continue
            seen.add(identity(value))
            missing += undocumented(f"{room}.{name}", value)
            for one, own in documented(f"{room}.{name}", value):
                unread += unreadable(one, own, says(one))
            entries.append((f"{room}.{name}", "class" if inspect.isclass(value) else "function"))
        page = room.replace(".", "_")
        write_page(folder / f"{page}.rst", title, entries, typeset(inspect.getdoc(module) or ""))
        pages.append((page, title))
    if missing:
        raise Undocumented("without a docstring: " + ", ".join(missing))
    if unread:
        raise Undocumented("formulas that cannot be read:\n" + "\n".join(unread))
    write_contents(folder / "index.md", pages)


def undocumented(name: str, value: object) -> list[str]:
    """Return the names without docstring: a function, or a class and its public members."""
    missing = [] if inspect.getdoc(value) else [name]
    for own, member in vars(value).items() if inspect.isclass(value) else ():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if own.startswith("_") or not inspect.isfunction(function):
            continue
        late = function.__module__.startswith("retrograd.compat")  # a legacy name, loaded on demand
        if not late and not inspect.getdoc(getattr(value, own)):
            missing.append(f"{name}.{own}")
    return missing


def documented(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield a function or class, and the members whose docstrings its page shows."""
    yield name, value
    operators = {entry.function for entry in OPERATORS.values()}  # they are on the pages of their families
    for own, member in vars(value).items() if inspect.isclass(value) else ():
        shown = isinstance(member, (property, classmethod, staticmethod)) or inspect.isfunction(member)
        if shown and not own.startswith("_") and not (inspect.isfunction(member) and member in operators):
            yield f"{name}.{own}", getattr(value, own)


def says(name: str) -> bool:
    """Whether the first paragraph of the docstring is a definition."""
    return name.startswith(("retrograd.nn.", "retrograd.distributions.")) and name.count(".") == 2


def unreadable(name: str, value: object, says: bool) -> list[str]:
    """Return the complaint about a docstring with a formula that cannot be parsed."""
    try:
        typeset(inspect.getdoc(value) or "", says)
    except Unreadable as error:
        return [f"{name}: {error}"]
    return []


def contents_of(family: str, title: str) -> str:
    """Return the page of a family: a table of its operators, with links."""
    rows = [
        (qualified, (inspect.getdoc(entry.function) or "").partition("\n")[0])
        for qualified, entry in sorted(OPERATORS.items(), key=lambda item: item[0].lower())
        if entry.function.__module__.split(".")[2] == family
    ]
    lines = [title, "=" * len(title), "", ".. list-table::", "   :widths: 30 70", ""]
    for qualified, summary in rows:
        page = f"{pages_of_operators.FOLDER}/{pages_of_operators.page_name(qualified)}"
        lines += [f"   * - :doc:`{qualified} <{page}>`", f"     - {typeset(summary, True)}"]
    return "\n".join(lines) + "\n"


def identity(value: object) -> tuple[str, str]:
    """Return where a function or class was defined; equal for wrappers and other names."""
    return value.__module__, getattr(value, "__qualname__", "")


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the functions and classes of this package that a module exports."""
    names = ONLY.get(module.__name__) or getattr(module, "__all__", None) or vars(module)
    for name in [name for name in names if not name.startswith("_")]:
        value = getattr(module, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("retrograd"):
            yield name, value


def write_page(file: Path, title: str, entries: list[tuple[str, str]], text: str = "") -> None:
    lines = [title, "=" * len(title), "", text, ""]
    for name, kind in entries:
        lines += [f".. auto{kind}:: {name}"]
        if kind == "class":
            lines += ["   :members:"]
        lines += [""]
    file.write_text("\n".join(lines), encoding="utf-8")


def write_contents(file: Path, pages: list[tuple[str, str]]) -> None:
    listed = "\n".join(f"{title} <{page}>" for page, title in pages)
    file.write_text(f"# Reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n", encoding="utf-8")

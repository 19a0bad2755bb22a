"""Writes ``cupy_api.txt``, what CuPy offers, from an installed CuPy (without a GPU): run this file."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

HEADER = """\
# What CuPy offers, read off CuPy {version}: the public names of its modules and the members of its ndarray.
# name: a constant, class or attribute; name(parameters): a function or method; name ufunc."""


def parameters(function: Any) -> list[str] | None:
    """The parameters' names, from the signature or, for compiled functions, from the docstring's first line."""
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    try:
        found = inspect.signature(function).parameters.values()
        return [marks.get(p.kind, "") + p.name for p in found if p.name != "self"]
    except (ValueError, TypeError):
        match = re.match(r"[\w.]*\((.*)\)( ->.*)?$", (function.__doc__ or "").partition("\n")[0])
    if match is None:
        return None
    names = [part.strip().split("=")[0].split(" ")[-1] for part in match[1].split(",") if part.strip()]
    return [name for name in names if name not in ("self", "/", "*")]


def lines(owner: Any, ufunc: type) -> Iterator[str]:
    for name in sorted(dir(owner)):
        member = getattr(owner, name)
        if name.startswith("_") or name == "annotations" or isinstance(member, ModuleType):
            continue
        if isinstance(member, ufunc):
            yield f"{name} ufunc"
        elif isinstance(member, type) or not callable(member):
            yield name
        else:
            names = parameters(member)
            yield name if names is None else f"{name}({' '.join(names)})"


def imported(path: Path) -> list[str]:
    """The names that a module imports, for one that itself needs a GPU's libraries to be imported."""
    found = re.findall(r"^from cupyx[\w.]* import ([\w, ]+)", path.read_text(), re.MULTILINE)
    return sorted({name.strip() for names in found for name in names.split(",") if "__" not in name})


def main() -> None:
    import cupy  # type: ignore[import-not-found]
    import cupy.lib.stride_tricks
    import cupyx  # type: ignore[import-not-found]
    import cupyx.scipy.special

    owners = (cupy, cupy.linalg, cupy.fft, cupy.random, cupy.lib.stride_tricks, cupyx, cupyx.scipy.special)
    sections = [(owner.__name__, list(lines(owner, cupy.ufunc))) for owner in owners]
    sections.append(("cupyx.scipy.linalg", imported(Path(cupyx.__file__).parent / "scipy/linalg/__init__.py")))
    sections += [(f"cupy.{owner.__name__}", list(lines(owner, cupy.ufunc))) for owner in (cupy.ndarray, cupy.ufunc)]
    text = HEADER.format(version=cupy.__version__)
    for name, members in sections:
        text += f"\n\n[{name}]\n" + "\n".join(members)
    (Path(__file__).parent / "cupy_api.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()

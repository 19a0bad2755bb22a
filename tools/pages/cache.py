"""Cache the results of pages in build/pages, so that pages that the tests have run need not run for the site.

A cached result is valid while its inputs are unchanged: page, library, tools, versions, environment.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path

from .running import Result

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "pages"


def store(path: Path, results: list[Result]) -> None:
    """Store the results of a completely run page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    new = FOLDER / f"{path.stem}.{os.getpid()}"
    new.write_bytes(pickle.dumps((digest(path), results)))
    new.replace(FOLDER / f"{path.stem}.results")


def load(path: Path) -> list[Result] | None:
    """Return the stored results of an unchanged page, or None."""
    file = FOLDER / f"{path.stem}.results"
    if not file.exists():
        return None
    found, results = pickle.loads(file.read_bytes())
    return results if found == digest(path) else None


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes() + surroundings()).hexdigest()


@cache
def surroundings() -> bytes:
    """Return a digest of the library, the tools that run pages, versions, and Retrograd's environment variables."""
    content = hashlib.sha256(sys.version.encode())
    tools = [ROOT / "tools" / "pages" / name for name in ("blocks.py", "running.py")]
    for file in sorted([*(ROOT / "src").rglob("*.py"), *tools]):
        content.update(file.read_bytes())
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("RETROGRAD_"))
    content.update("\n".join([*versions(), *variables]).encode())
    return content.digest()


def versions() -> Iterator[str]:
    """Yield the versions of NumPy and the installed extras, except build and test tools."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [wanted for extra, wanted in project["optional-dependencies"].items() if extra not in ("dev", "docs")]
    for requirement in sorted({*project["dependencies"], *chain.from_iterable(extras)}):
        name = re.match(r"[\w.-]+", requirement)[0]
        with suppress(metadata.PackageNotFoundError):
            yield f"{name} {metadata.version(name)}"

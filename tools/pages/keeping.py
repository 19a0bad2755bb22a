"""What the programs of a page printed and drew, kept in build/pages: who tests the pages has run them for the site.

A file is of use while nothing has changed on which the output may depend: page, library, tools, versions, environment.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from .running import Result

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "pages"


def keep(path: Path, results: list[Result]) -> None:
    """Keep the results of a page that was run to its end."""
    KEPT.mkdir(parents=True, exist_ok=True)
    new = KEPT / f"{path.stem}.{os.getpid()}"
    new.write_bytes(pickle.dumps((digest(path), results)))
    new.replace(KEPT / f"{path.stem}.results")


def kept(path: Path) -> list[Result] | None:
    """The results of a page as it stands, or None if it has to be run."""
    file = KEPT / f"{path.stem}.results"
    if not file.exists():
        return None
    found, results = pickle.loads(file.read_bytes())
    return results if found == digest(path) else None


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes() + surroundings()).hexdigest()


@cache
def surroundings() -> bytes:
    """A digest of the library, the tools, the versions of all that is installed, and our environment variables."""
    content = hashlib.sha256(sys.version.encode())
    for file in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tools" / "pages").glob("*.py")]):
        content.update(file.read_bytes())
    installed = sorted(f"{one.name} {one.version}" for one in metadata.distributions())
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("RETROGRAD_"))
    content.update("\n".join([*installed, *variables]).encode())
    return content.digest()

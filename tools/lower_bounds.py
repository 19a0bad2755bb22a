"""Print pip constraints that pin every dependency of pyproject.toml to its declared lower bound.

python tools/lower_bounds.py > constraints.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]


def constraints() -> list[str]:
    extras = PROJECT["optional-dependencies"]
    requirements = PROJECT["dependencies"] + [r for extra, rs in extras.items() if extra != "compare" for r in rs]
    return sorted({re.sub(r">=", "==", r) for r in requirements if re.fullmatch(r"[\w-]+>=[\d.]+", r) and "cupy" not in r})


if __name__ == "__main__":
    print("\n".join(constraints()))

"""Print pip constraints that pin every dependency of pyproject.toml to its declared lower bound.

python tools/lower_bounds.py > constraints.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]


def constraints() -> list[str]:
    extras = {name: listed for name, listed in PROJECT["optional-dependencies"].items() if name != "compare"}
    requirements = PROJECT["dependencies"] + [requirement for listed in extras.values() for requirement in listed]
    bounded = [requirement for requirement in requirements if re.fullmatch(r"(?!cupy)[\w-]+>=[\d.]+", requirement)]
    return sorted({requirement.replace(">=", "==") for requirement in bounded})


# Constraints that the lowest versions lack: matplotlib 3.9 calls functions that pyparsing 3.3 deprecates.
THEIRS = ["pyparsing<3.3"]

if __name__ == "__main__":
    print("\n".join(constraints() + THEIRS))

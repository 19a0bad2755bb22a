"""The wheel's compiled loops, and its description for the page of a package index.

The loops are those that `make kernels` has put into build/kernels, for one platform; without them the wheel is for all
platforms. ``RETROGRAD_URL``, the public address of the repository, makes the README's links absolute and gives the
project's URLs. Everything else is in pyproject.toml.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from functools import cache
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

MADE = Path(__file__).parent / "build" / "kernels"
KERNELS = Path(__file__).parent / "src" / "retrograd" / "kernels"
# The libraries need nothing of the C library but functions that have always been there, by names without a version.
PLATFORMS = {"x86-64": "manylinux_2_17_x86_64", "aarch64": "manylinux_2_17_aarch64"}
ARCHITECTURE = os.environ.get("RETROGRAD_WHEEL", "x86-64")
URL = os.environ.get("RETROGRAD_URL", "").rstrip("/")


@cache
def indices() -> list[Path]:
    """The indices of the libraries that were made of these sources and this table of loops, and are whole."""
    found = []
    for path in sorted(MADE.glob(f"{ARCHITECTURE}*.json")):
        try:
            about = json.loads(path.read_text())
            current = digest(about["files"]) == about["sources"] and digest(about["plan"]) == about["planned"]
            code = path.with_suffix(".so").read_bytes()
            whole = hashlib.sha256(code).hexdigest() == about["digest"]
        except (OSError, ValueError, KeyError, TypeError):
            current, whole = True, False
        if current and whole:
            found.append(path)
        else:
            why = "it is damaged" if current else "its sources or the table of its loops have changed"
            print(f"{path.stem} is left out: {why} since `make kernels`", file=sys.stderr)
    return found


def digest(files: list[str]) -> str:
    """Return the digest that the index of a library has of files of kernels."""
    content = hashlib.sha256()
    for name in files:
        source = KERNELS / name
        content.update(name.encode() + b"\0" + (source.read_bytes() if source.is_file() else b"") + b"\0")
    return content.hexdigest()


def description() -> str:
    """Return the README; with ``RETROGRAD_URL`` its links and pictures are absolute."""
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}]({URL}/{'raw' if link[1].startswith('!') else 'blob'}/HEAD/{link[2]})"

    return re.sub(r"(!?\[[^\]]*)\]\((?![a-z]+:|#)([^)]+)\)", absolute, text) if URL else text


def urls() -> dict[str, str]:
    """Return the project's URLs, none without ``RETROGRAD_URL``."""
    pages = {
        "Source": "",
        "Documentation": "/tree/HEAD/docs",
        "Changelog": "/blob/HEAD/CHANGELOG.md",
        "Issues": "/issues",
    }
    return {name: URL + page for name, page in pages.items()} if URL else {}


class BuildWithKernels(build_py):
    """Copies the libraries to where they are opened, ``retrograd/kernels/library``."""

    def run(self) -> None:
        super().run()
        place = Path(self.build_lib) / "retrograd" / "kernels" / "library"
        shutil.rmtree(place, ignore_errors=True)  # of an earlier build
        if not self.editable_mode:
            for index in indices():
                place.mkdir(parents=True, exist_ok=True)
                for path in (index, index.with_suffix(".so")):
                    shutil.copyfile(path, place / path.name)


class WheelWithKernels(bdist_wheel):
    """Says of a wheel with libraries for which platform it is."""

    def get_tag(self) -> tuple[str, str, str]:
        tag = super().get_tag()
        return ("py3", "none", PLATFORMS[ARCHITECTURE]) if indices() else tag


class Package(Distribution):
    """Has the files of a wheel with libraries installed where those of other compiled packages are."""

    def has_ext_modules(self) -> bool:
        return bool(indices())


setup(
    distclass=Package,
    cmdclass={"build_py": BuildWithKernels, "bdist_wheel": WheelWithKernels},
    long_description=description(),
    long_description_content_type="text/markdown",
    project_urls=urls(),
)

"""mypy and pyright find the types of programs that use the library, and their mistakes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing import accepted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ACCEPTED, REFUSED = HERE / "accepted.py", HERE / "refused.py"

# For each file what a checker reports, by line.
Report = dict[Path, dict[int, list[str]]]


def run_mypy(tmp_path: Path) -> Report:
    pytest.importorskip("mypy")
    # From elsewhere than the checkout, whose settings are for its own code: a user's program has none.
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--config-file=",
        "--cache-dir",
        ROOT / ".mypy_cache",
    ]
    run = subprocess.run(
        [*command, ACCEPTED, REFUSED],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    report: Report = {}
    for path, line, message in re.findall(r"^(.*?):(\d+): error: (.*)$", run.stdout, re.MULTILINE):
        report.setdefault((tmp_path / path).resolve(), {}).setdefault(int(line), []).append(message)
    return report


def run_pyright(tmp_path: Path) -> Report:
    pytest.importorskip("basedpyright")
    settings = {
        "include": [str(ACCEPTED), str(REFUSED)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "reportUnusedExpression": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    report: Report = {}
    for found in json.loads(run.stdout)["generalDiagnostics"]:
        if found["severity"] == "error":
            line = found["range"]["start"]["line"] + 1
            report.setdefault(Path(found["file"]).resolve(), {}).setdefault(line, []).append(found["message"])
    return report


checkers = [pytest.param(run, marks=pytest.mark.slow, id=run.__name__[4:]) for run in (run_mypy, run_pyright)]


@pytest.fixture(scope="module", params=checkers)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    found: Report = request.param(tmp_path_factory.mktemp("checker"))
    return found


def test_programs_are_accepted_with_the_types_they_assert(report: Report) -> None:
    assert report.get(ACCEPTED, {}) == {}


def test_every_mistake_is_refused_and_nothing_else(report: Report) -> None:
    lines = REFUSED.read_text().splitlines()
    mistakes = {number: line.strip() for number, line in enumerate(lines, 1) if line.endswith("# error")}
    found = report.get(REFUSED, {})
    assert {line: mistakes[line] for line in mistakes if line not in found} == {}
    assert {line: messages for line, messages in found.items() if line not in mistakes} == {}


def test_no_other_file_is_at_fault(report: Report) -> None:
    assert report.keys() <= {ACCEPTED, REFUSED}


def test_the_accepted_programs_run() -> None:
    accepted.run()

"""The README's example runs as printed, prints what it says, and is as short as it says."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example_prints_what_the_readme_shows():
    _, _, text = README.read_text(encoding="utf-8").partition("## Thirty lines")
    program, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    assert sum(bool(line) for line in program.splitlines()) <= 30
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, README.name, "exec"), {})
    assert printed.getvalue() == output


def test_the_story_of_a_program_is_the_one_that_the_readme_shows(tmp_path):
    text = README.read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    program, output = pairs[0]
    file = tmp_path / "entropy.py"
    file.write_text(program)
    run = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert run.stdout == output


def test_every_file_that_the_readme_links_to_exists():
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []

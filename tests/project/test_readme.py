"""The programs of the README run as printed and print what it shows; its pictures and links are current."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

from tools.readme_pictures import comparison

README = Path(__file__).parents[2] / "README.md"


def _blocks() -> list[tuple[str, str]]:
    """The programs of the README with the output that it shows."""
    text = README.read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```\n\n(?:[^`\n][^\n]*\n|`[^`][^\n]*\n|\n)*?```text\n(.*?)```", text, re.DOTALL)


def test_the_first_example_prints_what_the_readme_shows():
    program, output = _blocks()[0]
    assert sum(bool(line) for line in program.splitlines()) <= 8
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, README.name, "exec"), {})
    assert printed.getvalue() == output


def test_the_doctor_says_what_the_readme_shows(tmp_path):
    program, output = _blocks()[1]
    file = tmp_path / "train.py"
    file.write_text(program)
    command = [sys.executable, "-W", "ignore", "-m", "retrograd", "doctor", file]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert _without_figures(run.stdout) == _without_figures(output)


def _without_figures(text: str) -> str:
    """The text on one line, without the digits after a point, which depend on the machine."""
    return re.sub(r"\.\d+", "", " ".join(text.split()))


def test_the_story_of_a_program_is_the_one_that_the_readme_shows(tmp_path):
    program, output = _blocks()[2]
    file = tmp_path / "entropy.py"
    file.write_text(program)
    run = subprocess.run([sys.executable, "-m", "retrograd", "run", "--guard", file], capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.endswith(f"GuardError: {output}")


def test_the_comparison_is_drawn_from_the_page_of_the_benchmarks():
    drawn = (README.parent / "docs" / "images" / "comparison.svg").read_text(encoding="utf-8")
    assert comparison() + "\n" == drawn, "run python tools/readme_pictures.py"


def test_every_file_that_the_readme_links_to_exists():
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_figures_in_texts_are_those_of_the_benchmarks():
    docs = README.parent / "docs"
    page = (docs / "performance.md").read_text(encoding="utf-8")
    readme = " ".join(README.read_text(encoding="utf-8").split())
    guide = " ".join((docs / "guides" / "using_a_gpu.md").read_text(encoding="utf-8").split())
    without_loops = re.findall(r"geometric mean \| [\d.]+ \| ([\d.]+) \|", page)[0]
    assert f"NumPy computes in {without_loops} of PyTorch's time" in readme
    rows = re.findall(
        r"^\| (\w+)[^|]*\| [\d.]+ \| ([\d.]+) \| ([\d.]+) \|$", page.partition("### On a GPU")[2], re.MULTILINE
    )
    times = {name: (float(eager), float(compiled)) for name, eager, compiled in rows}
    gpt = f"{times.pop('gpt_124m')[1]:.1f} times"
    assert f"takes {gpt} PyTorch's time, compiled" in readme and f"takes {gpt} as long" in guide
    eager, compiled = zip(*times.values(), strict=True)
    assert f"takes {min(eager):.3g} to {max(eager):.2g} times as long as PyTorch's" in guide
    assert f"{min(compiled):.2g} to {max(compiled):.2g} of PyTorch eager's time" in guide

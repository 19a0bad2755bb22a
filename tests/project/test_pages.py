"""The programs in the chapters and guides print what the pages show, and a page that lies is found."""

import ast
import json
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.helpers.together import in_one_test
from tools.pages.__main__ import DOCS, pages, write
from tools.pages.blocks import Program, Text, read
from tools.pages.cache import store
from tools.pages.notebooks import WHEEL, drawn_once, notebook
from tools.pages.running import Failure, agree, check, checked, run

PAGES = {str(path.relative_to(DOCS)): path for path in pages()}
SLOW = {name for name, path in PAGES.items() if "<!-- slow -->" in path.read_text(encoding="utf-8")}


def marks_of(name):
    return [pytest.mark.slow, pytest.mark.every(6)] if name in SLOW else []


def test_there_are_chapters_and_guides():
    assert any(name.startswith("learn/") for name in PAGES)


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in PAGES])
def test_a_page_prints_what_it_shows(name):
    store(PAGES[name], checked(PAGES[name]))  # the site needs the results, too
    packages = {block.package for block in read(PAGES[name]) if isinstance(block, Program) and block.package}
    if missing := sorted(package for package in packages if find_spec(package) is None):
        pytest.skip(f"programs for packages that are not installed did not run: {', '.join(missing)}")


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("learn/")])
def test_a_chapter_is_a_notebook_of_the_same_programs(name):
    cells = json.loads(notebook(PAGES[name]))["cells"]
    sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    programs = [block for block in read(PAGES[name]) if isinstance(block, Program) and block.runs]
    plain = [source for source in sources if not source.startswith(("%", "!"))]
    assert plain == [drawn_once(block.code).rstrip("\n") for block in programs if not block.file]
    assert not any("plt." in source and source.endswith("\nfigure") for source in plain)  # it would appear twice
    for source in plain:
        ast.parse(source)


def test_solutions_are_folded_in_a_notebook_or_left_out(tmp_path):
    command = [sys.executable, "-m", "tools.pages.notebooks", str(tmp_path), "--without-solutions"]
    assert "14 notebooks" in subprocess.check_output(command, cwd=DOCS.parent, text=True)
    for path in sorted(tmp_path.glob("*.ipynb")):
        cells = json.loads(notebook(PAGES[f"learn/{path.stem}.md"]))["cells"]
        hidden = [cell for cell in cells if "jupyter" in cell["metadata"] or "<details>" in cell["source"]]
        left = [cell["source"] for cell in json.loads(path.read_text())["cells"]]
        assert left.pop(1) == f"%pip install --quiet '{DOCS.parent}[plots]'"
        assert cells.pop(1)["source"] == f"%pip install --quiet {WHEEL}"
        assert len(hidden) >= 5 and left == [cell["source"] for cell in cells if cell not in hidden]
        assert len(re.findall(r"^\*\*\d\.\*\*", "\n".join(left), re.MULTILINE)) == 5
        assert "Solution" not in "".join(left)


@in_one_test("path", sorted(DOCS.rglob("*.md")))
def test_every_link_between_pages_leads_somewhere(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\((?!https?:|#|path:|reference/)([^)#\s]+)", text)  # the site's build writes the reference
    assert [link for link in links if not (path.parent / link).exists()] == []


@in_one_test("path", sorted(DOCS.rglob("*.md")))
def test_every_row_stands_in_a_table(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    tables = [block.splitlines() for block in re.split(r"\n\n+", text) if block.lstrip().startswith("|")]
    assert [rows[0] for rows in tables if len(rows) < 3 or not re.fullmatch(r"\|[-:| ]+\|", rows[1])] == []
    columns = [{len(re.findall(r"(?<!\\)\|", row)) for row in rows} for rows in tables]
    assert [counts for counts in columns if len(counts) != 1] == []


def test_every_decision_has_its_number_its_parts_and_a_line_in_the_index():
    folder = DOCS / "decisions"
    pages = sorted(folder.glob("[0-9]*.md"))
    index = re.findall(
        r"^\* \[(\d+)\. (.*)\]\((.*)\)$", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(name for _, _, name in index) == [page.name for page in pages]
    for number, title, name in index:
        text = (folder / name).read_text(encoding="utf-8")
        assert name.startswith(f"{int(number):03}-") and text.startswith(f"# {number}. {title}\n"), name
        assert all(f"**{part}.** " in text for part in ("Context", "Decision", "Consequences")), name


PAGE = """# A page

Text.

```python
x = 2
print(x * 1.5)
x
```

```text
3.0
2
```

<!-- raises -->
```python
1 / 0
```

```text
ZeroDivisionError: division by zero
```
"""


def page(folder, text):
    file = folder / "page.md"
    file.write_text(text)
    return file


def test_a_page_is_text_and_programs(tmp_path):
    kinds = [type(block) for block in read(page(tmp_path, PAGE))]
    assert kinds == [Text, Program, Text, Program]
    for result in run(tmp_path / "page.md"):
        check(result)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("3.0", "3.1", "got\n3.0"),
        ("\n2\n```", "\n3\n```", "expected"),
        ("division", "multiplication", "division by zero"),
        ("1 / 0", "1 / 1", "is marked `raises`, but raised no exception"),
        ("x = 2", "x = y", "NameError"),
    ],
)
def test_a_page_that_says_something_else_is_refused(tmp_path, old, new, complaint):
    with pytest.raises(Failure) as failure:
        for result in run(page(tmp_path, PAGE.replace(old, new, 1))):
            check(result)
    assert complaint in str(failure.value)


def test_what_the_programs_print_is_written_into_the_page(tmp_path):
    file = page(tmp_path, PAGE.replace("3.0", "old").replace("ZeroDivisionError: division by zero", "old"))
    write(file)
    assert file.read_text() == PAGE


def test_numbers_may_differ_in_their_last_digits_only():
    assert agree("loss 0.12345\n", "loss 0.12346\n")
    assert not agree("loss 0.12345\n", "loss 0.13\n")
    assert not agree("step 10\n", "step 11\n")
    assert not agree("loss 0.1\n", "error 0.1\n")
    assert not agree("1.0 2.0\n", "1.0\n")
    assert agree("about ~100 steps\n", "about ~110 steps\n")
    assert not agree("about ~100 steps\n", "about ~150 steps\n")
    assert agree("1.58 ->\n0.4523 by the edited loss\n", "1.58 ->\n0.4488 by the edited loss\n")
    assert not agree("1.58 -> 0.4523\n", "1.58 -> 0.6488\n")


def test_every_path_in_the_architecture_page_and_the_decisions_exists():
    roots = [DOCS.parent / "src" / "retrograd", DOCS.parent / "src", DOCS.parent]
    missing = [
        f"{page.name}: {path}"
        for page in [DOCS.parent / "docs" / "architecture.md", *(DOCS.parent / "docs" / "decisions").glob("*.md")]
        for path in re.findall(r"`([a-z_]+/[\w/]+\.(?:py|md))`", page.read_text(encoding="utf-8"))
        if not any((root / path).exists() for root in roots)
    ]
    assert sorted(missing) == []

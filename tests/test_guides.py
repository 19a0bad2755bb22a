"""The programs in docs/guides run as they stand there."""

import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"
NEEDS = {
    "exchanging_weights_and_models": ["onnx"],
    "scikit_learn_and_scipy": ["sklearn", "scipy"],
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_guides_programs_run(name, tmp_path, monkeypatch):
    for package in NEEDS[name]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```", (GUIDES / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert programs
    namespace: dict[str, object] = {}
    for program in programs:
        exec(compile(program, name, "exec"), namespace)

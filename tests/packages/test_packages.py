"""Packages written for PyTorch run on Retrograd, with PyTorch's numbers.

``programs`` has one short program per package. ``expected.json`` has what it prints on PyTorch, as
``python tests/packages/record.py`` wrote it in an environment that has both. A program is skipped where its package is
not installed. ``make packages`` installs the packages into an environment of its own and runs these tests there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXPECTED: dict[str, list[str]] = json.loads((HERE / "expected.json").read_text())
NEEDED = {
    "accelerate_loop": "accelerate", "botorch_acquisition": "botorch", "captum_attributions": "captum",
    "diffusers_training": "diffusers", "e3nn_products": "e3nn", "einops_layers": "einops",
    "gpytorch_regression": "gpytorch", "kornia_images": "kornia", "laplace_approximations": "laplace",
    "lightning_fit": "lightning", "linear_operator_solves": "linear_operator", "opacus_training": "opacus",
    "open_clip_model": "open_clip", "peft_lora": "peft", "pyro_posterior": "pyro",
    "pytorch_optimizer_steps": "pytorch_optimizer", "safetensors_files": "safetensors",
    "segmentation_models": "segmentation_models_pytorch", "sentence_transformers_encode": "sentence_transformers",
    "timm_models": "timm", "torch_geometric_layers": "torch_geometric",
    "torchdiffeq_solvers": "torchdiffeq", "torchinfo_summary": "torchinfo", "torchmetrics_values": "torchmetrics",
    "torchvision_detection": "torchvision", "torchvision_models": "torchvision", "torchviz_graph": "torchviz",
    "transformers_gpt2": "transformers", "transformers_models": "transformers", "transformers_trainer": "accelerate",
    "vit_pytorch_models": "vit_pytorch", "whisper_model": "whisper", "zuko_flows": "zuko",
}  # fmt: skip


def agree(line: str, wanted: str) -> bool:
    """Whether a line shows what PyTorch's does. Numbers agree to 9 digits, those that begin with ``~`` to 5."""
    name, _, text = line.partition(" ")
    try:
        number, reference = float(text), float(wanted.partition(" ")[2])
    except ValueError:
        return line == wanted
    tolerance = 1e-5 if name.startswith("~") else 1e-8
    return wanted.startswith(f"{name} ") and abs(number - reference) <= tolerance * max(1, abs(reference))


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_a_program_of_a_package_prints_what_it_prints_on_pytorch(name):
    if find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed")
    command = [sys.executable, "-W", "ignore", "-m", "retrograd", "run", str(HERE / "programs" / f"{name}.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    lines = result.stdout.splitlines()
    assert [pair for pair in zip(lines, EXPECTED[name]) if not agree(*pair)] == []
    assert len(lines) == len(EXPECTED[name])


def test_every_program_has_a_package_and_results():
    programs = {path.stem for path in (HERE / "programs").glob("*.py")} - {"common"}
    assert programs == NEEDED.keys() == EXPECTED.keys()


@pytest.mark.parametrize(
    ("line", "wanted", "same"),
    [
        ("loss 1.25", "loss 1.25000000001", True), ("loss 1.25", "loss 1.2500001", False), ("a 1", "b 1", False),
        ("~loss 1.25", "~loss 1.250001", True), ("~loss 1.25", "~loss 1.251", False), ("x [1]", "x [2]", False),
    ],
)  # fmt: skip
def test_lines_agree_by_their_numbers(line, wanted, same):
    assert agree(line, wanted) is same

"""Names that PyTorch has and Retrograd does not: they import, and a use says what they are for."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

import retrograd as rg
from retrograd.compat import absent

ROOT = Path(__file__).resolve().parents[2]
NAMES = [(path, name) for group in absent.ABSENT for path, names in group.names.items() for name in names.split()]


def test_every_listed_name_can_be_imported_and_no_name_is_listed_twice():
    assert len(set(NAMES)) == len(NAMES) > 300
    for path, name in NAMES:
        value = getattr(import_module(f"retrograd.{path}".rstrip(".")), name)
        assert inspect.isclass(value) and not isinstance(1, value), (path, name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_listed_name_is_pytorchs():
    torch = pytest.importorskip("torch")
    for path, name in NAMES:
        module = import_module(f"torch.{path}") if path else torch
        assert hasattr(module, name), (path, name)


def test_a_call_an_instance_of_a_subclass_and_an_attribute_say_what_the_name_is_for():
    from retrograd.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from retrograd.distributed.tensor import DTensor, distribute_tensor

    class Sharded(FullyShardedDataParallel):
        pass

    sentence = (
        r"^torch.distributed.tensor.distribute_tensor is not available in Retrograd: it shards Tensors, parameters or "
        r"states of optimizers over processes. Use nn.parallel.DistributedDataParallel, .* See docs/guides/packages.md"
    )
    with pytest.raises(NotImplementedError, match=sentence):
        distribute_tensor(rg.ones(1))
    with pytest.raises(NotImplementedError, match=r"torch.distributed.fsdp.FullyShardedDataParallel is not available"):
        Sharded(rg.nn.Linear(1, 1))
    with pytest.raises(AttributeError, match=r"^torch.distributed.tensor.DTensor.from_local: .* is not available"):
        DTensor.from_local
    assert ShardingStrategy.FULL_SHARD is ShardingStrategy.FULL_SHARD
    assert (DTensor | None) and not isinstance(rg.ones(1), DTensor)


def test_the_page_that_messages_name_exists():
    page, anchor = absent.DOCUMENTATION.split("#")
    headings = [line.lstrip("# ").lower().replace(" ", "-") for line in (ROOT / page).read_text().splitlines()]
    assert anchor in headings


PROGRAM = """
import torch, torch.distributed
def message(statement):
    try:
        exec(statement)
    except Exception as error:
        print(type(error).__name__, error)
message("torch.nn.Foo")
message("from torch.nn import Foo")
message("from torch.nn.init import foo")
message("import torch.foo.bar")
message("torch.nn.Conv2D")
message("torch.mse_loss")
message("torch.distributed.checkpoint.Foo")
"""


def test_messages_of_programs_say_pytorchs_names(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-m", "retrograd", "run", str(tmp_path / "program.py")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    missing = "Retrograd, which is torch here, has no such name; see docs/guides/packages.md#what-is-left-out"
    assert lines == [
        f"AttributeError module 'torch.nn' has no attribute 'Foo': {missing}",
        f"ModuleNotFoundError module 'torch.nn' has no attribute 'Foo': {missing}",
        f"ModuleNotFoundError module 'torch.nn.init' has no attribute 'foo': {missing}",
        "ModuleNotFoundError No module named 'torch.foo' in Retrograd, which is torch in this program; "
        "see docs/guides/packages.md#what-is-left-out",
        "AttributeError module 'torch.nn' has no attribute 'Conv2D'; did you mean Conv2d?",
        "AttributeError module 'torch' has no attribute 'mse_loss': mse_loss is in torch.nn.functional",
        f"AttributeError module 'torch.distributed.checkpoint' has no attribute 'Foo': {missing}",
    ]

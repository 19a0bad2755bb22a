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
    said = absent.sentence
    assert lines == [
        f"AttributeError module 'torch.nn' has no attribute 'Foo'. {said('torch.nn.Foo')}",
        f"ModuleNotFoundError module 'torch.nn' has no attribute 'Foo'. {said('torch.nn.Foo')}",
        f"ModuleNotFoundError module 'torch.nn.init' has no attribute 'foo'. {said('torch.nn.init.foo')}",
        f"ModuleNotFoundError No module named 'torch.foo': {said('torch.foo')}",
        f"AttributeError module 'torch.nn' has no attribute 'Conv2D'; did you mean Conv2d? {said('torch.nn.Conv2D')}",
        "AttributeError module 'torch' has no attribute 'mse_loss': mse_loss is in torch.nn.functional. "
        + said("torch.mse_loss"),
        "AttributeError module 'torch.distributed.checkpoint' has no attribute 'Foo'. "
        + said("torch.distributed.checkpoint.Foo"),
    ]


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("torch.ao.quantization.fx.Foo", "it quantizes models. Use weights in float16 or bfloat16. See"),
        ("torch.jit.frontend", "it is part of TorchScript, which Retrograd runs as Python."),
        ("torch.utils.data.datapipes.iter.IterableWrapper", "it reads data with PyTorch's former data pipes."),
        ("torch.fx.experimental.proxy_tensor", "it belongs to PyTorch's compiler and exporter."),
        ("torch.Tensor.q_scale", "it quantizes models."),
        ("torch.cuda.jiterator", "it manages a GPU, its streams and its memory."),
    ],
)
def test_a_name_that_is_not_listed_has_the_subject_of_its_longest_prefix(name, subject):
    assert absent.sentence(name).startswith(f"{name} is not available in Retrograd: {subject}")


def test_methods_and_storages_of_pytorch_say_what_they_are_for():
    x = rg.ones(2)
    with pytest.raises(NotImplementedError, match=r"^torch.Tensor.q_scale is not available in Retrograd: it quantizes"):
        x.q_scale()
    with pytest.raises(RuntimeError, match="indices: expected a sparse Tensor"):
        x.indices()
    assert (x.is_mtia, x.volatile, x.name, x.grad_dtype) == (False, False, None, rg.float32)
    assert x._cdata != rg.ones(2)._cdata and rg.ones(2, 3).mT.dim_order() == (1, 0)
    storage = rg.arange(3.0).storage()
    assert storage.clone().fill_(1).tolist() == [1, 1, 1] and storage.double().dtype == rg.float64
    assert storage.tolist() == [0, 1, 2]
    with pytest.raises(AttributeError, match="torch.TypedStorage.hpu is not available in Retrograd"):
        storage.hpu


def test_a_module_with_the_name_of_a_function_does_not_hide_the_function():
    from retrograd.nn.utils.weight_norm import remove_weight_norm

    layer = rg.nn.utils.weight_norm(rg.nn.Linear(2, 2))
    assert "weight_g" in dict(layer.named_parameters())
    assert "weight_g" not in dict(remove_weight_norm(layer).named_parameters())

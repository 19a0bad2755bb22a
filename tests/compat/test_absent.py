"""Names that PyTorch has and Retrograd does not: they import, and a use says what they are for."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.compat import absent

if find_spec("setuptools"):  # torch.utils.cpp_extension imports it, which it refuses after Python's distutils
    import_module("setuptools")

ROOT = Path(__file__).resolve().parents[2]
NAMES = [(path, name) for group in absent.ABSENT for path, names in group.names.items() for name in names.split()]


def test_every_listed_name_can_be_imported_and_no_name_is_listed_twice():
    assert len(set(NAMES)) == len(NAMES) > 300
    for path, name in NAMES:
        value = getattr(import_module(f"retrograd.{path}".rstrip(".")), name)
        assert inspect.isclass(value) and not isinstance(1, value), (path, name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_listed_name_is_pytorchs(pytestconfig):
    torch = pytest.importorskip("torch")
    for path, name in NAMES if pytestconfig.getoption("--long") else NAMES[::8]:
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
    from retrograd.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _StridedShard

    assert Shard(-1) == Shard(dim=-1) != Shard(0) and Shard(1).is_shard(1) and not Replicate().is_shard()
    assert Partial().is_partial("sum") and Replicate().is_replicate() and issubclass(Shard, Placement)
    assert _StridedShard(0, split_factor=2).split_factor == 2
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
message("from torch import linspace, lnspace")
message("torch.nn.Conv2D")
message("torch.mse_loss")
message("torch.FloatTensr")
message("torch.distributed.checkpoint.Foo")
message("torch.nn.utils.prune.foo")
message("torch.autograd.forward_ad.foo")
message("torch.autograd.graph.foo")
message("torch.nn.parallel.scatter_gather.foo")
message("torch.compiler.config.foo")
"""

# Asks every module of PyTorch's layout for a name that nobody has.
SWEEP = """
import importlib, torch
from retrograd.compat.legacy_names import PATHS
public = ["autograd", "cuda", "distributed", "distributions", "fft", "func", "linalg", "nn", "onnx", "optim", "utils"]
asked = 0
for path in [*PATHS, *(f"retrograd.{name}" for name in public)]:
    name = path.replace("retrograd", "torch", 1)
    module = importlib.import_module(name)
    try:
        module.made_up
    except AttributeError as error:
        right = str(error).startswith(f"module {name!r} has no attribute 'made_up'. {name}.made_up is not available in")
        asked += right and "docs/guides/packages.md" in str(error)
        continue
    print("no error for", name)
print(asked - len(PATHS) - len(public), asked > 300)
"""


@pytest.mark.slow
def test_messages_of_programs_say_pytorchs_names(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-m", "retrograd", "run", str(tmp_path / "program.py")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    said, listed = absent.sentence, f"What Retrograd lacks of PyTorch is listed in {absent.DOCUMENTATION}"
    assert lines == [
        f"AttributeError module 'torch.nn' has no attribute 'Foo'. {said('torch.nn.Foo')}",
        f"ModuleNotFoundError module 'torch.nn' has no attribute 'Foo'. {said('torch.nn.Foo')}",
        f"ModuleNotFoundError module 'torch.nn.init' has no attribute 'foo'. {said('torch.nn.init.foo')}",
        f"ModuleNotFoundError No module named 'torch.foo': {said('torch.foo')}",
        "ImportError cannot import name 'lnspace': module 'torch' has no attribute 'lnspace'; did you mean linspace or "
        f"logspace? {listed}",
        f"AttributeError module 'torch.nn' has no attribute 'Conv2D'; did you mean Conv2d? {listed}",
        f"AttributeError module 'torch' has no attribute 'mse_loss': mse_loss is in torch.nn.functional. {listed}",
        f"AttributeError module 'torch' has no attribute 'FloatTensr'; did you mean FloatTensor? {listed}",
        "AttributeError module 'torch.distributed.checkpoint' has no attribute 'Foo'. "
        + said("torch.distributed.checkpoint.Foo"),
        f"AttributeError module 'torch.nn.utils.prune' has no attribute 'foo'. {said('torch.nn.utils.prune.foo')}",
        "AttributeError module 'torch.autograd.forward_ad' has no attribute 'foo'. "
        + said("torch.autograd.forward_ad.foo"),
        f"AttributeError module 'torch.autograd.graph' has no attribute 'foo'. {said('torch.autograd.graph.foo')}",
        "AttributeError module 'torch.nn.parallel.scatter_gather' has no attribute 'foo'. "
        + said("torch.nn.parallel.scatter_gather.foo"),
        f"AttributeError module 'torch.compiler.config' has no attribute 'foo'. {said('torch.compiler.config.foo')}",
    ]


@pytest.mark.slow
def test_every_module_of_pytorchs_layout_says_pytorchs_name_of_a_missing_one(tmp_path):
    (tmp_path / "program.py").write_text(SWEEP)
    command = [sys.executable, "-W", "ignore", "-m", "retrograd", "run", str(tmp_path / "program.py")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == ["0 True"]


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("torch.ao.quantization.fx.Foo", "it quantizes models. Use weights in float16 or bfloat16. See"),
        ("torch.jit.frontend", "it is part of TorchScript, which Retrograd runs as Python."),
        ("torch.utils.data.datapipes.iter.IterableWrapper", "it reads data with PyTorch's former data pipes."),
        ("torch.fx.experimental.proxy_tensor", "it belongs to PyTorch's compiler and exporter."),
        ("torch.Tensor.q_scale", "it quantizes models."),
        ("torch.cuda.jiterator", "it manages a GPU, its streams and its memory."),
        ("torch.nn.functional.foo", "it belongs to layers, losses and their functions."),
    ],
)
def test_a_name_that_is_not_listed_has_the_subject_of_its_longest_prefix(name, subject):
    assert absent.sentence(name).startswith(f"{name} is not available in Retrograd: {subject}")


def test_methods_and_storages_of_pytorch_say_what_they_are_for():
    x = rg.ones(2)
    with pytest.raises(NotImplementedError, match=r"^torch.Tensor.index is not available in Retrograd: it is for"):
        x.index(0, 1)
    with pytest.raises(NotImplementedError, match=r"^torch.Tensor.q_scale is not available in Retrograd: it quantizes"):
        x.q_scale()
    with pytest.raises(RuntimeError, match="indices: expected a sparse Tensor"):
        x.indices()
    assert (x.is_mtia, x.volatile, x.name, x.grad_dtype) == (False, False, None, rg.float32)
    assert x._cdata != rg.ones(2)._cdata and rg.ones(2, 3).mT.dim_order() == (1, 0)
    storage = rg.arange(3.0).storage()
    assert storage.clone().fill_(1).tolist() == [1, 1, 1] and storage.double().dtype == rg.float64
    assert storage.tolist() == [0, 1, 2]
    with pytest.raises(AttributeError, match="torch.TypedStorage.untyped_bytes is not available in Retrograd"):
        storage.untyped_bytes


def test_legacy_storages_are_classes_of_one_dtype():
    storage = rg.FloatStorage([1, 2, 3])
    assert type(storage) is rg.TypedStorage and storage.type() == "torch.FloatStorage"
    assert isinstance(storage, rg.FloatStorage) and not isinstance(storage, rg.DoubleStorage)
    assert isinstance(rg.ones(1).long().storage(), rg.LongStorage) and rg.ones(1).storage_type() is rg.FloatStorage
    raw = rg.ones(2).untyped_storage()
    assert isinstance(raw, rg.UntypedStorage) and not isinstance(raw, (rg.TypedStorage, rg.FloatStorage))
    assert issubclass(rg.BFloat16Storage, rg.TypedStorage) and len(rg.BFloat16Storage(3)) == 3
    assert rg.FloatStorage(wrap_storage=raw).tolist() == [1, 1] and rg.is_storage(raw)
    assert rg.FloatStorage.from_buffer(b"\0\0\x80?", "little").tolist() == [1]
    assert storage.type(rg.LongStorage).tolist() == storage.type("torch.LongStorage").tolist() == [1, 2, 3]
    shared = rg.FloatTensor(storage)
    shared[0] = 7
    assert storage[0] == 7 and rg.zeros(0).set_(storage, 1, (2,)).tolist() == [2, 3]
    bits = rg.zeros(0, dtype=rg.int32).set_(raw)
    assert bits.dtype == rg.int32 and bits.tolist() == [0x3F800000] * 2
    with pytest.raises(RuntimeError, match="set_: the Tensor is float64 and the source is float32"):
        rg.DoubleTensor(storage)
    with pytest.raises(TypeError, match=r"torch.FloatStorage: expected a size, a sequence .* got \(float32\(2,\)\)"):
        rg.FloatStorage(rg.ones(2))


def test_storages_are_made_of_numbers_bytes_and_buffers_and_converted():
    from retrograd.storage import TypedStorage, UntypedStorage

    raw = UntypedStorage.from_buffer(np.array([1, 2], ">f4").tobytes(), byte_order="big", dtype=rg.float32)
    typed = TypedStorage(wrap_storage=raw, dtype=rg.float32)
    assert typed.tolist() == [1, 2] and typed.pickle_storage_type() == "FloatStorage"
    typed[0] = 3
    raw.byteswap(rg.int32)
    raw.byteswap(rg.int32)
    assert TypedStorage(wrap_storage=raw, dtype=rg.float32).tolist() == [3, 2]
    assert UntypedStorage([1, 2]).tolist() == [1, 2] and UntypedStorage(5).nbytes() == 5
    assert TypedStorage([1.5], dtype=rg.float64).bfloat16().dtype == rg.bfloat16 and len(typed.new()) == 0
    assert typed.to(device="cpu").pin_memory() is typed and typed.get_device() == -1 and not typed.resizable()
    with pytest.raises(RuntimeError, match="storage that is not resizable"):
        typed.resize_(0)
    with pytest.raises(RuntimeError, match="no Tensor can be on the device hpu"):
        typed.hpu()
    x = rg.ones(2)
    assert x.untyped_storage().share_memory_().is_shared() and x.is_shared()


def test_members_of_other_classes():
    generator = rg.Generator()
    with pytest.raises(RuntimeError, match="get_offset"):
        generator.get_offset()
    with pytest.raises(NotImplementedError, match="graphsafe_get_state is not supported in this Generator"):
        generator.graphsafe_get_state()
    with pytest.raises(RuntimeError, match="does not have the devices xpu, ipu and mtia"):
        rg.nn.Linear(1, 1).ipu()
    names = "float32 bool uint16 int64 complex64 bfloat16 float8_e4m3fn"
    assert [getattr(rg, name).abbr for name in names.split()] == ["f32", "b8", "u16", "i64", "c64", "bf16", "f8e4m3fn"]


def test_ctx_has_the_attributes_of_its_node_and_says_how_to_set_others():
    contexts = []

    class Double(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(ctx)
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = rg.ones(1, requires_grad=True)
    y = Double.apply(x)
    assert contexts[0].name() == y.grad_fn.name()
    assert contexts[0].next_functions[0][0].variable is x
    assert not hasattr(contexts[0], "factor")
    with pytest.raises(AttributeError, match=r"ctx has no attribute 'factor'; assign it in forward or setup_context"):
        contexts[0].factor


def test_a_module_with_the_name_of_a_function_does_not_hide_the_function():
    from retrograd.nn.utils.weight_norm import remove_weight_norm

    layer = rg.nn.utils.weight_norm(rg.nn.Linear(2, 2))
    assert "weight_g" in dict(layer.named_parameters())
    assert "weight_g" not in dict(remove_weight_norm(layer).named_parameters())

"""Names and module paths of PyTorch's are found, and a missing one says where it is."""

from __future__ import annotations

import copy
import importlib.util
import io
import math
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.compat.legacy_names import PATHS, SOURCES, names_in
from tests.helpers.together import in_one_test


@in_one_test("path", sorted(PATHS))
def test_every_path_can_be_imported(path):
    needed = {"tensorboard": "tensorboardX", "distributions": "scipy"}
    if all(importlib.util.find_spec(package) for word, package in needed.items() if word in path):
        assert importlib.import_module(path).__name__ == path


@pytest.mark.parametrize(
    "statement",
    [
        "from retrograd.nn.modules.batchnorm import _BatchNorm, BatchNorm2d",
        "from retrograd.nn.modules.conv import _ConvNd",
        "from retrograd.nn.modules.utils import _pair",
        "from retrograd.nn.modules.loss import _Loss, _WeightedLoss",
        "from retrograd.nn.modules.module import Module",
        "from retrograd.utils.data.dataloader import DataLoader, default_collate",
        "from retrograd.utils.data.dataset import Dataset, Subset",
        "from retrograd.utils.data.sampler import SubsetRandomSampler",
        "from retrograd.utils.data.distributed import DistributedSampler",
        "from retrograd.optim.lr_scheduler import _LRScheduler",
        "from retrograd.optim.optimizer import Optimizer",
        "from retrograd.nn.parallel import DataParallel",
        "from retrograd.nn.parameter import Parameter, UninitializedParameter, is_lazy",
        "from retrograd.autograd import Variable, Function",
        "from retrograd.cuda.amp import autocast, GradScaler",
        "import retrograd.backends.cudnn as cudnn",
        "import retrograd.multiprocessing as mp",
        "from retrograd.utils.data.dataloader import _collate_fn_t",
        "from retrograd.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard",
        "from retrograd.distributed._composable.fsdp import FSDPModule",
        "from retrograd.distributed._tensor.experimental import implicit_replication",
    ],
)
def test_imports_of_public_programs(statement):
    exec(statement, {})


def test_every_name_that_a_table_lists_exists():
    for source in {source for sources in (*PATHS.values(), *SOURCES.values()) for source in sources if ":" in source}:
        if "tensorboard" not in source:
            assert names_in(source), source


def test_importing_the_package_files_and_the_command_loads_nothing_of_compat_and_no_case():
    # `from . import module` asks the package for the name first, which looks legacy names up.
    program = (
        "import sys, retrograd.serialization, retrograd.onnx.graph, retrograd.cli\n"
        "print([name for name in sys.modules if name.startswith(('retrograd.compat', 'retrograd.testing.'))])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_missing_name_says_where_it_is_or_what_is_near():
    with pytest.raises(AttributeError, match="mse_loss is in retrograd.nn.functional"):
        rg.mse_loss
    with pytest.raises(AttributeError, match=r"did you mean ReLU\?"):
        rg.nn.Relu
    with pytest.raises(AttributeError, match=r"did you mean mse_loss\?"):
        rg.nn.functional.mse
    with pytest.raises(AttributeError, match="did you mean Conv2d"):
        rg.nn.Conv2D
    with pytest.raises(AttributeError, match="Linear is in retrograd.nn"):
        rg.Linear
    with pytest.raises(AttributeError, match="has no attribute 'zyzzyva'$"):
        rg.zyzzyva


def test_calling_a_module_that_is_named_like_a_class_names_the_class():
    for package, name, meant in (
        (rg.nn, "linear", "Linear"), (rg.optim, "adam", "Adam"), (rg.distributions, "half_cauchy", "HalfCauchy"),
        (rg.distributions, "independent", "Independent"), (rg.optim, "adamw", "AdamW"),
    ):  # fmt: skip
        path = package.__name__
        with pytest.raises(TypeError, match=rf"^{path}.{name} is a module .* did you mean {path}.{meant}\?$"):
            getattr(package, name)(3, 2)
    assert not callable(rg.optim.adaptive)


def test_a_legacy_name_leaves_its_module_as_it_is():
    assert rg.nn.DataParallel is rg.nn.DataParallel and rg.FloatTensor is rg.FloatTensor
    assert "DataParallel" not in vars(rg.nn) and "FloatTensor" not in vars(rg)


def test_constants_and_limits():
    assert (rg.pi, rg.e, rg.inf, rg.newaxis) == (math.pi, math.e, math.inf, None) and math.isnan(rg.nan)
    assert rg.finfo(rg.float32).eps == 2.0**-23 and rg.finfo().max > 3e38 and rg.iinfo(rg.int8).max == 127
    with pytest.raises(TypeError, match="iinfo"):
        rg.finfo(rg.int64)


def test_print_options_are_obeyed():
    try:
        rg.set_printoptions(precision=2)
        assert repr(rg.tensor([1.23456])) == "tensor([1.23])"
        rg.set_printoptions(sci_mode=True)
        assert repr(rg.tensor([1234.5])) == "tensor([1.23e+03])"
    finally:
        rg.set_printoptions(profile="default", sci_mode=False)
        from retrograd.core.tensor.printing import print_options

        print_options.pop("suppress_small", None)
    with np.printoptions(formatter={"float_kind": "{:11.5g}".format}):  # for NumPy's arrays
        assert repr(rg.tensor([1.23456])) == "tensor([1.2346])"
    with pytest.raises(ValueError, match="profile"):
        rg.set_printoptions(profile="loud")


def test_cuda_answers_truthfully_without_a_gpu():
    if rg.cuda.is_available():
        pytest.skip("there is a GPU")
    assert rg.cuda.device_count() == 0 and rg.cuda.memory_allocated() == 0 and not rg.cuda.is_bf16_supported()
    assert rg.backends.cudnn.version() is None and not rg.backends.mps.is_available()
    rg.cuda.manual_seed_all(1)
    rg.cuda.empty_cache()
    for refused in (rg.cuda.current_device, rg.cuda.synchronize, rg.cuda.get_device_name):
        with pytest.raises(AssertionError, match="no GPU"):
            refused()
    for kind in (rg.cuda.Stream, rg.cuda.Event):
        with pytest.raises(RuntimeError, match="requires a GPU"):
            kind()


def test_switches_are_remembered():
    rg.use_deterministic_algorithms(True)
    try:
        assert rg.are_deterministic_algorithms_enabled()
    finally:
        rg.use_deterministic_algorithms(False)
    assert rg.get_float32_matmul_precision() == "highest"
    with pytest.warns(UserWarning, match="not one of"):
        rg.set_float32_matmul_precision("x")
    rg.backends.cuda.enable_flash_sdp(True)
    assert rg.backends.cuda.flash_sdp_enabled() and rg.backends.cuda.math_sdp_enabled()
    rg.backends.cuda.enable_flash_sdp(False)
    assert rg.backends.mkl.is_available.__name__ == "is_available" and rg.mps.device_count() == 0
    with rg.backends.cudnn.flags(benchmark=True):
        assert rg.backends.cudnn.benchmark
    assert not rg.backends.cudnn.benchmark


def test_marks_for_compilers_change_nothing():
    model = rg.nn.Linear(2, 1)
    assert rg.jit.script(model) is model and rg.jit.trace(model, rg.ones(1, 2)) is model
    assert rg.jit.ignore(len) is len and rg.jit.unused(len) is len and not rg.jit.is_scripting()
    assert rg.compiler.disable(len)([1]) == 1 and not rg.compiler.is_compiling()
    assert rg.jit.freeze(mod=model) is model and rg.jit.trace_module(model, {"forward": None}) is model
    assert rg.jit._overload_method(len) is len


def test_scripted_functions_and_modules_raise_torchscripts_types_of_errors():
    class Checked(rg.nn.Linear):
        def forward(self, input):
            assert input.shape[1] == 2, "two columns"
            if input.shape[0] == 3:
                raise KeyError("three")
            return super().forward(input)

    @rg.jit.script
    def second(x: rg.Tensor, place: int = 1):
        """Return an item."""
        return x[place]

    model = rg.nn.Sequential(Checked(2, 1))
    plain = copy.deepcopy(model)
    assert rg.jit.script(model) is model
    for call, message in (
        (lambda: model(rg.ones(1, 3)), "builtins.AssertionError: two columns"),
        (lambda: model(rg.ones(3, 2)), "builtins.KeyError: 'three'"),
        (lambda: model(), "builtins.TypeError: .* missing 1 required positional argument"),
        (lambda: second(rg.ones(1)), "builtins.IndexError"),
    ):
        with pytest.raises(rg.jit.Error, match=message) as caught:
            call()
        assert isinstance(caught.value, RuntimeError) and caught.value.__cause__ is not None
    assert second.__name__ == "second" and second(rg.tensor([1, 2])).item() == 2
    for other in (plain, copy.deepcopy(model)):
        with pytest.raises(AssertionError, match="two columns"):
            other(rg.ones(1, 3))
        assert rg.equal(other(rg.ones(1, 2)), model(rg.ones(1, 2)))
    assert vars(pickle.loads(pickle.dumps(rg.jit.script(rg.nn.Linear(2, 1))))).keys().isdisjoint(["forward", "save"])


def doubled(x):
    """A function that files of ``jit.save`` name."""
    return 2 * x


def test_scripted_and_traced_modules_and_functions_are_saved_and_loaded(tmp_path):
    model = rg.jit.script(rg.nn.Sequential(rg.nn.Linear(2, 1), rg.nn.Tanh()).eval())
    model.save(tmp_path / "model.pt")
    for path in (tmp_path / "model.pt", tmp_path / "again.pt"):
        loaded = rg.jit.load(path)
        assert rg.equal(loaded(rg.ones(3, 2)), model(rg.ones(3, 2))) and not loaded.training
        with pytest.raises(rg.jit.Error, match="TypeError"):
            loaded()
        rg.jit.save(copy.deepcopy(loaded), tmp_path / "again.pt")

    stream, extra = io.BytesIO(), {"notes": "", "absent": ""}
    rg.jit.save(rg.jit.trace(doubled, rg.ones(1)), stream, _extra_files={"notes": "two", "more": b"!"})
    stream.seek(0)
    assert rg.jit.load(stream, _extra_files=extra)(3) == 6 and extra == {"notes": b"two", "absent": b""}


def test_what_jit_cannot_save_or_load_is_an_error(tmp_path, monkeypatch):
    class Local(rg.nn.Linear):
        pass

    for value in (Local(1, 1), lambda x: x):
        with pytest.raises(RuntimeError, match="stored by name"):
            rg.jit.save(value, tmp_path / "x.pt")
    with pytest.raises(TypeError, match="a module or a function, got int"):
        rg.jit.save(3, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"x\.pt does not exist"):
        rg.jit.load(tmp_path / "x.pt")
    rg.save({"weight": rg.ones(1)}, tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="was not written by jit.save"):
        rg.jit.load(tmp_path / "x.pt")
    rg.jit.save(doubled, tmp_path / "x.pt")
    monkeypatch.delattr(sys.modules[__name__], "doubled")
    with pytest.raises(RuntimeError, match="doubled.*whose code must exist"):
        rg.jit.load(tmp_path / "x.pt")


def test_what_was_loaded_earlier_is_looked_for_where_pytorch_looks(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("retrograd.compat.modules.hub._directory", None)
    assert rg.hub._get_torch_home() == str(tmp_path) and rg.hub.get_dir() == str(tmp_path / "hub")
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    assert torch.hub._get_torch_home() == str(tmp_path) and torch.hub.get_dir() == str(tmp_path / "hub")
    for library in (rg, torch):
        library.hub.set_dir("~/elsewhere")
    assert rg.hub.get_dir() == torch.hub.get_dir()


def test_bars_of_progress_give_what_they_were_given(monkeypatch):
    from retrograd.utils.model_zoo import tqdm

    assert list(tqdm([1, 2], disable=True)) == [1, 2]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # not installed
    plain = runpy.run_path(importlib.util.find_spec("retrograd.compat.modules.hub").origin)["tqdm"]
    with plain(range(2), desc="files") as bar:
        assert list(bar) == [0, 1]
        bar.update(1)
    bar.close()


def test_what_programs_ask_of_conditions_devices_and_spread_modules():
    rg._assert(True, "never shown")
    with pytest.raises(AssertionError, match="too small"):
        rg._assert(False, "too small")
    assert rg.device("cpu") == "cpu" and rg.device("cpu") != "auto" and rg.device("cuda:1") == "cuda:1"
    with rg.distributed.tensor.experimental.implicit_replication():
        assert not isinstance(rg.nn.Linear(1, 1), rg.distributed.fsdp.FSDPModule)
    with pytest.raises(RuntimeError, match="DistributedDataParallel"):
        rg.distributed.fsdp.FullyShardedDataParallel(rg.nn.Linear(1, 1))


def test_the_derivative_of_softmax_that_functions_of_programs_call():
    torch = pytest.importorskip("torch")
    gradient, logits = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")

    def derivative(library):
        output = library.from_numpy(logits).softmax(0)
        return library._softmax_backward_data(library.from_numpy(gradient), output, 0, library.float32).numpy()

    np.testing.assert_allclose(derivative(rg), derivative(torch), atol=1e-6)


def test_what_needs_the_network_says_so():
    with pytest.raises(RuntimeError, match="network"):
        rg.hub.load("a/b", "c")


@pytest.mark.parametrize("name", ["float8_e4m3fn", "complex32", "quint8"])
def test_a_dtype_without_numbers_can_be_named_but_not_used(name):
    named = getattr(rg, name)
    assert repr(named) == f"retrograd.{name}" and rg.float32 != named
    for use in (lambda: rg.ones(1).to(named), lambda: rg.zeros(1, dtype=named)):
        with pytest.raises(TypeError, match=f"{name} exists by name only"):
            use()


def test_assert_close():
    rg.testing.assert_close([rg.ones(2), {"a": 1.0}], [rg.ones(2) + 1e-7, {"a": 1.0}])
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        rg.testing.assert_close(rg.ones(2), rg.tensor([1.0, 2.0]))
    with pytest.raises(AssertionError, match="shape"):
        rg.testing.assert_close(rg.ones(2), rg.ones(3))
    with pytest.raises(AssertionError, match="dtype"):
        rg.testing.assert_close(rg.ones(2), rg.ones(2).double())


@pytest.mark.parametrize("name", ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64"])
def test_make_tensor_draws_numbers_of_a_dtype_between_two_limits(name):
    options = {"dtype": getattr(rg, name), "device": "cpu"}
    x, y = (rg.testing.make_tensor(8, 6, **options, noncontiguous=skips, exclude_zero=skips) for skips in (False, True))
    assert x.shape == y.shape == (8, 6) and x.dtype == y.dtype == options["dtype"]
    assert x.is_contiguous() and not y.is_contiguous() and y.all()
    assert len(set(x.flatten().tolist())) == 2 if name == "bool" else 3 < x.abs().max() < 13
    if name != "bool":
        assert set(rg.testing.make_tensor((50,), **options, low=2, high=3).abs().long().tolist()) <= {2, 3, 4}


def test_make_tensor_says_which_limits_and_gradients_a_dtype_has():
    wide = {"low": rg.finfo(rg.float32).min, "high": rg.finfo(rg.float32).max}
    x = rg.testing.make_tensor(9, dtype=rg.float32, device="cpu", requires_grad=True, **wide)
    assert x.requires_grad and x.is_leaf and x.isfinite().all() and x.abs().max() > 1e30
    for options in ({"low": 2, "high": 1}, {"low": 300, "high": 400}, {"requires_grad": True}):
        with pytest.raises(ValueError, match="make_tensor"):
            rg.testing.make_tensor(2, dtype=rg.uint8, device="cpu", **options)


def test_every_file_of_pytorchs_distributions_is_found_by_its_name():
    torch = pytest.importorskip("torch")
    for file in sorted(Path(torch.distributions.__file__).parent.glob("[a-z]*.py")):
        ours, theirs = getattr(rg.distributions, file.stem), getattr(torch.distributions, file.stem)
        assert [name for name in getattr(theirs, "__all__", []) if not hasattr(ours, name)] == [], file.stem

"""Legacy names of PyTorch, such as ``retrograd.FloatTensor``, and paths of modules that only PyTorch's layout has.

``SOURCES`` lists the sources of the legacy names of a module, ``PATHS`` those of a path such as ``nn.modules.conv``. A
source is a module of this package, or ``file:section``, an entry of the ``NAMES`` of a file in ``compat``. The module
of a path is created when a program imports it.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from inspect import isfunction
from types import ModuleType
from typing import Any

from ..core.missing_names import ModuleOfClass, class_named, legacy_names
from ..core.tensor import tensor
from ..ops.table import registry
from . import absent

_NN = ("nn",)
_LEGACY_NN, _PAIRS = "compat.modules.nn:nn.modules", "compat.modules.nn:nn.modules.utils"
_ALIASES = "compat.types:types"
_MODULES = {
    "activation": ("nn.layers.activation", "nn.sequence.attention"), "adaptive": _NN,
    "batchnorm": ("nn.layers.normalization", "nn.base.lazy"),
    "channelshuffle": ("nn.layers.upsampling",),
    "container": ("nn.base.containers", _LEGACY_NN),
    "conv": ("nn.layers.convolution", "nn.base.lazy", _LEGACY_NN, _PAIRS),
    "distance": ("nn.layers.distance",), "dropout": ("nn.layers.dropout",),
    "flatten": ("nn.layers.linear",), "fold": ("nn.layers.convolution",),
    "instancenorm": ("nn.layers.normalization", "nn.base.lazy"), "lazy": ("nn.base.lazy",),
    "linear": ("nn.layers.linear", "nn.base.lazy", _LEGACY_NN),
    **dict.fromkeys(("linear_cross_entropy", "linear_cross_entropy_options"), ("nn.losses.linear_cross_entropy",)),
    "loss": ("nn.losses.losses", "nn.losses.linear_cross_entropy", _LEGACY_NN),
    "module": ("nn.base.module", "nn.base.global_hooks", _LEGACY_NN),
    "normalization": ("nn.layers.normalization", _LEGACY_NN),
    "padding": ("nn.layers.padding",), "pixelshuffle": ("nn.layers.upsampling",),
    "pooling": ("nn.layers.pooling",), "rnn": ("nn.sequence.recurrent",), "sparse": ("nn.layers.embedding",),
    "transformer": ("nn.sequence.transformer",), "upsampling": ("nn.layers.upsampling",), "utils": (_PAIRS,),
}  # fmt: skip
_FILES = {
    "dataloader": ("data.loader", "data.collate", "data.worker", "data.sampler", "data.dataset", _ALIASES),
    "dataset": ("data.dataset",), "sampler": ("data.sampler",), "distributed": ("data.distributed",),
    "_utils": (), "_utils.collate": ("data.collate",),
}  # fmt: skip
_DISTRIBUTIONS = (
    "bernoulli beta binomial categorical cauchy chi2 constraint_registry constraints continuous_bernoulli dirichlet "
    "distribution exp_family exponential fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy "
    "half_normal independent inverse_gamma kl kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
    "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal negative_binomial normal "
    "one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical studentT transformed_distribution "
    "transforms uniform utils von_mises weibull wishart"
)

# Former places of modules: files that older versions wrote name their classes there.
_MOVED = {
    **{f"nn.{name}": (f"nn.layers.{name}",) for name in (
        "activation", "convolution", "distance", "dropout", "embedding", "linear", "normalization", "padding",
        "pooling", "upsampling",
    )},
    **{f"nn.{name}": (f"nn.sequence.{name}",) for name in ("attention", "recurrent", "transformer")},
    **{f"nn.{name}": (f"nn.losses.{name}",) for name in ("adaptive_softmax", "linear_cross_entropy")},
    **{f"nn.{name}": (f"nn.base.{name}",) for name in ("containers", "lazy", "module", "uninitialized")},
    "core.copies": ("core.tensor.copies",), "core.layout": ("core.arrays.layout",),
    "core.devices": ("core.arrays.devices",),
}  # fmt: skip

# Sections of the files in ``compat``, and the paths that have their names.
_SECTIONS = {
    "modules.jit:_C": "_C _utils",
    "torch_function:_C": "_C",
    "modules.internals.private:_dynamo": "_dynamo",
    "modules.internals.private:_logging": "_logging",
    "modules.jit:jit": "jit",
    "modules.functions:_higher_order_ops":
        "_higher_order_ops _higher_order_ops.associative_scan _higher_order_ops.cond _higher_order_ops.map "
        "_higher_order_ops.scan _higher_order_ops.while_loop",
    "modules.nn:nn.attention.flex_attention": "nn.attention.flex_attention",
    "modules.internals.library:_C": "_C",
    "modules.internals.library:_custom_ops": "_custom_ops",
    "modules.internals.private:_C": "_C",
    "modules.internals.private:_C._nn": "_C._nn",
    "modules.internals.private:_dynamo.eval_frame": "_dynamo _dynamo.eval_frame",
    "modules.internals.private:_dynamo.utils": "_dynamo.utils",
    "modules.internals.private:_functorch.vmap": "_functorch.vmap",
    "modules.internals.private:_tensor_str": "_tensor_str",
    "modules.internals.private:_utils": "_utils",
    "modules.internals.private:distributed.constants": "distributed.constants",
    "modules.internals.private:hub": "hub",
    "modules.internals.private:jit": "jit",
    "modules.internals.private:jit.annotations": "jit.annotations",
    "modules.internals.private:nn.modules.batchnorm": "nn.modules.batchnorm",
    "modules.internals.private:nn.modules.module": "nn.modules.module",
    "modules.internals.private:nn.modules.transformer": "nn.modules.transformer",
    "modules.internals.private:nn.utils._named_member_accessor": "nn.utils._named_member_accessor",
    "modules.internals.private:onnx.symbolic_helper":
        "onnx.symbolic_helper onnx.symbolic_opset9 onnx.symbolic_opset11 onnx.symbolic_opset12",
    "modules.internals.private:profiler": "profiler",
    "modules.internals.private:return_types": "return_types",
    "modules.internals.private:types": "types",
    "modules.internals.private:utils._contextlib": "utils._contextlib",
    "modules.internals.private:utils.deterministic": "utils.deterministic",
    "modules.internals.private:utils._python_dispatch": "utils._python_dispatch",
    "modules.internals.private:utils._foreach_utils": "utils._foreach_utils",
    "modules.internals.private:utils.data._utils.worker": "utils.data._utils.worker",
    "modules.internals.private:utils.data.dataloader": "utils.data.dataloader",
    "modules.internals.private:utils.hooks": "utils.hooks",
    "modules.internals.library:library": "library",
    "modules.internals.private:settings": "_dynamo.config _inductor.config compiler.config",
    "modules.cuda": "cuda cuda.memory cuda.random cuda.streams",
    "modules.devices:accelerator": "accelerator accelerator.memory",
    "modules.devices:absent": "backends.mkl backends.mkldnn backends.mps backends.openmp backends.opt_einsum",
    "modules.devices:backends.cpu": "backends.cpu",
    "modules.devices:backends.cuda": "backends.cuda",
    "modules.devices:backends.cudnn": "backends.cudnn",
    "modules.devices:cpu": "cpu",
    "modules.devices:cuda.nvtx": "cuda.nvtx",
    "modules.devices:mps": "mps",
    "modules.devices:xpu": "mtia mtia.memory xpu xpu.memory xpu.random",
    "modules.devices:backends.quantized": "backends.quantized",
    "modules.distributed:multiprocessing": "multiprocessing",
    "modules.distributed:multiprocessing.spawn": "multiprocessing.spawn",
    "modules.distributed:placements":
        "distributed._tensor distributed._tensor.placement_types distributed.tensor distributed.tensor.placement_types",
    "modules.distributed:strided": "distributed._tensor.placement_types distributed.tensor.placement_types",
    "modules.distributed:tensor": "distributed._tensor.experimental distributed.tensor.experimental",
    "modules.hub": "hub utils.model_zoo",
    "modules.masked:masked": "masked masked._ops",
    "modules.nn:nn.grad": "nn.grad",
    "modules.nn:nn.modules.utils": "nn.modules.utils",
    "modules.nn:nn.utils": "nn.utils.init",
    "modules.precision:amp": "amp amp.autocast_mode amp.grad_scaler",
    "modules.precision:cuda.amp": "cuda.amp cuda.amp.autocast_mode cuda.amp.grad_scaler",
    "modules.toplevel:version": "torch_version version",
    "modules.utils:_six": "_six",
    "torch_function:overrides": "overrides",
    "modules.internals.profiler:profiler": "profiler profiler.profiler autograd.profiler",
    "modules.internals.profiler:events": "autograd.profiler_util",
    "modules.internals.pytree:utils._pytree": "utils._pytree",
    "modules.utils:utils.benchmark": "utils.benchmark",
    "modules.utils:utils.tensorboard": "utils.tensorboard utils.tensorboard.writer",
    "types:autograd": "autograd.variable",
    "storages:storage": "storage",
    "types:types": "types nn.common_types",
    "modules.internals.helpers:__config__": "__config__",
    "modules.internals.helpers:_jit_internal": "_jit_internal",
    "modules.internals.helpers:_per_sample_grad": "nn.utils._per_sample_grad",
    "modules.internals.helpers:_vmap_internals": "_vmap_internals",
    "modules.internals.helpers:collate": "utils.data._utils.collate",
    "modules.internals.helpers:futures": "futures",
    "modules.internals.helpers:lowrank": "distributions.lowrank_multivariate_normal",
    "modules.internals.helpers:multivariate_normal": "distributions.multivariate_normal",
    **{f"modules.internals.questions:{path}": path for path in (
        "_C", "_C._distributed_rpc", "_C._functorch", "_dynamo.exc", "_subclasses.fake_tensor", "_tensor_str", "cuda",
        "fx.experimental.proxy_tensor", "fx.experimental.symbolic_shapes", "utils.data.dataloader", "utils.weak", "xpu",
    )},
}  # fmt: skip

# Modules of ``fx``, and the files that have their names.
_FX = {
    "fx._symbolic_trace": "tracer", "fx.graph": "graph code names node",
    "fx.graph_module": "graph_module tracer",
    "fx.immutable_collections": "node", "fx.interpreter": "passes", "fx.node": "node",
    "fx.operator_schemas": "node", "fx.passes.infra.pass_base": "passes",
    "fx.passes.shape_prop": "passes", "fx.passes.split_module": "passes",
    "fx.proxy": "proxy", "fx.subgraph_rewriter": "passes",
}  # fmt: skip

# The sources of each path below ``retrograd``. A path without sources has only submodules.
_SOURCES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(absent.MODULES, ()),
    "__future__": ("nn.parameter",), "_inductor": (), "_tensor": ("core.tensor.tensor",),
    "autograd.anomaly_mode": ("autograd.anomaly",), "autograd.grad_mode": ("core.graph.modes",), "backends": (),
    "distributed._composable": (), "distributed.distributed_c10d": ("distributed",),
    "functional": ("_generated.toplevel",),
    **{f"nn.parallel.{name}": ("nn.parallel.data_parallel",) for name in (
        "_functions", "parallel_apply", "replicate", "scatter_gather",
    )},
    "nn.utils.spectral_norm": ("nn.utils.weight_hooks",), "nn.utils.weight_norm": ("nn.utils.weight_hooks",),
    "fx.experimental": (), "fx.passes": (), "fx.passes.infra": (), "nn.modules": ("nn", _LEGACY_NN),
    "optim.adadelta": ("optim.adaptive",), "optim.adagrad": ("optim.adaptive",), "optim.adamax": ("optim.adam",),
    "optim.adamw": ("optim.adam",), "optim.asgd": ("optim.sgd",), "optim.nadam": ("optim.adam",),
    "optim.radam": ("optim.adam",), "optim.rmsprop": ("optim.adaptive",), "optim.rprop": ("optim.adaptive",),
    "sparse": ("sparse",), "cuda.sparse": ("sparse",),
    "utils.data._utils": (), "utils.dlpack": ("ops.make.dlpack",), "utils.hooks": ("core.graph.handles",),
    **_MOVED,
    "fx": ("compat.modules.fx",),
    **{path: tuple(f"compat.modules.fx.{file}".rstrip(".") for file in files.split()) for path, files in _FX.items()},
    **{f"distributions.{name}": ("distributions",) for name in _DISTRIBUTIONS.split()},
    **{f"nn.modules.{name}": sources for name, sources in _MODULES.items()},
    **{f"utils.data.{name}": sources for name, sources in _FILES.items()},
}  # fmt: skip

PATHS: dict[str, tuple[str, ...]] = {f"retrograd.{path}": sources for path, sources in _SOURCES.items()}
for _section, _paths in _SECTIONS.items():
    for _path in _paths.split():
        PATHS[f"retrograd.{_path}"] = (*PATHS.get(f"retrograd.{_path}", ()), f"compat.{_section}")


def names_in(source: str) -> dict[str, Any]:
    """Return the names of a source and their values.

    A section of ``NAMES`` is a dict, or a text of names in which ``name=other`` renames the file's ``other``.
    """
    file, _, section = source.partition(":")
    found = import_module(f"retrograd.{file}")
    if not section:
        own = {name: value for name, value in vars(found).items() if not name.startswith("__")}
        return own | {name: getattr(found, name) for name in own.get("HOMES", ())}
    names: str | dict[str, Any] = found.NAMES[section]
    if isinstance(names, dict):
        return names
    pairs = (entry.partition("=") for entry in names.split())
    return {name: getattr(found, other or name) for name, _, other in pairs}


class _FunctionModule(ModuleType):
    """A module with the name of a function of its package. The module can be called in place of the function.

    ``from torch.nn.utils.weight_norm import remove_weight_norm`` leaves ``torch.nn.utils.weight_norm(module)`` working.
    """

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return vars(self)[self.__name__.rpartition(".")[2]](*args, **kwargs)


class _Loader:
    def __init__(self, sources: tuple[str, ...]) -> None:
        self.sources = sources

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        parent, _, name = spec.name.rpartition(".")
        kind = _FunctionModule if isfunction(vars(sys.modules[parent]).get(name)) else ModuleType
        module = kind(spec.name)
        for source in reversed(self.sources):
            names = names_in(source)
            # nn.modules.linear is a different module from nn.linear.
            here = {name for name in names if f"{spec.name}.{name}" in PATHS and isinstance(names[name], ModuleType)}
            module.__dict__.update({name: value for name, value in names.items() if name not in here})
            file = import_module(f"retrograd.{source.partition(':')[0]}")
            module.__doc__, module.__file__ = file.__doc__, file.__file__
        if kind is ModuleType and class_named(name, vars(module)):
            module.__class__ = ModuleOfClass
        return module

    def exec_module(self, module: ModuleType) -> None:
        from ..core.missing_names import legacy_names

        first = [source for source in self.sources[:1] if ":" not in source]
        own = [vars(import_module(f"retrograd.{source}")).get("__getattr__") for source in first]
        fallback = legacy_names(module.__name__)

        def __getattr__(name: str) -> Any:
            for ask in own:
                if ask is not None and not name.startswith("__") and f"{module.__name__}.{name}" not in PATHS:
                    with suppress(AttributeError):
                        return ask(name)
            return fallback(name)

        module.__dict__["__getattr__"] = __getattr__
        # A later import of a submodule would replace a function of the same name: import it now, restore the function.
        for path in PATHS:
            parent, _, name = path.rpartition(".")
            if parent == module.__name__ and callable(module.__dict__.get(name)):
                function = module.__dict__[name]
                import_module(path)
                module.__dict__[name] = function


def find_spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module of PyTorch's layout, or None for an unknown path."""
    sources = PATHS.get(name)
    return None if sources is None else ModuleSpec(name, _Loader(sources), is_package=True)  # type: ignore[arg-type]


# Per module the sources of its legacy names, which are searched in this order.
SOURCES: dict[str, tuple[str, ...]] = {
    "retrograd": (
        "compat.modules.toplevel:retrograd",
        "compat.modules.toplevel:retrograd.dtypes",
        "compat.types:retrograd",
        "compat.storages:retrograd",
        "compat.modules.functions:retrograd",
        "compat.modules.internals.foreach:retrograd",
        "compat.modules.internals.private:retrograd",
        "compat.modules.internals.helpers:retrograd",
        "compat.modules.internals.questions:retrograd",
    ),
    "retrograd.autograd": ("compat.types:autograd",),
    "retrograd.autograd.function": ("compat.types:autograd",),
    "retrograd.autograd.functional": ("compat.modules.internals.helpers:autograd.functional",),
    "retrograd.compiler": ("compat.modules.internals.private:compiler",),
    "retrograd.distributed": ("compat.modules.internals.questions:distributed",),
    "retrograd.distributions.constraints": ("compat.modules.internals.helpers:constraints",),
    "retrograd.distributions.kl": ("compat.modules.internals.helpers:kl",),
    "retrograd.distributions.transforms": ("compat.modules.internals.helpers:transforms",),
    "retrograd.distributions.utils": ("compat.modules.internals.helpers:utils",),
    "retrograd.nn": ("compat.modules.nn:nn",),
    "retrograd.func": ("compat.modules.functorch:func",),
    "retrograd.nn.attention": ("compat.modules.nn:nn.attention",),
    "retrograd.nn.functional": ("compat.modules.functions:nn.functional",),
    "retrograd.nn.init": (
        "compat.modules.nn:nn.init",
        "compat.modules.internals.private:nn.init",
        "compat.modules.internals.questions:nn.init",
    ),
    "retrograd.nn.parameter": ("compat.modules.nn:nn", "compat.modules.internals.private:nn.parameter"),
    "retrograd.nn.utils": ("compat.modules.nn:nn.utils",),
    "retrograd.nn.utils.stateless": ("compat.modules.internals.helpers:stateless",),
    "retrograd.onnx": ("compat.modules.jit:onnx", "compat.modules.internals.private:onnx"),
    "retrograd.ops": ("compat.modules.internals.library:ops",),
    "retrograd.optim.optimizer": (
        "compat.modules.nn:optim.optimizer",
        "compat.modules.internals.private:optim.optimizer",
    ),
    "retrograd.optim.lbfgs": ("compat.modules.internals.helpers:lbfgs",),
    "retrograd.optim.lr_scheduler": ("compat.modules.nn:optim.lr_scheduler",),
    "retrograd.random": ("compat.modules.toplevel:random",),
    "retrograd.serialization": (
        "compat.files.pt_reader:serialization",
        "compat.modules.internals.helpers:serialization",
    ),
    "retrograd.sparse": ("compat.calls:sparse", "compat.modules.internals.questions:sparse"),
    "retrograd.testing": ("compat.modules.utils:testing",),
    "retrograd.utils": ("compat.modules.internals.private:utils",),
    "retrograd.utils.checkpoint": ("compat.modules.utils:utils.checkpoint",),
}

# Modules that are also an attribute of another module.
_SAME_MODULE = {"retrograd.nn.functional.grad": "retrograd.nn.grad"}

# Packages whose modules PyTorch has, too.
_PUBLIC = frozenset(["autograd", "distributed", "distributions", "nn", "onnx", "optim", "quasirandom", "signal"])

# Modules that a hint searches for a missing name.
_SEARCHED = ("", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "linalg", "fft",
             "special", "autograd", "func", "data", "cuda", "amp")  # fmt: skip


def attribute(module: str, name: str) -> Any:
    """Return the value of a legacy name of a module. The module itself does not change.

    Raises:
        AttributeError: the name does not exist; the message suggests a similar one.
    """
    for source in SOURCES.get(module, ()):
        names = names_in(source)
        if name in names:
            return names[name]
    path = _SAME_MODULE.get(f"{module}.{name}", f"{module}.{name}")
    if path in PATHS or path in sys.modules or _is_submodule(module, name):
        found = import_module(path)
        name_as_torch()
        return found
    standing = absent.find(module.removeprefix("retrograd").lstrip("."), name)
    if standing is not None:
        return standing
    raise AttributeError(missing(module, name))


def name_as_torch() -> None:
    """If Retrograd is torch, make its loaded modules report missing names under PyTorch's module names."""
    for name, module in () if tensor.arrays_keep_dtype else list(sys.modules.items()):
        if name.startswith("retrograd.") and name.split(".", 2)[1] in _PUBLIC and "._" not in name:
            vars(module).setdefault("__getattr__", legacy_names(name))


def missing(module: str, name: str) -> str:
    """Return the message for a name that a module does not have. Programs of PyTorch get PyTorch's names."""
    hint = _hint(module, name)
    if tensor.arrays_keep_dtype:
        return f"module {module!r} has no attribute {name!r}{hint}"
    module = f"torch{module.removeprefix('retrograd')}"  # Retrograd is torch in this program
    hint = re.sub(r"\bretrograd\b", "torch", hint)
    if hint:  # most likely a misspelled name, which PyTorch does not have either
        end = "" if hint.endswith("?") else "."
        said = f"What Retrograd lacks of PyTorch is listed in {absent.DOCUMENTATION}"
    else:
        end, said = ".", absent.sentence(f"{module}.{name}")
    return f"module {module!r} has no attribute {name!r}{hint}{end} {said}"


def _is_submodule(module: str, name: str) -> bool:
    """Return whether the package has a file for a submodule that has not been imported yet."""
    path = getattr(sys.modules.get(module), "__path__", [])
    return not name.startswith("_") and PathFinder.find_spec(f"{module}.{name}", path) is not None


@lru_cache(1000)  # programs ask for the same name again and again, by hasattr
def _hint(module: str, name: str) -> str:
    """Return the end of an error message: where the name is defined, or similar names. It may be empty."""
    if name.startswith("_"):
        return ""
    here = module.removeprefix("retrograd").lstrip(".")
    places = [place for place in _SEARCHED if place != here and name in _public_names(place)]
    if places:
        return f": {name} is in {' and '.join(f'retrograd.{place}'.rstrip('.') for place in places[:2])}"
    if any(entry.name == name and entry.namespace == "Tensor" for entry in registry.OPERATORS.values()):
        return f": {name} is a method of Tensors"
    legacy = [other for source in SOURCES.get(module, ()) for other in names_in(source) if not other.startswith("_")]
    close = _similar(name, _public_names(here), 3, 0.75) or _similar(name, legacy, 1, 0.85)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    for place in _SEARCHED:
        close = _similar(name, _public_names(place), 1, 0.85)
        if close:
            return f"; did you mean {f'retrograd.{place}'.rstrip('.')}.{close[0]}?"
    return ""


def _similar(name: str, names: list[str], n: int, cutoff: float) -> list[str]:
    """Return names that differ only in case, else names that continue the name after ``_``, else similar names.

    >>> _similar("Relu", ["relu", "ReLU", "ELU"], 3, 0.75), _similar("mse", ["mse_loss", "mm"], 3, 0.75)
    (['ReLU', 'relu'], ['mse_loss'])
    """
    same = sorted(other for other in names if other.lower() == name.lower())
    longer = sorted(other for other in names if other.startswith(f"{name}_")) if len(name) > 2 else []
    return (same or longer)[:n] or get_close_matches(name, names, n, cutoff)


def _public_names(place: str) -> list[str]:
    """Return the names that a module offers, without what it imports for its own use."""
    try:
        module = import_module(f"retrograd.{place}".rstrip("."))
    except ImportError:
        module = sys.modules["retrograd"]
    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return [
        name
        for name, value in names.items()
        if not isinstance(value, (ModuleType, bool))
        and getattr(value, "__module__", "retrograd").partition(".")[0] == "retrograd"
    ]

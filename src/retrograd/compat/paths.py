"""Module paths that only PyTorch's layout has, such as ``nn.modules.conv``.

``PATHS`` lists for each path the sources of its names: a module of this package, or ``file:section``, an entry of the
``NAMES`` of a file in ``compat``. The module of a path is created when a program imports it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from inspect import isfunction
from types import ModuleType
from typing import Any

from ..core.missing_names import ModuleOfClass, class_named
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
    "modules.compilers:_dynamo": "_dynamo",
    "modules.compilers:_logging": "_logging",
    "modules.jit:jit": "jit",
    "modules.internals.control_flow:_higher_order_ops":
        "_higher_order_ops _higher_order_ops.associative_scan _higher_order_ops.cond _higher_order_ops.map "
        "_higher_order_ops.scan _higher_order_ops.while_loop",
    "modules.internals.flex_attention:nn.attention.flex_attention": "nn.attention.flex_attention",
    "modules.internals.library:_C": "_C",
    "modules.internals.library:_custom_ops": "_custom_ops",
    "modules.internals.private:_C": "_C",
    "modules.internals.private:_C._nn": "_C._nn",
    "modules.internals.private:_dynamo": "_dynamo _dynamo.eval_frame",
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
    "modules.compilers:settings": "_dynamo.config _inductor.config compiler.config",
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
}  # fmt: skip

# Modules of ``fx``, and the files that have their names.
_FX = {
    "fx._symbolic_trace": "tracer", "fx.graph": "graph code names node",
    "fx.graph_module": "graph_module tracer",
    "fx.immutable_collections": "node", "fx.interpreter": "interpreter", "fx.node": "node",
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
    "nn.utils.spectral_norm": ("nn.utils.weight_hooks",), "nn.utils.weight_norm": ("nn.utils.weight_hooks",),
    "fx.experimental": (), "fx.passes": (), "fx.passes.infra": (), "nn.modules": ("nn", _LEGACY_NN),
    "optim.adadelta": ("optim.adaptive",), "optim.adagrad": ("optim.adaptive",), "optim.adamax": ("optim.adam",),
    "optim.adamw": ("optim.adam",), "optim.rmsprop": ("optim.adaptive",), "sparse": ("sparse",),
    "utils.data._utils": (), "utils.dlpack": ("ops.make.dlpack",), "utils.hooks": ("core.graph.handles",),
    **_MOVED,
    "fx": ("compat.modules.fx",),
    **{path: tuple(f"compat.modules.fx.{file}".rstrip(".") for file in files.split()) for path, files in _FX.items()},
    **{f"distributions.{name}": ("distributions",) for name in _DISTRIBUTIONS.split()},
    **{f"nn.modules.{name}": sources for name, sources in _MODULES.items()},
    **{f"utils.data.{name}": sources for name, sources in _FILES.items()},
}  # fmt: skip

# Modules of PyTorch with private names that scientific packages import.
_PRIVATE = "compat.modules.science"
SCIENCE: dict[str, tuple[str, ...]] = {
    "__config__": (f"{_PRIVATE}.functional:__config__",),
    "_jit_internal": (f"{_PRIVATE}.functional:_jit_internal",),
    "_vmap_internals": (f"{_PRIVATE}.functional:_vmap_internals",),
    "distributions.lowrank_multivariate_normal": ("distributions", f"{_PRIVATE}.distributions:lowrank"),
    "distributions.multivariate_normal": ("distributions", f"{_PRIVATE}.distributions:multivariate_normal"),
    "futures": (f"{_PRIVATE}.futures:futures",),
    "nn.utils._per_sample_grad": (f"{_PRIVATE}.functional:_per_sample_grad",),
    "optim.asgd": ("optim.sgd",),
    "optim.nadam": ("optim.adam",),
    "optim.radam": ("optim.adam",),
    "optim.rprop": ("optim.adaptive",),
    "utils.data._utils.collate": (f"{_PRIVATE}.functional:collate", "data.collate"),
    **{
        path: (f"{_PRIVATE}.questions:{path}",)
        for path in (
            "_C", "_C._distributed_rpc", "_C._functorch", "_dynamo.exc", "_subclasses.fake_tensor", "_tensor_str",
            "cuda", "fx.experimental.proxy_tensor", "fx.experimental.symbolic_shapes",
            "utils.data.dataloader", "utils.weak", "xpu",
        )
    },
    "cuda.sparse": ("sparse",),
}  # fmt: skip

PATHS: dict[str, tuple[str, ...]] = {f"retrograd.{path}": sources for path, sources in _SOURCES.items()}
for _section, _paths in _SECTIONS.items():
    for _path in _paths.split():
        PATHS[f"retrograd.{_path}"] = (*PATHS.get(f"retrograd.{_path}", ()), f"compat.{_section}")
for _path, _sources in SCIENCE.items():
    PATHS[f"retrograd.{_path}"] = (*PATHS.get(f"retrograd.{_path}", ()), *_sources)


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

"""The modules of PyTorch's layout: each is made, when it is imported, of the rooms that hold its names here."""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NN = ("nn",)
_MODULES = {
    "activation": ("nn.layers.activation", "nn.sequence.attention"), "adaptive": _NN,
    "batchnorm": ("nn.layers.normalization",),
    "channelshuffle": ("nn.layers.upsampling",),
    "container": ("nn.base.containers", "compat.modules"),
    "conv": ("nn.layers.convolution", "compat.modules", "compat.pairs"), "distance": ("nn.layers.distance",),
    "dropout": ("nn.layers.dropout",), "flatten": ("nn.layers.linear",), "fold": ("nn.layers.convolution",),
    "instancenorm": ("nn.layers.normalization",), "lazy": ("nn.base.lazy",),
    "linear": ("nn.layers.linear", "compat.modules"),
    "loss": ("nn.losses.losses", "compat.modules"),
    "module": ("nn.base.module", "nn.base.global_hooks", "compat.modules"),
    "normalization": ("nn.layers.normalization", "compat.modules"),
    "padding": ("nn.layers.padding",), "pixelshuffle": ("nn.layers.upsampling",),
    "pooling": ("nn.layers.pooling",), "rnn": ("nn.sequence.recurrent",), "sparse": ("nn.layers.embedding",),
    "transformer": ("nn.sequence.transformer",), "upsampling": ("nn.layers.upsampling",), "utils": ("compat.pairs",),
}  # fmt: skip
_FILES = {
    "dataloader": ("data.loader", "data.collate", "data.worker", "data.sampler", "data.dataset", "compat.types"),
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

# Where modules stood whose classes older files name.
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

# Per path below ``retrograd`` the rooms whose names it has.
_ROOMS: dict[str, tuple[str, ...]] = {
    "__future__": ("nn.parameter",), "amp": ("compat.amp",), "amp.autocast_mode": ("compat.amp",),
    "amp.grad_scaler": ("compat.amp",),
    "autograd.grad_mode": ("core.graph.modes",), "autograd.profiler": ("compat.profiler",),
    "autograd.variable": ("compat.variable",), "autograd.anomaly_mode": ("autograd.anomaly",),
    "backends": ("compat.backends",), "backends.cpu": ("compat.backends_cpu",),
    "backends.cuda": ("compat.backends_cuda",), "backends.cudnn": ("compat.backends_cudnn",),
    "backends.mkl": ("compat.backends_absent",), "backends.mkldnn": ("compat.backends_absent",),
    "backends.mps": ("compat.backends_absent",), "backends.openmp": ("compat.backends_absent",),
    "backends.opt_einsum": ("compat.backends_absent",), "distributed.distributed_c10d": ("distributed",),
    "cuda": ("compat.cuda",), "cuda.amp": ("compat.cuda_amp",),
    "cuda.amp.autocast_mode": ("compat.cuda_amp",), "cuda.amp.grad_scaler": ("compat.cuda_amp",),
    "cuda.random": ("compat.cuda",), "cuda.memory": ("compat.cuda",), "cuda.nvtx": ("compat.nvtx",),
    "functional": ("compat.functional",), "fx": ("compat.fx",), "hub": ("compat.hub",), "jit": ("compat.jit",),
    "mps": ("compat.mps",),
    "multiprocessing": ("compat.multiprocessing",), "nn.modules": ("nn", "compat.modules"),
     "optim.adamw": ("optim.adam",), "optim.rmsprop": ("optim.adaptive",),
    "optim.adagrad": ("optim.adaptive",), "optim.adadelta": ("optim.adaptive",), "optim.adamax": ("optim.adam",),
    "overrides": ("compat.overrides",), "profiler": ("compat.profiler",), "random": ("compat.random",),
    "storage": ("compat.storage",), "_tensor": ("core.tensor.tensor",), "types": ("compat.types",),
    "utils.data._utils": (), "utils.model_zoo": ("compat.hub",),
    "distributed._tensor": ("compat.dtensor",), "distributed.tensor": ("compat.dtensor",),
    "distributed._tensor.experimental": ("compat.dtensor",), "distributed.tensor.experimental": ("compat.dtensor",),
    "distributed.fsdp": ("compat.fsdp",), "distributed._composable": (),
    "distributed._composable.fsdp": ("compat.fsdp",),
    "accelerator": ("compat.accelerator",), "cpu": ("compat.cpu",), "library": ("compat.library",),
    "utils.dlpack": ("ops.make.dlpack",), "nn.grad": ("compat.nn_grad",),
    "utils.benchmark": ("compat.benchmark",),
    "utils.hooks": ("core.tensor.tensor",), "utils.tensorboard": ("compat.tensorboard",),
    "utils.tensorboard.writer": ("compat.tensorboard",), "version": ("compat.version",), "_C": ("compat.engine",),
    "nn.common_types": ("compat.types",), "utils._pytree": ("compat.pytree",), "_dynamo": ("compat.dynamo",),
    "_logging": ("compat.logs",),
    "_dynamo.config": ("compat.compiler_settings",), "_inductor": (),
    "_inductor.config": ("compat.compiler_settings",), "nn.modules.utils": ("compat.pairs",), "sparse": ("sparse",),
    "_six": ("compat.six",), "_utils": ("compat.engine",),
    **_MOVED,
    **{f"distributions.{name}": ("distributions",) for name in _DISTRIBUTIONS.split()},
    **{f"nn.modules.{name}": rooms for name, rooms in _MODULES.items()},
    **{f"utils.data.{name}": rooms for name, rooms in _FILES.items()},
}  # fmt: skip

PATHS: dict[str, tuple[str, ...]] = {f"retrograd.{path}": rooms for path, rooms in _ROOMS.items()}


class _Loader:
    def __init__(self, rooms: tuple[str, ...]) -> None:
        self.rooms = rooms

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        rooms = [import_module(f"retrograd.{room}") for room in self.rooms]
        if rooms:
            module.__doc__ = rooms[0].__doc__
        for room in reversed(rooms):
            names = {name: value for name, value in vars(room).items() if not name.startswith("__")}
            # nn.modules.linear is another module than nn.linear.
            here = {name for name in names if f"{spec.name}.{name}" in PATHS and isinstance(names[name], ModuleType)}
            module.__dict__.update({name: value for name, value in names.items() if name not in here})
        return module

    def exec_module(self, module: ModuleType) -> None:
        from ..core.missing_names import legacy_names

        own = [vars(import_module(f"retrograd.{room}")).get("__getattr__") for room in self.rooms[:1]]
        fallback = legacy_names(module.__name__)

        def __getattr__(name: str) -> Any:
            for ask in own:
                if ask is not None and not name.startswith("__") and f"{module.__name__}.{name}" not in PATHS:
                    return ask(name)
            return fallback(name)

        module.__dict__["__getattr__"] = __getattr__
        # A function that is named as a submodule stays the function: the submodule is imported before anybody asks.
        for path in PATHS:
            parent, _, name = path.rpartition(".")
            if parent == module.__name__ and callable(module.__dict__.get(name)):
                function = module.__dict__[name]
                import_module(path)
                module.__dict__[name] = function


def find_spec(name: str) -> ModuleSpec | None:
    """The spec of a module of PyTorch's layout, None for one that is unknown."""
    rooms = PATHS.get(name)
    return None if rooms is None else ModuleSpec(name, _Loader(rooms), is_package=True)  # type: ignore[arg-type]

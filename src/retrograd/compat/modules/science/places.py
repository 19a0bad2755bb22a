"""The modules of PyTorch that have the names of this folder: sources for ``compat.legacy_names`` and
``compat.paths``."""

from __future__ import annotations

_HERE = "compat.modules.science"

# Modules that are there already, and get further names.
SOURCES: dict[str, tuple[str, ...]] = {
    "retrograd": tuple(f"{_HERE}.{file}:retrograd" for file in ("distributions", "functional", "futures", "questions")),
    "retrograd.autograd.functional": (f"{_HERE}.functional:autograd.functional",),
    "retrograd.distributions.constraints": (f"{_HERE}.distributions:constraints",),
    "retrograd.distributions.kl": (f"{_HERE}.distributions:kl",),
    "retrograd.distributions.transforms": (f"{_HERE}.distributions:transforms",),
    "retrograd.distributions.utils": (f"{_HERE}.distributions:utils",),
    "retrograd.distributed": (f"{_HERE}.questions:distributed",),
    "retrograd.nn.init": (f"{_HERE}.questions:nn.init",),
    "retrograd.sparse": (f"{_HERE}.questions:sparse",),
    "retrograd.nn.utils.stateless": (f"{_HERE}.functional:stateless",),
    "retrograd.serialization": (f"{_HERE}.functional:serialization",),
    "retrograd.optim.lbfgs": (f"{_HERE}.functional:lbfgs",),
}

# Modules that only PyTorch's layout has, relative to ``retrograd``.
PATHS: dict[str, tuple[str, ...]] = {
    "__config__": (f"{_HERE}.functional:__config__",),
    "_jit_internal": (f"{_HERE}.functional:_jit_internal",),
    "_vmap_internals": (f"{_HERE}.functional:_vmap_internals",),
    "distributions.lowrank_multivariate_normal": ("distributions", f"{_HERE}.distributions:lowrank"),
    "distributions.multivariate_normal": ("distributions", f"{_HERE}.distributions:multivariate_normal"),
    "futures": (f"{_HERE}.futures:futures",),
    "nn.utils._per_sample_grad": (f"{_HERE}.functional:_per_sample_grad",),
    "optim.asgd": ("optim.sgd",),
    "optim.nadam": ("optim.adam",),
    "optim.radam": ("optim.adam",),
    "optim.rprop": ("optim.adaptive",),
    "utils.data._utils.collate": (f"{_HERE}.functional:collate", "data.collate"),
    **{
        path: (f"{_HERE}.questions:{path}",)
        for path in (
            "_C", "_C._distributed_rpc", "_C._functorch", "_dynamo.exc", "_subclasses.fake_tensor", "_tensor_str",
            "cuda", "fx.experimental.proxy_tensor", "fx.experimental.symbolic_shapes",
            "utils.data.dataloader", "utils.weak", "xpu",
        )
    },
    "cuda.sparse": ("sparse",),
}  # fmt: skip

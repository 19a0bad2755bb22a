"""Record what the program creates (optimizers, modules, schedulers, loaders) and sets (modes, ``requires_grad``)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary, ref

from ...core.graph.modes import modes
from ...core.source_location import user_site
from ...core.tensor.tensor import Tensor
from .run import Loader, Loading, Run, Schedule, Thawed
from .step_recorder import Array, mark

if TYPE_CHECKING:
    from ...nn.base.module import Module
    from ...optim.lr_scheduler.base import LRScheduler
    from ...optim.optimizer import Optimizer

_LOADS = 64  # the most calls of load_state_dict that are recorded per line
Plain: TypeAlias = Callable[..., Array]  # the original function, which a patch calls


class Patches:
    """Functions of the package that are replaced until ``undo``."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.undo = self.stack.close

    def patch(self, owner: Array, name: str, around: Plain) -> None:
        owner = next(x for x in getattr(owner, "__mro__", (owner,)) if name in x.__dict__)
        plain = owner.__dict__[name]

        @functools.wraps(plain)
        def patched(*args: object, **kwargs: object) -> Array:
            return around(plain, *args, **kwargs)

        setattr(owner, name, patched)
        self.stack.callback(setattr, owner, name, plain)


def _own_inits(module: Module, frame: FrameType | None) -> int:
    """Return the number of frames, from this one outward, that run ``__init__`` of the module's classes."""
    codes = {getattr(one.__dict__.get("__init__"), "__code__", None) for one in type(module).__mro__}
    count = 0
    while frame is not None and frame.f_code in codes:
        count, frame = count + 1, frame.f_back
    return count


class Creations:
    """Patches functions so that a ``Run`` records what the program creates, loads and freezes."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._loaders: WeakKeyDictionary[object, Loader] = WeakKeyDictionary()

    def watch(self, patches: Patches) -> None:
        """Patch the functions that create, load and freeze."""
        from ...data.loader import DataLoader
        from ...nn.base.module import Module
        from ...optim.lr_scheduler.base import LRScheduler
        from ...optim.lr_scheduler.plateau import ReduceLROnPlateau
        from ...optim.optimizer import Optimizer

        patch = patches.patch
        patch(Optimizer, "__init__", self._new_optimizer)
        patch(Module, "__init__", self._new_module)
        patch(Module, "__setattr__", self._assigning)
        patch(Module, "train", self._switching)
        patch(Module, "load_state_dict", self._loading)
        for schedule in (LRScheduler, ReduceLROnPlateau):
            patch(schedule, "__init__", self._new_schedule)
        for schedule in (LRScheduler, ReduceLROnPlateau):
            patch(schedule, "step", self._scheduling)
        patch(DataLoader, "__init__", self._new_loader)
        patch(DataLoader, "__iter__", self._reading)
        self._patch_requires_grad(patches.stack)

    def _patch_requires_grad(self, stack: ExitStack) -> None:
        plain: Array = Tensor.__dict__["requires_grad"]

        def switch(x: Tensor, value: bool) -> None:
            plain.fset(x, value)
            if value:
                self.run.frozen.pop(id(x), None)
            else:
                self.run.frozen[id(x)] = user_site(2)

        name = "requires_grad"
        setattr(Tensor, name, property(plain.fget, switch, doc=plain.__doc__))
        stack.callback(setattr, Tensor, name, plain)

    def _new_optimizer(self, plain: Plain, optimizer: Optimizer, *args: object, **kwargs: object) -> None:
        plain(optimizer, *args, **kwargs)
        self.run.add(optimizer, user_site(3))

    def _new_module(self, plain: Plain, module: Module, *args: object, **kwargs: object) -> None:
        plain(module, *args, **kwargs)
        self.run.created[id(module)] = ref(module), user_site(3 + _own_inits(module, sys._getframe(2)))

    def _assigning(self, plain: Plain, module: Module, name: str, value: object) -> None:
        plain(module, name, value)
        if name == "requires_grad" and isinstance(value, bool) and name in module.__dict__:
            unlike: list[Tensor] = [p for p in module.parameters() if p._requires is not value]
            if unlike:
                steps = sum([x.steps for x in self.run.optimizers])
                self.run.thawed.append(Thawed(ref(module), value, unlike, steps, user_site(3)))

    def _new_schedule(self, plain: Plain, scheduler: LRScheduler, *args: object, **kwargs: object) -> None:
        self.run.schedules.append(Schedule(scheduler, user_site(3)))
        plain(scheduler, *args, **kwargs)

    def _new_loader(self, plain: Plain, loader: object, *args: object, **kwargs: object) -> None:
        plain(loader, *args, **kwargs)
        shuffled = type(getattr(loader, "sampler", None)).__name__ != "SequentialSampler"
        data = getattr(loader, "dataset", None)
        while hasattr(data, "indices") and hasattr(data, "dataset"):  # a Subset of a data set
            data = getattr(data, "dataset", None)
        gives = getattr(type(data), "__getitem__", None)
        pairs = None
        if isinstance(gives, FunctionType) and not gives.__module__.startswith(__name__.partition(".")[0]):
            pairs = gives.__code__
        self.run.loaders.append(Loader(user_site(3), getattr(loader, "batch_size", None), shuffled, pairs))
        self._loaders[loader] = self.run.loaders[-1]

    def _reading(self, plain: Plain, loader: object) -> Array:
        known = self._loaders.get(loader)
        if known is not None and not self.run.backwards:
            known.passes += 1
        return plain(loader)

    def _loading(self, plain: Plain, module: Module, *args: object, **kwargs: object) -> Array:
        result = plain(module, *args, **kwargs)
        parameters: list[Tensor] = list(module.parameters())
        self.run.loaded.update(map(id, parameters))
        for x in self.run.optimizers:
            x.reloaded = x.reloaded or any(p is q for p in x.parameters[:1] for q in parameters)
        steps = sum([x.steps for x in self.run.optimizers])
        known = self.run.loads.setdefault(user_site(3), [])
        if steps and len(known) < _LOADS:
            marks = [mark(p.array) for p in parameters]
            created = sum([1 + x.created_again for x in self.run.optimizers])
            known.append(Loading(parameters, marks, steps, created))
        return result

    def _switching(self, plain: Plain, module: Module, mode: bool = True) -> Array:
        result = plain(module, mode)
        site = user_site(3)
        if "nn/base" not in site.file.replace("\\", "/"):
            for x in module.modules():
                self.run.switched[id(x)] = bool(mode), site
                if mode and not modes.grad_enabled:
                    self.run.undone[id(x)] = site
        return result

    def _scheduling(self, plain: Plain, scheduler: LRScheduler, *args: object, **kwargs: object) -> Array:
        for x in self.run.schedules:
            if x.scheduler is scheduler:
                x.sites[user_site(3)] += 1
                metric: Array = kwargs.get("metrics", args[0] if args else None)
                metric = metric.array if isinstance(metric, Tensor) else metric
                if type(scheduler).__name__ == "ReduceLROnPlateau" and metric is not None:
                    x.metrics.append(float(metric))
        return plain(scheduler, *args, **kwargs)

"""The base class Optimizer: parameter groups, state, hooks, and updates in cache-sized blocks."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import is_array
from ..core.arrays.dtypes import INEXACT, float32, float64, get_default_dtype
from ..core.arrays.fp_warnings import silenced
from ..core.arrays.memory import lasting_zeros
from ..core.errors import describe
from ..core.graph.handles import RemovableHandle
from ..core.graph.modes import enable_grad, modes, watchers
from ..core.graph.observers import observed_step
from ..core.missing_names import legacy_names
from ..core.tensor.storage import is_saved, overlaps_itself, storage_of, unshare
from ..core.tensor.tensor import Tensor, new_tensor, to_array
from ..kernels import USEFUL
from ..kernels.loops.elements import updates
from ..ops.table.arguments import ChecksOptions
from .array_updates import Unscaled, step_with_scaling, update_arrays, update_sparse
from .differentiable import record_update
from .hyperparameters import ParamGroup, numbers

Step = TypeVar("Step", bound=Callable[..., Any])
# The name of a function in ``elements/updates.py``, the names of the state entries that it updates, and its factors
# other than those of ``_shared_factors``.
Formula: TypeAlias = tuple[str, tuple[str, ...], tuple[float, ...]]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[ParamGroup] | Iterable[tuple[str, Tensor]]


class UpdateForm(NamedTuple):
    """A description of an optimizer's step, from which compiled code performs the same operations.

    ``rates`` are the numbers that the update uses or, with ``of_step``, the options from which ``rates_of_step``
    computes these numbers at each step.
    """

    name: str
    state: tuple[str, ...]
    factors: tuple[float, ...]
    rates: tuple[float, ...]
    of_step: bool = False

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that may change from step to step."""
        return *self.rates, *self.factors


class _Required:
    """The default of an option that every parameter group must specify."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: Final = _Required()

_pre_hooks_of_all: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_post_hooks_of_all: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., object]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of every optimizer."""
    return RemovableHandle(_pre_hooks_of_all, hook)


def register_optimizer_step_post_hook(hook: Callable[..., object]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of every optimizer."""
    return RemovableHandle(_post_hooks_of_all, hook)


def writable(parameter: Tensor) -> Array:
    """Return the parameter's array for writing in place: a copy if a graph node still needs the old values.

    Raises:
        RuntimeError: several elements share a memory location, as after ``expand``.
    """
    array = parameter.array
    if not array.flags.c_contiguous and overlaps_itself(array):
        raise RuntimeError(f"several elements of {describe(parameter)} share one memory location; clone() it first")
    if is_saved(parameter) or not getattr(array.flags, "writeable", True):  # CuPy has no read-only arrays
        unshare(parameter, keep_values=True)
    storage_of(parameter).version += 1
    return parameter.array


def with_hooks(step: Step) -> Step:
    """Run the step hooks around ``step``, but only once if an overriding ``step`` calls ``super().step()``."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: object, **kwargs: object) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        if watchers and modes.tracer is not None and modes.tracer.takes_over(self, hooked, args, kwargs):
            return None
        self._stepping = True
        try:
            args = (self, *args)
            args, kwargs = self._after_pre_hooks(args, kwargs)
            result = observed_step(step, args, kwargs) if watchers else step(*args, **kwargs)
            self._stepped = True
            for hook in [*self._step_post_hooks.values(), *_post_hooks_of_all.values()]:
                hook(self, args, kwargs)
            return result
        finally:
            self._stepping = False

    return hooked  # type: ignore[return-value]


def _no_hooks(optimizer: Optimizer) -> OrderedDict[int, Callable[..., Any]]:
    return OrderedDict()


class Optimizer(ChecksOptions):
    """The base class of optimizers, with PyTorch's interface.

    A subclass passes its defaults and implements ``step``; the optimizers of this package implement ``_update``, the
    update of one parameter. Parameters may have any shape and any floating or complex dtype, and are updated in place.

    Args:
        params: Tensors, ``(name, Tensor)`` pairs, or dictionaries, each a group with ``params`` and its own options.
        defaults: the options of groups without options of their own.

    Raises:
        TypeError: a parameter is not a Tensor, or ``params`` is a set, whose order changes from run to run.
        ValueError: there are no parameters, a parameter is not a leaf or is in two groups, or only some have names.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rg.optim.SGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.8, 1.6])
    """

    # Entries of the state that are one number, and not an array of the parameter's shape; loading keeps their dtype.
    scalar_state: frozenset[str] = frozenset({"step"})
    takes_sparse_gradients = False

    # Created on first access: some subclasses do not call __init__, and copies and pickles omit them.
    _step_pre_hooks = cached_property(_no_hooks)
    _step_post_hooks = cached_property(_no_hooks)
    _state_dict_pre_hooks = cached_property(_no_hooks)
    _state_dict_post_hooks = cached_property(_no_hooks)
    _load_state_dict_pre_hooks = cached_property(_no_hooks)
    _load_state_dict_post_hooks = cached_property(_no_hooks)
    _stepping = False
    _stepped = False  # schedulers warn if they step before the optimizer
    _unscaled: Unscaled | None = None  # set while ``step_with_scaling`` runs
    _step_with_scaling = step_with_scaling

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[ParamGroup] = []
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: params should be an iterable of Tensors or dicts, got {describe(params)}"
            )
        if not isinstance(params, Iterable):
            example = " (for a module: module.parameters())"
            raise TypeError(
                f"{type(self).__name__}: params must be an iterable of Tensors or dicts{example}, "
                f"got {getattr(params, '__qualname__', type(params).__name__)}"
            )
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for group in state.get("param_groups", ()):  # groups from an older version may lack options
            for name, default in self.__dict__.get("defaults", {}).items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {index}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # Parameters

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group of parameters, ``{"params": ..., "lr": ...}``; missing options have their defaults."""
        if modes.tracer is not None:  # a replay would not create a new optimizer or group
            modes.tracer.breaks("it creates an optimizer or adds a parameter group")
        me = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{me}: param_group must be a dict, but got {type(param_group)}")
        group = param_group
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                f"{me}: optimizer parameters need to be organized in ordered collections, and the order of a set "
                "changes from run to run; use a list"
            )
        entries = [params] if isinstance(params, Tensor) else list(params)
        named = [entry for entry in entries if isinstance(entry, tuple)]
        if named:
            if len(named) != len(entries):
                raise ValueError(f"{me}: all optimizer params should be with/without names; some are missing")
            group["param_names"] = [name for name, _ in named]
            entries = [parameter for _, parameter in named]
        group["params"] = entries
        for parameter in entries:
            if not isinstance(parameter, Tensor):
                raise TypeError(
                    f"{me}: optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}"
                )
            if not (self.defaults.get("differentiable") or parameter.is_leaf or parameter.retains_grad):
                raise ValueError(f"{me}: can't optimize a non-leaf Tensor, {describe(parameter)}")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"{me}: the parameter group has no value for the required option {name!r}")
            group.setdefault(name, default)

        ids = [id(parameter) for parameter in entries]
        if len(set(ids)) != len(ids):
            warnings.warn(f"{me}: optimizer contains a parameter group with duplicate parameters", stacklevel=3)
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                raise ValueError(f"{me}: all optimizer param groups should be with/without names")
            if not set(ids).isdisjoint(id(parameter) for parameter in other["params"]):
                raise ValueError(f"{me}: some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero; sparse gradients always to None."""
        kept = []
        for parameter in chain.from_iterable(group["params"] for group in self.param_groups):
            if watchers and modes.tracer is not None:
                modes.tracer.clears(parameter, set_to_none)
            if parameter._grad is None:
                continue
            if set_to_none or not parameter._grad.is_dense:
                parameter._grad = None
            else:
                if parameter._grad._requires:
                    parameter._grad = parameter._grad.detach()
                kept.append([writable(parameter._grad)])
        if kept and updates.takes(kept, "filled", 1, USEFUL):
            updates.update("filled", kept, (), (0.0,))
        else:
            for (array,) in kept:
                array[...] = 0

    # Stepping

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: a function that computes the loss and its gradients; ``step`` returns its result.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        silenced(self._update_groups)
        return loss

    def _update_groups(self) -> None:
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter._grad is not None]
            sparse = [parameter for parameter in moved if not parameter._grad.is_dense]
            for parameter in sparse:
                update_sparse(self, parameter, parameter._grad, group)
            if sparse:
                moved = [parameter for parameter in moved if parameter._grad.is_dense]
            if group.get("differentiable"):
                self._scale_gradients()
                self._update_recorded(moved, group)
            elif not self._update_in_one_loop(moved, group):
                self._scale_gradients()
                for parameter in moved:
                    self._update(parameter, parameter._grad.array, group)

    def _scale_gradients(self) -> None:
        if self._unscaled is not None:
            self._unscaled.finish()

    def _after_pre_hooks(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Run the pre-hooks and return the arguments of the step, which hooks may change."""
        for hook in [*_pre_hooks_of_all.values(), *self._step_pre_hooks.values()]:
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"a step pre-hook must return None or (args, kwargs), got {changed}")
                args, kwargs = changed
        return args, kwargs

    def _update_recorded(self, moved: list[Tensor], group: ParamGroup) -> None:
        if not self._has_formula():
            raise RuntimeError(
                f"{type(self).__name__}: differentiable=True is not supported: its steps are not recorded"
            )
        for parameter in moved:
            record_update(self, parameter, group)

    def _has_formula(self) -> bool:
        """Return whether ``_formula`` describes the update, as it does unless ``_update`` is overridden."""
        return type(self)._update is Optimizer._update

    def _update_in_one_loop(self, moved: list[Tensor], group: ParamGroup) -> bool:
        """Update parameters in one compiled loop and return True; return False if ``_update`` must update them."""
        if not moved or not self._has_formula():
            return False
        name, states, own = self._formula(group)
        rows = [[parameter.array, parameter._grad.array] for parameter in moved]  # type: ignore[union-attr]
        if states:
            for parameter, row in zip(moved, rows, strict=True):
                entry = self.state.get(parameter, {})
                row += [entry[key].array for key in states if entry.get(key) is not None]
        factors = (*self._shared_factors(group), *own)
        if len(states) > updates.STATES or not updates.takes(rows, name, len(factors)):
            return False
        for parameter in moved:
            if is_saved(parameter):
                return False
        rates = self._all_rates(moved, group)
        for parameter, row in zip(moved, rows, strict=True):
            if len(row) < 2 + len(states):
                row[2:] = [self._state_array(parameter, key) for key in states]
            storage_of(parameter).version += 1  # count the write; no copy is needed: no node has saved the array
        scale = 1.0 if self._unscaled is None else self._unscaled.take([row[1] for row in rows])
        updates.update(name, rows, rates, factors, scale)
        return True

    def _formula(self, group: ParamGroup) -> Formula:
        """Return the function of ``elements/updates.py`` that computes the update, and its arguments."""
        raise NotImplementedError(f"{type(self).__name__} implements neither step nor _update")

    def _shared_factors(self, group: ParamGroup) -> tuple[float, float, float]:
        """Return the factors of every update: decoupled weight decay, weight decay, and direction."""
        sign = -1.0 if group["maximize"] else 1.0
        weight_decay = group.get("weight_decay", 0.0)
        if type(weight_decay) is not float:
            (weight_decay,) = numbers(group, "weight_decay")
        if group.get("decoupled_weight_decay"):
            return 1 - numbers(group, "lr")[0] * weight_decay, 0.0, sign
        return 1.0, weight_decay, sign

    def _factors(self, group: ParamGroup) -> tuple[float, ...]:
        """Return all factors of the update: the shared factors, then those of ``_formula``."""
        return *self._shared_factors(group), *self._formula(group)[2]

    def _all_rates(self, parameters: Sequence[Tensor], group: ParamGroup) -> list[Sequence[float]]:
        """Return ``_rates`` of each parameter."""
        if type(self)._rates is not Optimizer._rates:
            return [self._rates(parameter, group) for parameter in parameters]
        states = self._formula(group)[1]
        for parameter in parameters:
            self._begin(parameter, *states)
        return [()] * len(parameters)

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        """Return the numbers of an update that differ between parameters, by default none, and count the step."""
        raise NotImplementedError

    def update_form(self, group: ParamGroup) -> UpdateForm | None:
        """Return a description of the update with the group's options; None if no compiled code implements it."""
        return None

    def step_is_watched(self) -> bool:
        """Whether ``step`` does more than call ``_update`` per parameter: it has hooks, or is overridden."""
        return bool(
            _pre_hooks_of_all
            or _post_hooks_of_all
            or self._step_pre_hooks
            or self._step_post_hooks
            or type(self).step is not Optimizer.step
        )

    def _update(self, parameter: Tensor, gradient: Array, group: ParamGroup) -> None:
        """Update one parameter, in NumPy or CuPy."""
        name, states, _ = self._formula(group)
        (rates,) = self._all_rates([parameter], group)
        arrays = [writable(parameter), gradient, *[self._state_array(parameter, key) for key in states]]
        update_arrays(name, arrays, self._factors(group), rates)

    def _update_at(self, at: tuple[Array, ...], parameter: Tensor, gradient: Array, group: ParamGroup) -> None:
        """Update the elements at some coordinates, each of which occurs once."""
        name, states, _ = self._formula(group)
        (rates,) = self._all_rates([parameter], group)
        arrays = [writable(parameter), *[self._state_array(parameter, key) for key in states]]
        p, *state = [array[at] for array in arrays]
        update_arrays(name, [p, gradient, *state], self._factors(group), rates)
        for array, part in zip(arrays, (p, *state), strict=True):
            array[at] = part

    # State

    def _state_array(self, parameter: Tensor, name: str) -> Array:
        state = self.state[parameter]
        if state.get(name) is None:
            state[name] = self._zeros_like(parameter)
        return state[name].array

    def _zeros_like(self, parameter: Tensor) -> Tensor:
        return new_tensor(lasting_zeros(parameter.array))

    def _scalar(self, value: float) -> Tensor:
        """Return a number of the state as a 0-d CPU Tensor, in float32 or, if that is the default dtype, float64."""
        return new_tensor(np.array(value, float64 if get_default_dtype() == float64 else float32))

    def _begin(self, parameter: Tensor, *names: str, **scalars: float) -> tuple[dict[str, Any], int]:
        """Count a step; return the parameter's state, with missing entries initialized, and the number of the step."""
        state = self.state[parameter]
        for name in names:
            if name not in state:
                state[name] = self._zeros_like(parameter)
        if "step" not in state:
            state["step"] = self._scalar(0)
        for name, value in scalars.items():
            if name not in state:
                self._keep(parameter, name, value)
        count = state["step"].array
        step = int(count) + 1
        count[...] = step  # three times as fast as count += 1, for an array with one element
        return state, step

    def _keep(self, parameter: Tensor, name: str, value: float | Tensor) -> None:
        """Set a number of the state; a Tensor is stored itself, so that gradients flow through a recorded step."""
        state = self.state[parameter]
        if name not in state or isinstance(value, Tensor):
            state[name] = value if isinstance(value, Tensor) else self._scalar(value)
        else:
            state[name].array[...] = value

    def _kept(self, parameter: Tensor, name: str) -> Any:
        """Return a number of the state: a Tensor if it requires grad, else a float."""
        value = self.state[parameter][name]
        return value if value._requires else float(value.array)

    def _state_shape(self, key: str, parameter: Tensor) -> tuple[int, ...] | None:
        """Return the shape that an entry of the state must have; None if any shape is allowed (users' optimizers)."""
        if type(self).step is not Optimizer.step:
            return None
        return () if key in self.scalar_state else parameter.array.shape

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options of the groups, with parameters numbered in the order of the groups.

        The format is PyTorch's. The Tensors in the state are not copied.
        """
        for hook in self._state_dict_pre_hooks.values():
            hook(self)
        index: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            for position, parameter in enumerate(group["params"], start):
                index.setdefault(id(parameter), position)
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [index[id(parameter)] for parameter in group["params"]]})
        state = {(index[id(key)] if isinstance(key, Tensor) else key): value for key, value in self.state.items()}
        packed_state: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_dict_post_hooks.values():
            changed = hook(self, packed_state)
            packed_state = packed_state if changed is None else changed
        return packed_state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state from ``state_dict()``, of Retrograd or PyTorch. Arrays are copied.

        Raises:
            ValueError: the groups differ in number or size, or an array of the state has another shape than its
                parameter. The optimizer is unchanged.
        """
        me = type(self).__name__
        given = dict(state_dict)
        for hook in self._load_state_dict_pre_hooks.values():
            changed = hook(self, given)
            given = given if changed is None else changed
        new_groups = deepcopy(given["param_groups"])
        if len(new_groups) != len(self.param_groups):
            raise ValueError(
                f"{me}: loaded state dict has a different number of parameter groups: {len(new_groups)} for "
                f"{len(self.param_groups)}"
            )
        parameters: dict[Any, Tensor] = {}
        for group, new_group in zip(self.param_groups, new_groups):
            if len(group["params"]) != len(new_group["params"]):
                raise ValueError(
                    f"{me}: loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                    f"group: {len(new_group['params'])} parameters for {len(group['params'])}"
                )
            parameters.update(zip(new_group["params"], group["params"]))
            new_group["params"] = group["params"]
            if "param_names" in group:
                new_group.setdefault("param_names", group["param_names"])
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, values in given["state"].items():
            parameter = parameters.get(key)
            state[key if parameter is None else parameter] = (
                values
                if parameter is None
                else {name: self._loaded(name, value, parameter) for name, value in values.items()}
            )
        self.__setstate__({"state": state, "param_groups": new_groups})
        for hook in self._load_state_dict_post_hooks.values():
            hook(self)

    def _loaded(self, key: str, value: Tensor, parameter: Tensor) -> Tensor:
        """Return a copy of an entry of a loaded state, with the dtype and device of the parameter."""
        if isinstance(value, (list, tuple)):
            return type(value)(self._loaded(key, item, parameter) for item in value)
        if key in self.scalar_state and isinstance(value, (int, float)):
            return self._scalar(value)
        if not isinstance(value, Tensor) and not is_array(value):
            if not hasattr(value, "__array__"):
                return deepcopy(value)
            value = np.asarray(value)  # a tensor of another library
        shape = self._state_shape(key, parameter)
        if shape is not None and value.shape != shape:
            me = type(self).__name__
            raise ValueError(
                f"{me}: the loaded {key} {describe(value)} does not fit the parameter {describe(parameter)}"
            )
        if key in self.scalar_state:
            return new_tensor(to_array(value, device="cpu", copy=True))
        dtype = parameter.array.dtype if parameter.array.dtype.kind in INEXACT else None
        return new_tensor(to_array(value, dtype, parameter.device, copy=True))

    # Hooks

    OptimizerPreHook: TypeAlias = Callable[..., object]
    OptimizerPostHook: TypeAlias = Callable[..., object]

    @staticmethod
    def profile_hook_step(func: Step) -> Step:
        """Return the function unchanged: a step calls its hooks without this decorator."""
        return func

    def register_step_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; its result replaces ``(args, kwargs)``."""
        return RemovableHandle(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return RemovableHandle(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before each ``state_dict()``."""
        return RemovableHandle(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after each ``state_dict()``; its result replaces the dictionary."""
        return RemovableHandle(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before each ``load_state_dict``; its result is loaded instead."""
        return RemovableHandle(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after each ``load_state_dict``."""
        return RemovableHandle(self._load_state_dict_post_hooks, hook, prepend)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)

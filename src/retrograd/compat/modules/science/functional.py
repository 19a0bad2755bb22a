"""Helpers of ``autograd.functional``, ``vmap`` and L-BFGS that packages with optimizers of their own import."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeAlias, TypeVar

from ...._generated.toplevel import spmm, zeros
from ....autograd.gradients import grad
from ....core.arrays.devices import Device
from ....core.tensor.tensor import Tensor
from ....data.collate import (
    collate,
    collate_number_fn,
    collate_numpy_array_fn,
    collate_str_fn,
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
    default_convert,
)
from ....func.mapping import vmap
from ....kernels.runtime.cores import count
from ....nn.base.module import Module
from ....optim.lbfgs import Trial, cubic_minimum, strong_wolfe

Value: TypeAlias = Any  # an argument or a result of a function of PyTorch

Marked = TypeVar("Marked")

# ``autograd.functional``


def _as_tuple_nocheck(x: Value) -> tuple[Value, ...]:
    """Return a tuple of the elements of a list or tuple, or of one value."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _as_tuple(inp: Value, arg_name: str | None = None, fn_name: str | None = None) -> tuple[bool, tuple[Value, ...]]:
    """Return whether the value is a tuple, and the value as a tuple."""
    values = inp if isinstance(inp, tuple) else (inp,)
    for place, value in enumerate(values):
        if arg_name is not None and not isinstance(value, Tensor):
            where = f"Value at index {place} of the tuple" if isinstance(inp, tuple) else "value"
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the given "
                f"{where} has type {type(value)}."
            )
    return isinstance(inp, tuple), values


def _tuple_postprocess(res: Value, to_unpack: bool | tuple[bool, bool]) -> Value:
    """Return the only element of a tuple, or the tuple itself if ``to_unpack`` says that the argument was a tuple."""
    if isinstance(to_unpack, tuple):
        outer, inner = to_unpack
        if not inner:
            res = tuple(value[0] for value in res)
        return res if outer else res[0]
    return res if to_unpack else res[0]


def _grad_preprocess(inputs: tuple[Value, ...], create_graph: bool, need_graph: bool) -> tuple[Value, ...]:
    """Return inputs to differentiate with respect to: views of them with ``create_graph``, else new leaves."""
    made: list[Value] = []
    for x in inputs:
        if create_graph and isinstance(x, Tensor) and x.requires_grad:
            made.append(x.view_as(x))
        elif isinstance(x, Tensor):
            made.append(x.detach().requires_grad_(need_graph))
        else:
            made.append(x)
    return tuple(made)


def _grad_postprocess(inputs: Value, create_graph: bool) -> Value:
    """Return the Tensors detached, or unchanged with ``create_graph``."""
    if isinstance(inputs, Tensor):
        return inputs if create_graph else inputs.detach()
    return tuple(_grad_postprocess(value, create_graph) for value in inputs)


def _autograd_grad(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    grad_outputs: tuple[Tensor | None, ...] | None = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    is_grads_batched: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return ``autograd.grad`` of the outputs that require gradients; None for an input without a gradient."""
    given = grad_outputs if grad_outputs is not None else (None,) * len(outputs)
    pairs = [(y, g) for y, g in zip(outputs, given, strict=True) if y is not None and y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [y for y, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True, create_graph=create_graph,
        retain_graph=retain_graph, is_grads_batched=is_grads_batched,
    )  # fmt: skip


def _construct_standard_basis_for(tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return for each Tensor its columns of the identity matrix of all elements: shape ``(total, size)``."""
    if len(tensors) != len(tensor_numels) or not tensors:
        raise ValueError("_construct_standard_basis_for: pass one size per Tensor, and at least one Tensor")
    total = sum(tensor_numels)
    columns, start = [], 0
    for x, size in zip(tensors, tensor_numels, strict=True):
        chunk = zeros(total, size, dtype=x.dtype, device=x.device)
        chunk.diagonal(-start).fill_(1)
        columns.append(chunk)
        start += size
    return tuple(columns)


# ``_vmap_internals``


def _vmap(
    func: Callable[..., Value], in_dims: Value = 0, out_dims: Value = 0, **options: Value
) -> Callable[..., Value]:
    """Return ``func.vmap(func, in_dims, out_dims)``."""
    return vmap(func, in_dims, out_dims)


# ``optim.lbfgs``


def _strong_wolfe(
    obj_func: Callable[[Value, float, Value], tuple[float, Tensor]], x: Value, t: float, d: Tensor, f: float,
    g: Tensor, gtd: Value, c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:  # fmt: skip
    """Return loss, gradient and length of a step with the strong Wolfe conditions, and the number of evaluations.

    Args:
        obj_func: returns loss and gradient for ``x``, a length of the step, and a direction.
        x: the start.
        t: the first length to try.
        d: the direction.
        f: the loss at the start.
        g: the gradient at the start.
        gtd: the slope at the start.
        c1: the minimum decrease of the loss, as a fraction of the decrease along the initial slope.
        c2: the maximum magnitude of the slope at the end, as a fraction of the magnitude of the initial slope.
        tolerance_change: the search ends when the step changes no component of x by more.
        max_ls: the maximum number of evaluations after the first.
    """
    count = 0

    def trial(length: float) -> Trial:
        nonlocal count
        count += 1
        loss, gradient = obj_func(x, length, d)
        return Trial(length, float(loss), gradient, float(gradient.dot(d)))

    start = Trial(0.0, float(f), g, float(gtd))
    found = strong_wolfe(trial, start, float(t), float(d.abs().max()), max_ls, c1, c2, tolerance_change)
    gradient: Value = found.gradient
    return found.loss, gradient, found.t, count


def _cubic_interpolate(
    x1: Value, f1: Value, g1: Value, x2: Value, f2: Value, g2: Value, bounds: tuple[float, float] | None = None
) -> float:
    """Return where the cubic with these values and slopes at two points has its minimum, within the bounds."""
    first, second = (Trial(float(x), float(y), None, float(slope)) for x, y, slope in ((x1, f1, g1), (x2, f2, g2)))
    limits = (min(first.t, second.t), max(first.t, second.t)) if bounds is None else bounds
    return cubic_minimum(first, second, (float(limits[0]), float(limits[1])))


# ``nn.utils``


@contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Let a module use other Parameters and buffers inside the ``with`` statement.

    Raises:
        RuntimeError: with ``strict``, a name is missing or unknown.
    """
    from ....func.modules import _substitutes_by_name, substituted

    with substituted(((module, _substitutes_by_name(module, parameters_and_buffers, tie_weights, strict)),)):
        yield


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Value]:
    """Return a function that calls the module so that backward stores ``grad_sample``, a gradient per example.

    Args:
        module: the module.
        batch_size: the number of examples, by default the size of the first Tensor argument.
        loss_reduction: how the loss reduces the batch: ``"sum"`` or ``"mean"``.
        batch_first: whether examples lie along the first dimension, else along the second.
    """
    from ....func.modules import functional_call

    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    dim = 0 if batch_first else 1

    def call(*args: Value, **kwargs: Value) -> Value:
        size = batch_size
        if size is None:
            tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            if not tensors:
                raise RuntimeError("Unable to find a tensor in the passed args and kwargs; pass batch_size")
            size = tensors[0].shape[dim]
        expanded: dict[str, Tensor] = {}
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                copies = parameter.expand(size, *parameter.shape)
                if copies.requires_grad:  # under no_grad no backward pass follows
                    copies.register_hook(_storing(parameter, size if loss_reduction == "mean" else 1))
                expanded[name] = copies

        def one(parameters: dict[str, Tensor], args: Value, kwargs: Value) -> Value:
            args = [x.unsqueeze(dim) if isinstance(x, Tensor) else x for x in args]
            kwargs = {key: x.unsqueeze(dim) if isinstance(x, Tensor) else x for key, x in kwargs.items()}
            return functional_call(module, parameters, tuple(args), kwargs).squeeze(dim)

        mapped = tuple([dim if isinstance(x, Tensor) else None for x in args])
        named = {key: dim if isinstance(x, Tensor) else None for key, x in kwargs.items()}
        return vmap(one, (0, mapped, named), dim)(expanded, args, kwargs)

    return call


def _storing(parameter: Value, factor: int) -> Callable[[Tensor], None]:
    def store(gradient: Tensor) -> None:
        gradient = gradient * factor
        before = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = gradient if before is None else before + gradient

    return store


# ``_jit_internal``: marks for PyTorch's compiler


def _mark(fn: Marked) -> Marked:
    """Return the function unchanged."""
    return fn


_MARKS = ("_copy_to_script_wrapper", "_overload", "_overload_method", "export", "ignore", "script_method", "unused")


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Value],
    if_false: Callable[..., Value],
    module_name: str,
    func_name: str,
) -> Callable[..., Value]:
    """Return a function that calls one of two functions, chosen by a boolean argument."""

    def call(*args: Value, **kwargs: Value) -> Value:
        chosen = kwargs[arg_name] if arg_name in kwargs else args[arg_index] if arg_index < len(args) else default
        return (if_true if chosen else if_false)(*args, **kwargs)

    call.__name__ = func_name
    return call


def is_scripting() -> bool:
    """Return False: PyTorch's compiler never runs."""
    return False


# ``__config__``, and products of sparse and dense matrices


def show() -> str:
    """Return how NumPy, which performs the computations, was built: compilers, BLAS, and processor features."""
    import numpy as np

    return f"Retrograd on NumPy {np.__version__}\n{json.dumps(np.show_config('dicts'), indent=2)}"


def parallel_info() -> str:
    """Return the number of threads."""
    return f"Retrograd: {count()} threads"


def dsmm(input: Value, mat2: Tensor) -> Tensor:
    """Return the product of a sparse and a dense matrix."""
    return spmm(input, mat2)


# ``serialization``: types for annotations, and the protocol of pickles

FILE_LIKE = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION = Callable[[Value, str], Value] | Device | str | dict[str, str] | None


NAMES: dict[str, str | dict[str, Value]] = {
    "__config__": "parallel_info show",
    "_jit_internal": {
        **dict.fromkeys(_MARKS, _mark),
        "_is_tensor": lambda x: isinstance(x, Tensor), "boolean_dispatch": boolean_dispatch,
        "is_scripting": is_scripting, "BroadcastingList1": list, "BroadcastingList2": list, "BroadcastingList3": list,
    },
    "_per_sample_grad": "call_for_per_sample_grads",
    "_vmap_internals": "_vmap vmap=_vmap",
    "autograd.functional": """
        _as_tuple _as_tuple_nocheck _autograd_grad _construct_standard_basis_for _grad_postprocess _grad_preprocess
        _tuple_postprocess
    """,
    "collate": {
        "collate": collate, "collate_float_fn": collate_number_fn, "collate_int_fn": collate_number_fn,
        "collate_numpy_array_fn": collate_numpy_array_fn, "collate_numpy_scalar_fn": collate_numpy_array_fn,
        "collate_str_fn": collate_str_fn, "collate_tensor_fn": collate_tensor_fn, "default_collate": default_collate,
        "default_collate_err_msg_format": (
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
        ),
        "default_collate_fn_map": default_collate_fn_map, "default_convert": default_convert,
        "np_str_obj_array_pattern": re.compile(r"[SaUO]"),
    },
    "lbfgs": "_cubic_interpolate _strong_wolfe",
    "retrograd": {"dsmm": dsmm, "torch": sys.modules.get("torch", sys.modules["retrograd"])},
    "serialization": {"DEFAULT_PROTOCOL": 2, "FILE_LIKE": FILE_LIKE, "MAP_LOCATION": MAP_LOCATION},
    "stateless": "_reparametrize_module",
}  # fmt: skip

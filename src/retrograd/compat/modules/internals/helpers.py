"""Private helpers of PyTorch that packages with optimizers or distributions of their own import, and ``futures``.

The helpers are those of ``autograd.functional``, ``vmap``, L-BFGS, ``utils.data`` and ``distributions``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future as PythonFuture
from contextlib import contextmanager
from threading import Lock
from typing import IO, Any, Generic, TypeAlias, TypeVar

from ...._generated.linalg import cholesky, solve_triangular
from ...._generated.toplevel import eye, matmul, normal, ones, spmm, zeros
from ....autograd.gradients import grad
from ....core.arrays.devices import Device
from ....core.arrays.dtypes import DType
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
from ....distributions import constraints
from ....distributions.families.positive import Gamma
from ....distributions.families.simplex import Dirichlet
from ....distributions.kl import registry
from ....distributions.transforms.base import InverseTransform
from ....distributions.utils import clamp_probs
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


# Helpers of ``distributions``


def _standard_normal(shape: Sequence[int], dtype: DType | None, device: Value) -> Tensor:
    """Return standard normal numbers."""
    shape = tuple(shape)
    return normal(zeros(shape, dtype=dtype, device=device), ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last ``dim`` dimensions, which may be empty."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid function, bounded away from 0 and 1 by the precision of the dtype."""
    return clamp_probs(x.sigmoid())


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Return the product of matrices and vectors, whose batch dimensions broadcast."""
    return matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Return ``x^T (L L^T)^-1 x`` for lower triangular matrices and vectors, whose batch dimensions broadcast."""
    return solve_triangular(bL, bx.unsqueeze(-1), upper=False).square().sum((-2, -1))


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """Return the lower Cholesky factor of the inverse of a positive definite matrix."""
    flipped = cholesky(P.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).transpose(-2, -1)
    return solve_triangular(inverse, eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """Return the lower Cholesky factor of ``I + W^T diag(D)^-1 W``."""
    inner = matmul(W.mT / D.unsqueeze(-2), W)
    return cholesky(inner + eye(W.shape[-1], dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return ``log det (W W^T + diag(D))``, by the matrix determinant lemma."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return ``x^T (W W^T + diag(D))^-1 x``, by the Woodbury formula."""
    weighted = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.square() / D).sum(-1) - _batch_mahalanobis(capacitance_tril, weighted)


def _standard_gamma(concentration: Tensor, generator: Value = None) -> Tensor:
    """Return samples of Gamma distributions with rate 1, with gradients with respect to the concentration."""
    return Gamma(concentration, ones((), dtype=concentration.dtype)).rsample()


def _sample_dirichlet(concentration: Tensor, generator: Value = None) -> Tensor:
    """Return samples of Dirichlet distributions, with gradients with respect to the concentration."""
    return Dirichlet(concentration).rsample()


def _dispatch_kl(type_p: type, type_q: type) -> Callable[..., Tensor]:
    """Return the function that computes the divergence of two classes, or NotImplemented."""
    found = registry._function_for(type_p, type_q)
    return NotImplemented if found is None else found


def _private_constraints() -> dict[str, type]:
    """Return the classes of constraints under PyTorch's names, such as ``_Real``."""
    found = {name: value for name, value in vars(constraints).items() if isinstance(value, type) and name[0] != "_"}
    return {f"_{name}": value for name, value in found.items()}


# ``futures``: results that another thread sets

Item = TypeVar("Item")
Other = TypeVar("Other")


class Future(Generic[Item]):
    """A value that is set later, possibly by another thread.

    >>> from retrograd.futures import Future
    >>> future = Future()
    >>> doubled = future.then(lambda done: 2 * done.value())
    >>> future.set_result(21)
    >>> future.done(), doubled.wait()
    (True, 42)
    """

    def __init__(self, *, devices: Sequence[object] | None = None) -> None:
        self._future: PythonFuture[Item] = PythonFuture()

    def done(self) -> bool:
        """Return whether a value or an error is set."""
        return self._future.done()

    def wait(self) -> Item:
        """Wait for the value and return it, or raise the error."""
        return self._future.result()

    def value(self) -> Item:
        """Return the value, or raise the error.

        Raises:
            RuntimeError: the value is not set yet.
        """
        if not self.done():
            raise RuntimeError("Future.value: the future is not completed; call wait()")
        return self._future.result()

    def set_result(self, result: Item) -> None:
        """Set the value. Waiting threads resume, and callbacks run.

        Raises:
            RuntimeError: a value or error is set already.
        """
        if self.done():
            raise RuntimeError("Future can only be marked completed once.")
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which ``wait`` and ``value`` raise."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        if self.done():
            raise RuntimeError("Future can only be marked completed once.")
        self._future.set_exception(result)

    def then(self, callback: Callable[[Future[Item]], Other]) -> Future[Other]:
        """Return a future of ``callback(self)``, which runs when this future is completed."""
        following: Future[Other] = Future()

        def complete(_: object) -> None:
            try:
                following.set_result(callback(self))
            except Exception as error:
                following.set_exception(error)

        self._future.add_done_callback(complete)
        return following

    def add_done_callback(self, callback: Callable[[Future[Item]], object]) -> None:
        """Run ``callback(self)`` when the future is completed."""
        self._future.add_done_callback(lambda _: callback(self))


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future that is completed when all futures are; its value is the list of the futures.

    >>> from retrograd.futures import Future, collect_all
    >>> parts = [Future(), Future()]
    >>> every = collect_all(parts)
    >>> for number, part in enumerate(parts):
    ...     part.set_result(number)
    >>> [part.value() for part in every.wait()]
    [0, 1]
    """
    every: Future[list[Future[object]]] = Future()
    parts = list(futures)
    waiting, lock = len(parts), Lock()
    if not parts:
        every.set_result(parts)

    def count(_: Future[Any]) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            last = waiting == 0
        if last:
            every.set_result(parts)

    for part in parts:
        part.add_done_callback(count)
    return every


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all futures, and return their values, or raise the first error."""
    return [part.wait() for part in collect_all(futures).wait()]


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
    "futures": "Future collect_all wait_all",
    "lbfgs": "_cubic_interpolate _strong_wolfe",
    "retrograd": {
        "Future": Future, "_sample_dirichlet": _sample_dirichlet, "_standard_gamma": _standard_gamma, "dsmm": dsmm,
        "torch": sys.modules.get("torch", sys.modules["retrograd"]),
    },
    "serialization": {"DEFAULT_PROTOCOL": 2, "FILE_LIKE": FILE_LIKE, "MAP_LOCATION": MAP_LOCATION},
    "stateless": "_reparametrize_module",
    "constraints": _private_constraints(),
    "kl": {"_KL_REGISTRY": registry._registry, "_dispatch_kl": _dispatch_kl},
    "lowrank": "_batch_capacitance_tril _batch_lowrank_logdet _batch_lowrank_mahalanobis _batch_mahalanobis _batch_mv "
    "_standard_normal",
    "multivariate_normal": "_batch_mahalanobis _batch_mv _precision_to_scale_tril _standard_normal",
    "transforms": {
        "_InverseTransform": InverseTransform, "_clipped_sigmoid": _clipped_sigmoid, "_sum_rightmost": _sum_rightmost,
    },
    "utils": "_standard_normal _sum_rightmost",
}  # fmt: skip

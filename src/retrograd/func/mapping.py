"""``vmap``: map a function of one example over many examples, in one call.

The arguments become Tensors that contain all examples (``core/mapping/batched.py``). Every operator that the function
calls applies its batching rule to these Tensors (``core/mapping/batching.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.arrays.dtypes import is_array_or_number
from ..core.errors import describe
from ..core.graph.modes import on_level
from ..core.graph.primitive import operand
from ..core.mapping.batched import Batched
from ..core.mapping.batching import Level
from ..core.tensor.tensor import Tensor, is_dense, new_tensor
from ..ops.make.generators import default_generator
from ..ops.numpy.bare_arrays import explained
from ..ops.shape.expansion import expand
from ..ops.shape.joining import cat
from ..ops.shape.permutation import movedim
from .nests import Structure, flatten, kind_of

Dims = Any  # int, None, or a nest of them


def vmap(
    func: Callable[..., object],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps ``func`` over a dimension of its arguments: ``vmap(f)(x)[i] = f(x[i])`` for all i.

    All examples are computed in one call. Inside ``func``, a Tensor has the shape of one example. Transforms nest in
    any order: ``vmap(grad(f))`` returns one gradient per example, ``vmap(vmap(f))`` maps over two dimensions.

    Args:
        func: takes and returns nests of Tensors.
        in_dims: the mapped dimension: an integer for all arguments, or a tuple with one entry per argument: an integer,
            None for an argument that is the same for all examples, or a nest of these like the argument.
        out_dims: where the mapped dimension of each output is put: an integer for all, or a nest like the outputs. None
            is for outputs that are the same for all examples, which are otherwise repeated.
        randomness: ``"error"`` raises an error in random operators, ``"different"`` draws new numbers for each example,
            ``"same"`` draws the same numbers for all.
        chunk_size: the number of examples per call, to use less memory; by default all.

    Returns:
        A function of the same arguments with the mapped dimensions; keyword arguments are not mapped.

    Raises:
        ValueError: ``in_dims`` does not match the arguments, the mapped dimensions differ in length, nothing is mapped,
            or the function returned something that is not a Tensor.
        RuntimeError: Python code in ``func`` depends on the values of a Tensor.

    Source: ``torch.func.vmap``, ``jax.vmap``.

    >>> from retrograd.func import grad, vmap
    >>> x, y = rg.tensor([[1.0, 2.0], [3.0, 4.0]]), rg.tensor([[1.0, 1.0], [10.0, 10.0]])
    >>> vmap(rg.dot)(x, y)
    tensor([ 3., 70.])
    >>> vmap(rg.dot, in_dims=(0, None))(x, y[1])
    tensor([30., 70.])
    >>> vmap(grad(lambda x: (x**2).sum()))(x)
    tensor([[2., 4.],
            [6., 8.]])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"vmap: only allowed values for randomness are 'error', 'different', or 'same', got {randomness!r}"
        )
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or an int greater than 0, got {chunk_size!r}")

    @functools.wraps(func)
    def mapped(*args: object, **kwargs: object) -> Any:
        name = _name_of(func)
        leaves, structure, dims = _checked_inputs(name, in_dims, args)
        size = _mapped_size(name, leaves, structure, dims)
        if chunk_size is None or size <= chunk_size:
            outputs, results, places = _call_on_level(
                func, name, size, leaves, dims, structure, out_dims, randomness, kwargs
            )
            return outputs.unflatten(results)
        return _map_in_chunks(func, name, size, chunk_size, leaves, dims, structure, out_dims, randomness, kwargs)

    return mapped


def batch_size(func: Callable[..., object], in_dims: Dims, args: tuple[object, ...]) -> int:
    """Return the number of examples that ``vmap(func, in_dims)`` maps over."""
    name = _name_of(func)
    return _mapped_size(name, *_checked_inputs(name, in_dims, args))


def _call_on_level(
    func: Callable[..., object], name: str, size: int, leaves: Sequence[Any], dims: Sequence[int | None],
    structure: Structure, out_dims: Dims, randomness: str, kwargs: dict[str, object],
) -> tuple[Structure, list[Any], list[int | None]]:  # fmt: skip
    """Call ``func`` on a level; return the structure and leaves of its result, and the mapped dimension of each."""
    level = Level(size, randomness)
    inputs = [
        x if dim is None else new_tensor(Batched(level, _to_front(x, dim), True))
        for x, dim in zip(leaves, dims, strict=True)
    ]
    try:
        with on_level(level):
            returned = func(*structure.unflatten(inputs), **kwargs)
    except (ValueError, TypeError, SystemError) as error:
        raise explained(error)  # noqa: B904  it is the error itself, or what caused it
    values, outputs = flatten(returned)
    places = _out_dims(name, out_dims, outputs)
    paths = outputs.paths("output")
    results = [
        _unmapped(name, x, place, level, path) for x, place, path in zip(values, places, paths, strict=True)
    ]  # fmt: skip
    return outputs, results, places


def _to_front(x: Tensor, dim: int) -> Tensor:
    x = operand(x)
    return x if dim == 0 else movedim(x, dim, 0)


def _unmapped(name: str, x: Tensor, place: int | None, level: Level, path: str) -> Tensor:
    """Return an output as a Tensor of the layer below, with its examples along dimension ``place``."""
    if place is None and not is_dense(x):
        return x
    if not is_dense(x):
        if not is_array_or_number(x) or isinstance(x, (bool, int, float, complex)):
            raise ValueError(
                f"vmap({name}, ...): {name} must only return Tensors, got {path} of type {type(x).__name__}; did you "
                "mean to set out_dims to None for it?"
            )
        x = operand(x)
    array = x.array
    if type(array) is Batched and array.level is level:
        value, mapped = array.value, array.mapped
    else:
        if type(array) is Batched:
            array.level.check()
        value, mapped = x, False
    if place is None:
        if mapped:
            raise ValueError(
                f"vmap({name}, ...): {name} can not return a Tensor that differs between the examples when its out_dim "
                f"is None: {path} is {describe(x)}"
            )
        return value
    if not mapped:
        value = expand(value.unsqueeze(0), (level.size, *value.array.shape))
    ndim = value.array.ndim
    if not -ndim <= place < ndim:
        raise IndexError(
            f"vmap({name}, ...): out_dim {place} of {path} is out of range for a result of {ndim} dimensions"
        )
    return value if place == 0 else movedim(value, 0, place)


def _map_in_chunks(
    func: Callable[..., object], name: str, size: int, chunk_size: int, leaves: Sequence[object],
    dims: Sequence[int | None], structure: Structure, out_dims: Dims, randomness: str, kwargs: dict[str, object],
) -> Any:  # fmt: skip
    """Map over ``chunk_size`` examples at a time and concatenate the results."""
    state = default_generator.get_state() if randomness == "same" else None
    columns: list[list[object]] = []
    for start in range(0, size, chunk_size):
        if state is not None:
            default_generator.set_state(state)
        length = min(chunk_size, size - start)
        part = [
            x if dim is None else operand(x).narrow(dim, start, length) for x, dim in zip(leaves, dims, strict=True)
        ]  # fmt: skip
        outputs, results, places = _call_on_level(
            func, name, length, part, dims, structure, out_dims, randomness, kwargs
        )
        columns.append(results)
    joined = [
        column[0] if place is None else cat(column, place)
        for column, place in zip(zip(*columns, strict=True), places, strict=True)
    ]
    return outputs.unflatten(joined)


# Arguments


def _name_of(func: Callable[..., object]) -> str:
    return getattr(func, "__name__", type(func).__name__)


def _checked_inputs(
    name: str, in_dims: Dims, args: tuple[object, ...]
) -> tuple[list[Any], Structure, list[int | None]]:
    start = f"vmap({name}, in_dims={in_dims}, ...)"
    if isinstance(in_dims, bool) or not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{start}: expected in_dims to be int or a (potentially nested) tuple matching the structure of the "
            f"inputs, got {type(in_dims).__name__}"
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, structure = flatten(args)
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise ValueError(f"{start}: in_dims has {len(in_dims)} entries for {len(args)} arguments")
    dims: list[int | None] = []
    names = [f"argument {index}" for index in range(len(args))]
    for index, child in enumerate(structure.children):
        dims += _dims_of_leaves(start, in_dims[index] if isinstance(in_dims, tuple) else in_dims, child, names[index])
    for index, (x, dim, path) in enumerate(zip(leaves, dims, structure.paths("inputs"), strict=True)):
        if dim is None:
            continue
        if not is_dense(x) and (isinstance(x, (bool, int, float, complex)) or not is_array_or_number(x)):
            raise ValueError(
                f"{start}: got in_dim={dim} for {path}, but it is of type {type(x).__name__}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        ndim = x.ndim
        if not -ndim <= dim < ndim:
            raise ValueError(
                f"{start}: got in_dim={dim} for {path}, but that is a Tensor of dimensionality {ndim}, so expected "
                f"in_dim to satisfy -{ndim} <= in_dim < {ndim}"
            )
        dims[index] = dim % ndim
    return leaves, structure, dims


def _dims_of_leaves(start: str, dims: Dims, structure: Structure, path: str, what: str = "in_dim") -> list[int | None]:
    """Return the mapped dimension of each leaf. An entry of ``dims`` applies to all leaves below it."""
    if dims is None or isinstance(dims, int) and not isinstance(dims, bool):
        return [dims] * structure.size
    kind = kind_of(dims)
    if kind is None:
        raise ValueError(
            f"{start}: got {what}={dims!r} for {path}, but {what} must be either an integer dimension or None"
        )
    given = dict(kind.parts(dims)[0])
    alike = type(dims) is structure.type
    if what == "out_dim":  # out_dims may give a tuple where the output has a list
        alike = alike or isinstance(dims, (tuple, list)) and structure.type in (tuple, list)
    if not alike or set(given) != set(structure.steps):
        nest = "inputs" if what == "in_dim" else "outputs"
        raise ValueError(
            f"{start}: {what}s is not compatible with the structure of the {nest}: {path} is {structure!r}, but its "
            f"{what}s are {dims!r}"
        )
    return [
        dim
        for step, child in zip(structure.steps, structure.children, strict=True)
        for dim in _dims_of_leaves(start, given[step], child, path + step, what)
    ]


def _out_dims(name: str, out_dims: Dims, outputs: Structure) -> list[int | None]:
    if isinstance(out_dims, (tuple, list)) and outputs.type is None and len(out_dims) == 1:
        (out_dims,) = out_dims
    return _dims_of_leaves(f"vmap({name}, ..., out_dims={out_dims})", out_dims, outputs, "the output", "out_dim")


def _mapped_size(name: str, leaves: Sequence[Any], structure: Structure, dims: Sequence[int | None]) -> int:
    paths = structure.paths("inputs")
    mapped = [(path, x, x.shape[dim]) for x, dim, path in zip(leaves, dims, paths, strict=True) if dim is not None]
    if not mapped:
        raise ValueError(f"vmap({name}, ...): expected at least one Tensor to vmap over")
    if len({size for _, _, size in mapped}) > 1:
        shown = ", ".join(f"{size} ({path} of shape {tuple(x.shape)})" for path, x, size in mapped)
        raise ValueError(
            f"vmap({name}, ...): expected all tensors to have the same size in the mapped dimension, got sizes {shown}"
        )
    return mapped[0][2]

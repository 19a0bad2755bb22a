"""``vectorize``: call a function of numbers on the elements of Tensors, with gradients, as ``numpy.vectorize`` does."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays.dtypes import INEXACT
from ..core.tensor.tensor import Tensor
from ..ops.numpy.arguments import alike, tensor
from ..ops.shape.expansion import broadcast_to
from ..ops.shape.joining import stack, unbind

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Dimensions = list[tuple[str, ...]]  # names of the core dimensions of each argument, or of each result


def vectorize(
    pyfunc: Callable[..., object] | None = None,
    otypes: str | Sequence[DTypeLike] | None = None,
    doc: str | None = None,
    excluded: Collection[int | str] = (),
    cache: bool = False,
    signature: str | None = None,
) -> Any:
    """Return a function that calls ``pyfunc`` for each element of its arguments, which broadcast.

    ``pyfunc`` may branch on the values of its arguments. The results are Tensors if an argument or a result is one. A
    function that consists of operators is faster when it is called on whole Tensors, or by ``vmap``.

    Args:
        pyfunc: a function of single elements: of a 0-d Tensor for each element of a Tensor, of a number for each
            element of an array.
        otypes: the dtype of each result. By default it is the common dtype of all values of the result; NumPy uses the
            dtype of the first value.
        doc: the docstring of the returned function.
        excluded: positions and names of arguments that are passed as they are.
        cache: ignored; the function is called once per element.
        signature: core dimensions, ``"(m,n),(n)->(m)"``: the function is called with arrays of these dimensions.

    Raises:
        ValueError: there is no element to call the function on and ``otypes`` is None, or the arguments or results do
            not have the dimensions of ``signature``.

    Source: ``numpy.vectorize``; ``jax.numpy.vectorize`` maps by ``vmap``, where the function cannot branch.

    >>> from retrograd.func import grad, vectorize
    >>> ramp = vectorize(lambda x: x**2 if x > 0 else 0.0)
    >>> ramp(rg.tensor([-1.0, 3.0]))
    tensor([0., 9.])
    >>> grad(lambda x: ramp(x).sum())(rg.tensor([-1.0, 3.0]))
    tensor([0., 6.])
    """
    if pyfunc is None:  # used as a decorator with arguments
        return functools.partial(
            vectorize, otypes=otypes, doc=doc, excluded=excluded, cache=cache, signature=signature
        )  # fmt: skip
    takes, gives = _parsed_signature(signature) if signature is not None else (None, None)

    @functools.wraps(pyfunc)
    def vectorized(*args: object, **kwargs: object) -> object:
        places: list[int | str] = [index for index in range(len(args)) if index not in excluded]
        places += [name for name in kwargs if name not in excluded]
        given = [args[place] if isinstance(place, int) else kwargs[place] for place in places]
        core: Dimensions = takes if takes is not None else [()] * len(given)
        if len(core) != len(given):
            raise TypeError(f"vectorize: expected {len(core)} arguments for {signature!r}, got {len(given)}")
        if not given:
            return pyfunc(*args, **kwargs)
        sizes: dict[str, int] = {}
        shape, columns = _elements(given, core, sizes)
        rows = []
        for elements in zip(*columns, strict=True):
            chosen = dict(zip(places, elements, strict=True))
            named = {name: chosen.get(name, value) for name, value in kwargs.items()}
            rows.append(pyfunc(*[chosen.get(index, value) for index, value in enumerate(args)], **named))
        beside = next((x for x in given if isinstance(x, Tensor)), None)
        return _joined(rows, shape, gives, sizes, otypes, beside)

    if doc is not None:
        vectorized.__doc__ = doc
    return vectorized


def _parsed_signature(signature: str) -> tuple[Dimensions, Dimensions]:
    text, name = re.sub(r"\s+", "", signature), r"\((?:\w+(?:,\w+)*)?\)"
    if not re.fullmatch(rf"{name}(?:,{name})*->{name}(?:,{name})*", text):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    takes, gives = ([tuple(re.findall(r"\w+", part)) for part in re.findall(name, side)] for side in text.split("->"))
    return takes, gives


def _elements(
    given: Sequence[object], core: Dimensions, sizes: dict[str, int]
) -> tuple[tuple[int, ...], list[Sequence[object]]]:
    """Return the shape of the loop, to which the arguments broadcast, and per argument the list of its loop elements.

    The sizes of the core dimensions are added to ``sizes``.
    """
    arrays = [x if isinstance(x, Tensor) else np.asanyarray(x) for x in given]
    leads = []
    for x, names in zip(arrays, core, strict=True):
        if x.ndim < len(names):
            raise ValueError(f"vectorize: expected at least {len(names)} dimensions for {names}, got {tuple(x.shape)}")
        cut = x.ndim - len(names)
        leads.append(tuple(x.shape[:cut]))
        _check_sizes(sizes, names, x.shape[cut:])
    loop = np.broadcast_shapes(*leads)
    count = math.prod(loop)
    columns: list[Sequence[object]] = []
    for x, lead in zip(arrays, leads, strict=True):
        inner = tuple(x.shape[len(lead) :])
        if not count:
            columns.append([])
        elif isinstance(x, Tensor):
            columns.append(unbind(broadcast_to(x, (*loop, *inner)).reshape(count, *inner)))
        else:
            rows = np.broadcast_to(x, (*loop, *inner)).reshape(count, *inner)
            columns.append(list(rows) if inner else rows.tolist())
    return loop, columns


def _check_sizes(sizes: dict[str, int], names: tuple[str, ...], shape: tuple[int, ...]) -> None:
    for name, size in zip(names, shape, strict=True):
        if sizes.setdefault(name, size) != size:
            raise ValueError(f"vectorize: inconsistent size for core dimension {name!r}: {size} vs {sizes[name]}")


def _joined(
    rows: list[object],
    shape: tuple[int, ...],
    gives: Dimensions | None,
    sizes: dict[str, int],
    otypes: str | Sequence[DTypeLike] | None,
    beside: Tensor | None,
) -> object:
    """Return the results of the calls, in the shape of the loop: Tensors if an argument or a result is one."""
    if not rows and otypes is None:
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    found = [row if isinstance(row, tuple) else (row,) for row in rows]
    dtypes: list[DTypeLike | None] = [None] * len(found[0]) if otypes is None else list(otypes)
    several = bool(rows) and isinstance(rows[0], tuple) or len(dtypes) > 1
    count = len(gives) if gives is not None else len(dtypes)
    if any(len(row) != count for row in found):
        raise ValueError(f"vectorize: expected {count} results of the function, got {[len(row) for row in found]}")
    results = []
    for index, dtype in enumerate(dtypes):
        values = [row[index] for row in found]
        names = gives[index] if gives is not None else ()
        for value in values:
            if len(np.shape(value)) != len(names):
                raise ValueError(f"vectorize: expected results with {len(names)} dimensions, got {np.shape(value)}")
            _check_sizes(sizes, names, np.shape(value))
        inner = tuple(sizes[name] for name in names)
        joined: Tensor | np.ndarray
        if any(isinstance(value, Tensor) for value in values):
            joined = stack(alike(*values))
        else:
            joined = np.array(values, dtype)
            if beside is not None:
                weak = joined.dtype == np.float64 and beside.array.dtype.kind in INEXACT
                joined = tensor(joined.astype(beside.real.dtype) if weak and dtype is None else joined)
        joined = joined.reshape((*shape, *inner))
        results.append(joined if dtype is None else joined.astype(np.dtype(dtype), copy=False))
    return tuple(results) if several else results[0]

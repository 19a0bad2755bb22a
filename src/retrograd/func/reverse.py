"""Transforms in reverse mode: ``grad``, ``value_and_grad``, ``vjp``, and Hessian-vector products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.arrays.dtypes import is_differentiable
from ..core.arrays.fp_warnings import silent
from ..core.errors import describe
from ..core.graph.backward import Walk, conjugate
from ..core.graph.modes import enable_grad
from ..core.graph.nodes import edge_of, oldest, reachable
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.table.documentation import like
from .forward import has_forward_rule, tangent_through
from .function_graph import Edge, FunctionGraph, as_point, leaves_like, ones_at, record, zeros_at
from .nests import Structure, flatten

Argnums = int | tuple[int, ...]


def grad(func: Callable[..., object], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``func``: ``x -> df/dx``.

    The gradient can be transformed again, and differentiated with respect to any other Tensor that ``func`` reads.
    ``no_grad`` inside ``func`` is respected; ``no_grad`` around the call makes the gradient a constant.

    Args:
        func: a function of nests of Tensors that returns a real 0-d Tensor; with ``has_aux`` a pair ``(output, aux)``.
        argnums: the arguments to differentiate with respect to: an index, negative from the end, or a tuple of indices.
        has_aux: whether ``func`` returns a pair.

    Returns:
        A function that returns a nest like the argument, or a tuple of nests if ``argnums`` is a tuple; with
        ``has_aux`` a pair ``(gradient, aux)``.

    Raises:
        RuntimeError: ``argnums`` is out of range, an argument is not floating or complex, or ``func`` did not return a
            real 0-d Tensor.
        ValueError: an argument contains something that is not a Tensor, array or number.

    >>> from retrograd.func import grad
    >>> grad(lambda x: x**3)(rg.tensor(2.0))
    tensor(12.)
    >>> grad(grad(lambda x: x**3))(rg.tensor(2.0))
    tensor(12.)
    >>> grad(lambda p, x: (p["w"] * x + p["b"]).sum())({"w": rg.ones(2), "b": rg.ones(1)}, rg.tensor([3.0, 4.0]))
    {'w': tensor([3., 4.]), 'b': tensor([2.])}
    """

    @functools.wraps(func)
    def gradient(*args: object, **kwargs: object) -> Any:
        recorded, found = _differentiated("grad", func, argnums, has_aux, args, kwargs)
        return (found, recorded.aux) if has_aux else found

    return gradient


def grad_and_value(func: Callable[..., object], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes ``(gradient, value)``, or ``(gradient, (value, aux))`` with ``has_aux``.

    Args:
        func, argnums, has_aux: as for ``grad``.

    >>> from retrograd.func import grad_and_value
    >>> grad_and_value(lambda x: x**3)(rg.tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def gradient(*args: object, **kwargs: object) -> Any:
        recorded, found = _differentiated("grad_and_value", func, argnums, has_aux, args, kwargs)
        value = recorded.value()
        return found, (value, recorded.aux) if has_aux else value

    return gradient


@like(grad_and_value)
def value_and_grad(func: Callable[..., object], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes ``(value, gradient)``, or ``((value, aux), gradient)`` with ``has_aux``, as JAX.

    >>> from retrograd.func import value_and_grad
    >>> value_and_grad(lambda x: x**3)(rg.tensor(2.0))
    (tensor(8.), tensor(12.))
    """

    @functools.wraps(func)
    def gradient(*args: object, **kwargs: object) -> Any:
        recorded, found = _differentiated("value_and_grad", func, argnums, has_aux, args, kwargs)
        value = recorded.value()
        return (value, recorded.aux) if has_aux else value, found

    return gradient


@like(grad)
def vjp(func: Callable[..., object], *primals: object, has_aux: bool = False) -> Any:
    """Return the value of ``func`` and a function that computes vector-Jacobian products: ``v -> v @ J(x)``.

    Args:
        func: takes and returns nests of Tensors; with ``has_aux`` it returns a pair ``(output, aux)``.
        primals: its arguments.

    Returns:
        ``(output, vjp_fn)``, or ``(output, vjp_fn, aux)`` with ``has_aux``. ``vjp_fn(cotangents)`` takes a nest like
        the output and returns a tuple with one nest per primal; it can be called any number of times.

    Raises:
        RuntimeError: a primal or an output is not floating or complex, or an output is not a Tensor. ``vjp_fn`` raises
            RuntimeError if cotangents differ from the output in structure or shape.
        ValueError: a primal contains something that is not a Tensor, array or number.

    >>> from retrograd.func import vjp
    >>> value, vjp_fn = vjp(lambda x, y: (x * y, x.sum()), rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    >>> vjp_fn((rg.ones(2), rg.tensor(10.0)))
    (tensor([13., 14.]), tensor([1., 2.]))
    """
    recorded, vjp_fn = recorded_vjp("vjp", func, primals, has_aux)
    value = recorded.value()
    return (value, vjp_fn, recorded.aux) if has_aux else (value, vjp_fn)


def recorded_vjp(
    transform: str, func: Callable[..., object], primals: tuple[object, ...], has_aux: bool
) -> tuple[FunctionGraph, Callable[[object], Any]]:
    """Record ``func`` and return the record and ``vjp_fn``; errors name ``transform``."""
    points, structure = points_of(transform, primals, [f"primals[{index}]" for index in range(len(primals))])
    recorded = record(transform, func, points, structure, has_aux)
    check_outputs(recorded)

    def vjp_fn(cotangents: object) -> Any:
        directions = leaves_like(transform, cotangents, "cotangents", recorded.outputs, recorded.structure, "output")
        return structure.unflatten(apply_vjp(recorded, directions, retain_graph=True))

    return recorded, vjp_fn


def hvp(func: Callable[..., object], primals: Sequence[object], tangents: Sequence[object]) -> tuple[Any, Any]:
    """Return the value of ``func`` and a Hessian-vector product: ``f(x)`` and ``H(x) @ t``.

    The Hessian is never formed: with ``g`` the gradient, ``H @ t`` is the gradient of ``<g(x), t>`` with respect to x,
    by the symmetry of second derivatives (Pearlmutter 1994, *Fast exact multiplication by the Hessian*).

    Args:
        func: a function of nests of Tensors that returns a real 0-d Tensor.
        primals: its arguments, a tuple or list.
        tangents: a nest like the primals.

    Returns:
        The value, and the product, a nest like the primals, or like the primal if there is only one.

    Raises:
        RuntimeError: as for ``grad`` and ``jvp``.

    >>> from retrograd.func import hvp
    >>> hvp(lambda x: (x**3).sum(), (rg.tensor([1.0, 2.0]),), (rg.tensor([1.0, 10.0]),))
    (tensor(9.), tensor([  6., 120.]))
    """
    return _hessian_product("hvp", func, primals, tangents, "tangents")


def vhp(func: Callable[..., object], primals: Sequence[object], cotangents: Sequence[object]) -> tuple[Any, Any]:
    """Return the value of ``func`` and a vector-Hessian product: ``f(x)`` and ``v @ H(x)``.

    Args:
        func, primals: as for ``hvp``.
        cotangents: a nest like the primals.

    Returns:
        As for ``hvp``.

    Raises:
        RuntimeError: as for ``hvp``.

    >>> from retrograd.func import vhp
    >>> vhp(lambda x, y: (x * x * y).sum(), (rg.ones(2), rg.ones(2)), (rg.ones(2), rg.zeros(2)))
    (tensor(2.), (tensor([2., 2.]), tensor([2., 2.])))
    """
    return _hessian_product("vhp", func, primals, cotangents, "cotangents")


def _hessian_product(
    transform: str, func: Callable[..., object], primals: Sequence[object], vectors: Sequence[object], name: str
) -> tuple[Any, Any]:
    for what, values in (("primals", primals), (name, vectors)):
        if not isinstance(values, (tuple, list)):
            raise RuntimeError(
                f"{transform}: {what} must be a tuple of the function's arguments, got {type(values).__name__}"
            )
    if not primals:
        raise RuntimeError(f"{transform}: primals is empty; pass at least one argument")
    names = [f"primals[{index}]" for index in range(len(primals))]
    points, structure = points_of(transform, tuple(primals), names)
    directions = leaves_like(transform, tuple(vectors), name, points, structure, "primals")
    recorded = record(transform, func, points, structure)
    value = recorded.value()  # before the backward passes, which free the saved values
    product = structure.unflatten(_hessian_times(recorded, _scalar(recorded), directions))
    return value, product if len(primals) > 1 else product[0]


def _hessian_times(recorded: FunctionGraph, y: Tensor, directions: list[Tensor]) -> list[Tensor]:
    """Return the Hessian of the recorded scalar y times the directions t: the gradient of ``<g, t>``, g = dy/dx.

    If all nodes that read a point have forward rules, the point's term of ``<g, t>`` is computed at these nodes, as the
    sum of ``<cotangent, tangent>``. For a weight w of ``w @ x`` this is ``<dy, t @ x>`` instead of ``<dy @ x^T, t>``,
    which avoids computing the gradient of the weight.
    """
    root = edge_of(y)
    order, _ = reachable([root] if recorded.is_recorded(root) else [], oldest(recorded.starts))
    given = dict(zip(recorded.starts, directions, strict=True))
    readers = [(node, [parent for parent in node.parents if parent in given]) for node in order if node not in given]
    ordinary = {start for start in given if start is root or start.hooks is not None}
    ordinary.update(start for node, read in readers if read and not has_forward_rule(node) for start in read)
    tangents: dict[Edge, Tensor] = {start: given[start] for start in ordinary}
    with enable_grad(), silent():
        for node, read in readers:
            if not ordinary.issuperset(read):
                moving = {i: given[x] for i, x in enumerate(node.parents) if x in given and x not in ordinary}
                tangents[node] = tangent_through(node, moving, True)
    cotangents = Walk(set(tangents), True, True).run([(root, ones_at(y))]) if order else {}
    roots: list[tuple[Edge | None, Tensor]] = []
    for place, tangent in tangents.items():
        cotangent = cotangents.get(place)
        if cotangent is not None:
            roots += [(edge_of(x), g) for x, g in ((cotangent, tangent), (tangent, cotangent)) if x._requires]
    return _backward_from(recorded, roots, directions, retain_graph=False)


def _scalar(recorded: FunctionGraph) -> Tensor:
    """Return the recorded output, checked to be one real 0-d Tensor."""
    if recorded.structure.type is not None:
        raise RuntimeError(f"{recorded.transform}: the function must return a Tensor, got {recorded.structure!r}")
    (y,) = recorded.outputs
    if y.ndim:
        raise RuntimeError(
            f"{recorded.transform}: the function must return a 0-d Tensor, got {describe(y)}; "
            "use vjp or jacrev for other shapes"
        )
    check_outputs(recorded)
    if y.dtype.kind == "c":
        raise RuntimeError(f"{recorded.transform}: the function must return a real Tensor, got {describe(y)}")
    return y


def _differentiated(
    transform: str,
    func: Callable[..., object],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> tuple[FunctionGraph, Any]:
    """Record a scalar function; return the record and the gradient with respect to the chosen arguments."""
    function, chosen, paths = chosen_arguments(transform, func, argnums, args, kwargs)
    points, structure = points_of(transform, chosen, paths)
    recorded = record(transform, function, points, structure, has_aux)
    y = _scalar(recorded)
    found = structure.unflatten(apply_vjp(recorded, [ones_at(y)], retain_graph=False))
    return recorded, found[0] if isinstance(argnums, int) else found


def check_outputs(recorded: FunctionGraph) -> None:
    """Raise RuntimeError for outputs that are neither floating nor complex."""
    for y, path in zip(recorded.outputs, recorded.structure.paths("output"), strict=True):
        if not is_differentiable(y.dtype):
            raise RuntimeError(
                f"{recorded.transform}: the function must return floating or complex Tensors, {path} is {describe(y)}"
            )


def chosen_arguments(
    transform: str, func: Callable[..., object], argnums: Argnums, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Callable[..., object], tuple[object, ...], list[str]]:
    """Return a function of only the arguments at ``argnums``, these arguments, and their names for errors."""
    numbers = (argnums,) if isinstance(argnums, int) and not isinstance(argnums, bool) else argnums
    if not isinstance(numbers, tuple) or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise RuntimeError(f"{transform}: argnums must be an int or a tuple of ints, got {argnums!r}")
    if not numbers:
        raise RuntimeError(f"{transform}: argnums is empty; name at least one argument")
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"{transform}: argnums={argnums!r} is out of range for {len(args)} positional arguments")
    places = [number % len(args) for number in numbers]
    if len(set(places)) != len(places):
        raise RuntimeError(f"{transform}: argnums must name each argument once, got {argnums!r}")

    def function(*chosen: object) -> object:
        every = list(args)
        for place, value in zip(places, chosen, strict=True):
            every[place] = value
        return func(*every, **kwargs)

    return function, tuple(args[place] for place in places), [f"args[{place}]" for place in places]


def points_of(transform: str, nests: tuple[object, ...], names: list[str]) -> tuple[list[Tensor], Structure]:
    """Return the leaves of the arguments to differentiate with respect to, and the structure of their tuple."""
    leaves, structure = flatten(nests)
    paths = [path for name, child in zip(names, structure.children, strict=True) for path in child.paths(name)]
    return [as_point(transform, x, path) for x, path in zip(leaves, paths, strict=True)], structure


def apply_vjp(recorded: FunctionGraph, cotangents: Sequence[Tensor], retain_graph: bool) -> list[Tensor]:
    """Return the gradients with respect to the points of a recorded function, given cotangents of its outputs."""
    edges = map(edge_of, recorded.outputs)
    roots = [(edge, conjugate(g)) for edge, g in zip(edges, cotangents, strict=True) if recorded.is_recorded(edge)]
    return _backward_from(recorded, roots, cotangents, retain_graph)


def _backward_from(
    recorded: FunctionGraph, roots: list[tuple[Edge | None, Tensor]], directions: Sequence[Tensor], retain_graph: bool
) -> list[Tensor]:
    """Return the gradients with respect to the points, given cotangents of nodes computed from the directions."""
    differentiable = recorded.differentiable(directions)
    walk = Walk(set(recorded.starts), retain_graph or differentiable, differentiable)
    found = walk.run(roots if differentiable else [(edge, g.array) for edge, g in roots]) if roots else {}
    results = []
    for start, x in zip(recorded.starts, recorded.points, strict=True):
        value = found.get(start)
        if value is None:
            results.append(zeros_at(x))
        else:
            results.append(conjugate(value if isinstance(value, Tensor) else new_tensor(value)))
    return recorded.keep_history(results, directions) if differentiable else results

"""Reverse mode as functions of functions: ``grad``, ``value_and_grad``, ``vjp``, and products with Hessians."""

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
from .forward import has_forward_rule, tangent_through
from .nests import Structure, flatten
from .record import Recorded, as_point, directions_of, ones_at, record, zeros_at

Argnums = int | tuple[int, ...]


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the gradient of ``func``: ``x -> df/dx``.

    The gradient is a function like any other: it can be transformed again, and differentiated by whatever else
    ``func`` reads. ``no_grad`` inside ``func`` is respected, ``no_grad`` around the call makes the gradient a constant.

    Args:
        func: nests of Tensors to a Tensor of one element without axes; with ``has_aux`` to a pair of this and
            of anything.
        argnums: the arguments to differentiate by: a number, negative from the end, or a tuple of them.
        has_aux: whether ``func`` returns such a pair.

    Returns:
        A function of the arguments of ``func`` that gives a nest like the argument (a tuple of them, for a tuple of
        numbers); with ``has_aux`` a pair of this and of the second part.

    Raises:
        RuntimeError: ``argnums`` names no argument, an argument is not floating or complex, or ``func`` returned
            anything but a real Tensor of one element without axes.
        ValueError: an argument to differentiate by holds something that is no Tensor, array or number.

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


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As ``grad``, with the value: ``(gradient, value)``, or ``(gradient, (value, aux))`` with ``has_aux``.

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


def value_and_grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As ``grad``, with the value, in JAX's order: ``(value, gradient)``, or ``((value, aux), gradient)``.

    Args:
        func, argnums, has_aux: as for ``grad``.

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


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The function's value, and the function of cotangents that multiplies them by its Jacobian: ``v -> v @ J(x)``.

    Args:
        func: nests of Tensors to one; with ``has_aux`` to a pair of this and of anything.
        primals: its arguments.
        has_aux: whether ``func`` returns such a pair.

    Returns:
        The output and the function ``vjp_fn``; with ``has_aux`` also the second part. ``vjp_fn(cotangents)`` takes a
        nest like the output, any number of times, and gives a tuple with a nest for each primal.

    Raises:
        RuntimeError: a primal or an output is not floating or complex, an output is no Tensor; or, by ``vjp_fn``,
            cotangents differ from the output in structure or shape.
        ValueError: a primal holds something that is no Tensor, array or number.

    >>> from retrograd.func import vjp
    >>> value, vjp_fn = vjp(lambda x, y: (x * y, x.sum()), rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    >>> vjp_fn((rg.ones(2), rg.tensor(10.0)))
    (tensor([13., 14.]), tensor([1., 2.]))
    """
    recorded, vjp_fn = recorded_vjp("vjp", func, primals, has_aux)
    value = recorded.value()
    return (value, vjp_fn, recorded.aux) if has_aux else (value, vjp_fn)


def recorded_vjp(
    transform: str, func: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool
) -> tuple[Recorded, Callable[[Any], Any]]:
    """What ``vjp`` stands on, for any transform."""
    points, structure = points_of(transform, primals, [f"primals[{index}]" for index in range(len(primals))])
    recorded = record(transform, func, points, structure, has_aux)
    check_outputs(recorded)

    def vjp_fn(cotangents: Any) -> Any:
        directions = directions_of(transform, cotangents, "cotangents", recorded.outputs, recorded.structure, "output")
        return structure.unflatten(pulled(recorded, directions, retain_graph=True))

    return recorded, vjp_fn


def hvp(func: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The function's value and its Hessian times a vector: ``f(x)`` and ``H(x) @ t``, at a few times the cost of f.

    The Hessian is never formed: with ``g`` the gradient, ``H @ t`` is the gradient of ``<g(x), t>`` with respect to x,
    by the symmetry of second derivatives (Pearlmutter 1994, *Fast exact multiplication by the Hessian*).

    Args:
        func: nests of Tensors to a real Tensor of one element without axes.
        primals: its arguments, a tuple or list.
        tangents: a nest like the primals.

    Returns:
        The value, and the product: a nest like the primals; for one primal, like this.

    Raises:
        RuntimeError: as for ``grad`` and ``jvp``.

    >>> from retrograd.func import hvp
    >>> hvp(lambda x: (x**3).sum(), (rg.tensor([1.0, 2.0]),), (rg.tensor([1.0, 10.0]),))
    (tensor(9.), tensor([  6., 120.]))
    """
    return _hessian_product("hvp", func, primals, tangents, "tangents")


def vhp(func: Callable[..., Any], primals: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, Any]:
    """The function's value and a vector times its Hessian: ``f(x)`` and ``v @ H(x)``.

    Args:
        func: nests of Tensors to a real Tensor of one element without axes.
        primals: its arguments, a tuple or list.
        cotangents: a nest like the primals.

    Returns:
        The value, and the product: a nest like the primals; for one primal, like this.

    Raises:
        RuntimeError: as for ``grad`` and ``vjp``.

    >>> from retrograd.func import vhp
    >>> vhp(lambda x, y: (x * x * y).sum(), (rg.ones(2), rg.ones(2)), (rg.ones(2), rg.zeros(2)))
    (tensor(2.), (tensor([2., 2.]), tensor([2., 2.])))
    """
    return _hessian_product("vhp", func, primals, cotangents, "cotangents")


def _hessian_product(
    transform: str, func: Callable[..., Any], primals: Sequence[Any], vectors: Sequence[Any], name: str
) -> tuple[Any, Any]:
    for what, values in (("primals", primals), (name, vectors)):
        if not isinstance(values, (tuple, list)):
            raise RuntimeError(
                f"{transform}: {what} must be a tuple of the function's arguments, got {type(values).__name__}"
            )
    if not primals:
        raise RuntimeError(f"{transform}: primals is empty")
    names = [f"primals[{index}]" for index in range(len(primals))]
    points, structure = points_of(transform, tuple(primals), names)
    directions = directions_of(transform, tuple(vectors), name, points, structure, "primals")
    recorded = record(transform, func, points, structure)
    value = recorded.value()  # before the walks, since what the graph saved is theirs
    product = structure.unflatten(_second_pull(recorded, _scalar(recorded), directions))
    return value, product if len(primals) > 1 else product[0]


def _second_pull(recorded: Recorded, y: Tensor, directions: list[Tensor]) -> list[Tensor]:
    """The Hessian of a recorded scalar times the directions: the gradient of ``<g, t>``, g the gradient.

    Where the nodes that read a point have forward rules, its part of ``<g, t>`` is taken there: as the sum over them of
    ``<cotangent, tangent>``. For a weight w of ``w @ x`` that is ``<dy, t @ x>`` in place of ``<dy @ x^T, t>``, and the
    gradient of the weight, which nobody wants, is never computed.
    """
    root = edge_of(y)
    order, _ = reachable([root] if recorded.made(root) else [], oldest(recorded.starts))
    given = dict(zip(recorded.starts, directions, strict=True))
    readers = [(node, [parent for parent in node.parents if parent in given]) for node in order if node not in given]
    ordinary = {start for start in given if start is root or start.hooks is not None}
    ordinary.update(start for node, read in readers if read and not has_forward_rule(node) for start in read)
    tangents: dict[Any, Tensor] = {start: given[start] for start in ordinary}
    with enable_grad(), silent():
        for node, read in readers:
            if not ordinary.issuperset(read):
                moving = {i: given[x] for i, x in enumerate(node.parents) if x in given and x not in ordinary}
                tangents[node] = tangent_through(node, moving, True)
    cotangents = Walk(set(tangents), True, True).run([(root, ones_at(y))]) if order else {}
    roots: list[tuple[Any, Any]] = []
    for place, tangent in tangents.items():
        cotangent = cotangents.get(place)
        if cotangent is not None:
            roots += [(edge_of(x), g) for x, g in ((cotangent, tangent), (tangent, cotangent)) if x._requires]
    return _pulled_from(recorded, roots, directions, retain_graph=False)


def _scalar(recorded: Recorded) -> Tensor:
    """The one real number that the function is to return."""
    if recorded.structure.type is not None:
        raise RuntimeError(f"{recorded.transform}: the function must return a Tensor, got {recorded.structure!r}")
    (y,) = recorded.outputs
    if y.ndim:
        raise RuntimeError(
            f"{recorded.transform}: the function must return a scalar Tensor, one without axes, got {describe(y)}; "
            "vjp and jacrev differentiate others"
        )
    check_outputs(recorded)
    if y.dtype.kind == "c":
        raise RuntimeError(f"{recorded.transform}: the function must return a real Tensor, got {describe(y)}")
    return y


def _differentiated(
    transform: str,
    func: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Recorded, Any]:
    """A scalar function's record, and its gradient by the chosen arguments."""
    function, chosen, paths = chosen_arguments(transform, func, argnums, args, kwargs)
    points, structure = points_of(transform, chosen, paths)
    recorded = record(transform, function, points, structure, has_aux)
    y = _scalar(recorded)
    found = structure.unflatten(pulled(recorded, [ones_at(y)], retain_graph=False))
    return recorded, found[0] if isinstance(argnums, int) else found


def check_outputs(recorded: Recorded) -> None:
    """Refuse outputs that have no derivative."""
    for y, path in zip(recorded.outputs, recorded.structure.paths("output"), strict=True):
        if not is_differentiable(y.dtype):
            raise RuntimeError(
                f"{recorded.transform}: the function must return floating or complex Tensors, {path} is {describe(y)}"
            )


def chosen_arguments(
    transform: str, func: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], list[str]]:
    """A function of the arguments at ``argnums`` alone, these, and their names for errors."""
    numbers = (argnums,) if isinstance(argnums, int) and not isinstance(argnums, bool) else argnums
    if not isinstance(numbers, tuple) or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise RuntimeError(f"{transform}: argnums must be an int or a tuple of ints, got {argnums!r}")
    if not numbers:
        raise RuntimeError(f"{transform}: argnums is empty")
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"{transform}: argnums={argnums!r}, but there are {len(args)} positional arguments")
    places = [number % len(args) for number in numbers]
    if len(set(places)) != len(places):
        raise RuntimeError(f"{transform}: argnums must name each argument once, got {argnums!r}")

    def function(*chosen: Any) -> Any:
        every = list(args)
        for place, value in zip(places, chosen, strict=True):
            every[place] = value
        return func(*every, **kwargs)

    return function, tuple(args[place] for place in places), [f"args[{place}]" for place in places]


def points_of(transform: str, nests: tuple[Any, ...], names: list[str]) -> tuple[list[Tensor], Structure]:
    """The leaves of arguments to differentiate by, and the structure of all of them together."""
    leaves, structure = flatten(nests)
    paths = [path for name, child in zip(names, structure.children, strict=True) for path in child.paths(name)]
    return [as_point(transform, x, path) for x, path in zip(leaves, paths, strict=True)], structure


def pulled(recorded: Recorded, cotangents: Sequence[Tensor], retain_graph: bool) -> list[Tensor]:
    """The gradients of a recorded function's points from the cotangents of its outputs."""
    edges = map(edge_of, recorded.outputs)
    roots = [(edge, conjugate(g)) for edge, g in zip(edges, cotangents, strict=True) if recorded.made(edge)]
    return _pulled_from(recorded, roots, cotangents, retain_graph)


def _pulled_from(
    recorded: Recorded, roots: list[tuple[Any, Tensor]], directions: Sequence[Tensor], retain_graph: bool
) -> list[Tensor]:
    """The gradients of a recorded function's points from cotangents of nodes, which the directions go into."""
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
    return recorded.kept(results, directions) if differentiable else results

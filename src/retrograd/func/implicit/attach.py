"""Record the solution of a system of equations as one node, whose derivative follows from the equations.

Let x solve F(x, p) = 0, where p are all other Tensors that F reads: arguments, parameters, captured Tensors. With
A = dF/dx,

    dx = -A^-1 (dF/dp) dp                                            (forward mode)
    cotangent of p = -(dF/dp)^T w,  where A^T w = cotangent of x     (reverse mode)

``attached`` calls F once, at the solution, and records the call. The parents of the solution's node are the edges of
the Tensors p. Both formulas are passes over the record. For higher derivatives, the record's input is linked to the
solution's node, and w is itself an attached solution, of A^T w = g. One mechanism thus covers all orders, nested
transforms and captured Tensors. Inside ``vmap`` each layer has its own record and node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import Wrapping, array_module
from ...core.arrays.fp_warnings import silently
from ...core.graph.backward import Walk
from ...core.graph.modes import enable_grad, modes, no_grad, on_level
from ...core.graph.nodes import NOTHING, Node, edge_of, new_node, next_sequence, reachable
from ...core.graph.primitive import Primitive, select_plan
from ...core.tensor.storage import borrowed, storage_of
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.table.elementwise_primitives import IDENTITY
from ..forward import Tangent, jvp_through
from ..function_graph import Edge
from ..nests import Structure
from .linear_solvers import KRYLOV, MAX_DENSE, default_tolerance, dense
from .vectors import Vectors, bare, levels, lifted

if TYPE_CHECKING:
    from ...core.mapping.batching import Level

Leaves = list[Tensor]
Linear = Callable[[Leaves], Leaves]
# A user's solver: (product, right-hand side) -> solution. Right-hand side and solution are nests.
Solver = Callable[[Callable[[Any], object], Any], object]


class LinearSolve:
    """How the linear systems of a derivative are solved.

    Args:
        method: "auto", "dense", "cg", "gmres", "bicgstab", or a function of nests like ``structure``.
        transposed: the method for the transposed system; by default the same.
        structure: the structure of the nest of unknowns.
        rtol, maxiter: the relative tolerance and the largest number of iterations of the iterative methods.
    """

    def __init__(
        self,
        what: str,
        structure: Structure,
        method: str | Solver = "auto",
        transposed: str | Solver | None = None,
        rtol: float | None = None,
        maxiter: int | None = None,
    ) -> None:
        for given in (method, transposed):
            if isinstance(given, str) and given not in (*KRYLOV, "auto", "dense"):
                raise ValueError(
                    f"{what}: the linear solver must be 'auto', 'dense', 'cg', 'gmres', 'bicgstab' or a function, "
                    f"got {given!r}"
                )
        self.what, self.structure = what, structure
        self.method, self.other = method, method if transposed is None else transposed
        self.rtol, self.maxiter = rtol, maxiter

    @property
    def transpose(self) -> LinearSolve:
        """Return the solver of transposed systems."""
        return LinearSolve(self.what, self.structure, self.other, self.method, self.rtol, self.maxiter)

    @silently
    def __call__(self, product: Linear, b: Leaves, space: Vectors) -> Leaves:
        """Return the solution of ``product(x) = b``, without a history on any layer."""
        with no_grad():
            if callable(self.method):
                return _per_example(self.method, product, self.structure, b, space.batch)
            vector = space.vector(b)
            if self.method == "dense" or self.method == "auto" and space.size <= MAX_DENSE:
                return space.leaves(dense(matrix_of(product, space), vector, self.what))
            method = "gmres" if self.method == "auto" else self.method
            rtol = default_tolerance(space.dtype) if self.rtol is None else self.rtol
            maxiter = 10 * space.size + 100 if self.maxiter is None else self.maxiter

            def on_vectors(v: Array) -> Array:
                return space.vector(product(space.leaves(v)))

            return space.leaves(KRYLOV[method](on_vectors, vector, rtol, maxiter, self.what))


def matrix_of(product: Linear, space: Vectors) -> Array:
    """Return the matrix of a linear function, of shape (*examples, size, size)."""
    from ..mapping import vmap

    lead = space.vector(space.leaves(_zeros(space)))
    xp = array_module(lead)
    if space.size == 0:
        return lead[..., None]
    outer = (1,) * (lead.ndim - 1)
    basis = xp.broadcast_to(
        xp.eye(space.size, dtype=space.dtype).reshape((*outer, space.size, space.size)),
        (*lead.shape[:-1], space.size, space.size),
    )
    levels = lead.ndim - 1 - space.batch
    axes = range(lead.ndim + 1)
    moved = xp.transpose(basis, (*axes[:levels], axes[-2], *axes[levels:-2], axes[-1]))
    columns = Vectors([(space.size, *shape) for shape in space.shapes], space.dtypes, space.batch + 1)
    stacked = columns.vector(vmap(lambda leaves: product(leaves))(columns.leaves(moved)))
    # (*levels, column, *batch, row) -> (*levels, *batch, row, column)
    return xp.transpose(stacked, (*axes[:levels], *axes[levels + 1 :], axes[levels]))


def _zeros(space: Vectors) -> Array:
    return np.zeros((*[level.size for level in levels()], *space.lead, space.size), space.dtype)


def _per_example(solve: Solver, product: Linear, structure: Structure, b: Leaves, batch: int) -> Leaves:
    """Call a user's solver inside one ``vmap`` per batch axis, so that it has one example's shapes."""
    if not batch:

        def on_nests(nest: object) -> object:
            return structure.unflatten(product(structure.leaves_of(nest, "the vector")))

        return list(structure.leaves_of(solve(on_nests, structure.unflatten(b)), "the solution"))
    from ...core.mapping.batched import Batched
    from ..mapping import vmap

    def example(*leaves: Tensor) -> Leaves:
        level = modes.level

        def lowered(x: Tensor) -> Tensor:
            array: Any = x.array
            if isinstance(array, Wrapping) and array.level is level:
                return array.value if array.mapped else array.value.expand((level.size, *array.value.shape))
            return x.expand((level.size, *x.shape))

        def inside(vectors: Leaves) -> Leaves:
            with on_level(level.below):
                found = product([lowered(x) for x in vectors])
            return [new_tensor(Batched(level, x, True)) for x in found]

        return _per_example(solve, inside, structure, list(leaves), batch - 1)

    return list(vmap(example)(*b))


class _Record:
    """The record of F on one layer: its results, the nodes of its inputs, and how its linear systems are solved."""

    def __init__(self, solver: LinearSolve, batch: int, likes: Leaves) -> None:
        self.solver, self.batch = solver, batch
        self.shapes, self.dtypes = tuple(x.array.shape for x in likes), tuple(x.array.dtype for x in likes)
        self.space = Vectors(self.shapes, self.dtypes, batch)
        # The sequence numbers of the solution are lower than the record's, although its node is created last.
        self.numbers = [next_sequence() for _ in range(len(likes) + 1)]
        self.edge_number = next_sequence()
        self.starts = [
            new_node(IDENTITY.plan(0), (None,), NOTHING, shape, dtype)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]
        self.node: Callable[[], Node | None] = lambda: None  # the solution's node, which refers to this record
        self.ends: list[Node] = []  # a node for each edge that F reads, where passes over the record end
        self.outputs: list[Edge | None] = []  # the edges of F's results
        # A pass over a derivative of the solution may free the record's nodes.
        self.saved: list[tuple[Node, tuple[object, ...] | None]] = []

    def link(self) -> None:
        """Make the inputs of F depend on the solution, so that results computed from the record can be differentiated.

        The link is a reference cycle. Before it is made, reference counting frees the graph when the solution is freed.
        """
        node = self.node()
        if node is not None and self.starts[0].parents[0] is None:
            for start, leaf in zip(self.starts, self.leaves_of(node), strict=True):
                start.plan, start.parents = IDENTITY.plan(1), (leaf,)

    def leaves_of(self, node: Node) -> list[Node]:
        """Return new nodes of the leaves of the solution."""
        return [
            new_node(select_plan(index), (node,), NOTHING, shape, dtype, number)
            for index, (shape, dtype, number) in enumerate(zip(self.shapes, self.dtypes, self.numbers[1:], strict=True))
        ]

    def begin_pass(self) -> None:
        """Prepare a pass over the record: restore saved values that an earlier pass has freed."""
        for node, saved in self.saved:
            if node.saved is None:
                node.saved = saved
        if modes.grad_enabled:
            self.link()

    def pull(self, w: Leaves, wanted: Sequence[Edge], create_graph: bool) -> list[Tangent | None]:
        """Return the cotangents of the edges ``wanted``, given cotangents of F's results."""
        roots = [
            (edge, g if create_graph or modes.level is not None else g.array)
            for edge, g in zip(self.outputs, w, strict=True)
            if edge is not None
        ]
        walk = Walk({*wanted, *self.starts}, True, create_graph, copied=False, beyond=False)
        found = walk.run(roots)
        return [found.get(edge) for edge in wanted]

    def transposed(self, w: Leaves) -> Leaves:
        return self.filled(self.pull(w, self.starts, modes.grad_enabled))

    def product(self, t: Leaves) -> Leaves:
        return self.push(dict(zip(self.starts, t, strict=True)))

    def push(self, seeds: dict[Edge, Tensor]) -> Leaves:
        """Return the tangents of F's results, given tangents of some edges."""
        create = modes.grad_enabled
        raw: dict[Edge, Tangent] = {edge: t if create else t.array for edge, t in seeds.items()}
        found = jvp_through(self.outputs, raw, create)
        return self.filled([None if edge is None else found.get(edge) for edge in self.outputs])

    def filled(self, values: list[Tangent | None]) -> Leaves:
        """Return cotangents or tangents as Tensors with the shapes and dtypes of the unknowns; zeros for None."""
        some = next((x for x in values if x is not None), None)
        results = []
        for x, shape, dtype in zip(values, self.space.shapes, self.space.dtypes, strict=True):
            if x is None:
                xp = np if some is None else array_module(some)
                x = xp.zeros(shape, dtype)
            x = x if isinstance(x, Tensor) else new_tensor(x)
            results.append(x if x.dtype == dtype else x.astype(dtype))
        return results

    def solve(self, product: Linear, b: Leaves, solver: LinearSolve) -> Leaves:
        """Return the solution of ``product(x) = b``; record it if recording is on."""
        x = solver(product, [g.detach() for g in b], self.space)

        def residual(x: Leaves) -> Leaves:
            return [y - g for y, g in zip(product(x), b, strict=True)]

        return attached(x, residual, solver, self.batch)


def attached(x: Leaves, residual: Callable[[Leaves], Leaves], solver: LinearSolve, batch: int = 0) -> Leaves:
    """Return the solution ``x`` of ``residual(x) = 0``, differentiable with respect to Tensors that it reads.

    Args:
        x: the solution, whose own history is ignored.
        residual: a differentiable function; it is called once.
        solver: of the linear systems of the derivative.
        batch: how many of the first axes of every leaf count independent systems.
    """
    x = [leaf.detach() for leaf in x]
    if not modes.grad_enabled:
        return x
    recorded = None
    if modes.level is not None:
        # Only layers on which a result of F requires grad get a node. Calling F on the solution shows which these are.
        with enable_grad():
            differing, recorded = _facts(residual(x), modes.level)
        if any(differing):
            # Give each example its own solution, since the equations may differ where the initial guess does not.
            x = [lifted(bare(leaf)) for leaf in x]
        if not any(recorded):
            return x
    solution, inputs, layers = _layers(x, modes.level, solver, batch, recorded)
    with enable_grad():
        _link(layers, residual(inputs))
    return solution


def _facts(results: Leaves, level: Level | None) -> tuple[list[bool], list[bool]]:
    """Return, from the innermost layer outwards, whether results differ between examples and whether any needs grad."""
    differing, recorded = [], []
    while level is not None:
        results = [level.lift(y) for y in results]
        differing.append(any(map(level.maps, results)))
        recorded.append(any(y._requires for y in results))
        results, level = _below(results), level.below
    return differing, [*recorded, any(y._requires for y in results)]


def _below(results: Leaves) -> Leaves:
    """Return the Tensors of the layer below, which hold all examples."""
    arrays: list[Any] = [y.array for y in results]
    return [array.value for array in arrays]


# The level, its record, and the solution's Tensors of this layer.
Layer = tuple["Level | None", "_Record | None", Leaves]


def _layers(
    x: Leaves, level: Level | None, solver: LinearSolve, batch: int, recorded: list[bool] | None
) -> tuple[Leaves, Leaves, list[Layer]]:
    """Return the solution and the inputs of F, both with new nodes on every layer, and the layers from inside out."""
    below: list[Layer] = []
    if level is None:
        arrays: list[Any] = [(leaf.array, leaf.array) for leaf in x]
    else:
        from ...core.mapping.batched import Batched  # loaded only with vmap

        lifts: list[Any] = [level.lift(leaf).array for leaf in x]
        outer = batch + any(array.mapped for array in lifts)
        own, given, below = _layers(
            [array.value for array in lifts], level.below, solver, outer, recorded and recorded[1:]
        )
        arrays = [
            (Batched(level, y, array.mapped), Batched(level, z, array.mapped))
            for array, y, z in zip(lifts, own, given, strict=True)
        ]
    solution, inputs = [new_tensor(y) for y, _ in arrays], [new_tensor(z) for _, z in arrays]
    for leaf, z in zip(x, inputs, strict=True):
        z._storage = borrowed(storage_of(leaf))
    record: _Record | None = None
    if recorded is None or recorded[0]:
        record = _Record(solver, batch, solution)
        for z, start in zip(inputs, record.starts, strict=True):
            z._requires, z._node = True, start
    return solution, inputs, [(level, record, solution), *below]


def _link(layers: list[Layer], results: Leaves) -> None:
    """Create each layer's node. Its parents are the edges that the record of F reads; without them x is constant."""
    for level, record, solution in layers:
        results = results if level is None else [level.lift(y) for y in results]
        if record is not None:
            record.outputs = [edge_of(y) for y in results]
            found = [edge for edge in record.outputs if edge is not None]
            order, _ = reachable(found, record.numbers[0])
            edges = [*found, *[parent for node in order for parent in node.parents if parent is not None]]
            if _close(
                record, order, dict.fromkeys(e for e in edges if type(e) is not Node or e.sequence < record.numbers[0])
            ):
                _enter(record, solution)
                if solution is not layers[0][2]:
                    record.link()  # operators on the layers above read the inputs of F on this layer
        if level is not None:
            results = _below(results)


def _close(record: _Record, order: list[Node], read: dict[Edge, None]) -> bool:
    """Insert nodes between F and the edges that F reads, at which passes over the record end.

    Return whether F reads any edges.
    """
    ends: dict[Edge, Node] = {}
    for edge in read:
        like = edge if isinstance(edge, Node) else edge.array
        ends[edge] = new_node(IDENTITY.plan(1), (edge,), NOTHING, like.shape, like.dtype)
        ends[edge].sequence = record.edge_number  # older than F; one number for all, as they are independent
    for node in order:
        if any(parent in ends for parent in node.parents if parent is not None):
            node.parents = tuple([ends.get(parent, parent) for parent in node.parents])
    record.outputs = [edge if edge is None else ends.get(edge, edge) for edge in record.outputs]
    record.saved = [(node, node.saved) for node in order] if ends else []
    record.ends = list(ends.values())
    return bool(ends)


def _enter(record: _Record, solution: Leaves) -> None:
    saved: list[object] = [None] * len(_IMPLICIT.layout)
    saved[_IMPLICIT.position["record"]] = record
    plan = _IMPLICIT.plan((True,) * len(record.ends))
    parents = tuple([end.parents[0] for end in record.ends])
    node = new_node(plan, parents, tuple(saved), record.shapes, record.dtypes, record.numbers[0])
    record.node = ref(node)
    for x, leaf in zip(solution, record.leaves_of(node), strict=True):
        x._requires, x._node = True, leaf


def _vjp(g: Sequence[Tangent | None], record: _Record, needs: tuple[bool, ...]) -> list[Tangent | None]:
    as_tensors = any(isinstance(x, Tensor) for x in g)
    given = record.filled(list(g))
    record.begin_pass()
    w = record.solve(record.transposed, given, record.solver.transpose)
    found = record.pull([-x for x in w], record.ends, modes.grad_enabled)
    if as_tensors:
        return [x if x is None or isinstance(x, Tensor) else new_tensor(x) for x in found]
    return [x.array if isinstance(x, Tensor) else x for x in found]


def _jvp(node: Node, tangents: dict[int, Tangent], as_tensors: bool) -> tuple[Tangent, ...]:
    own: _Record = node.saved[_IMPLICIT.position["record"]]
    seeds: dict[Edge, Tensor] = {
        own.ends[i]: t if isinstance(t, Tensor) else new_tensor(t) for i, t in tangents.items()
    }
    own.begin_pass()
    moved = own.push(seeds)
    found = own.solve(own.product, [-t for t in moved], own.solver)
    return tuple(found) if as_tensors else tuple([t.array for t in found])


_IMPLICIT = Primitive("implicit", lambda *xs: xs, "*xs", vjp=_vjp, outputs=-1, bfloat16="program")
_IMPLICIT.fills = False
_IMPLICIT.jvp = _jvp

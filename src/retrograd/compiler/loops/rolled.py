"""A loop as one primitive. Its derivative is a loop in the other direction, whose step differentiates one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ge
from typing import Any, TypeAlias

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType, is_differentiable
from ...core.graph.backward import conjugate
from ...core.graph.modes import modes, no_grad
from ...core.graph.nodes import edge_of, reached_from
from ...core.graph.primitive import Primitive, apply, operand
from ...core.mapping.batching import Call
from ...core.tensor.tensor import Tensor, new_tensor
from ...func.loops.leaves import Carry
from ...func.nests import Structure, flatten
from ...func.reverse import vjp
from ...ops.make.filled import zeros
from ...ops.shape.joining import stack
from ..run.guards import Surroundings
from ..trace.tracer import Tracer
from ..trace.untrace import as_real
from .body import Body, Leaves, StepFunction, trace_body
from .execution import Execution

Cotangents: TypeAlias = Sequence[Array | Tensor | None]  # the cotangents are Tensors in a backward pass of higher order


class Step:
    """The user's function of carry and slice, as a function of flat lists of Tensors.

    Tensors from outside that the function reads become constants: while a step runs, they have the arrays and the place
    in the graph of the constants that it is called with.
    """

    def __init__(self, f: Callable[[Any, Any], object], carry: Carry, slices: Structure) -> None:
        self.f, self.carry, self.slices = f, carry, slices
        self.captured: list[Tensor] = []
        self.results: Structure | None = None

    def __call__(self, carry: Leaves, x: Leaves, constants: Leaves) -> tuple[Sequence[object], Sequence[object]]:
        places = [(t, t.array, t._requires, t._node, t._storage) for t in self.captured]
        try:
            for t, c in zip(self.captured, constants, strict=False):
                t.array, t._requires, t._node, t._storage = c.array, c._requires, c._node, None
            pair = self.f(self.carry.structure.unflatten(carry), self.slices.unflatten(x))
            following, y = as_pair(pair)
            found, self.results = flatten(y)
            return self.carry.checked(following), found
        finally:
            for t, array, requires, node, storage in places:
                t.array, t._requires, t._node, t._storage = array, requires, node, storage


def as_pair(result: object) -> tuple[object, object]:
    """Return what a step returns, if it is a pair; ``scan`` raises the error otherwise."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise NotPair
    return result


class NotPair(TypeError):
    """A step does not return a pair."""


def roll(
    tracer: Tracer,
    f: Callable[[Any, Any], object],
    carry: Carry,
    slices: Sequence[Tensor],
    structure: Structure,
    reverse: bool,
) -> Callable[[object, Sequence[Tensor], int], tuple[Any, Any]] | None:
    """Return a function that runs steps of a ``scan`` as one instruction of the trace.

    Args:
        tracer: the trace.
        f, carry, slices, structure, reverse: the arguments of ``scan``; ``slices`` are the leaves of ``xs``.

    Returns:
        A function of a carry, the leaves of ``xs``, and the number of steps; None if the steps cannot be one
        instruction, and must be traced one by one.
    """
    if modes.level is not None:
        return None
    surroundings = Surroundings(f)
    step = Step(f, carry, structure)
    first = [_real(x)[-1 if reverse else 0] for x in slices]
    examples: tuple[list[Array], ...] = [_real(x) for x in carry.leaves], [np.asarray(x) for x in first], []
    loop = RolledLoop.make(tracer, step, examples, reverse)
    changes = surroundings.changed() or surroundings.random_draws()
    if changes:
        raise RuntimeError(
            f"scan: f must be a pure function in a compiled function, where it runs once for all steps; it changes "
            f"{changes}; make it part of the carry"
        )
    if loop is None:
        return None
    found = loop.take_found()
    step.captured = [x for x in found if isinstance(x, Tensor)]
    tracer.loops.append(loop)

    def run_loop(value: object, leaves: Sequence[Tensor], steps: int) -> tuple[Any, Any]:
        last, ys = loop(steps, flatten(value)[0], list(leaves), found)
        assert step.results is not None
        return carry.structure.unflatten(last), step.results.unflatten(ys)

    return run_loop


class Forward:
    """The forward function of a loop's primitive: it returns the last carry, the results, and the saved carries."""

    kind = "rolled"
    __name__ = "scan"

    def __init__(self, execution: Execution, steps: int, saved: tuple[bool, ...], carries: int, slices: int) -> None:
        self.execution, self.steps, self.saved = execution, steps, saved
        self.carries, self.slices = carries, slices

    @property
    def note(self) -> str:
        """The description of the loop in ``explain``."""
        return f"a loop of {self.steps} steps, {self.execution.note}"

    def __call__(self, *inputs: Array) -> Array | tuple[Array, ...]:
        begin, end = self.carries, self.carries + self.slices
        outs = self.execution.run(self.steps, inputs[:begin], inputs[begin:end], inputs[end:], self.saved)
        return outs[0] if len(outs) == 1 else tuple(outs)


class RolledLoop:
    """A loop whose step is compiled once. A call is one node of the graph, and one instruction of a trace.

    Args:
        tracer: the trace.
        step: the function of a step.
        examples: arrays like those of carry, slice and constants in a step.
        body: the traced step.
        reverse: whether the loop begins at the last slice.

    Attributes:
        found: for what the step reads from outside, its identity, and its array if it is a Tensor.
    """

    def __init__(
        self, tracer: Tracer, step: StepFunction, examples: Sequence[Sequence[Array]], body: Body, reverse: bool
    ) -> None:
        self.tracer, self.body, self.reverse = tracer, body, reverse
        self.step: StepFunction | None = step
        self.carries, self.slices = len(examples[0]), len(examples[1])
        self.found = [(id(x), _real(x) if isinstance(x, Tensor) else None) for x in body.found]
        self.examples = examples
        self._outputs = [*body.carries, *body.results]
        self.execution = Execution(body, self.carries, self.slices, reverse)
        self._primitives: dict[tuple[int, tuple[bool, ...]], Primitive] = {}
        self._pulls: dict[tuple[tuple[bool, ...], ...], _Pull] = {}

    @classmethod
    def make(
        cls,
        tracer: Tracer,
        step: StepFunction,
        examples: Sequence[Sequence[Array]],
        reverse: bool,
        differentiates: bool = False,
    ) -> RolledLoop | None:
        """Trace a step; return None if the loop cannot be rolled."""
        if any(type(x) is not np.ndarray for leaves in examples for x in leaves):
            return None
        carry, x, constants = examples
        try:
            body = trace_body(step, tracer, carry, x, constants, differentiates)
        except NotPair:
            return None
        if isinstance(body, str):
            return None
        return cls(tracer, step, examples, body, reverse)

    def take_found(self) -> list[object]:
        """Return and forget what the step reads from outside: these are the last constants of a call."""
        found, self.body.found = self.body.found, []
        return found

    def end(self) -> None:
        """Drop references to the trace. No derivative can be added later.

        The step is kept if a derivative runs the steps one by one, as for the result of a trace without a program.
        """
        if all(pull.loop is not None for pull in self._pulls.values()):
            self.step = None
        for pull in self._pulls.values():
            if pull.loop is not None:
                pull.loop.end()

    def __call__(
        self, steps: int, carry: Sequence[object], xs: Sequence[object], constants: Sequence[object]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the last carry and the results."""
        inputs = (*carry, *xs, *constants)
        saved: tuple[bool, ...] = (False,) * self.carries
        constant: Sequence[int] = ()
        if modes.grad_enabled and any(is_differentiable(x.dtype) for x in self._outputs):
            needs = tuple([isinstance(x, Tensor) and x._requires for x in inputs])
            if any(needs):
                pull = self._pull(needs, (True,) * len(self._outputs), (False,) * self.carries)
                saved, constant = pull.reads, pull.constant_outputs(steps)
        outs = apply(self._primitive(steps, saved), inputs, {})
        outs = outs if isinstance(outs, tuple) else (outs,)
        for place in constant:
            outs[place]._requires, outs[place]._node = False, None
        return list(outs[: self.carries]), list(outs[self.carries : len(self._outputs)])

    # Derivatives

    def _primitive(self, steps: int, saved: tuple[bool, ...]) -> Primitive:
        """Return the loop as a primitive of carries, slices, constants, and the outside values that a step reads."""
        known = self._primitives.get((steps, saved))
        if known is not None:
            return known
        several = len(self._outputs) + sum(saved) > 1

        def pull_back(g: Any, xs: Cotangents, ans: Any, needs: tuple[bool, ...]) -> Cotangents:
            return self._pull_back(steps, saved, g if several else (g,), xs, ans if several else (ans,), needs)

        forward = Forward(self.execution, steps, saved, self.carries, self.slices)
        count = len(self._outputs) + sum(saved)
        primitive = Primitive("scan", forward, "*xs", vjp=pull_back, outputs=count, bfloat16="program")
        primitive.fills = False
        primitive.batch = Call.looped  # a compiled step takes arrays of one example
        self._primitives[steps, saved] = primitive
        return primitive

    def _pull(self, needs: tuple[bool, ...], given: tuple[bool, ...], stored: tuple[bool, ...]) -> _Pull:
        """Return the loop of the backward pass.

        Args:
            needs: which inputs need a gradient.
            given: which carries and results have a cotangent.
            stored: which saved carries have a cotangent.
        """
        given = tuple([has and is_differentiable(v.dtype) for has, v in zip(given, self._outputs, strict=True)])
        key = needs, given, stored
        if key not in self._pulls:
            if self.step is None:
                return self._wider(*key)
            self._pulls[key] = _Pull(self, *key)
        return self._pulls[key]

    def _wider(self, needs: tuple[bool, ...], given: tuple[bool, ...], stored: tuple[bool, ...]) -> _Pull:
        """Return a loop that was created during the trace and takes at least these cotangents."""
        for (known, more, held), pull in self._pulls.items():
            if known == needs and all(map(ge, more, given)) and all(map(ge, held, stored)):
                return pull
        raise RuntimeError(
            "scan: the call that was traced has no graph for this derivative of the loop; call the compiled function "
            "again, or call it under compiler.set_stance('force_eager')"
        )

    def _pull_back(
        self,
        steps: int,
        saved: tuple[bool, ...],
        g: Cotangents,
        xs: Cotangents,
        ans: Cotangents,
        needs: tuple[bool, ...],
    ) -> Cotangents:
        count = len(self._outputs)
        recorded = any(isinstance(x, Tensor) for x in (*g, *xs))
        carries: list[Array | Tensor | None] = []
        cts: list[Array | Tensor | None] = []
        rest = zip(ans[count:], g[count:], strict=True)
        for keep, example in zip(saved, self.examples[0], strict=True):
            value, ct = next(rest) if keep else (np.broadcast_to(example, (steps, *example.shape)), None)
            carries.append(value)
            cts.append(ct)
        pull = self._pull(needs, tuple([x is not None for x in g[:count]]), tuple([x is not None for x in cts]))
        if recorded:
            return pull(steps, g[:count], carries, cts, xs)
        with no_grad():
            found = pull(steps, g[:count], carries, cts, xs)
        return [x.array if isinstance(x, Tensor) else x for x in found]


class _Pull:
    """The loop of a backward pass.

    Its carry has the cotangents of the carry, and the sums of gradients with respect to constants. Its slices are the
    carries and slices of the loop, and the cotangents of the results and of the saved carries.

    Attributes:
        reads: for each carry of the loop, whether a step reads its values.
        paths: for each differentiable result of a step, the inputs with respect to which it has a derivative.
    """

    paths: list[set[int]] | None = None

    def __init__(
        self, of: RolledLoop, needs: tuple[bool, ...], given: tuple[bool, ...], stored: tuple[bool, ...]
    ) -> None:
        self.of = of
        carries, slices, constants = of.examples
        forms = [(x.shape, x.dtype) for x in carries] + of.body.forms
        self._start, self._end = len(carries), len(carries) + len(slices)
        found = [array for _, array in of.found if array is not None]
        self.flowing = [place for place, x in enumerate(carries) if is_differentiable(x.dtype)]
        self.given, self.stored = given, [place for place, has in enumerate(stored) if has]
        self.results = [place for place in range(len(carries), len(given)) if given[place]]
        self.moved = [
            place for place, x in enumerate(slices) if needs[self._start + place] and is_differentiable(x.dtype)
        ]
        everything = [*constants, *found]
        places = [*range(len(constants))]
        places += [place for place, (_, array) in enumerate(of.found, len(constants)) if array is not None]
        self.summed = [
            k for k, (place, x) in enumerate(zip(places, everything, strict=True))
            if needs[self._end + place] and is_differentiable(x.dtype)
        ]  # fmt: skip
        self._constants = [self._end + place for place in places]
        self._needs = needs
        self._forms = forms
        zeros = [np.zeros_like(carries[place]) for place in self.flowing]
        sums = [np.zeros(everything[k].shape, everything[k].dtype) for k in self.summed]
        cts = [np.zeros(*forms[place]) for place in self.results]
        held = [np.zeros_like(carries[place]) for place in self.stored]
        self.loop = RolledLoop.make(
            of.tracer, self.step, ([*zeros, *sums], [*carries, *slices, *cts, *held], everything), not of.reverse, True
        )
        names = [name for name, _ in of.found]
        outside = [] if self.loop is None else [id(x) for x in self.loop.take_found()]
        if not set(outside) <= set(names):
            self.loop = None
        self._found = [self._end + len(constants) + names.index(name) for name in outside if name in names]
        self.reads = (
            (True,) * len(carries)
            if self.loop is None
            else tuple(self.loop.execution.reads[len(zeros) + len(sums) :][: len(carries)])
        )

    def step(self, state: Leaves, slices: Leaves, constants: Leaves) -> tuple[list[Tensor], list[Tensor]]:
        """Differentiate one step of the loop."""
        of, count = self.of, len(self.flowing)
        carry, x = slices[: self._start], slices[self._start : self._end]
        cts = slices[self._end : self._end + len(self.results)]
        held = slices[self._end + len(self.results) :]
        moving = [*[carry[k] for k in self.flowing], *[x[k] for k in self.moved], *[constants[k] for k in self.summed]]

        def outputs(*moving: Tensor) -> tuple[Tensor, ...]:
            left = iter(moving)
            now = [list(carry), list(x), list(constants)]
            for leaves, places in zip(now, (self.flowing, self.moved, self.summed), strict=True):
                for place in places:
                    leaves[place] = next(left)
            assert of.step is not None, "the trace is over"
            following, ys = of.step(*now)
            every = [*following, *ys]
            found = [operand(every[place]) for place in (*self.flowing, *self.results)]
            paths = reached_from([edge_of(y) for y in found])
            leading = [paths.get(edge_of(x), 0) for x in moving]
            self.paths = [{k for k, roots in enumerate(leading) if roots >> n & 1} for n in range(len(found))]
            return tuple(found)

        _, pull = vjp(outputs, *moving)
        found = pull((*state[:count], *cts))
        found = list(found) if isinstance(found, tuple) else [found]
        for place, ct in zip(self.stored, held, strict=True):
            if place in self.flowing:
                found[self.flowing.index(place)] = found[self.flowing.index(place)] + ct
        begin = count + len(self.moved)
        sums = [total + g for total, g in zip(state[count:], found[begin:], strict=True)]
        return [*found[:count], *sums], found[count:begin]

    def __call__(
        self, steps: int, g: Cotangents, carries: Cotangents, held: Cotangents, inputs: Cotangents
    ) -> list[Tensor | None]:
        """Return the gradients with respect to the inputs of the loop."""
        known = [_tensor(inputs[place]) for place in self._constants]
        state = [
            conjugate(_tensor(g[place])) if g[place] is not None else _zeros(self._forms[place])
            for place in self.flowing
        ]
        state += [_zeros((known[k].shape, known[k].dtype)) for k in self.summed]
        slices = [*carries, *inputs[self._start : self._end]]
        for cts, places in ((g, self.results), (held, self.stored)):
            for place in places:
                shape, dtype = self._forms[place]
                ct = cts[place]
                slices.append(_zeros(((steps, *shape), dtype)) if ct is None else conjugate(_tensor(ct)))
        if self.loop is not None:
            last, moved = self.loop(steps, state, slices, [*known, *[inputs[place] for place in self._found]])
        else:
            last, moved = self._one_by_one(steps, state, [_tensor(x) for x in slices], known)
        places = [*self.flowing, *[self._start + k for k in self.moved], *[self._constants[k] for k in self.summed]]
        count = len(self.flowing)
        gradients = [*last[:count], *moved, *last[count:]]
        reached = self._reached(steps, g, held)
        out: list[Tensor | None] = [None] * len(inputs)
        for number, (place, x) in enumerate(zip(places, gradients, strict=True)):
            if self._needs[place] and number in reached:
                out[place] = conjugate(x)
        return out

    def _reached(self, steps: int, g: Cotangents, held: Cotangents) -> set[int]:
        """Return the inputs of a step, differentiable ones only, that receive a gradient from these cotangents."""
        count, paths = len(self.flowing), self.paths
        assert paths is not None
        results = {k for k, place in enumerate(self.results, count) if g[place] is not None}
        added = {k for k, place in enumerate(self.flowing) if place in self.stored and held[place] is not None}
        state = {k for k, place in enumerate(self.flowing) if g[place] is not None}
        others: set[int] = set()
        for _ in range(steps):
            found = set().union(*[paths[k] for k in state | results])
            others |= {k for k in found if k >= count}
            before, state = state, {k for k in found if k < count} | added
            if state == before:
                break
        return state | others

    def constant_outputs(self, steps: int) -> list[int]:
        """Return the outputs of the loop that depend on no input that requires grad."""
        count, paths = len(self.flowing), self.paths
        assert paths is not None
        others = set(range(count, count + len(self.moved) + len(self.summed)))
        state = {k for k, place in enumerate(self.flowing) if self._needs[place]}
        dependent: set[int] = set()
        for _ in range(steps):
            found = {k for k, inputs in enumerate(paths) if inputs & (state | others)}
            dependent |= {k for k in found if k >= count}
            before, state = state, {k for k in found if k < count}
            if state == before:
                break
        places = [*self.flowing, *self.results]
        return [place for k, place in enumerate(places) if k not in state | dependent]

    def _one_by_one(
        self, steps: int, state: Leaves, slices: Leaves, constants: Leaves
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run the steps without a compiled step."""
        order = range(steps) if self.of.reverse else range(steps - 1, -1, -1)
        rows: dict[int, list[Tensor]] = {}
        for at in order:
            state, rows[at] = self.step(state, [x[at] for x in slices], constants)
        return state, [stack([rows[at][k] for at in range(steps)]) for k in range(len(self.moved))]


def _real(x: object) -> Array:
    array = as_real(x.array if isinstance(x, Tensor) else x)
    return np.asarray(array) if isinstance(array, np.generic) else array


def _tensor(x: object) -> Tensor:
    return x if isinstance(x, Tensor) else new_tensor(x)


def _zeros(form: tuple[tuple[int, ...], DType]) -> Tensor:
    return zeros(form[0], dtype=form[1])


__all__ = ["RolledLoop", "roll"]

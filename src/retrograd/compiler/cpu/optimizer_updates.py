"""Optimizer steps in regions, for optimizers whose ``update_form`` describes the update.

In each replay a region reads the optimizer's numbers (learning rate, momentum, ...) and state arrays, and writes to the
same arrays as the eager step, with the same operations in the same order. Eager and compiled steps can be mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NoReturn

import numpy as np

from ...core.arrays import Array
from ...elements.updates import Operations, updates
from ..program import Instruction, Value
from ..run.replay import Miss
from ..trace.effects import run_step, set_grad
from .emission import Body, Kernel, type_of
from .machine_code import power, power_address
from .numpy_loops import reduction
from .region_steps import Lowers, Place, Step, Unlowered, kernel_of
from .scalar_operations import scalar

MAX_ELEMENTS = 1 << 17  # for more elements of all parameters, the optimizer's own multi-threaded loop is faster
_DOUBLE = np.dtype(np.float64)
Pairs = dict[int, tuple[Value, Value]]  # by the id of a parameter: its value, and the value of its gradient
_indices = count(1 << 32)  # indices of values that are not in the trace


class Update:
    """An optimizer's step for known parameters with gradients.

    Attributes:
        numbers: the value that holds the numbers (learning rate, ...) of all groups.
        states: the values of the state arrays, by parameter, in the order of names in the form.
    """

    def __init__(self, optimizer: Any, moved: Sequence[Sequence[Any]], pairs: Pairs) -> None:
        self.optimizer = optimizer
        self.forms = [optimizer.update_form(group) for group in optimizer.param_groups]
        if None in self.forms or not _has_default_step(optimizer):
            raise Unlowered(f"{type(optimizer).__name__} has no update form, or hooks")
        self.moved = moved
        self.terms = [Terms(form) for form in self.forms]
        self._ids = [list(map(id, group["params"])) for group in optimizer.param_groups]
        self._wanted = [
            (parameter, name) for form, some in zip(self.forms, moved, strict=True) for parameter in some
            for name in form.state
        ]  # fmt: skip
        count = sum(len(form.numbers) for form in self.forms)
        self.numbers = self._numbers_as(np.empty(count))
        entries: list[Any] = [optimizer.state[parameter].get(name) for parameter, name in self._wanted]
        arrays = [getattr(entry, "array", None) for entry in entries]
        if any(x is None for x in arrays):
            raise Unlowered("an optimizer without state yet")
        self._names = [f"{name} of {pairs[id(parameter)][0]!r}" for parameter, name in self._wanted]
        self.states = [Value(next(_indices), x, name=name) for x, name in zip(arrays, self._names, strict=True)]
        self._kinds = [(type(x.array), x.array.dtype, x.array.shape) for x in entries]
        self._options: list[list[object]] | None = None  # options of the groups from which the numbers were computed
        self._numbers: Array | None = None

    @staticmethod
    def _numbers_as(array: object) -> Value:
        return Value(next(_indices), array, name="learning rate and other numbers")

    def ready(self) -> bool:
        """Return whether the optimizer's next step still has this form."""
        return self._current_numbers() is not None and self._arrays() is not None

    def _current_numbers(self) -> Any:
        """Return the numbers of all groups, or None if the form or the parameters of the step have changed."""
        if not _has_default_step(self.optimizer):
            return None
        groups = self.optimizer.param_groups
        if [list(map(id, group["params"])) for group in groups] != self._ids:
            return None
        options = [list(group.values()) for group in groups]
        if options != self._options:  # without a change of options the numbers are unchanged
            forms = [self.optimizer.update_form(group) for group in groups]
            if not all(terms.apply_to(form) for terms, form in zip(self.terms, forms, strict=True)):
                return None
            self._numbers = np.array([number for form in forms for number in form.numbers])
            values = [x for group in groups for name, x in group.items() if name != "params"]
            self._options = options if all(map(_is_fixed, values)) else None
        return self._numbers

    def _arrays(self) -> list[Array] | None:
        state, found = self.optimizer.state, []
        for (parameter, name), (kind, dtype, shape) in zip(self._wanted, self._kinds, strict=True):
            entry = state[parameter].get(name)
            array: Any = getattr(entry, "array", None)
            if type(array) is not kind or array.dtype != dtype or array.shape != shape:
                return None
            found.append(array)
        return found

    def fetch(self) -> tuple[Array, ...]:
        """Return the current numbers and state arrays; raise Miss if the form has changed."""
        numbers, arrays = self._current_numbers(), self._arrays()
        if numbers is None or arrays is None:
            raise Miss
        self.optimizer._stepped = True
        return numbers, *arrays

    def instructions(self) -> tuple[Instruction, Instruction]:
        """Return the guard for the beginning of the program, and the fetch before the region."""
        fetch = Instruction("whole", self.fetch, (), None, (self.numbers, *self.states), several=True)
        fetch.paths = tuple((index,) for index in range(1 + len(self.states)))
        fetch.operator = f"{type(self.optimizer).__name__}.step"
        return Instruction("guard", self.ready, ()), fetch


def _is_fixed(option: Any) -> bool:
    """Return whether an option is immutable."""
    if type(option) is tuple:
        return all(map(_is_fixed, option))
    return option is None or type(option) in (int, float, bool, str)


def _has_default_step(optimizer: Any) -> bool:
    """Return whether no hook observes or replaces the optimizer's steps."""
    return not optimizer.step_is_watched()


def gradients_of(instruction: Instruction) -> Pairs:
    """Return, by id of each parameter of an optimizer's step, its value and its gradient's value."""
    optimizer, _, nodes, *scaled = instruction.args
    pairs: Pairs = {}
    written, held = set(instruction.writes).difference(*scaled[:1]), None
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    order = iter(parameters)
    for node in nodes:
        if node in written:
            held = next(order), node
        elif held is not None:
            pairs[id(held[0])] = held[1], node
            held = None
    return pairs


def with_scaling_steps(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Let optimizers' steps apply the clipping factor to gradients, unless another instruction reads them in between.

    The loop of a step then reads and writes a gradient once. If the factor is 1, the loop does not multiply at all.
    """
    steps: list[Instruction | None] = list(instructions)
    made = {out for step in instructions for out in step.outs}
    for index, step in enumerate(instructions):
        if step.function is not run_step or step.on_gpu:
            continue
        pairs = gradients_of(step)
        if sum(p.size for p, _ in pairs.values()) <= MAX_ELEMENTS:
            continue  # a small step becomes part of a region
        last: dict[Value, int] = {}  # the last instruction, other than ``set_grad``, that reads a root
        for number, before in enumerate(instructions[:index]):
            if before.function is not set_grad:
                last.update((value.root, number) for value in before.read)
        found = {
            g: last[g.root] for _, g in pairs.values()
            if g.root in last and g.root in made and _scales(instructions[last[g.root]], g)
        }  # fmt: skip
        factors = {instructions[number].args[1] for number in found.values()}
        if len(factors) == 1 and all(w.root not in factors for s in instructions[:index] for w in s.writes):
            for number in found.values():
                steps[number] = None
            steps[index] = step.changed(args=(*step.args, tuple(found), *factors), writes=(*step.writes, *found))
    return [step for step in steps if step is not None]


def _scales(step: Instruction, g: Value) -> bool:
    """Return whether an instruction multiplies an array by one number of its dtype, in place."""
    if step.function is not np.multiply or step.kwargs.get("out") is not g or len(step.args) != 2:
        return False
    x, factor = step.args
    return (
        x is g and isinstance(factor, Value) and factor.root is factor
        and factor.shape == () and factor.dtype == g.dtype and g.dtype.kind == "f"
    )  # fmt: skip


def lower_step(lowering: Lowers, instruction: Instruction) -> Update:
    """Append the steps of an optimizer's update."""
    optimizer, pairs = instruction.args[0], gradients_of(instruction)
    moved = [[p for p in group["params"] if id(p) in pairs] for group in optimizer.param_groups]
    update = Update(optimizer, moved, pairs)
    if sum(p.array.size for some in moved for p in some) > MAX_ELEMENTS:
        raise Unlowered(f"more than {MAX_ELEMENTS:,} elements")
    numbers, states = lowering.place(update.numbers), iter(update.states)
    at, before = 0, lowering.most
    lowering.most = MAX_ELEMENTS
    try:
        for form, terms, some in zip(update.forms, update.terms, moved, strict=True):
            given = [Place(numbers.buffer, 8 * (at + k), (), (), _DOUBLE) for k in range(len(form.numbers))]
            at += len(form.numbers)
            for parameter in some:
                p, g = [lowering.place(value) for value in pairs[id(parameter)]]
                state = [lowering.place(next(states)) for _ in form.state]
                if p.dtype.kind != "f" or g.dtype != p.dtype or any(x.dtype.kind != "f" for x in state):
                    raise Unlowered(f"an update of {p.dtype}")
                if g.may_overlap(p):
                    raise Unlowered("a gradient that overlaps its parameter")
                _lower_update(lowering, form, terms, p, g, state, given)
    finally:
        lowering.most = before
    return update


def lower_total_norm(lowering: Lowers, instruction: Instruction) -> None:
    """Append the steps of the Euclidean norm of all gradients, with sums in double precision."""
    arrays, p = instruction.args
    places = [lowering.place(x) for x in arrays]
    if p != 2 or any(x.dtype.kind != "f" for x in places):
        raise Unlowered(f"the norm of order {p} of {', '.join(str(x.dtype) for x in places)}")
    total = lowering.new((), _DOUBLE)
    lowering.copy((0.0, _DOUBLE), total)
    square, root = scalar("square", _DOUBLE), scalar("sqrt", _DOUBLE)
    for x in places:
        wide = lowering.new(x.shape, _DOUBLE)
        lowering.map("square", wide, [x], square, [_DOUBLE], _DOUBLE)
        lowering.add(reduction(np.add, wide, total._replace(shape=x.shape, strides=(0,) * len(x.shape))))
    lowering.map("sqrt", total, [total], root, [_DOUBLE], _DOUBLE)
    lowering.copy(total, lowering.result(instruction.outs[0]))


def _lower_update(
    lowering: Lowers, form: Any, terms: Terms, p: Place, g: Place, state: Sequence[Place], numbers: Sequence[Place]
) -> None:
    """Append the loops over one parameter, in its dtype."""
    places = {"p": p, "g": g, **dict(zip(form.state, state, strict=True))}
    if "step" in places:
        step = places["step"]
        if form.of_step:
            rates = lowering.new((2,), _DOUBLE)
            lowering.add(_rates(step, rates, numbers[: len(form.rates)]))
            numbers = [*[Place(rates.buffer, 8 * k, (), (), _DOUBLE) for k in range(2)], *numbers[len(form.rates) :]]
        else:
            one = scalar("add", step.dtype)
            lowering.map("step", step, [step, (1, step.dtype)], one, [step.dtype] * 2, step.dtype)
    places.update(zip(terms.numbers, numbers, strict=True))

    def loop(out: str, inputs: Sequence[str], formula: Callable[..., str]) -> None:
        def emit(body: Body, x: Sequence[str]) -> str:
            def operate(name: str, *operands: str) -> str:
                found = scalar(name, p.dtype)
                assert found is not None
                return found(body, operands)

            return formula(operate, *x)

        lowering.map(form.name, places[out], [places[x] for x in inputs], emit, [p.dtype] * len(inputs), p.dtype)

    terms.write(loop)


class Term:
    """An operation on terms, or a variable: an element of an array, or a number."""

    def __init__(self, name: str, *operands: Term) -> None:
        self.name = name
        self.operands = operands

    def __add__(self, other: Term) -> Term:
        return Term("add", self, other)

    def __sub__(self, other: Term) -> Term:
        return Term("subtract", self, other)

    def __mul__(self, other: Term) -> Term:
        return Term("multiply", self, other)

    def __truediv__(self, other: Term) -> Term:
        return Term("divide", self, other)


class _Number(Term):
    """A variable that is a number. Comparisons use its current value and are recorded."""

    def __init__(self, name: str, value: float, decisions: list[Callable[[dict[str, float]], bool]]) -> None:
        super().__init__(name)
        self.value = value
        self.decisions = decisions

    __hash__ = object.__hash__

    def _decide(self, holds: Callable[[float], bool]) -> bool:
        name, seen = self.name, holds(self.value)
        self.decisions.append(lambda values: holds(values[name]) == seen)
        return seen

    def __eq__(self, other: object) -> bool:
        return self._decide(lambda value: value == other)

    def __lt__(self, other: float) -> bool:
        return self._decide(lambda value: value < other)


def _refused(*operands: object) -> NoReturn:
    raise Unlowered("an update with an operation that programs do not have")


_UPDATES = updates(
    Operations(
        where=_refused,
        sqrt=lambda x: Term("sqrt", x),
        absolute=_refused,
        maximum=_refused,
        minimum=_refused,
        neutral=lambda number: bool(number == 1),
        absent=lambda number: bool(number == 0),
    )
)


class Terms:
    """An update as terms: of ``p``, ``g``, entries of the state, and the form's numbers under the names ``numbers``."""

    def __init__(self, form: Any) -> None:
        self.name, self.state = form.name, form.state
        self._decisions: list[Callable[[dict[str, float]], bool]] = []
        rates = [Term("rate"), Term("small")] if form.of_step else self._named("r", form.rates)
        factors = self._named("n", form.factors)
        self.numbers = [number.name for number in (*rates, *factors)]
        arrays = ["p", *[name for name in form.state if name != "step"]]
        p, *state = map(Term, arrays)
        results = _UPDATES[form.name](p, Term("g"), *state, tuple(factors), tuple(rates))
        self._results = dict(zip(arrays, results, strict=True))

    def _named(self, letter: str, values: Sequence[float]) -> list[Term]:
        return [_Number(f"{letter}{k}", value, self._decisions) for k, value in enumerate(values)]

    def apply_to(self, form: Any) -> bool:
        """Return whether an update with other numbers has the same terms."""
        if form is None or (form.name, form.state) != (self.name, self.state):
            return False
        given = (("r", form.rates), ("n", form.factors))
        values = {f"{letter}{k}": value for letter, numbers in given for k, value in enumerate(numbers)}
        return all(holds(values) for holds in self._decisions)

    def write(self, loop: Callable[[str, Sequence[str], Callable[..., str]], None]) -> None:
        """Call ``loop(out, inputs, formula)`` for each result, the parameter last.

        ``formula(operate, *inputs)`` computes an element by ``operate(name, *operands)``. Results that are written
        are inputs of later loops.
        """
        written: dict[Term, str] = {}
        for out in (*list(self._results)[1:], "p"):
            inputs = list(dict.fromkeys(_variables(self._results[out], written)))
            loop(out, inputs, partial(_computed, self._results[out], dict(written), inputs))
            written[self._results[out]] = out


def _variables(term: Term, written: Mapping[Term, str]) -> Iterator[str]:
    if term in written or not term.operands:
        if term not in written and term.name in written.values():
            raise Unlowered("an update that reads what it has overwritten")
        yield written.get(term, term.name)
        return
    for operand in term.operands:
        yield from _variables(operand, written)


def _computed(
    term: Term, written: Mapping[Term, str], names: Sequence[str], operate: Callable[..., str], *inputs: str
) -> str:
    found: dict[Term, str] = {}
    values = dict(zip(names, inputs, strict=True))

    def compute(term: Term) -> str:
        if term in written or not term.operands:
            return values[written.get(term, term.name)]
        if term not in found:
            found[term] = operate(term.name, *map(compute, term.operands))
        return found[term]

    return compute(term)


def _rates(step: Place, rates: Place, numbers: Sequence[Place]) -> Step:
    """Increment the step count t; compute ``lr sqrt(1 - beta2^t) / (1 - beta1^t)`` and ``eps sqrt(1 - beta2^t)``."""
    if power_address() is None:
        raise Unlowered("no C library")

    def make(made: Step) -> Kernel:
        body = Body()
        typ, name = type_of(step.dtype), power()
        t = body.give(f"fadd {typ} {body.load('%p1', step.dtype)}, 1.0")
        body.store(t, "%p1", step.dtype)
        t = body.cast(t, step.dtype, _DOUBLE)
        lr, beta1, beta2, eps = [body.load(f"%p{k + 2}", _DOUBLE) for k in range(4)]
        body.declared.add(f"declare double @{name}(double, double)")
        body.declared.add("declare double @llvm.sqrt.f64(double)")
        powers = [body.give(f"call double @{name}(double {beta}, double {t})") for beta in (beta1, beta2)]
        one, two = [body.give(f"fsub double 1.0, {x}") for x in powers]
        root = body.give(f"call double @llvm.sqrt.f64(double {two})")
        rate = body.give(f"fdiv double {body.give(f'fmul double {lr}, {root}')}, {one}")
        body.store(rate, "%p0", _DOUBLE)
        body.store(body.give(f"fmul double {eps}, {root}"), body.address("%p0", (), (), 8), _DOUBLE)
        body.do("ret void")
        return kernel_of(made, body)

    return Step("rates", [rates, step, *numbers], 2, make)

"""Random programs with views and in-place writes, run twice: by the engine, and by a model that never mutates.

In the model a Tensor is an array of positions in the flat memory of a buffer. Memory is an ordinary Tensor that nobody
writes to: a read gathers from it, a write makes another by a gather from the old one and the new values. Positions
count real numbers, so that real and imaginary parts are views like any other. Tensors that share a buffer but not their
history (``detach``, views taken under ``no_grad``) belong to different *families*; a write by one changes the values of
the others, not their histories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import numpy as np

import retrograd as rg
from retrograd import Tensor

Choose = Callable[[int], int]  # choose(n) gives a number in range(n)


class Family:
    """The history that a base and its views share; ``flat`` holds the values of the whole buffer."""

    def __init__(self, flat: Tensor, buffer: WeakSet[Family], positions: np.ndarray, leaf: bool = False) -> None:
        self.flat = flat
        self.buffer = buffer
        self.positions = positions  # of the base
        self.leaf = leaf
        self.unrecorded = False  # whether it was created under no_grad, from another family
        buffer.add(self)


class Model:
    """What the model knows of one Tensor."""

    def __init__(self, family: Family, positions: np.ndarray, is_complex: bool = False) -> None:
        self.family, self.positions, self.is_complex = family, positions, is_complex

    def read(self) -> Tensor:
        flat, places = self.family.flat, self.positions
        return flat[places] + 1j * flat[places + 1] if self.is_complex else flat[places]

    def write(self, positions: np.ndarray, values: Tensor) -> None:
        """Put the values down; the last of those for one position stays."""
        family = self.family
        if self.is_complex:
            values = rg.stack((values.real, values.imag), -1)
            positions = np.stack((positions, positions + 1), -1)
        if not positions.size:
            return
        source = np.arange(family.flat.shape[0])
        source[positions.reshape(-1)] = len(source) + np.arange(positions.size)
        written = rg.cat((family.flat, values.expand(positions.shape).reshape(-1)))[source]
        keeps_history = not rg.is_grad_enabled()
        for other in list(family.buffer):
            if other is family and not keeps_history:
                other.flat = written
            else:
                with rg.no_grad():
                    change = written - other.flat
                with rg.enable_grad():
                    other.flat = other.flat + change

    @property
    def refusals(self) -> list[str]:
        """Why a write is an error."""
        overlapping = np.unique(self.positions).size < self.positions.size
        reasons = {"share one memory location": overlapping, "leaf": self.family.leaf and rg.is_grad_enabled()}
        return [reason for reason, holds in reasons.items() if holds]


def fresh(value: Tensor, leaf: bool = False) -> Model:
    """The model of a Tensor with memory of its own."""
    is_complex = value.dtype.kind == "c"
    flat = rg.stack((value.real, value.imag), -1).reshape(-1) if is_complex else value.reshape(-1)
    positions = np.arange(int(np.prod(value.shape, dtype=int))).reshape(value.shape) * (2 if is_complex else 1)
    return Model(Family(flat, WeakSet(), positions, leaf), positions, is_complex)


UNARY: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.sin(),
    lambda x: x * x,
    lambda x: x.tanh() if x.dtype.kind == "f" else x * 2,
    lambda x: x.exp().tanh() if x.dtype.kind == "f" else x.conj(),
    lambda x: x.cumsum(-1) if x.ndim else x * 3,
    lambda x: x.softmax(0) if x.ndim and x.dtype.kind == "f" else -x,
    lambda x: (x + ramp(x)).sort(-1)[0] if x.ndim and x.dtype.kind == "f" else x + 1,
    lambda x: x.sum(0, keepdim=True) * x if x.ndim else x * x * x,
    lambda x: x.sigmoid() * 2 if x.dtype.kind == "f" else x * 1j,
    lambda x: x * 1j if x.dtype.kind == "f" else x * x,
    lambda x: x.flip(0) if x.ndim else x * 1,
    lambda x: x.clone(),
]
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x * y,
    lambda x, y: x + y,
    lambda x, y: x - y * 0.5,
    lambda x, y: (x * y).sin(),
    lambda x, y: rg.cat((x.reshape(-1), y.reshape(-1))),
    lambda x, y: x.reshape(-1, 1) * y.reshape(1, -1) if x.numel() * y.numel() <= 16 else x * y.sum(),
]
# In-place forms as pairs: what the engine runs, and the value that stands for it. Real Tensors only in the second list.
InPlace = tuple[Callable[[Tensor, Any], Any], Callable[[Tensor, Any], Any]]
WRITES: list[InPlace] = [
    (lambda x, y: x.add_(y), lambda x, y: x + y),
    (lambda x, y: x.mul_(y), lambda x, y: x * y),
    (lambda x, y: x.sub_(y, alpha=2), lambda x, y: x - 2 * y),
    (lambda x, y: x.mul_(0.5), lambda x, y: x * 0.5),
    (lambda x, y: x.sin_(), lambda x, y: x.sin()),
    (lambda x, y: x.copy_(y), lambda x, y: x * 0 + y),
    (lambda x, y: x.zero_(), lambda x, y: x.detach() * 0),
    (lambda x, y: x.fill_(1.5), lambda x, y: x.detach() * 0 + 1.5),
    (lambda x, y: x.fill_(y.sum() * 0.1), lambda x, y: x.detach() * 0 + y.sum() * 0.1),
    (lambda x, y: x.__iadd__(x), lambda x, y: x + x),
    (lambda x, y: x.__imul__(x), lambda x, y: x * x),
    (lambda x, y: x.neg_(), lambda x, y: -x),
]
REAL_WRITES: list[InPlace] = [
    (lambda x, y: x.tanh_(), lambda x, y: x.tanh()),
    (lambda x, y: x.sigmoid_(), lambda x, y: x.sigmoid()),
    (lambda x, y: x.clamp_(-0.4, 0.6), lambda x, y: x.clamp(-0.4, 0.6)),
    (lambda x, y: x.pow_(2), lambda x, y: x.pow(2)),
    (lambda x, y: x.relu_(), lambda x, y: x.relu()),
    (lambda x, y: x.lerp_(x.new_zeros(()) + y, 0.25), lambda x, y: x + 0.25 * (y - x)),
    (lambda x, y: x.addcmul_(y, y, value=0.5), lambda x, y: x + 0.5 * y * y),
    (lambda x, y: x.masked_fill_(checks(x), y.sum()), lambda x, y: rg.where(checks(x), y.sum(), x)),
    (lambda x, y: x.cumsum_(-1) if x.ndim else x.mul_(2), lambda x, y: x.cumsum(-1) if x.ndim else x * 2),
    (lambda x, y: x.mul_(x.sum()), lambda x, y: x * x.sum()),
    (lambda x, y: x.div_(x.detach().abs().sum() + 1), lambda x, y: x / (x.detach().abs().sum() + 1)),
    (
        lambda x, y: x.index_add_(0, first_rows(x), y.expand(x.shape)) if x.ndim else x.add_(y),
        lambda x, y: x.index_add(0, first_rows(x), y.expand(x.shape)) if x.ndim else x + y,
    ),
]


def ramp(x: Tensor) -> Tensor:
    """Keeps equal elements apart, whose order rounding would decide."""
    return rg.tensor(np.arange(x.numel()).reshape(x.shape) * 0.37)


def checks(x: Tensor) -> Tensor:
    return rg.tensor(np.arange(x.numel()).reshape(x.shape) % 2 == 0)


def first_rows(x: Tensor) -> Tensor:
    return rg.tensor(np.arange(x.shape[0]) // 2)


def whole(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index with an Ellipsis, so that NumPy gives a view also where it would give a scalar."""
    return key if Ellipsis in key else (*key, Ellipsis)


def start_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


class Program:
    """Makes up a program step by step, and runs each step on the engine and on the model.

    With ``differentiable=False`` no leaf requires grad, and every write must be truly in place. ``shift`` is added to
    the first element of the first leaf, for central differences.
    """

    def __init__(self, choose: Choose, differentiable: bool = True, shift: float = 0.0) -> None:
        self.choose, self.differentiable = choose, differentiable
        self.log: list[str] = []
        self.named: list[tuple[str, Tensor, Model]] = []
        self.count = 0
        self.losses: list[tuple[Tensor, Tensor]] = []
        self.leaves: list[tuple[Tensor, Tensor]] = []
        rng = np.random.default_rng(choose(1000))
        shapes = [(3,), (2, 3), (4,), (2, 2), (), (2, 1, 3), (1, 0), (6,)]
        for index in range(2 + choose(2)):
            array = rng.uniform(-1, 1, shapes[choose(len(shapes))])
            if index == 0 and array.size:
                array.reshape(-1)[0] += shift
            mine, other = (rg.tensor(array, requires_grad=differentiable) for _ in range(2))
            self.leaves.append((mine, other))
            self.enter(mine, fresh(other * 1 if differentiable else other, leaf=differentiable))

    def enter(self, x: Tensor, model: Model) -> None:
        if x.numel() <= 24:
            self.count += 1
            self.named.append((f"t{self.count}", x, model))

    def pick(self) -> tuple[str, Tensor, Model]:
        # The youngest are the likeliest: views of views, and writes to what was just used.
        index = min(self.choose(len(self.named)), self.choose(len(self.named))) if self.choose(3) else self.choose(99)
        return self.named[-1 - index % len(self.named)]

    def pick_for(self, shape: tuple[int, ...], like: Tensor) -> tuple[str, Any, Any]:
        """A partner that broadcasts to the shape and may be written to ``like``; else the sum of one, or a number."""
        name, x, model = self.pick()
        if x.dtype.kind == "c" and like.dtype.kind != "c":
            return "0.7", 0.7 + rg.zeros((), dtype=rg.float64), 0.7 + rg.zeros((), dtype=rg.float64)
        try:
            fits = np.broadcast_shapes(tuple(x.shape), shape) == shape
        except ValueError:
            fits = False
        if fits:
            return name, x, model.read()
        return f"{name}.sum()", x.sum(), model.read().sum()

    def step(self) -> None:
        kinds = [self.compute, self.view, self.write, self.set_item, self.use, self.write, self.view, self.rarely]
        enabled = self.choose(6) > 0
        with rg.set_grad_enabled(enabled):
            self.log.append("" if enabled else "no_grad: ")
            kinds[self.choose(len(kinds))]()
        self.check_values()

    def say(self, text: str) -> None:
        self.log[-1] += text

    def compute(self) -> None:
        name, x, model = self.pick()
        if self.choose(2):
            which = self.choose(len(UNARY))
            if x.numel() == 0:
                return
            self.say(f"t{self.count + 1} = UNARY[{which}]({name})")
            self.enter(UNARY[which](x), fresh(UNARY[which](model.read())))
        else:
            which = self.choose(len(BINARY))
            other, y, value = self.pick_for(tuple(x.shape), rg.zeros(1, dtype=rg.complex128))
            self.say(f"t{self.count + 1} = BINARY[{which}]({name}, {other})")
            self.enter(BINARY[which](x, y), fresh(BINARY[which](model.read(), value)))

    def enter_view(self, x: Tensor, model: Model, view: Tensor, positions: np.ndarray, is_complex: bool) -> None:
        """A view of x, or a copy where the strides allowed none."""
        shared = np.may_share_memory(view.array, x.array) if view.numel() else view.array.base is not None
        if not shared:
            self.enter(view, fresh(Model(model.family, positions, is_complex).read()))
        elif rg.is_grad_enabled():
            self.enter(view, Model(model.family, positions, is_complex))
        else:
            family = Family(model.family.flat.detach(), model.family.buffer, positions)
            family.unrecorded = True
            self.enter(view, Model(family, positions, is_complex))

    def key(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """A basic index."""
        items: list[Any] = []
        for length in shape[: self.choose(len(shape) + 1)]:
            form = self.choose(6)
            start = self.choose(length + 1)
            if form == 0 and length:
                items.append(start % length)
            elif form == 1:
                items.append(slice(None, None, -1))
            elif form == 2:
                items.append(slice(start, None, 1 + self.choose(2)))
            elif form == 3:
                items.append(slice(None, start + 1))
            else:
                items.append(slice(None))
        form = self.choose(5)
        if form == 1 and all(type(item) is slice for item in items):
            return (Ellipsis, *items)
        return (*items, None) if form == 0 else tuple(items)

    def view(self) -> None:
        name, x, model = self.pick()
        places, kind, shape = model.positions, model.is_complex, tuple(x.shape)
        form = self.choose(12)
        made: list[tuple[Tensor, np.ndarray, bool]] = []
        text = ""
        if form < 3:
            key = self.key(shape)
            text, made = f"{name}[{key}]", [(x[key], places[whole(key)], kind)]
        elif form == 3:
            axes = [axis for _, axis in sorted((self.choose(9), axis) for axis in range(x.ndim))]
            text, made = f"{name}.permute({axes})", [(x.permute(axes), places.transpose(axes), kind)]
        elif form == 4:
            target = [(-1,), (1, *shape), (*shape, 1), shape[::-1], (2, x.numel() // 2)][self.choose(5)]
            if x.numel() and int(np.prod(target)) in (x.numel(), -1):
                text, made = f"{name}.reshape({target})", [(x.reshape(target), places.reshape(target), kind)]
        elif form == 5 and x.ndim:
            axis = self.choose(x.ndim)
            text = f"{name}.unbind({axis})"
            made = [(v, places.take(i, axis), kind) for i, v in enumerate(x.unbind(axis))]
        elif form == 6 and x.ndim and shape[0]:
            size = 1 + self.choose(shape[0])
            text = f"{name}.split({size})"
            made = [(v, places[i * size : (i + 1) * size], kind) for i, v in enumerate(x.split(size))]
        elif form == 7 and x.ndim >= 2:
            offset = self.choose(3) - 1
            text = f"{name}.diagonal({offset})"
            made = [(x.diagonal(offset), places.diagonal(offset), kind)]
        elif form == 8:
            target = (2, *[2 if length == 1 else length for length in shape])
            text, made = f"{name}.expand({target})", [(x.expand(target), np.broadcast_to(places, target), kind)]
        elif form == 9 and x.ndim and shape[-1] >= 2:
            windows = np.lib.stride_tricks.sliding_window_view(places, 2, axis=-1)
            text, made = f"{name}.unfold(-1, 2, 1)", [(x.unfold(-1, 2, 1), windows, kind)]
        elif form == 11 and kind:
            if self.choose(2):
                text, made = f"{name}.imag", [(x.imag, places + 1, False)]
            else:
                text, made = f"{name}.real", [(x.real, places, False)]
        elif form == 10 and kind:
            text = f"view_as_real({name})"
            made = [(rg.view_as_real(x), np.stack((places, places + 1), -1), False)]
        elif x.numel() >= 4 and not kind and x.array.flags.c_contiguous:
            stride = self.choose(3)
            window = places.reshape(-1)[np.arange(2)[:, None] * stride + np.arange(2)]
            text, made = (
                f"{name}.as_strided((2, 2), {(stride, 1)})",
                [(x.as_strided((2, 2), (stride, 1)), window, kind)],
            )
        if made:
            self.say(f"t{self.count + 1}... = {text}")
        for view, positions, is_complex in made:
            self.enter_view(x, model, view, np.asarray(positions), is_complex)

    def guarded(self, x: Tensor, model: Model, run: Callable[[], Any], filled: bool = False) -> bool:
        """Run a write of the engine; False where it must be refused, and was. One value may fill shared places."""
        refusals = model.refusals
        sharing = [other for other, _ in self.sharing(model)] if x.numel() else []
        versions = [other._version for other in sharing]
        values = x.array.copy()
        address = start_of(x.array)
        try:
            run()
        except RuntimeError as error:
            # as_strided makes layouts that interleave without meeting; the engine need not see that they do not.
            # A view that was created under no_grad is written only where nothing that requires grad is concerned.
            unrecorded = ["created under no_grad"] * (model.family.unrecorded and rg.is_grad_enabled())
            assert any(reason in str(error) for reason in (*refusals, *unrecorded, "share one memory location")), error
            np.testing.assert_array_equal(x.array, values)
            self.say("  # refused")
            return False
        assert not refusals or filled and refusals == ["share one memory location"], (
            f"should have been refused: {refusals}"
        )
        for other, version in zip(sharing, versions, strict=True):
            assert other._version > version, "version"
        if not self.differentiable:
            assert start_of(x.array) == address, "not in place"
        return True

    def sharing(self, model: Model) -> list[tuple[Tensor, Model]]:
        return [(x, other) for _, x, other in self.named if x.numel() and other.family.buffer is model.family.buffer]

    def write(self) -> None:
        name, x, model = self.pick()
        forms = WRITES if model.is_complex else WRITES + REAL_WRITES
        which = self.choose(len(forms))
        other, y, value = self.pick_for(tuple(x.shape), x)
        self.say(f"WRITES[{which}]({name}, {other})")
        mine, functional = forms[which]
        filled = not {"fill_", "zero_"}.isdisjoint(mine.__code__.co_names)
        if self.guarded(x, model, lambda: mine(x, y), filled):
            model.write(model.positions, functional(model.read(), value))

    def set_item(self) -> None:
        name, x, model = self.pick()
        shape = tuple(x.shape)
        form = self.choose(6)
        key: Any
        if form == 0 and x.ndim and shape[0]:
            key = np.array([self.choose(shape[0]) for _ in range(1 + self.choose(3))])
        elif form == 1:
            key = np.array([self.choose(2) for _ in range(int(np.prod(shape)))], dtype=bool).reshape(shape)
        else:
            key = self.key(shape)
        try:
            places = model.positions[key]
        except IndexError:
            return
        index = rg.tensor(key) if isinstance(key, np.ndarray) else key
        other, y, value = self.pick_for(places.shape, x)
        if not places.size:
            return
        if form == 2:
            self.say(f"{name}[{key}] *= {other}")

            def run() -> None:
                x[index] *= y

            family = model.family
            if not rg.is_grad_enabled():  # x[key] is no view of the family's base then
                family = Family(family.flat, family.buffer, places)
            written = model if isinstance(key, np.ndarray) else Model(family, places, model.is_complex)
            if self.guarded(x, written, run):
                model.write(places, model.read()[key] * value)
        elif type(key) is tuple and places.shape == y.shape and start_of(x.array[whole(key)]) == start_of(y.array):
            return  # x[key] = x[key] need be no write
        else:
            self.say(f"{name}[{key}] = {other}")

            def run() -> None:
                x[index] = y

            written = model if isinstance(key, np.ndarray) else Model(model.family, places, model.is_complex)
            if self.guarded(x, written, run):
                model.write(places, value + rg.zeros(places.shape, dtype=x.dtype))

    def use(self) -> None:
        """Add a nonlinear function of a Tensor to the loss."""
        name, x, model = self.pick()
        if not rg.is_grad_enabled():
            return
        self.say(f"loss += squares of {name}")
        self.losses.append((norm(x), norm(model.read())))

    def rarely(self) -> None:
        name, x, model = self.pick()
        form = self.choose(6)
        if form == 0:
            self.say(f"t{self.count + 1} = {name}.detach()")
            family = Family(model.family.flat.detach(), model.family.buffer, model.positions)
            self.enter(x.detach(), Model(family, model.positions, model.is_complex))
        elif form == 1 and len(self.named) > 2:
            self.say(f"del {name}")
            self.named = [entry for entry in self.named if entry[1] is not x]
        elif form == 2 and rg.is_grad_enabled() and not model.is_complex and x.requires_grad and x.numel():
            made = x * 1.5
            self.say(f"t{self.count + 1} = {name} * 1.5 with a hook")
            theirs = model.read() * 1.5
            for each in (made, theirs):
                if each.requires_grad:  # which a write of no elements gives to the engine's alone
                    each.register_hook(lambda g: g * 2 + g.sin())
            self.enter(made, fresh(theirs))
        elif form == 3 and x.ndim and x.shape[0] and rg.is_grad_enabled():
            self.say(f"{name}[:1] = {name}[:1].detach()")
            written = Model(model.family, model.positions[:1], model.is_complex)
            if self.guarded(x, written, lambda: x.__setitem__(slice(1), x[:1].detach())):
                model.write(model.positions[:1], model.read()[:1].detach())
        elif form == 5 and not x.is_leaf:
            if x.ndim > 1:
                self.say(f"{name}.swapaxes_(0, -1)")
                x.swapaxes_(0, -1)
                model.positions = model.positions.swapaxes(0, -1)
            else:
                self.say(f"{name}.unsqueeze_(0)")
                x.unsqueeze_(0)
                model.positions = model.positions[None]
        elif form == 4 and len(self.losses) > 1 and rg.is_grad_enabled():
            mine, theirs = self.losses[-1]
            if mine.requires_grad:
                self.say("backward of a loss, retained")
                self.compare(mine, theirs, retain_graph=True)

    # Comparison

    def check_values(self) -> None:
        for name, x, model in self.named:
            theirs = model.read()
            np.testing.assert_allclose(x.array, theirs.array, rtol=1e-6, atol=1e-9, err_msg=name)

    def loss(self) -> tuple[Tensor, Tensor]:
        for _, x, model in self.named:
            self.losses.append((norm(x), norm(model.read())))
        mine, theirs = zip(*self.losses, strict=True)
        return sum(mine[1:], mine[0]), sum(theirs[1:], theirs[0])

    def compare(self, mine: Tensor, theirs: Tensor, **options: Any) -> tuple[list[Tensor], list[Tensor]]:
        """The gradients of both with respect to the leaves; they must agree."""
        results = []
        for side, output in enumerate((mine, theirs)):
            leaves = [leaf[side] for leaf in self.leaves]
            if output.requires_grad:
                results.append(list(rg.autograd.grad(output, leaves, materialize_grads=True, **options)))
            else:
                results.append([rg.zeros_like(leaf.detach()) for leaf in leaves])
        for a, b in zip(*results, strict=True):
            scale = max(1.0, float(np.abs(b.array).max(initial=0)))
            np.testing.assert_allclose(a.array / scale, b.array / scale, rtol=1e-7, atol=1e-9, err_msg="gradient")
        return results[0], results[1]

    def disturb(self) -> None:
        """Write to everything that is alive: nothing that a graph needs may be changed by it."""
        with rg.no_grad():
            for _, x, model in self.named:
                if not model.refusals:
                    x.mul_(1.7).add_(0.1)


def norm(x: Tensor) -> Tensor:
    """A bounded nonlinear real number, so that long programs stay finite and their derivatives of use."""
    if x.dtype.kind == "c":
        x = rg.view_as_real(x * 1)
    return (x * 0.5).sin().sum() + (x.tanh() * x.cos()).sum()


def run(choose: Choose, steps: int = 12) -> Program:
    """A whole program: values at each step, gradients of both orders, with everything overwritten in between."""
    program = Program(choose)
    for _ in range(steps):
        program.step()
    mine, theirs = program.loss()
    if not mine.requires_grad:
        return program
    first, _ = program.compare(mine, theirs, retain_graph=True)
    again, _ = program.compare(mine, theirs, retain_graph=True)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.array, b.array)
    mine_grads, theirs_grads = program.compare(mine, theirs, create_graph=True)
    del mine, theirs
    program.losses.clear()
    program.disturb()
    seconds = [sum(norm(g) for g in grads) for grads in (mine_grads, theirs_grads)]
    program.compare(seconds[0], seconds[1])
    return program

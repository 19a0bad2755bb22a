"""ONNX rules of operators that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor.tensor import Tensor
from ...func.nests import flatten as leaves_of
from ..building import Builder
from ..model_calls import Call
from .rules import primitive, whole


@primitive("reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_copy")
def reshape(b: Builder, call: Call) -> str:
    return b.node("Reshape", [b.input(0), b.target()])


@primitive("expand")
def expand(b: Builder, call: Call) -> str:
    return b.node("Expand", [b.input(0), b.shape()])


@primitive("permute")
def permute(b: Builder, call: Call) -> str:
    order = [int(axis) for axis in b.param("dims")]
    return b.node("Transpose", [b.input(0)], perm=order) if order else b.input(0)


@primitive("transpose")
def transpose(b: Builder, call: Call) -> str:
    order = list(range(call.inputs[0].ndim))
    first, second = (b.param(name) for name in _axes_of(call))
    order[first], order[second] = order[second], order[first]
    return b.node("Transpose", [b.input(0)], perm=order)


def _axes_of(call: Call) -> list[str]:
    return [name for name in call.params if name.startswith(("dim", "axis"))][:2]


@primitive("cat")
def cat(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    parts = [b.input(place, dtype) for place in range(len(call.inputs))]
    return b.node("Concat", parts, axis=int(b.param("dim")))


@primitive("stack")
def stack(b: Builder, call: Call) -> str:
    dtype, axis = call.outputs[0].dtype, int(b.param("dim"))
    parts = [b.node("Unsqueeze", [b.input(place, dtype), b.ints(axis)]) for place in range(len(call.inputs))]
    return b.node("Concat", parts, axis=axis)


@primitive("split")
def split(b: Builder, call: Call) -> list[str]:
    axis, sizes = int(b.param("dim")), call.params["sizes"]
    parts = b.sizes(sizes, b.others_of(lambda twin: twin.params["sizes"]))
    found = b.node("Split", [b.input(0), parts], outputs=len(sizes), axis=axis)
    return [found] if isinstance(found, str) else found


@primitive("unbind")
def unbind(b: Builder, call: Call) -> list[str]:
    axis, x = int(b.param("dim")), b.input(0)
    b.fixed(len(call.outputs), *b.others_of(lambda twin: len(twin.outputs)))
    return [b.node("Gather", [x, b.constant(np.asarray(i, np.int64))], axis=axis) for i in range(len(call.outputs))]


@primitive("flip")
def flip(b: Builder, call: Call) -> str:
    axes = [int(axis) for axis in b.param("dims")]
    count = len(axes)
    ends = [np.iinfo(np.int64).min] * count
    return b.node("Slice", [b.input(0), b.ints(*[-1] * count), b.ints(*ends), b.ints(*axes), b.ints(*[-1] * count)])


@primitive("roll")
def roll(b: Builder, call: Call) -> str:
    x = b.input(0)
    for shift, axis in zip(b.param("shifts"), b.param("dims"), strict=True):
        length = b.fixed(call.inputs[0].shape[axis], *b.others_of(lambda twin, axis=axis: twin.inputs[0].shape[axis]))
        cut = -shift % length if length else 0
        head = b.node("Slice", [x, b.ints(0), b.ints(cut), b.ints(axis)])
        tail = b.node("Slice", [x, b.ints(cut), b.ints(np.iinfo(np.int64).max), b.ints(axis)])
        x = b.node("Concat", [tail, head], axis=axis)
    return x


@primitive("repeat")
def repeat(b: Builder, call: Call) -> str:
    sizes = call.params["sizes"]
    x = b.input(0)
    missing = len(sizes) - call.inputs[0].ndim
    if missing:
        x = b.node("Unsqueeze", [x, b.ints(*range(missing))])
    return b.node("Tile", [x, b.sizes(sizes, b.others_of(lambda twin: twin.params["sizes"]))])


@whole("repeat_interleave", accepts=lambda x, repeats, *args, **kwargs: isinstance(repeats, int))
def repeat_interleave(b: Builder, input: Tensor, repeats: int, dim: int | None = None, **kwargs: object) -> str:
    x = b.argument(input)
    if dim is None:
        x, dim = b.node("Reshape", [x, b.ints(-1)]), 0
    axis = dim % max(input.ndim, 1)
    y = b.node("Unsqueeze", [x, b.ints(axis + 1)])
    counts = [1] * (input.ndim + 1)
    counts[axis + 1] = repeats
    return b.node("Reshape", [b.node("Tile", [y, b.ints(*counts)]), b.target()])


@primitive("tril", "triu")
def triangle(b: Builder, call: Call) -> str:
    place = b.constant(np.asarray(int(b.param("diagonal")), np.int64))
    return b.node("Trilu", [b.input(0), place], upper=int(call.name == "triu"))


def _has_arrays(index: object) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, (Tensor, np.ndarray, list)) for part in parts)


@primitive("getitem")
def getitem(b: Builder, call: Call) -> str:
    index, theirs = call.params["index"], b.others_of(lambda twin: twin.params["index"])
    if not isinstance(index, tuple):
        raise b.fail("this kind of index is not supported")
    rank = call.inputs[0].ndim
    known = sum(1 for part in index if part is not None and part is not Ellipsis)
    starts: list[tuple[int, list[int]]] = []
    ends: list[tuple[int, list[int]]] = []
    axes: list[int] = []
    steps: list[int] = []
    axis = 0
    for place, part in enumerate(index):
        if part is None:
            continue
        if part is Ellipsis:
            axis += rank - known
            continue
        others = [other[place] for other in theirs]
        if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            length = call.inputs[0].shape[axis]
            lengths = b.others_of(lambda twin, axis=axis: twin.inputs[0].shape[axis])
            from_end = [n - o for n, o in zip(lengths, others, strict=True)]
            counted = any(o != part for o in others) and from_end == [length - part] * len(others)
            if part < 0 or counted:
                first = int(part if part < 0 else part - length)
                starts.append((first, [first] * len(others)))
                last = first + 1 if first != -1 else np.iinfo(np.int64).max
                ends.append((last, [last] * len(others)))
            else:
                starts.append((int(part), [int(o) for o in others]))
                ends.append((int(part) + 1, [int(o) + 1 for o in others]))
            axes.append(axis)
            steps.append(1)
        elif isinstance(part, slice):
            if part != slice(None) or any(o != slice(None) for o in others):
                step = 1 if part.step is None else int(part.step)
                low, high = (0, np.iinfo(np.int64).max) if step > 0 else (-1, np.iinfo(np.int64).min)
                starts.append(_bound(part.start, [o.start for o in others], low))
                ends.append(_bound(part.stop, [o.stop for o in others], high))
                axes.append(axis)
                steps.append(step)
        else:
            raise b.fail("this kind of index is not supported")
        axis += 1
    x = b.input(0)
    if axes:
        first_ = b.sizes([s for s, _ in starts], list(zip(*[o for _, o in starts], strict=True)))
        last_ = b.sizes([s for s, _ in ends], list(zip(*[o for _, o in ends], strict=True)))
        x = b.node("Slice", [x, first_, last_, b.ints(*axes), b.ints(*steps)])
    if call.outputs[0].ndim != rank or any(part is None for part in index):
        x = b.node("Reshape", [x, b.target()])
    return x


def _bound(value: Any, theirs: list[Any], default: int) -> tuple[int, list[int]]:
    return (default if value is None else int(value), [default if o is None else int(o) for o in theirs])


@whole("__getitem__", accepts=lambda x, index: _has_arrays(index))
def getitem_by_tensors(b: Builder, x: Tensor, index: Any) -> str:
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [part for part in parts if not isinstance(part, (Tensor, np.ndarray, list))]:
        raise b.fail("an ellipsis together with Tensor indices is not supported")
    places = [place for place, part in enumerate(parts) if isinstance(part, (Tensor, np.ndarray, list))]
    others = [part for place, part in enumerate(parts) if place not in places]
    if any(part != slice(None) for part in others):
        raise b.fail("slices or numbers together with Tensor indices are not supported")
    arrays = [parts[place] if isinstance(parts[place], Tensor) else np.asarray(parts[place]) for place in places]
    if any(part.dtype.kind == "b" for part in arrays):
        raise b.fail("boolean masks are not supported")
    names = [b.argument(part, np.int64) for part in arrays]
    if len(places) == 1:
        return b.node("Gather", [b.argument(x), names[0]], axis=places[0])
    if places != list(range(len(places))) or any(part.shape != arrays[0].shape for part in arrays):
        raise b.fail("several Tensor indices must index the first axes and have one shape")
    stacked = [b.node("Unsqueeze", [name, b.ints(-1)]) for name in names]
    return b.node("GatherND", [b.argument(x), b.node("Concat", stacked, axis=-1)])


@whole("index_select")
def index_select(b: Builder, input: Tensor, dim: int, index: Tensor) -> str:
    return b.node("Gather", [b.argument(input), b.argument(index, np.int64)], axis=dim)


@whole("gather")
def gather(b: Builder, input: Tensor, dim: int, index: Tensor, **kwargs: object) -> str:
    pairs = enumerate(zip(index.shape, input.shape, strict=True))
    if any(i != n for axis, (i, n) in pairs if axis != dim % input.ndim):
        raise b.fail("the index must have the shape of the input except along dim")
    return b.node("GatherElements", [b.argument(input), b.argument(index, np.int64)], axis=dim)


@whole("embedding")
def embedding(b: Builder, input: Tensor, weight: Tensor, *args: object, **kwargs: object) -> str:
    return b.node("Gather", [b.argument(weight), b.argument(input, np.int64)], axis=0)


@whole("one_hot")
def one_hot(b: Builder, input: Tensor, num_classes: int = -1) -> str:
    if num_classes < 0:
        raise b.fail("num_classes must be given")
    depth = b.constant(np.asarray(num_classes, np.int64))
    return b.node("OneHot", [b.argument(input, np.int64), depth, b.ints(0, 1)], axis=-1)


@whole("pad")
def pad(b: Builder, input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> str:
    widths = [int(width) for width in leaves_of(list(pad))[0]]
    count = len(widths) // 2
    before, after = [0] * input.ndim, [0] * input.ndim
    for place in range(count):
        before[-1 - place], after[-1 - place] = widths[2 * place], widths[2 * place + 1]
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    kind = modes[mode]
    if kind == "wrap" and b.opset < 19:
        raise b.fail("circular padding needs opset 19")
    inputs = [b.argument(input), b.ints(*before, *after)]
    if kind == "constant" and value:
        inputs.append(b.constant(np.asarray(value, input.dtype)))
    return b.node("Pad", inputs, mode=kind)


@whole("pixel_shuffle")
def pixel_shuffle(b: Builder, input: Tensor, upscale_factor: int) -> str:
    if input.ndim != 4:
        raise b.fail("an input without a batch dimension is not supported")
    return b.node("DepthToSpace", [b.argument(input)], blocksize=upscale_factor, mode="CRD")

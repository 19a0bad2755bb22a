"""Connectionist temporal classification (Graves et al., 2006): the likelihood of labels over all alignments.

The labels are interleaved with blanks, ``l' = (blank, l_1, blank, l_2, ..., blank)``. With ``a[t, s]`` the
log-likelihood of all ways to have reached place s of l' after t steps,

    a[t, s] = lp[t, l'_s] + logsumexp(a[t-1, s], a[t-1, s-1], a[t-1, s-2] if l'_s is a label other than l'_{s-2})

and the loss is ``-logsumexp(a[T, last], a[T, last - 1])``. The same recursion backwards in time gives b, and a + b
gives the share of all alignments that pass through each place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, array_module, extent, lie_within
from ....core.arrays.dtypes import FLOATING
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import or_reference
from ....kernels.loops.sequences import alignments
from ...indexing.selection import where
from ...shape.joining import cat, stack
from ...table.arguments import integers
from ...table.batching import called_per_example, fold, folded_array, unfold
from ...table.composites import raw, second_order
from ...table.registry import operator
from ...table.types import Operand
from .reduction import reduction_of

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


class Alignment(NamedTuple):
    """The extended labels ``(N, S')``, a mask of skippable blanks, and the lengths ``(N,)`` of inputs and labels."""

    labels: Any
    skips: Any
    steps: Any
    lengths: Any


def _label_scores(log_probs: Array, labels: Array) -> Array:
    """``lp[t, n, l'_s]``, (T, N, S')."""
    n = array_module(log_probs).arange(log_probs.shape[1])[:, None]
    return log_probs[:, n, labels]


def _ends(alignment: Alignment, dtype: Any) -> Array:
    """Return 0 at the last two positions of each sequence and -inf elsewhere."""
    xp = array_module(alignment.labels)
    places, last = xp.arange(alignment.labels.shape[1]), 2 * alignment.lengths[:, None]
    return xp.where((places == last) | (places == last - 1), dtype.type(0), dtype.type(-np.inf))


@or_reference
def _ctc(log_probs: Array, alignment: Alignment, zero_infinity: bool) -> tuple[Array, Array]:
    if alignments.takes(log_probs, alignment.labels):
        return alignments.forward(log_probs, *alignment)
    xp, dtype = array_module(log_probs), log_probs.dtype
    forward = _label_scores(log_probs, alignment.labels)
    width = forward.shape[2]
    barred = xp.where(alignment.skips, dtype.type(0), dtype.type(-np.inf))
    # Two additional places on the left are unreachable. Before the first step only place 0 is reached, from which one
    # step leads to place 1 as well.
    a = xp.full((forward.shape[1], width + 2), -np.inf, dtype)
    a[:, 2] = 0
    ways, by_skip = xp.empty((2, *forward.shape[1:]), dtype)
    for t in range(forward.shape[0]):
        np.logaddexp(a[:, 2:], a[:, 1:-1], out=ways)
        np.add(a[:, :-2], barred, out=by_skip)
        np.logaddexp(ways, by_skip, out=ways)
        forward[t] += ways
        a[:, 2:] = forward[t]
    n = xp.arange(forward.shape[1])
    # For a sequence without steps, only place 0 is reached.
    start = xp.where(xp.arange(width) == 0, dtype.type(0), dtype.type(-np.inf))
    final = xp.where((alignment.steps > 0)[:, None], forward[alignment.steps - 1, n], start) if len(forward) else start
    ended = final + _ends(alignment, dtype)
    top = ended.max(axis=1, keepdims=True)
    safe = xp.where(np.isneginf(top), xp.zeros_like(top), top)
    return -(safe[:, 0] + np.log(np.exp(ended - safe).sum(axis=1))), forward


@or_reference
def _ctc_backward(
    g: Array, log_probs: Array, loss: Array, forward: Array, alignment: Alignment, zero_infinity: bool
) -> tuple[Array]:
    """``g * (exp(lp) - posterior)``: the derivative for log-probabilities from log_softmax, as in PyTorch."""
    if zero_infinity:
        alignment = alignment._replace(steps=np.where(np.isinf(loss), 0, alignment.steps))
    else:  # without an alignment, no element has a derivative
        g = np.where(np.isinf(loss), loss.dtype.type(np.nan), g)
    if alignments.takes(log_probs, alignment.labels):
        return (alignments.backward(g, log_probs, loss, forward, *alignment),)
    xp, dtype = array_module(log_probs), log_probs.dtype
    scores = _label_scores(log_probs, alignment.labels)
    count, _, width = scores.shape
    start = _ends(alignment, dtype)
    barred = xp.full(start.shape, -np.inf, dtype)
    barred[:, :-2] = xp.where(alignment.skips[:, 2:], dtype.type(0), dtype.type(-np.inf))
    # After the last step of a sequence, b is the start value; before it, b includes the score of its own step.
    b = xp.full((len(start), width + 2), -np.inf, dtype)  # two additional places on the right
    ahead = xp.empty_like(scores)
    by_skip = xp.empty_like(start)
    ends_here = xp.arange(count)[:, None] == alignment.steps - 1
    for t in range(count - 1, -1, -1):
        np.logaddexp(b[:, :-2], b[:, 1:-1], out=ahead[t])
        np.add(b[:, 2:], barred, out=by_skip)
        np.logaddexp(ahead[t], by_skip, out=ahead[t])
        ahead[t] = xp.where(ends_here[t][:, None], start, ahead[t])
        np.add(ahead[t], scores[t], out=b[:, :-2])
    share = np.exp(forward + ahead + loss[:, None])
    dx = np.exp(log_probs)
    n = xp.arange(len(start))
    dx[:, n, alignment.labels[:, 0]] -= share[:, :, ::2].sum(axis=2)  # all blanks are one class: add their shares
    for place in range(1, width, 2):
        dx[:, n, alignment.labels[:, place]] -= share[:, :, place]
    used = xp.arange(count)[:, None] < alignment.steps
    return (xp.where(used[:, :, None], dx * g[:, None], dtype.type(0)),)


def _composite(log_probs: Tensor, alignment: Alignment, zero_infinity: bool) -> Tensor:
    """Return a function with the same gradient as the kernel: the loss plus, for exp(lp), the sum of probabilities."""
    xp = array_module(log_probs)
    dtype = log_probs.array.dtype
    never = -1e30 if dtype.itemsize > 4 else -1e15  # finite instead of -inf, so that derivatives are finite
    steps, batch, _ = log_probs.array.shape
    n = xp.arange(batch)[:, None]
    places = xp.arange(alignment.labels.shape[1])
    out = new_tensor(xp.full((batch, 2), never, dtype))
    barred = xp.where(alignment.skips, dtype.type(0), dtype.type(never))
    a = new_tensor(xp.where(places == 0, dtype.type(0), dtype.type(never))[None].repeat(batch, axis=0))
    for t in range(steps):
        left = cat([out, a], 1)[:, : places.size + 1]
        ways = stack([a, left[:, 1:], left[:, :-1] + barred])
        step = ways.logsumexp(0) + log_probs[t][n, alignment.labels]
        a = where(new_tensor((t < alignment.steps)[:, None]), step, a)
    last = 2 * alignment.lengths[:, None]
    ends = (places == last) | (places == last - 1)
    loss = -(a + xp.where(ends, dtype.type(0), dtype.type(never))).logsumexp(1)
    if zero_infinity:
        loss = loss.masked_fill(new_tensor(loss.array > -never / 2), 0.0)
    used = (xp.arange(steps)[:, None] < alignment.steps)[:, :, None]
    return loss + (log_probs.exp() * used.astype(dtype)).sum((0, 2))


def _folded(call: Call) -> dict[str, Any]:
    """Return the parameters of a call in which the examples are additional sequences."""
    alignment = Alignment(*[folded_array(part, call.size) for part in call.params["alignment"]])
    return {**call.params, "alignment": alignment}


def _ctc_examples(call: Call) -> Any:
    if not call.size:
        return call.of_no_example()
    loss, forward = call.below([fold(call.full(0), 1)], _folded(call))
    return unfold(loss, 0, call.size), unfold(forward, 1, call.size)


def _ctc_backward_examples(call: Call) -> Any:
    if not call.size:
        return call.of_no_example()
    params = _folded(call)
    params["loss"] = folded_array(params["loss"], call.size)
    params["forward"] = folded_array(params["forward"], call.size, 1)
    (dx,) = call.below([fold(call.full(0)), fold(call.full(1), 1)], params)
    return (unfold(dx, 1, call.size),)


CTC_BACKWARD = Primitive(
    "ctc_loss_backward",
    _ctc_backward,
    "dy x",
    vjp=lambda g, dy, x, alignment, zero_infinity, needs: second_order(
        partial(_composite, alignment=alignment, zero_infinity=zero_infinity), g, dy, (x,), (True,), needs
    ),
    outputs=-1,
    signals=True,
    batch=_ctc_backward_examples,
)
CTC = Primitive(
    "ctc_loss",
    _ctc,
    "x",
    [
        lambda g, x, ans, forward, alignment, zero_infinity: CTC_BACKWARD(
            g, x, loss=raw(ans), forward=forward, alignment=alignment, zero_infinity=zero_infinity
        )[0]
    ],
    residuals="forward",
    signals=True,
    batch=_ctc_examples,
)


def _lengths(argument: str, lengths: Tensor | Sequence[int], x: Tensor, batch: int, most: int) -> Any:
    xp = array_module(x)
    if not isinstance(lengths, Tensor):
        lengths = integers((lengths,), argument)
    values = lengths.array if isinstance(lengths, Tensor) else xp.asarray(lengths, dtype=np.int64)
    if values.dtype.kind not in "iu" and values.size:
        raise RuntimeError(f"{argument} must be integral, got {describe(values)}")
    values = values.reshape(-1).astype(np.int64)
    if values.shape != (batch,):
        raise RuntimeError(f"{argument} must be of size batch_size {batch}, got {values.size} of them")
    if batch and all_examples(values).size and not lie_within(values, most + 1):
        low, high = extent(values)
        if low < 0 or high > most:
            got = all_examples(values).tolist()
            raise RuntimeError(f"expected {argument} between 0 and {most}, got {got} for {describe(x)}")
    return values


@called_per_example
def _extended(padded: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Return the labels with blanks before, between and after them, and a mask of skippable blanks."""
    xp, places = array_module(padded), padded.array
    rows, columns = places.shape
    labels = xp.full((rows, 2 * columns + 1), blank, np.int64)
    labels[:, 1::2] = places
    skips = xp.zeros(labels.shape, bool)
    skips[:, 3::2] = places[:, 1:] != places[:, :-1]
    return new_tensor(labels), new_tensor(skips)


def _alignment(
    x: Tensor,
    targets: Operand,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int,
) -> Alignment:
    """Return the alignment of targets, given padded ``(N, S)`` or concatenated ``(sum of lengths,)``."""
    xp = array_module(x)
    steps, batch, classes = x.array.shape
    t = operand(targets, "targets")
    if t.array.dtype.kind not in "iu" and t.array.size:
        raise RuntimeError(f"targets must be integral, got {describe(t)}")
    if t.array.ndim not in (1, 2) or t.array.ndim == 2 and t.array.shape[0] != batch:
        raise RuntimeError(f"expected targets ({batch}, S) or 1-D for log_probs {describe(x)}, got {describe(t)}")
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range, got {blank} for {describe(x)}")
    lengths = _lengths("target_lengths", target_lengths, x, batch, t.array.shape[-1])
    shortest, widest = extent(lengths) if all_examples(lengths).size else (0, 0)
    columns = xp.arange(widest)
    valid = True if shortest == widest else columns < lengths[:, None]
    if t.array.ndim == 1:
        totals = all_examples(lengths.sum())
        if bool((totals != t.array.size).any()):
            raise RuntimeError(f"target_lengths sum to {totals.tolist()}, but targets are {describe(t)}")
        starts = xp.cumsum(lengths) - lengths
        index = starts[:, None] + columns
        index = index if shortest == widest else xp.where(valid, index, 0)
        padded = t.array[index] if t.array.size else xp.zeros((batch, widest), np.int64)
    else:
        padded = t.array[:, :widest]
    padded = (padded if shortest == widest else xp.where(valid, padded, blank)).astype(np.int64)
    if all_examples(padded).size and not lie_within(padded, classes):
        low, high = extent(padded)
        if low < 0 or high >= classes:
            raise RuntimeError(f"targets must be in label range [0, {classes}), in {describe(t)}")
    if bool(all_examples((padded == blank) & valid).any()):
        raise RuntimeError(f"targets must not contain the blank label {blank}, got {describe(t)}")
    labels, skips = _extended(new_tensor(padded), blank)
    return Alignment(labels.array, skips.array, _lengths("input_lengths", input_lengths, x, batch, steps), lengths)


@operator(namespace="nn.functional", method=False)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """``-log(sum_a prod_t p_t(a_t))`` over all alignments a of a label sequence with the inputs.

    Derivative: log_probs: ``g (exp(log_probs) - posterior)``, which is valid for log-probabilities from
    ``log_softmax``, as in PyTorch; 0 beyond a sequence's length.
    Shape: log_probs ``(T, N, C)`` or ``(T, C)``; the result is 0-d, or with reduction ``"none"`` ``(N,)`` or 0-d.
    Dtype: real floating, preserved; targets and lengths are integers.

    Args:
        log_probs: log-probabilities of the C classes at each of T steps, from ``log_softmax``.
        targets: labels, padded to ``(N, S)`` or concatenated in one dimension.
        input_lengths, target_lengths: the length of each sequence, ``(N,)``.
        blank: the class that stands for no label.
        reduction: ``"none"``, ``"sum"``, or ``"mean"``: each loss divided by its target's length, then the mean over
            the batch.
        zero_infinity: set loss and gradient to zero for sequences that are too short for their labels.

    Raises:
        RuntimeError: lengths, labels, shapes or dtypes do not match.

    Source: Graves, Fernandez, Gomez, Schmidhuber, "Connectionist temporal classification", 2006.

    >>> F.ctc_loss(rg.zeros(2, 1, 3).log_softmax(-1), rg.tensor([[1]]), [2], [1])
    tensor(1.0986)
    """
    reduction = reduction_of(reduction)
    x = operand(log_probs, "log_probs")
    if x.array.ndim not in (2, 3) or x.array.dtype.kind not in FLOATING:
        raise RuntimeError(f"expected floating log_probs (T, N, C) or (T, C), got {describe(x)}")
    single = x.array.ndim == 2
    if single:
        x = x.unsqueeze(1)
    alignment = _alignment(x, targets, input_lengths, target_lengths, blank)
    loss = apply(CTC, (x,), {"alignment": alignment, "zero_infinity": zero_infinity})
    if zero_infinity:
        loss = loss.masked_fill(new_tensor(np.isinf(loss.array)), 0.0)
    if reduction == "mean":
        return (loss / np.maximum(alignment.lengths, 1).astype(x.array.dtype)).mean()
    return loss.sum() if reduction == "sum" else loss.squeeze(0) if single else loss

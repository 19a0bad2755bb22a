"""Selective checkpoints: a policy decides which operators save their results instead of being recomputed.

In the first run, an observer records the result of each primitive and calls the policy when the public operator ends.
In the second run, another observer returns the saved results instead of computing them. Calls of primitives are
numbered, and the numbers are the same in both runs. The policy affects time and memory, but not derivatives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..core.graph.modes import modes
from ..core.graph.nodes import Node
from ..core.graph.observers import Given, Observer, observing
from ..core.graph.plan import Inputs, Params, Recordable
from ..core.tensor.storage import Storage, storage_of
from ..core.tensor.tensor import Tensor
from ..ops.table.registry import OPERATORS


class CheckpointPolicy(Enum):
    """The treatment of an operator's result inside a checkpoint.

    ``MUST_SAVE`` and ``PREFER_SAVE`` save it, ``MUST_RECOMPUTE`` and ``PREFER_RECOMPUTE`` compute it a second time.

    >>> from retrograd.utils.checkpoint import CheckpointPolicy
    >>> CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """The first argument of a policy.

    Args:
        is_recompute: always False, since policies are called only in the first run.
        op_output: the result of the operator.
    """

    def __init__(self, *, is_recompute: bool, op_output: object = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Policy = Callable[..., CheckpointPolicy | bool]


@dataclass(slots=True)
class _Result:
    """The result of a primitive, with the Storages that protect its memory from writes."""

    primitive: Recordable
    shapes: list[object]
    out: Any
    storages: list[Storage] = field(default_factory=list)


class _Call:
    """A running call of a public operator, with the results of its primitives by their numbers."""

    def __init__(self, name: str, inputs: tuple[object, ...]) -> None:
        self.name, self.inputs = name, inputs
        self.results: dict[int, _Result] = {}


class _ResultSaver(Observer):
    """Saves, in the first run, the results that the policy selects."""

    def __init__(self, policy: Policy, kept: dict[int, _Result]) -> None:
        self.policy, self.kept = policy, kept
        self.count = 0
        self.calls: list[_Call] = []
        self.last: _Result | None = None  # a result that is not yet wrapped in Tensors

    def opened(self, what: object, inputs: tuple[object, ...]) -> None:
        """Open a call that collects the results of a public operator's primitives."""
        if isinstance(what, str):
            self.calls.append(_Call(what, inputs))

    def closed(self, what: object, inputs: tuple[object, ...], result: object) -> None:
        if isinstance(what, str) and self.calls:
            self._ask(self.calls.pop(), result)

    def answering(
        self, primitive: Recordable, inputs: Inputs, arrays: Inputs, params: Params, forward: Callable[..., object]
    ) -> Callable[..., Any]:
        """Return a version of ``forward`` that records its result."""
        number, self.last = self.count, None
        self.count += 1
        if primitive.view or modes.level is not None:
            return forward
        if not self.calls or self.calls[-1].name == "":
            self.calls.append(_Call("", inputs))
        call = self.calls[-1]

        def forward_and_record(*arrays: object, **params: object) -> Any:
            out = forward(*arrays, **params)
            call.results[number] = self.last = _Result(primitive, _shapes(arrays), out)
            return out

        return forward_and_record

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        """Record the Storages of the result; call the policy for a primitive that is a public operator itself."""
        if self.last is not None and self.last.primitive is primitive:
            self.last.storages = [storage_of(output) for output in outputs]
            self.last = None
        if self.calls and self.calls[-1].name == "":
            call = self.calls.pop()
            call.name = primitive.name
            self._ask(call, outputs[0] if len(outputs) == 1 else outputs)

    def failed(self, primitive: Recordable, inputs: Inputs, params: Params, error: BaseException) -> None:
        self.last = None
        if self.calls and self.calls[-1].name == "":
            self.calls.pop()

    def _ask(self, call: _Call, output: object) -> None:
        if not call.results or isinstance(output, BaseException):
            return
        inputs = call.inputs
        names = inputs.names if isinstance(inputs, Given) else ()
        count = len(inputs) - len(names)
        args, kwargs = inputs[:count], dict(zip(names, inputs[count:], strict=True))
        context = SelectiveCheckpointContext(is_recompute=False, op_output=output)
        for operator in _operators(call):
            answer = self.policy(context, operator, *args, **kwargs)
            if answer is True or answer in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE):
                self.kept.update(call.results)
                break


class _ResultReplayer(Observer):
    """Returns, in the second run, the saved results instead of computing them."""

    def __init__(self, kept: dict[int, _Result]) -> None:
        self.kept = kept
        self.count = 0
        self.given: _Result | None = None  # a result that is not yet wrapped in Tensors

    def answering(
        self, primitive: Recordable, inputs: Inputs, arrays: Inputs, params: Params, forward: Callable[..., object]
    ) -> Callable[..., Any]:
        """Return a function that returns the saved result, or ``forward`` if none was saved."""
        number, self.given = self.count, None
        self.count += 1
        result = self.kept.pop(number, None)
        if result is None:
            return forward
        if result.primitive is not primitive or result.shapes != _shapes(arrays):
            raise RuntimeError(
                f"selective checkpoint: the second run calls {primitive.name} where the first called "
                f"{result.primitive.name}, or with other shapes or dtypes; both runs must be the same"
            )
        self.given = result
        return lambda *arrays, **params: result.out

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        """Protect the result's memory from writes, since Tensors of the first run may share it."""
        if self.given is not None:
            for output, storage in zip(outputs, self.given.storages, strict=True):
                storage_of(output).origin = storage
            self.given = None


class _Second(observing):
    """The context of a second run, which restarts the numbering at each entry."""

    def __enter__(self) -> Any:
        assert isinstance(self.observer, _ResultReplayer)
        self.observer.count = 0
        return super().__enter__()


def _shapes(arrays: tuple[object, ...]) -> list[Any]:
    return [(getattr(x, "shape", None), getattr(x, "dtype", None)) for x in arrays]


def _operators(call: _Call) -> list[Any]:
    """Return the public functions to pass to a policy; products also under PyTorch's names for them."""
    name, inputs = call.name, call.inputs
    names = [name, f"nn.functional.{name}", f"Tensor.{name}"]
    if name == "linear":
        names.append("mm" if len(inputs) < 3 or inputs[2] is None else "addmm")
    elif name == "matmul":
        dims = {x.ndim for x in inputs if isinstance(x, Tensor)}
        if max(dims, default=0) > 1:
            names.append("mm" if dims == {2} else "mv" if dims == {1, 2} else "bmm")
    functions = [OPERATORS[found].function for found in names if found in OPERATORS]
    # The table may hold a version without ``out``; the module's attribute is the function that users call.
    public = [getattr(sys.modules[function.__module__], function.__qualname__, function) for function in functions]
    return list(dict.fromkeys(public)) or [getattr(Tensor, name, name)]


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[Callable[..., Any]], allow_cache_entry_mutation: bool = False
) -> tuple[observing, observing]:
    """Return the two contexts of a checkpoint that saves the results of some operators, for ``context_fn``.

    A policy is called for each operator, as ``policy(ctx, op, *args, **kwargs)``, and returns a ``CheckpointPolicy``,
    or True to save the result. ``op`` is the public function, such as ``rg.exp`` or ``nn.functional.linear``, or the
    innermost function if calls are nested; ``ops.aten.exp.default`` is the same object. If the policy does not save the
    result, it is called again with each alias: ``nn.functional.relu`` after ``rg.relu``, and PyTorch's operators for
    products, ``addmm`` or ``mm`` after ``linear``, ``mm`` or ``bmm`` after ``matmul``. For an operator that consists of
    several primitives, all their results are saved. Views, in-place writes, and operators inside ``vmap`` are always
    recomputed.

    Args:
        policy_fn_or_list: a policy, or a list of the functions whose results are saved.
        allow_cache_entry_mutation: accepted for compatibility; in-place writes never change saved results, so gradients
            are correct with either value.

    Raises:
        TypeError: ``policy_fn_or_list`` is neither a function nor a list.
        ValueError: an element of the list is not an operator.

    >>> import functools
    >>> from retrograd.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [rg.exp])
    >>> x = rg.tensor([0.0, 1.0], requires_grad=True)
    >>> checkpoint(lambda x: x.exp().sin(), x, context_fn=contexts).sum().backward()
    >>> x.grad
    tensor([ 0.5403, -2.4784])
    """
    if isinstance(policy_fn_or_list, list):
        wanted = policy_fn_or_list
        for op in wanted:
            if not callable(op) or getattr(op, "is_packet", False):
                raise ValueError(
                    "create_selective_checkpoint_contexts: the list must contain operators, such as rg.exp or "
                    f"torch.ops.aten.exp.default, got {op!r}"
                )

        def policy(ctx: SelectiveCheckpointContext, op: object, *args: object, **kwargs: object) -> bool:
            return op in wanted

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list  # type: ignore[assignment]
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: policy_fn_or_list must be a function or a list of operators, got "
            f"{type(policy_fn_or_list).__name__}"
        )
    kept: dict[int, _Result] = {}
    return observing(_ResultSaver(policy, kept)), _Second(_ResultReplayer(kept))

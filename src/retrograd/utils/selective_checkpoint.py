"""Selective checkpoints: a policy says which operators keep their results instead of being computed a second time.

The first context notes what each forward returns and, when the operator that the program called has ended, asks the
policy whether to keep it. The second context gives what was kept in place of the forward. Every call of a primitive has
a number, which is the same in both runs. Derivatives do not depend on the policy, only time and memory do.
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
from ..core.graph.plan import Recordable
from ..core.tensor.storage import Storage, borrowed, storage_of
from ..core.tensor.tensor import Tensor
from ..ops.table.registry import OPERATORS


class CheckpointPolicy(Enum):
    """What is done with the result of an operator inside a checkpoint.

    ``MUST_SAVE`` and ``PREFER_SAVE`` keep it, ``MUST_RECOMPUTE`` and ``PREFER_RECOMPUTE`` compute it a second time.

    >>> from retrograd.utils.checkpoint import CheckpointPolicy
    >>> CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told beside the operator and its arguments.

    Args:
        is_recompute: False, since a policy is asked in the first run alone.
        op_output: what the operator returned.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Policy = Callable[..., CheckpointPolicy | bool]


@dataclass(slots=True)
class _Result:
    """What a forward returned, and who is to leave its memory alone."""

    primitive: Recordable
    shapes: list[Any]
    out: Any
    storages: list[Storage] = field(default_factory=list)


class _Call:
    """A public operator that has not ended yet, with the results of its parts by their numbers."""

    def __init__(self, name: str, inputs: tuple[Any, ...]) -> None:
        self.name, self.inputs = name, inputs
        self.results: dict[int, _Result] = {}


class _Keeping(Observer):
    """In the first run: keeps the results that the policy wants."""

    def __init__(self, policy: Policy, kept: dict[int, _Result]) -> None:
        self.policy, self.kept = policy, kept
        self.count = 0
        self.calls: list[_Call] = []
        self.last: _Result | None = None  # whose Tensors are not made yet

    def opened(self, what: Any, inputs: tuple[Any, ...]) -> None:
        """Let the parts of a public operator belong to it."""
        if isinstance(what, str):
            self.calls.append(_Call(what, inputs))

    def closed(self, what: Any, inputs: tuple[Any, ...], result: Any) -> None:
        """Ask the policy about a public operator."""
        if isinstance(what, str) and self.calls:
            self._ask(self.calls.pop(), result)

    def answering(
        self,
        primitive: Recordable,
        inputs: tuple[Any, ...],
        arrays: tuple[Any, ...],
        params: dict[str, Any],
        forward: Callable[..., Any],
    ) -> Callable[..., Any]:
        """Compute with the forward, and note its result."""
        number, self.last = self.count, None
        self.count += 1
        if primitive.view or modes.level is not None:
            return forward
        if not self.calls or self.calls[-1].name == "":
            self.calls.append(_Call("", inputs))
        call = self.calls[-1]

        def noted(*arrays: Any, **params: Any) -> Any:
            out = forward(*arrays, **params)
            call.results[number] = self.last = _Result(primitive, _shapes(arrays), out)
            return out

        return noted

    def called(
        self,
        primitive: Recordable,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
        outputs: tuple[Tensor, ...],
        node: Node | None,
    ) -> None:
        """Note the memory of the result; of a primitive that is an operator itself, ask the policy."""
        if self.last is not None and self.last.primitive is primitive:
            self.last.storages = [storage_of(output) for output in outputs]
            self.last = None
        if self.calls and self.calls[-1].name == "":
            call = self.calls.pop()
            call.name = primitive.name
            self._ask(call, outputs[0] if len(outputs) == 1 else outputs)

    def failed(
        self, primitive: Recordable, inputs: tuple[Any, ...], params: dict[str, Any], error: BaseException
    ) -> None:
        """Forget the call."""
        self.last = None
        if self.calls and self.calls[-1].name == "":
            self.calls.pop()

    def _ask(self, call: _Call, output: Any) -> None:
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


class _Giving(Observer):
    """In the second run: gives what was kept in place of computing it."""

    def __init__(self, kept: dict[int, _Result]) -> None:
        self.kept = kept
        self.count = 0
        self.given: _Result | None = None  # whose Tensors are not made yet

    def answering(
        self,
        primitive: Recordable,
        inputs: tuple[Any, ...],
        arrays: tuple[Any, ...],
        params: dict[str, Any],
        forward: Callable[..., Any],
    ) -> Callable[..., Any]:
        """Give the result that was kept, if one was."""
        number, self.given = self.count, None
        self.count += 1
        result = self.kept.pop(number, None)
        if result is None:
            return forward
        if result.primitive is not primitive or result.shapes != _shapes(arrays):
            raise RuntimeError(
                f"selective checkpoint: the second run calls {primitive.name} where the first called "
                f"{result.primitive.name}, or with other shapes or dtypes; the function must do the same both times"
            )
        self.given = result
        return lambda *arrays, **params: result.out

    def called(
        self,
        primitive: Recordable,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
        outputs: tuple[Tensor, ...],
        node: Node | None,
    ) -> None:
        """Let writes to the result go to other memory: Tensors of the first run may live in it."""
        if self.given is not None:
            for output, storage in zip(outputs, self.given.storages, strict=True):
                if output._storage is None:
                    output._storage = borrowed(storage)
                else:
                    output._storage.origin = storage
            self.given = None


class _Second(observing):
    """The context of a second run: each entry begins to count anew."""

    def __enter__(self) -> Any:
        assert isinstance(self.observer, _Giving)
        self.observer.count = 0
        return super().__enter__()


def _shapes(arrays: tuple[Any, ...]) -> list[Any]:
    return [(getattr(x, "shape", None), getattr(x, "dtype", None)) for x in arrays]


def _operators(call: _Call) -> list[Any]:
    """What a policy is asked about: the public functions of the name, and products under PyTorch's names of them."""
    name, inputs = call.name, call.inputs
    names = [name, f"nn.functional.{name}", f"Tensor.{name}"]
    if name == "linear":
        names.append("mm" if len(inputs) < 3 or inputs[2] is None else "addmm")
    elif name == "matmul":
        dims = {x.ndim for x in inputs if isinstance(x, Tensor)}
        if max(dims, default=0) > 1:
            names.append("mm" if dims == {2} else "mv" if dims == {1, 2} else "bmm")
    functions = [OPERATORS[found].function for found in names if found in OPERATORS]
    # Where the table has the function without ``out``, its module has the one that users call.
    public = [getattr(sys.modules[function.__module__], function.__qualname__, function) for function in functions]
    return list(dict.fromkeys(public)) or [getattr(Tensor, name, name)]


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[Callable[..., Any]], allow_cache_entry_mutation: bool = False
) -> tuple[observing, observing]:
    """The two contexts of a checkpoint that keeps the results of some operators; for its argument ``context_fn``.

    A policy is called once for each operator of the function, as ``policy(ctx, op, *args, **kwargs)``, and returns a
    ``CheckpointPolicy``, or True to keep the result. ``op`` is the public function, such as ``rg.exp`` or
    ``nn.functional.linear``, the innermost one where they are nested; ``ops.aten.exp.default`` is the same object.
    A policy that does not keep the result is asked again under each further name: ``nn.functional.relu`` after
    ``rg.relu``, and, since PyTorch computes products so, ``addmm`` or ``mm`` after ``linear``, ``mm`` or ``bmm`` after
    ``matmul``. Of an operator composed of several primitives the result of each is
    kept. Views, writes in place, and operators inside ``vmap`` are computed a second time in any case.

    Args:
        policy_fn_or_list: a policy, or a list of the functions whose results are kept.
        allow_cache_entry_mutation: taken for compatibility: what is kept does not change when the function writes to
            it in place, so gradients are right with either value.

    Raises:
        TypeError: ``policy_fn_or_list`` is neither a function nor a list.
        ValueError: the list has something that is no operator.

    >>> import functools
    >>> from retrograd.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [rg.exp])
    >>> x = rg.tensor([0.0, 1.0], requires_grad=True)
    >>> checkpoint(lambda x: x.exp().sin(), x, context_fn=contexts).sum().backward()
    >>> x.grad
    tensor([ 0.5403, -2.4783])
    """
    if isinstance(policy_fn_or_list, list):
        wanted = policy_fn_or_list
        for op in wanted:
            if not callable(op) or getattr(op, "is_packet", False):
                raise ValueError(
                    f"create_selective_checkpoint_contexts: wanted operators, such as rg.exp or "
                    f"torch.ops.aten.exp.default, in the list, got {op!r}"
                )

        def policy(ctx: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> bool:
            return op in wanted

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list  # type: ignore[assignment]
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: policy_fn_or_list must be a function or a list of operators, got "
            f"{type(policy_fn_or_list).__name__}"
        )
    kept: dict[int, _Result] = {}
    return observing(_Keeping(policy, kept)), _Second(_Giving(kept))

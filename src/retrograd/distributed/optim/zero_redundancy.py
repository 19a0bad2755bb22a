"""``ZeroRedundancyOptimizer``: each rank keeps the optimizer's state of its share of the parameters alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from ...core.arrays.devices import backend_of
from ...core.graph.modes import enable_grad
from ...core.tensor.tensor import Tensor, new_tensor
from ...optim.optimizer import Optimizer
from ..collectives import broadcast, flat, write
from ..errors import DistError
from ..groups import group_of
from ..objects import gather_object


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is spread over the ranks: each moves its share of the parameters and sends them to all.

    Gradients must be equal on all ranks, as ``DistributedDataParallel`` makes them. The numbers are those of
    ``optimizer_class`` on one process (ZeRO's first stage, Rajbhandari et al., 2020).

    Args:
        params: Tensors, or dictionaries, each a group; in the same order on all ranks.
        optimizer_class: what moves the parameters, ``optim.Adam`` for instance.
        process_group: which ranks; all by default.
        parameters_as_bucket_view, overlap_with_ddp: taken for compatibility.
        **defaults: the options of ``optimizer_class``.

    Attributes:
        optim: this rank's own optimizer, on its share.

    Raises:
        RuntimeError: the ranks' parameters differ; ``state_dict`` is asked for on a rank that has not gathered it.
        ValueError: ``init_process_group`` was not called.
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: Callable[..., Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        group = group_of(process_group)
        if group is None:
            raise RuntimeError("ZeroRedundancyOptimizer: this rank is not in process_group")
        self.process_group = group
        # Its defaults and options are those of the optimizer that it stands for, which checks them.
        whole = optimizer_class(list(params), **defaults)
        super().__init__(whole.param_groups, whole.defaults)
        self._optimizer_class, self._options = optimizer_class, defaults
        sizes = [list(p.shape) for p in self._parameters()]
        group.run(f"ZeroRedundancyOptimizer({len(sizes)} parameters of shapes {sizes})"[:500], None)
        self._owners = _shares(self._parameters(), group.size())
        self._gathered: dict[str, Any] | None = None
        mine = [
            {**options, "params": [p for p in options["params"] if self._owners[id(p)] == group.rank()]}
            for options in self.param_groups
        ]
        self._places = [place for place, options in enumerate(mine) if options["params"]]
        self.optim: Optimizer | None = (
            optimizer_class([mine[i] for i in self._places], **defaults) if self._places else None
        )

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Move this rank's share and give it to all.

        Args:
            closure: called once first, with gradients; its value is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._gathered = None
        if self.optim is not None:
            self._pass_options()
            self.optim.step(**kwargs)
        self._exchange()
        return loss

    def _parameters(self) -> list[Tensor]:
        return [p for options in self.param_groups for p in options["params"]]

    def _pass_options(self) -> None:
        """Schedulers write to this optimizer's groups; the one that moves the parameters reads its own."""
        assert self.optim is not None
        for place, own in zip(self._places, self.optim.param_groups, strict=True):
            own.update({name: value for name, value in self.param_groups[place].items() if name != "params"})

    def _exchange(self) -> None:
        for owner, rank in enumerate(self.process_group.ranks):
            kinds: dict[Any, list[Tensor]] = {}
            for p in self._parameters():
                if self._owners[id(p)] == owner:
                    kinds.setdefault((p.dtype, p.device), []).append(p)
            for alike in kinds.values():
                row = new_tensor(backend_of(alike[0].array).xp.concatenate([flat(p.array) for p in alike]))
                broadcast(row, rank, self.process_group)
                if owner == self.process_group.rank():
                    continue
                start = 0
                for p in alike:
                    write(p, row.array[start : start + p.array.size])
                    start += p.array.size

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state on rank ``to``, which may then ask for ``state_dict()``. All ranks call it."""
        numbers = {id(p): number for number, p in enumerate(self._parameters())}
        state = {} if self.optim is None else self.optim.state
        own = {numbers[id(p)]: dict(values) for p, values in state.items() if id(p) in numbers}
        at_root = self.process_group.ranks[self.process_group.rank()] == to
        found: list[Any] | None = [None] * self.process_group.size() if at_root else None
        gather_object(own, found, to, self.process_group)
        if found is not None:
            merged = {number: values for part in found for number, values in part.items()}
            self._gathered = {number: merged[number] for number in sorted(merged)}

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, as ``optimizer_class`` on one process would give it.

        Raises:
            RuntimeError: ``consolidate_state_dict`` was not called since the last step, or for another rank.
        """
        if self._gathered is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to=...)` "
                "on all ranks beforehand if you meant to save the global state."
            )
        return {**super().state_dict(), "state": dict(self._gathered)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a state of all parameters, also one of another number of ranks; this rank keeps its share.

        Raises:
            ValueError: the state does not fit; nothing was loaded.
        """
        super().load_state_dict({**state_dict, "state": {}})
        self._gathered = None
        if self.optim is None:
            return
        numbers = {id(p): number for number, p in enumerate(self._parameters())}
        groups: list[dict[str, Any]] = []
        state: dict[int, Any] = {}
        place = 0
        for own in self.optim.param_groups:
            groups.append({**{k: v for k, v in own.items() if k != "params"}, "params": []})
            for p in own["params"]:
                groups[-1]["params"].append(place)
                if numbers[id(p)] in state_dict["state"]:
                    state[place] = state_dict["state"][numbers[id(p)]]
                place += 1
        self.optim.load_state_dict({"state": state, "param_groups": deepcopy(groups)})
        self._pass_options()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused once it is made: the shares are drawn at the beginning."""
        if hasattr(self, "_owners"):
            raise DistError("ZeroRedundancyOptimizer: parameters are shared out when it is made; give all of them then")
        super().add_param_group(param_group)


def _shares(parameters: list[Tensor], count: int) -> dict[int, int]:
    """Whose each parameter is: the largest first, each to the rank that has least so far."""
    loads, owners = [0] * count, {}
    for p in sorted(parameters, key=lambda p: -p.array.size):
        owner = loads.index(min(loads))
        owners[id(p)] = owner
        loads[owner] += p.array.size
    return owners

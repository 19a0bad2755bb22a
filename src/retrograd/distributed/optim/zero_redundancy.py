"""``ZeroRedundancyOptimizer``: each rank stores the optimizer state of its share of the parameters only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from ...core.graph.modes import enable_grad
from ...core.tensor.tensor import Tensor
from ...optim.hyperparameters import ParamGroup
from ...optim.optimizer import Optimizer
from ..collectives import broadcast_all
from ..errors import DistError
from ..groups import group_of
from ..objects import gather_object


class ZeroRedundancyOptimizer(Optimizer):
    """Partition the optimizer state over the ranks; each rank updates its share of the parameters and broadcasts it.

    Gradients must be equal on all ranks, as ``DistributedDataParallel`` ensures. The results equal those of
    ``optimizer_class`` on one process (ZeRO stage 1, Rajbhandari et al., 2020).

    Args:
        params: Tensors or parameter groups (dictionaries), in the same order on all ranks.
        optimizer_class: the optimizer of each share, ``optim.Adam`` for instance.
        process_group: the participating ranks; all by default.
        parameters_as_bucket_view, overlap_with_ddp: ignored; for compatibility.
        **defaults: the options of ``optimizer_class``.

    Attributes:
        optim: the optimizer of this rank's share.

    Raises:
        RuntimeError: the parameters differ between the ranks, or ``state_dict`` is called on a rank without the
            consolidated state.
        ValueError: ``init_process_group`` was not called.
    """

    def __init__(
        self,
        params: Iterable[object],
        optimizer_class: Callable[..., Optimizer],
        process_group: object = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: object,
    ) -> None:
        group = group_of(process_group)
        if group is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: this rank is not a member of process_group; create it on member ranks only"
            )
        self.process_group = group
        # Take defaults from an instance of optimizer_class, which also checks the options.
        whole = optimizer_class(list(params), **defaults)
        super().__init__(whole.param_groups, whole.defaults)
        sizes = [list(p.shape) for p in self._parameters()]
        group.run(f"ZeroRedundancyOptimizer({len(sizes)} parameters of shapes {sizes})"[:500], None)
        self._owners = _shares(self._parameters(), group.size())
        self._gathered: dict[str, object] | None = None
        mine = [
            {**options, "params": [p for p in options["params"] if self._owners[id(p)] == group.rank()]}
            for options in self.param_groups
        ]
        self._own_groups = [place for place, options in enumerate(mine) if options["params"]]
        self.optim: Optimizer | None = (
            optimizer_class([mine[i] for i in self._own_groups], **defaults) if self._own_groups else None
        )

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this rank's share of the parameters and broadcast it to all ranks.

        Args:
            closure: called once before the update, with gradients enabled; its value is returned.
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
        """Copy options such as lr from this optimizer's groups, which schedulers write to, to the inner optimizer."""
        assert self.optim is not None
        for place, own in zip(self._own_groups, self.optim.param_groups, strict=True):
            own.update({name: value for name, value in self.param_groups[place].items() if name != "params"})

    def _exchange(self) -> None:
        for owner, rank in enumerate(self.process_group.ranks):
            owned = [p for p in self._parameters() if self._owners[id(p)] == owner]
            broadcast_all(owned, rank, self.process_group)

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state on rank ``to``, where ``state_dict()`` may be called next. All ranks must call it."""
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
        """Return the state of all parameters, as from ``optimizer_class`` on one process.

        Raises:
            RuntimeError: ``consolidate_state_dict`` was not called for this rank since the last step.
        """
        if self._gathered is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to=...)` "
                "on all ranks beforehand if you meant to save the global state."
            )
        return {**super().state_dict(), "state": dict(self._gathered)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state of all parameters, saved on any number of ranks; this rank stores its share.

        Raises:
            ValueError: the state does not match; nothing was loaded.
        """
        super().load_state_dict({**state_dict, "state": {}})
        self._gathered = None
        if self.optim is None:
            return
        numbers = {id(p): number for number, p in enumerate(self._parameters())}
        groups: list[ParamGroup] = []
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

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Raise an error after construction, because the parameters are partitioned once."""
        if hasattr(self, "_owners"):
            raise DistError(
                "ZeroRedundancyOptimizer: cannot add a parameter group; pass all parameters to the constructor"
            )
        super().add_param_group(param_group)


def _shares(parameters: list[Tensor], count: int) -> dict[int, int]:
    """Assign parameters to ranks: the largest first, each to the rank with the fewest elements so far."""
    loads, owners = [0] * count, {}
    for p in sorted(parameters, key=lambda p: -p.array.size):
        owner = loads.index(min(loads))
        owners[id(p)] = owner
        loads[owner] += p.array.size
    return owners

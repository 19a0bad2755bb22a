"""The doctor's data on a run: optimizers and their steps, losses, modes, and the steps recorded in full."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

import numpy as np

from ...core.source_location import Site
from ...core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from ...nn.base.module import Module
    from ...optim.lr_scheduler.base import LRScheduler
    from ...optim.optimizer import Optimizer
    from .backward_norms import OperatorNorms
    from .step_recorder import Array, Call, Opened, Step


@dataclass(slots=True)
class StepHistory:
    """One optimizer step: the loss before it, and norms by parameter name.

    ``rates`` has the learning rate of each parameter group of the optimizer. ``updates`` has the norms of the
    parameters' changes, ``operators`` the norms of the gradients that reached each operator. ``gradients``,
    ``weights``, ``updates`` and ``operators`` are empty where measuring them would have slowed down the run.
    """

    step: int
    loss: float
    rates: list[float]
    gradients: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    updates: dict[str, float] = field(default_factory=dict)
    operators: OperatorNorms | None = None
    passes: int = 1  # the number of backward passes; ``loss`` is the sum of their losses


@dataclass
class Optimized:
    """An optimizer of the run, and its observed calls.

    Attributes:
        created, stepped, zeroed, used: the lines of the program that created the optimizer, that last called ``step``
            and ``zero_grad``, and of the last backward pass before a step.
        steps: the number of steps.
        losses, rates: per step, the loss and the largest learning rate.
        carried: the number of steps whose gradients still contained the gradients of the previous step.
        emptied: the number of steps that found no gradient although a backward pass had computed one.
        idle: the number of steps without a backward pass since the previous step.
        graded: ids of parameters that had a gradient at some step.
        start: values of the parameters before the first step.
        name: the class of the optimizer.
    """

    optimizer: Optimizer
    created: Site | None = None
    stepped: Site | None = None
    zeroed: Site | None = None
    used: Site | None = None
    steps: int = 0
    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    history: list[StepHistory] = field(default_factory=list)
    carried: int = 0
    emptied: int = 0
    idle: int = 0
    graded: set[int] = field(default_factory=set)
    start: dict[int, Array] = field(default_factory=dict)
    probe: Tensor | None = None  # a small parameter whose gradient is compared
    before: bytes | None = None  # the first elements of the probe's gradient before a backward pass
    left: Array = None  # the gradient of the probe after the last step
    is_carried: bool = False
    had_gradient: bool = False  # whether a backward pass has computed a gradient since the last step
    backwards: int = 0  # the number of backward passes with gradients since the last step
    source: Site | None = None  # the line of the last backward pass that computed gradients
    elsewhere: bool = False  # whether another optimizer has stepped after the last backward pass
    graded_at: int = 0  # the number of steps before the last backward pass that computed gradients
    zeros: int = 0  # the number of calls of zero_grad
    lost: dict[Site, Site] = field(default_factory=dict)  # since the last step: line of backward -> line that zeroed
    emptied_by_hand: int = 0  # the emptied steps whose gradients were removed without zero_grad
    reloaded: bool = False  # whether the parameters were loaded after the optimizer was created
    created_again: int = 0  # how often the program created a new optimizer of the same parameters
    overwritten: int = 0  # the number of steps before which a zero_grad removed gradients of the same backward line

    @property
    def parameters(self) -> list[Tensor]:
        """All parameters, in order."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def __post_init__(self) -> None:
        self.name = type(self.optimizer).__name__


class Data(NamedTuple):
    """Data that the program computed before the first step."""

    site: Site
    start: int  # the address of the data's memory
    size: int  # the size of the data in bytes
    array: ref[np.ndarray]
    owner: ref[np.ndarray]  # the array that owns the memory


class Thawed(NamedTuple):
    """An assignment to the attribute ``requires_grad`` of a module, which does not change the module's parameters."""

    module: ref[Module]
    value: bool
    parameters: list[Tensor]  # the parameters whose ``requires_grad`` differs from ``value``
    steps: int  # the number of optimizer steps before the assignment
    site: Site


class Loading(NamedTuple):
    """A call of ``load_state_dict`` of a module: the parameters, and their first elements after the call."""

    parameters: list[Tensor]
    marks: list[bytes]
    steps: int  # the number of optimizer steps before the call
    optimizers: int  # the number of optimizers that were created before the call


class Renewal(NamedTuple):
    """A write between two steps of an optimizer after which a parameter has entirely different values."""

    optimized: Optimized
    parameter: Tensor
    site: Site
    steps: int  # the number of the optimizer's steps before the write


@dataclass
class Loader:
    """A DataLoader of the program."""

    created: Site
    batch_size: int | None
    shuffled: bool
    pairs: CodeType | None = None  # the code of the method of the data set that returns an example
    passes: int = 0  # the number of passes over all data before the first step


@dataclass
class Schedule:
    """A learning rate scheduler of the program."""

    scheduler: LRScheduler
    created: Site
    sites: Counter[Site] = field(default_factory=Counter)  # the lines that call ``step``
    metrics: list[float] = field(default_factory=list)  # the metrics that ReduceLROnPlateau got

    @property
    def stepped(self) -> Site | None:
        """The line that calls ``step`` most often."""
        return max(self.sites, key=lambda site: self.sites[site], default=None)


@dataclass
class Evaluation:
    """Calls in training mode, under ``no_grad`` or unused by a backward pass, of dropout or batch normalization."""

    module: str
    site: Site
    calls: int = 0
    periods: int = 0  # the number of intervals between two steps in which such calls occurred
    step: int = -1
    undone: Site | None = None  # the line that switched the layer to training mode under ``no_grad``


def _holds_same(x: Optimized, optimizer: Optimizer) -> bool:
    """Return whether an optimizer has the class and the parameters of an earlier one."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    same = not x.reloaded and type(optimizer) is type(x.optimizer) and len(parameters) == len(x.parameters)
    return same and all(p is q for p, q in zip(parameters, x.parameters, strict=True))


@dataclass
class Run:
    """All observations of a run."""

    optimizers: list[Optimized] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)  # the steps recorded in full
    backwards: int = 0
    called_backward: bool = False  # False if only ``autograd.grad`` was called
    backward_site: Site | None = None
    backward_stack: tuple[Site, ...] = ()  # the program's stack at the first backward pass, outermost line first
    losses: list[float] = field(default_factory=list)  # the loss of each backward pass
    labels: list[np.ndarray] = field(default_factory=list)  # class indices of the losses of each step
    binary_labels: list[np.ndarray] = field(default_factory=list)  # 0 and 1 labels of binary losses
    pairs: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # rows of inputs, and their class indices
    indexed: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # rows of integer inputs, and labels
    loaders: list[Loader] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    created: dict[int, tuple[ref[Module], Site]] = field(default_factory=dict)  # modules by id
    switched: dict[int, tuple[bool, Site]] = field(default_factory=dict)  # by module id: the last train() or eval()
    undone: dict[int, Site] = field(default_factory=dict)  # by module id: the last train() under no_grad
    loads: dict[Site, list[Loading]] = field(default_factory=dict)  # by the line that loads a state dict
    renewals: list[Renewal] = field(default_factory=list)
    frozen: dict[int, Site] = field(default_factory=dict)  # by parameter id: the line that froze the parameter
    thawed: list[Thawed] = field(default_factory=list)
    loaded: set[int] = field(default_factory=set)  # ids of parameters that were loaded from a state dict
    written: dict[int, Site] = field(default_factory=dict)  # by memory address: the line of the setup that wrote
    data: list[Data] = field(default_factory=list)
    fed: tuple[Site, tuple[int, ...]] | None = None  # the line that computed the data of the first batch
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    evaluated: bool = False  # whether a model ran under no_grad
    bad: tuple[int, float] | None = None  # the number of the first backward pass whose loss is not finite, and the loss
    graph_sizes: list[tuple[int, int]] = field(default_factory=list)  # (number of the backward pass, number of nodes)
    kept_graphs: Site | None = None  # a backward pass of losses whose graphs stay alive for many steps
    kept_call: Call | None = None  # the last call of a graph that stays alive for many steps without a backward pass
    summed: bool = False  # whether later graphs refer to the kept graphs, as in a sum of losses
    uphill: int = 0  # the number of own updates along the gradient instead of against it
    error: BaseException | None = None  # the exception that ended the program
    failed_backward: Site | None = None
    modes: dict[int, list[bool]] = field(default_factory=dict)
    count: int = 0  # the number of watched steps
    limited: bool = False  # whether the training may have continued after the watched steps
    seconds: float = 0.0  # the duration of the watched steps
    script: str = ""  # the path of the script, for the command

    def add(self, optimizer: Optimizer, site: Site | None = None) -> Optimized:
        """Return the entry of an optimizer, a new one if necessary; ``site`` is the line that creates the optimizer."""
        for x in self.optimizers:
            if x.optimizer is optimizer:
                return x
        again = next((x for x in self.optimizers if site is not None and x.created == site and x.steps), None)
        if again is not None and _holds_same(again, optimizer):
            again.optimizer, again.created_again = optimizer, again.created_again + 1  # such as once per epoch
            return again
        x = Optimized(optimizer, site)
        self.optimizers.append(x)
        return x

    def of(self, parameter: Tensor) -> Optimized | None:
        """Return the optimizer that has a parameter."""
        for x in self.optimizers:
            if any(p is parameter for p in x.parameters):
                return x
        return None

    def layer_site(self, step: Step, entry: Opened) -> Site | None:
        """Return the line that creates a layer of this package, if a container of this package calls it."""
        around = [x for x in step.modules if x.start <= entry.start and entry.end <= x.end and x.depth < entry.depth]
        package = __name__.partition(".")[0]
        known = self.created.get(id(entry.module))
        if known is None or any(type(x.module).__module__.partition(".")[0] != package for x in (entry, *around[-1:])):
            return None
        if not around:
            return None
        return known[1] if known[0]() is entry.module and known[1].file != copy.__file__ else None

    def data_site(self, array: Array) -> Site | None:
        """Return the line that computed, before the first step, the data whose memory contains an array."""
        interface = getattr(array, "__array_interface__", None)
        start = interface["data"][0] if interface else -1
        return next((x.site for x in reversed(self.data) if x.start <= start < x.start + x.size), None)

    def title(self, optimized: Optimized) -> str:
        """Return the name of an optimizer, with the line that creates it if the name alone is not clear."""
        several = sum(x.name == optimized.name for x in self.optimizers) > 1
        line = f" of line {optimized.created.line}" if several and optimized.created is not None else ""
        return f"{optimized.name}{line}"

    @property
    def main(self) -> Optimized | None:
        """Return the optimizer with the most steps; of several, the first."""
        stepping = [x for x in self.optimizers if x.steps]
        return max(stepping, key=lambda x: x.steps) if stepping else None

    @property
    def first(self) -> Step | None:
        """Return the first recorded step that has a backward pass."""
        return next((step for step in self.steps if step.roots), None)

    @property
    def last(self) -> Step | None:
        """Return the last recorded step that has a backward pass."""
        return next((step for step in reversed(self.steps) if step.roots), None)

"""Watches a training: patches and hooks that fill a ``Run``, and the choice of steps to record in full.

Between recorded steps no observer is on the thread, so that operators run at full speed; the hooks cost a few
microseconds per backward pass and step. The steps to record are chosen by their numbers only, so that two runs of a
script have the same findings; norms for the page are measured as long as this takes less than a share of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

from ...core.arrays.fp_warnings import silent
from ...core.graph.modes import modes
from ...core.graph.nodes import Node, reachable
from ...core.graph.observers import attach, detach
from ...core.source_location import Site, user_site, user_stack
from ...core.tensor.tensor import Tensor, is_dense
from .backward_norms import BackwardNorms, distance, norm
from .creations import Creations, Patches, Plain
from .first_calls import AtEvaluation, Renewals, UntilGraph
from .forwards import Forwards, outermost_call
from .labels_seen import Labels
from .own_updates import OwnUpdates, equal, keep_gradients, values_of
from .run import Evaluation, Optimized, Run, StepHistory
from .step_recorder import (
    Array,
    StepRecorder,
    beginning,
    first_parents,
    has_gradient,
    has_nonzero,
    has_reader,
    kept_call,
    mark,
    number_of,
    scale_of,
    smallest_with_gradient,
)

if TYPE_CHECKING:
    from ...nn.base.module import Module
    from ...optim.optimizer import Optimizer
    from ..names import Names

# The largest shares of the watched time for measurements that no finding depends on:
_WALKS = 0.005  # for norms of operators' gradients in steps that are not recorded in full
_NORMS = 0.005  # for norms of parameters, their gradients and updates
_SPENT = 0.05  # for everything that the doctor does between recorded steps; above it, no norms are measured
_ALWAYS = 2  # the number of first steps that are recorded in full
_LATER = 20  # the number of the next recorded step; each further one is _FACTOR times the previous number
_FACTOR = 5
_LONGEST = 60.0  # the duration of all recorded steps, in seconds, after which no further step is recorded
_KEPT = 4  # the number of recorded steps whose arrays are kept
_WINDOW = 20  # the number of backward passes that count as one step if no optimizer steps
_FORCED = 3
_CHAIN = 12  # if the graphs of this many earlier losses are alive, the program keeps graphs
_SITES = 100  # the number of calls of step, and of zero_grad without a lost gradient, whose lines are looked up
_PERIOD, _CHECKED = 128, 24  # of each 128 backward passes, the first 24 are checked for earlier graphs
_DEPTH = 3  # the number of operators before a loss that are checked as well, such as a division by a count


class Enough(SystemExit):
    """Ends the program of ``retrograd doctor`` once enough steps were watched."""


class Observation:
    """Fills a ``Run`` from what happens on this thread between ``start`` and ``stop``."""

    def __init__(self, run: Run, limit: Callable[[int, float], bool] | None = None, ends: bool = False) -> None:
        self.run = run
        self.limit = limit  # limit(steps, seconds) returns whether to stop watching
        self.ends = ends  # whether to end the program when the watching stops
        self.count = 0  # the number of training steps: steps of the anchor, or backward passes without an optimizer
        self.recorder: StepRecorder | None = None
        self._first: UntilGraph | None = None
        self._patches = Patches()
        self._names: Names | None = None
        self._began = 0.0
        self.spent = 0.0
        self._nodes: list[tuple[ref[Node], ...]] = []  # per loss: its node and nodes before it
        self._anchor: Optimized | None = None  # the optimizer whose steps are counted
        self._early = 0  # backward passes that were counted as steps before an optimizer was known
        self._since: list[float] = []  # losses since the last step of any optimizer
        self._stepping: Optimized | None = None
        self._closure = False  # whether ``step`` was called with a closure
        self._depth = 0  # the nesting depth of calls of backward
        self.stopped = False
        self._window = 0  # backward passes since the last step
        self._others = 0  # steps of other optimizers since the last step of the anchor
        self._last_other: Optimized | None = None  # the other optimizer that stepped last
        self._labels = Labels(run)
        self._outermost: list[tuple[Module, list[bool]]] = []  # models of the last recorded step, and their modes
        self._changed = False
        self._forced = 0  # steps recorded since other parameters got gradients, or a model changed its mode
        self._in_evaluation: Callable[[], Module | None] = lambda: None  # the last model that ran in evaluation mode
        self._recorded = 0.0  # the duration of all recorded steps in seconds
        self._next = _LATER  # the number of the next step to record
        self._measured = 0.0  # the time spent on norms of parameters, in seconds
        self._walks = BackwardNorms()
        self._forwards = Forwards(run.evaluations)
        self._own = OwnUpdates(run)
        self._renewals = Renewals(run)

    # Start and end

    def start(self) -> None:
        """Install the patches, hooks and the first observer."""
        from ... import autograd
        from ...autograd import gradients
        from ...nn.base.global_hooks import register_listener
        from ...nn.base.module import Module
        from ...optim import optimizer as optimizers

        patch = self._patches.patch
        patch(Tensor, "backward", self._backward)
        for module in (autograd, gradients):
            patch(module, "backward", self._backward)
            patch(module, "grad", self._grad)
        patch(optimizers.Optimizer, "zero_grad", self._zeroing)
        patch(Module, "zero_grad", self._zeroing_module)
        self._labels.watch(self._patches)
        Creations(self.run).watch(self._patches)
        for handle in (
            optimizers.register_optimizer_step_pre_hook(self._before_step),
            optimizers.register_optimizer_step_post_hook(self._after_step),
            register_listener(self._listening),
        ):
            self._patches.stack.callback(handle.remove)
        self._first = UntilGraph(self.begin_first, self.run)
        attach(self._first)
        self._patches.stack.callback(self._detach)
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Remove all patches, hooks and observers; keep the current recording if any operator was recorded."""
        if self.stopped:
            return
        self.stopped = True
        recorder = self.recorder
        self.run.seconds, self.run.count = self.elapsed(), self.count - self._early
        self._patches.undo()
        self._forwards.settle(self.count)
        if recorder is not None and recorder.step.calls:
            self._keep(recorder)
        self.recorder = None
        self._nodes.clear()

    def _detach(self) -> None:
        for observer in modes.observers:
            if isinstance(observer, (AtEvaluation, Renewals, UntilGraph, StepRecorder)):
                detach(observer)
        for observer in (self._first, self.recorder):
            if observer is not None:
                detach(observer)
        self._first = None

    # Training

    def _zeroing(self, plain: Plain, optimizer: Optimizer, *args: object, **kwargs: object) -> Array:
        x = self.run.add(optimizer)
        self._note_zero(x, user_site(3) if x.had_gradient or x.zeros < _SITES else x.zeroed)
        return plain(optimizer, *args, **kwargs)

    @staticmethod
    def _note_zero(optimized: Optimized, site: Site | None) -> None:
        """Record that gradients are zeroed, and which backward pass has lost its gradients by this."""
        if site and optimized.had_gradient and optimized.source is not None and not optimized.elsewhere:
            optimized.lost[optimized.source] = site
        optimized.zeroed = site
        optimized.zeros += 1

    def _zeroing_module(self, plain: Plain, module: Module, *args: object, **kwargs: object) -> Array:
        held = {id(p) for p in module.parameters()}
        for x in self.run.optimizers:
            if any(id(p) in held for p in x.parameters):
                self._note_zero(x, user_site(3))
        return plain(module, *args, **kwargs)

    def _listening(self, call: Plain) -> Plain:
        """Return a ``Module.__call__`` that notes calls of models, of dropout and batch norm, and under ``no_grad``."""
        models, switchable, called = self._forwards.models, self._forwards.switchable, self._called
        labels = self._labels

        def note_and_call(self: Module, *args: object, **kwargs: object) -> Array:
            if labels.looks or switchable.get(type(self), True) or id(self) in models or not modes.grad_enabled:
                called(self, args)
            return call(self, *args, **kwargs)

        return note_and_call

    def _called(self, module: Module, args: tuple[object, ...]) -> None:
        if modes.grad_enabled:
            self._labels.look(args)
            forwards = self._forwards
            if id(module) in forwards.models or forwards.switchable.get(type(module), True):
                forwards.call(module, args)
            return
        if not self.run.evaluated and self.count:
            attach(AtEvaluation(self.run.evaluations, module, self.count))
        self.run.evaluated = True
        around = self._in_evaluation()
        within = around is not None and any(x is module for x in around.modules())
        if not module.training:
            self._in_evaluation = self._in_evaluation if within else ref(module)
            return
        if within:
            return  # a single layer in training mode is intended, such as dropout that samples predictions
        kind = type(module).__name__
        if not (kind.startswith("BatchNorm") or kind.startswith("Dropout") and module.p > 0):
            return
        if "update_bn" in user_site(2).code:
            return  # torch.optim.swa_utils.update_bn computes the statistics of averaged weights
        site = outermost_call()
        found = self.run.evaluations.setdefault(f"{site.file}:{site.line}", Evaluation(kind, site))
        found.calls += kind == found.module
        found.undone = self.run.undone.get(id(module))
        if found.step != self.count:
            found.step = self.count
            found.periods += 1

    def _grad(self, plain: Plain, outputs: Array, inputs: Array, *args: object, **kwargs: object) -> Array:
        outputs, inputs = ([x] if isinstance(x, Tensor) else list(x) for x in (outputs, inputs))  # generators as well
        if self.recorder is not None:
            self.recorder.step.wanted.update(id(x) for x in inputs if is_dense(x))
            self.recorder.step.asked += [self.recorder.source_of(x) for x in outputs if is_dense(x)]
        if not self._descends(outputs, inputs, bool(args[2:3] and args[2] or kwargs.get("create_graph"))):
            return plain(outputs, inputs, *args, **kwargs)
        began = time.perf_counter()
        self._before_backward(outputs, user_site(3), returned=True)
        self.spent += time.perf_counter() - began
        self._depth += 1
        try:
            result = plain(outputs, inputs, *args, **kwargs)
        finally:
            self._depth -= 1
        began = time.perf_counter()
        self._own.after_grad(inputs, result)
        self._end_of_step()
        self.spent += time.perf_counter() - began
        self._check_limit()
        return result

    def _descends(self, outputs: list[Array], inputs: list[Array], create_graph: bool) -> bool:
        """Return whether a call of ``autograd.grad`` may be the backward pass of a program without an optimizer."""
        if self._depth or not self._own.alone or self.run.called_backward or create_graph:
            return False
        one = len(outputs) == 1 and is_dense(outputs[0]) and outputs[0].array.size == 1
        return one and modes.grad_enabled and all(is_dense(x) and x._node is None and x._requires for x in inputs)

    def _backward(self, plain: Plain, tensors: Array, *args: object, **kwargs: object) -> Array:
        if self._depth:
            return plain(tensors, *args, **kwargs)
        began = time.perf_counter()
        walks = self._walks if self.recorder is None and self._may_walk(began - self._began) else None
        site = user_site(3)
        if isinstance(tensors, Tensor):
            roots = [tensors]
        else:
            tensors = list(tensors)  # may be a generator
            roots = [x for x in tensors if isinstance(x, Tensor)]
        self.run.called_backward = True
        self._before_backward(roots, site)
        self.spent += time.perf_counter() - began
        self._depth += 1
        if walks is not None:
            attach(walks)
        try:
            result = plain(tensors, *args, **kwargs)
        except BaseException:
            self.run.failed_backward = site
            raise
        finally:
            self._depth -= 1
            if walks is not None:
                detach(walks)
        began = time.perf_counter()
        self._after_backward()
        self.spent += time.perf_counter() - began
        if self._anchor is None:
            self._check_limit()
        return result

    def _before_backward(self, roots: list[Tensor], site: Site, returned: bool = False) -> None:
        run = self.run
        recorder = self.recorder
        self._forwards.settle(self.count)
        self._renewals.before_backward()
        self._own.before_backward(None if recorder is None else recorder.step)
        run.backwards += 1
        run.backward_site = site
        run.backward_stack = run.backward_stack or user_stack(0)
        value = 0.0
        for x in roots:
            scale = scale_of(x)
            number = number_of(x) / scale
            value += number
            if recorder is not None:
                after = sum([one.steps for one in run.optimizers])
                recorder.root(x, number, site, scale, after, self._stepping is not None, returned)
            self._measure_graph(x, site)
        run.losses.append(value)
        trains = not returned or self._own.optimized is not None
        if run.bad is None and trains and not math.isfinite(value):
            run.bad = len(run.losses), value
        if self._stepping is None or not self._since:
            self._since.append(value)
        for optimized in run.optimizers:
            probe, left = optimized.probe, optimized.left
            grad = None if probe is None else probe._grad
            optimized.before = None if grad is None else mark(grad.array)
            if probe is None or left is None:
                continue
            if grad is None or not has_nonzero(grad.array):
                optimized.is_carried = False
            elif grad.array.shape == left.shape and equal(grad.array, left, nan=not optimized.backwards):
                optimized.is_carried = True

    def _measure_graph(self, x: Tensor, site: Site) -> None:
        node = x._node
        if not isinstance(node, Node):
            return
        count = self.run.backwards
        if count & (count - 1) == 0 or count % 32 == 0:
            self.run.graph_sizes.append((count, len(reachable([node])[0])))
        if count % _PERIOD >= _CHECKED:
            self._nodes.clear()
            return
        self._nodes.append(tuple(map(ref, first_parents(node, _DEPTH))))
        if len(self._nodes) > _CHAIN + 2 and self.run.kept_graphs is None and count % 4 == 0:
            for level in zip(*self._nodes[-_CHAIN - 2 : -2], strict=False):  # nodes of the losses, then their parents
                older = {found for one in level if (found := one()) is not None}
                if len(older) == _CHAIN:
                    self.run.kept_graphs, self.run.summed = site, all(map(has_reader, older))
                    break

    def _after_backward(self) -> None:
        for optimized in self.run.optimizers:
            probe = optimized.probe
            found = probe is not None and has_gradient(probe)
            if found and probe is not None and optimized.before and optimized.before == beginning(probe):
                continue  # the gradient is that of an earlier backward pass
            if not found and (smallest := smallest_with_gradient(optimized.parameters)) is not None:
                found, optimized.probe = True, smallest
            if found:
                optimized.had_gradient, optimized.elsewhere = True, False
                optimized.graded_at = optimized.steps
                optimized.source = self.run.backward_site
                optimized.backwards += 1
            if not optimized.start:
                optimized.start = self._values(optimized)
            if self.recorder is not None and not self.count:
                keep_gradients(self.recorder.step.left_by, optimized.parameters)
        self._window += 1
        if self.run.optimizers and self._own.optimized is None:
            alone = False
        elif alone := self._own.alone:
            self._own.after_backward(None if self.recorder is None else self.recorder.step)
        if self._anchor is None and (alone or self._window >= _WINDOW):
            self._end_of_step()

    def _values(self, optimized: Optimized) -> dict[int, Array]:
        """Return copies of the parameters' values; those that the recorder copied in this step are used again."""
        copied = self._copied()
        return {id(p): copied[id(p)] if id(p) in copied else p.array.copy() for p in optimized.parameters}

    def _copied(self) -> dict[int, Array]:
        return {} if self.recorder is None else self.recorder.step.values

    def _before_step(self, optimizer: Optimizer, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        began = time.perf_counter()
        optimized = self.run.add(optimizer)
        self._stepping = optimized
        if self.recorder is not None or optimized.steps < _SITES:
            optimized.stepped = user_site(4)
        optimized.used = self.run.backward_site
        for other in self.run.optimizers:
            other.elsewhere = other is not optimized
        if self.recorder is not None and self.recorder.step.roots:
            root, number = self.recorder.step.roots[-1], self.run.optimizers.index(optimized)
            root.optimizers.add(number)
            root.stepped.setdefault(number, optimized.stepped or user_site(4))
        if not optimized.start:
            optimized.start = self._values(optimized)
        self._closure = closure = bool(len(args) > 1 and args[1] is not None or kwargs.get("closure"))
        if not closure:
            self._check_gradients(optimized)
            if self.recorder is not None and not self.count:
                keep_gradients(self.recorder.step.used, optimized.parameters)
        rates: list[float] = []
        for group in optimizer.param_groups:
            rate = group.get("lr", 0.0)
            rates.append(rate if type(rate) is float else _number(rate))
        since = self._since
        history = StepHistory(optimized.steps, math.fsum(since) if since else math.nan, rates)
        if len(since) > 1:
            history.passes = len(since)
        optimized.rates.append(rates[0] if len(rates) == 1 else max(rates, default=0.0))
        if self._walks.names:
            history.operators = self._walks.taken()
        if self._may_measure(began - self._began):
            with silent():
                self._measure(optimized, history)
        optimized.history.append(history)
        self.spent += time.perf_counter() - began

    def _check_gradients(self, optimized: Optimized) -> None:
        """Record whether an optimizer's step finds gradients, and why not."""
        probe = optimized.probe
        by_hand = not optimized.lost
        if optimized.source is not None and optimized.source in optimized.lost:
            optimized.overwritten += 1
            optimized.zeroed = optimized.lost[optimized.source]
        optimized.lost.clear()
        if probe is not None and has_gradient(probe):
            if optimized.steps < 8:
                optimized.graded.update(id(p) for p in optimized.parameters if p._grad is not None)
            return
        graded = [p for p in optimized.parameters if p._grad is not None]
        self._changed = optimized.steps > _ALWAYS
        optimized.graded.update(map(id, graded))
        if any(map(has_gradient, graded)):
            return
        if optimized.had_gradient:
            optimized.emptied += 1
            optimized.emptied_by_hand += by_hand
        elif not graded:
            optimized.idle += 1

    def _measure(self, optimized: Optimized, history: StepHistory) -> None:
        began = time.perf_counter()
        before, copied = {}, self._copied()
        for p in optimized.parameters:
            if p.array.dtype.kind not in "fV" or p._grad is None or not hasattr(p._grad, "array"):
                continue
            name = self.name(p)
            history.gradients[name] = norm(p._grad.array)
            history.weights[name] = norm(p.array)
            before[name] = p, copied[id(p)] if id(p) in copied else p.array.copy()
        self._before = before
        self._measured += 2 * (time.perf_counter() - began)  # twice, for the norms of the updates

    _before: dict[str, tuple[Tensor, Array]] = {}

    def _after_step(self, optimizer: Optimizer, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        began = time.perf_counter()
        optimized = self._stepping
        if optimized is None or optimized.optimizer is not optimizer:
            optimized = self.run.add(optimizer)
        history = optimized.history[-1] if optimized.history else None
        if history is not None:
            if self._before:
                with silent():
                    for name, (p, before) in self._before.items():
                        history.updates[name] = distance(p.array, before)
                self._before = {}
            if history.loss != history.loss and self._since:  # a closure computed the loss
                history.loss = self._since[0]
            optimized.losses.append(history.loss)
        self._stepping = None
        if self._closure and not self._since and all(p._grad is None for p in optimized.parameters):
            optimized.idle += 1  # the closure has no backward pass
        self._since = []
        optimized.steps += 1
        optimized.carried += optimized.is_carried
        if optimized.probe is None:
            optimized.probe = smallest_with_gradient(optimized.parameters)
        probe = optimized.probe
        optimized.left = None if probe is None or probe._grad is None else probe._grad.array.copy()
        optimized.is_carried = optimized.had_gradient = False
        optimized.backwards = 0
        self._renewals.after_step(optimized)
        if self._anchor is None:
            self._anchor, self._early = optimized, self.count
        if optimized is self._anchor:
            last = self._last_other
            if last is not None and optimized.steps == 2 and last.steps == 1:
                self._anchor = last  # several optimizers step in each iteration: count the last one's steps
            self._others, self._last_other = 0, None
        elif (others := self._others + 1) > _WINDOW:  # a later phase, with another optimizer
            self._anchor, self._others, self._changed = optimized, 0, True
        else:
            self._others, self._last_other = others, optimized
        if optimized is self._anchor:
            if self.recorder is not None and not self.count:
                self.recorder.step.after.update(values_of(optimized.parameters, self.recorder.step.values))
            self._end_of_step()
        elif self.recorder is not None:
            self.recorder.step.later.update(values_of(optimized.parameters, self.recorder.step.values))
        self.spent += time.perf_counter() - began
        if self.limit is not None:
            self._check_limit()

    def _check_limit(self) -> None:
        if self.limit is None:
            return
        count = self.count
        if self._anchor is None:  # no optimizer has stepped so far; it may do so after several backward passes
            own, passes = self._own.optimized, self.run.backwards
            count = own.steps if own is not None else passes if passes >= _WINDOW else 0
        if self.limit(count, self.elapsed()):
            self.count, self.run.limited = min(self.count, count + self._early), True  # own updates are detected late
            self.stop()
            if self.ends:
                raise Enough(0)

    def begin_first(self) -> StepRecorder | None:
        """Attach the recorder of the first step, which ends with the first optimizer step, and return it."""
        if self._first is not None:
            detach(self._first)
            self._first = None
            self._record()
        return self.recorder

    def _end_of_step(self) -> None:
        self.count += 1
        self._window = 0
        self._note_modes()
        recorder = self.recorder
        if recorder is not None:
            detach(recorder)
            self.recorder = None
            self._keep(recorder)
        if not self.stopped and self._may_record():
            self._record()

    def _note_modes(self) -> None:
        for module, seen in self._outermost:
            if seen and module.training is not seen[-1]:
                self._changed = True  # a step in the other mode will be recorded
            seen.append(module.training)

    def _record(self) -> None:
        self.recorder = StepRecorder(self.count, self._names)
        self._names = self.recorder.names
        self._started = time.perf_counter()
        attach(self.recorder)

    def _keep(self, recorder: StepRecorder) -> None:
        self._recorded += time.perf_counter() - self._started
        steps = self.run.steps
        steps.append(recorder.finish())
        modules = {id(x.module): x.module for x in steps[-1].outermost()}
        switched = self.run.switched
        steps[-1].switched = {key: switched[key] for x in steps[-1].modules if (key := id(x.module)) in switched}
        for x in steps[-1].outermost():
            self.run.modes.setdefault(id(x.module), [x.training])
        self._outermost = [(module, self.run.modes[key]) for key, module in modules.items()]
        self._forwards.models.update(modules)
        self.run.kept_call = kept_call(steps, self.count) or self.run.kept_call
        if len(steps) > _KEPT + 1:
            steps[-_KEPT].drop_arrays()

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._began

    def _may_record(self) -> bool:
        """Whether the next step should be recorded in full."""
        count = self.count
        if count >= self._next:
            self._next *= _FACTOR
            return self._recorded < _LONGEST
        if count < _ALWAYS:
            return True
        if self._changed and self._forced < _FORCED:
            self._changed = False
            self._forced += 1
            return True
        return False

    def _may_measure(self, elapsed: float) -> bool:
        if self.recorder is not None:
            return True  # the recording costs much more, and has already copied the parameters
        return self._measured < _NORMS * elapsed and self.spent < _SPENT * elapsed

    def _may_walk(self, elapsed: float) -> bool:
        """Whether the next backward pass may be measured: notifying an observer costs about as much as measuring."""
        return 2 * self._walks.seconds < _WALKS * elapsed

    def name(self, p: Tensor) -> str:
        """Return the name of a parameter."""
        known = self._names.known(p) if self._names is not None else ""
        if known:
            return str(known)
        for step in self.run.steps:
            if step.names.get(id(p)):
                return step.names[id(p)]
        for number, optimized in enumerate(self.run.optimizers):
            for place, q in enumerate(optimized.parameters):
                if q is p:
                    return f"parameter {place}" if not number else f"parameter {place} of optimizer {number}"
        return "parameter"


def _number(value: Array) -> float:
    return float(value.item() if isinstance(value, Tensor) else value)

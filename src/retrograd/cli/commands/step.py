"""`retrograd step`: run a program up to its first backward pass, and step through the pass operator by operator."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..console import UserError
from ..parser import Subparsers
from .scripts import check_script
from .step_debugger import Debugger, Quit

EXAMPLES = """\
  retrograd step train.py             stop at the first backward pass; 'n' steps, 'help' lists the keys
  retrograd step train.py --lr 0.1    train.py gets --lr 0.1
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "step",
        help="step through a program's backward pass",
        description="Run a program up to its first backward() or autograd.grad() and step through the backward pass "
        "one operator at a time, forward and back, with keys like pdb's ('help' lists them). A program that imports "
        "torch gets Retrograd.",
        examples=EXAMPLES,
    )
    parser.add_argument("script", help="the Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's sys.argv")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script and stop at its calls of backward and autograd.grad; the script's errors have their traceback."""
    from retrograd.compat.as_torch import installed_when_imported, run_program
    from retrograd.core.source_location import user_frame
    from retrograd.inspect import trace

    check_script(options)
    stops = 0
    with trace() as t:

        def stop(stepper: Any) -> None:
            nonlocal stops
            stops += 1
            frame = user_frame(sys._getframe(1)) or sys._getframe()
            Debugger(stepper, frame).cmdloop()
            t.records.clear()

        with installed_when_imported(), stopping_at_backward(stop):
            try:
                code = run_program(options.script, options.arguments)
            except Quit:
                return 0
    if code == 0 and not stops:
        raise UserError(f"{options.script}: ended without a call of backward() or autograd.grad()")
    return code


@contextmanager
def stopping_at_backward(stop: Callable[[Any], None]) -> Iterator[None]:
    """Call ``stop`` with a stepper per ``backward`` and ``autograd.grad``; ``stop`` moves the stepper to its end."""
    from retrograd import autograd
    from retrograd.autograd import gradients
    from retrograd.core.tensor.tensor import Tensor
    from retrograd.inspect import step

    plain = Tensor.backward
    plain_of_several, plain_grad = autograd.backward, autograd.grad

    def of_several(
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        if create_graph:  # the backward pass itself must be recorded
            plain_of_several(tensors, grad_tensors, retain_graph, create_graph, inputs)
            return
        stop(step(tensors, grad_tensors, inputs=[inputs] if isinstance(inputs, Tensor) else inputs))

    def of_one(
        self: object,
        gradient: object = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: object = None,
    ) -> None:
        of_several(self, gradient, retain_graph, create_graph, inputs)

    def of_inputs(
        outputs: Any,
        inputs: Any,
        grad_outputs: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        only_inputs: bool = True,
        allow_unused: bool | None = None,
        is_grads_batched: bool = False,
        materialize_grads: bool = False,
    ) -> Any:
        options = retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads
        if create_graph or is_grads_batched:
            return plain_grad(outputs, inputs, grad_outputs, *options)
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        stepper = step(outputs, grad_outputs, inputs=wanted, fill=False)
        stop(stepper)
        found = tuple(map(stepper.grad, wanted))
        if any(g is None for g in found):  # ``grad`` returns zeros or None, or raises an error
            return plain_grad(outputs, inputs, grad_outputs, *options)
        return found

    Tensor.backward = of_one  # type: ignore[method-assign]
    autograd.backward = gradients.backward = of_several
    autograd.grad = gradients.grad = of_inputs
    try:
        yield
    finally:
        Tensor.backward = plain  # type: ignore[method-assign]
        autograd.backward = gradients.backward = plain_of_several
        autograd.grad = gradients.grad = plain_grad

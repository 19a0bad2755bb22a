"""The terminal program of `retrograd step`: a stepper with keys like pdb's."""

import cmd
import contextlib
import inspect
import linecache
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from retrograd.core.source_location import line_of
from retrograd.core.tensor.tensor import Tensor
from retrograd.inspect.stepping.events import Event, summary
from retrograd.inspect.stepping.stepper import Stepper, fitting

_AS_IN_PDB = {"w": "where", "s": "next"}
AROUND = 5  # lines or events that are shown before and after the current one


class Quit(SystemExit):
    """The user quits: the program ends with exit code 0."""


class Debugger(cmd.Cmd):
    """Steps through a backward pass with commands from standard input; returns when the program is to continue.

    Args:
        stepper: positioned before the first event.
        frame: the program's frame, in which expressions are evaluated.
    """

    ruler = ""
    doc_header = "Commands (the first letter is enough; an empty line repeats the last command):"
    undoc_header = ""

    def __init__(self, stepper: Stepper, frame: FrameType) -> None:
        super().__init__()
        self.stepper = stepper
        self.frame = frame
        self.prompt = "(step) " if sys.stdin.isatty() else ""
        self.use_rawinput = sys.stdin.isatty()

    def preloop(self) -> None:
        """Stop at the first operator."""
        if self.use_rawinput:
            with contextlib.suppress(ImportError):
                import readline

                readline.set_completer_delims(" \t\n(,=")  # `model[0].wei` is completed as one word
        code = self.frame.f_code
        site = f"{os.path.basename(code.co_filename)}:{line_of(code, self.frame.f_lasti, self.frame.f_lineno)}"
        if self.prompt:
            walk = "backward()" if self.stepper.fills else "autograd.grad()"
            self.say(f"{walk} of {site}: {len(self.stepper)} operators; 'help' lists the commands")
        self._move(self.stepper.next)

    def say(self, text: str) -> None:
        """Print a line; quit if standard output is closed."""
        try:
            print(text, file=self.stdout, flush=True)
        except BrokenPipeError:
            raise Quit(0) from None

    # Moving

    def do_next(self, argument: str) -> None:
        """next [COUNT]: go to the next operator of the backward pass, or COUNT operators ahead."""
        for _ in range(self._count(argument)):
            if self._move(self.stepper.next) is None:
                return

    def do_back(self, argument: str) -> None:
        """back [COUNT]: go to the previous operator, or COUNT operators back."""
        for _ in range(self._count(argument)):
            if self._move(self.stepper.back) is None:
                return

    def do_to(self, argument: str) -> None:
        """to LINE | FILE:LINE | OPERATOR | MODULE: go to the next operator of that line, name or module.

        to 31, to model.py:31, to relu, to blocks.2; or to line=31, to operator=relu, to module=blocks.2
        """
        if not argument:
            self.say("to: expected a line, an operator or a module")
            return
        kind, equals, value = argument.partition("=")
        if equals and kind in ("line", "operator", "module"):
            wanted: dict[str, Any] = {kind: int(value) if kind == "line" and value.isdigit() else value}
        elif argument.isdigit() or ":" in argument:
            wanted = {"line": int(argument) if argument.isdigit() else argument}
        elif any(argument in (event.operator, event.call) for event in self.stepper.events):
            wanted = {"operator": argument}
        else:
            wanted = {"module": argument}
        self._go(fitting(**wanted), f"{argument}")

    def do_until(self, argument: str) -> None:
        """until EXPRESSION: go to the next operator for which EXPRESSION is true.

        The expression reads attributes of the event: until nans, until norm > 10,
        until operator == "relu" and line < 20, until reaches(model.weight)
        """
        if not argument:
            self.say("until: expected an expression, such as: until norm > 10")
            return
        self._go(lambda event: self._value(argument, event), argument)

    def do_watch(self, argument: str) -> None:
        """watch EXPRESSION: go to the next operator that sends a gradient to this Tensor: watch model.weight"""
        tensor = self._tensor("watch", argument)
        if tensor is not None:
            self._go(lambda event: event.reaches(tensor), argument)

    def do_continue(self, argument: str) -> bool:
        """continue: go to the end of the backward pass and run the program up to its next backward pass."""
        while self.stepper.next() is not None:
            pass
        return True

    def do_quit(self, argument: str) -> NoReturn:
        """quit: end the program."""
        raise Quit(0)

    # Looking

    def do_print(self, argument: str) -> None:
        """print EXPRESSION: its value in the program; event and stepper are also available."""
        if not argument:
            self.say(str(self.stepper.event))
            return
        self.say(repr(self._value(argument)))

    def do_grad(self, argument: str) -> None:
        """grad [EXPRESSION]: the gradient of a Tensor so far; without EXPRESSION, the gradients of all leaves."""
        if argument:
            tensor = self._tensor("grad", argument)
            if tensor is not None:
                self.say(f"{argument}: {_gradient(self.stepper.grad(tensor))}")
            return
        for name, leaf in self.stepper.leaves():
            self.say(f"{name}: {_gradient(self.stepper.grad(leaf))}")

    def do_list(self, argument: str) -> None:
        """list: the program around the operator's line."""
        event = self.stepper.event
        if event is None or event.file is None or event.line is None:
            self.say("the line is not known")
            return
        first = max(1, event.line - AROUND)
        for number in range(first, event.line + AROUND + 1):
            code = linecache.getline(event.file, number)
            if code:
                self.say(f"{'->' if number == event.line else '  '} {number:4} {code.rstrip()}".rstrip())

    def do_where(self, argument: str) -> None:
        """where: the operators of the backward pass before and after the current operator."""
        events, event = self.stepper.events, self.stepper.event
        here = len(events) if event is None else event.index
        for other in events[max(0, here - AROUND) : here + AROUND + 1]:
            self.say(f"{'->' if other is event else '  '} {other.index + 1:4} of {len(events)}: {other.title}")
        if event is None:
            self.say("-> the end of the backward pass" if self.stepper.at_end else "-> the start of the backward pass")

    def do_save(self, argument: str) -> None:
        """save FILE.html: write the whole backward pass as a page for the browser."""
        if not argument:
            self.say("save: expected a file name")
            return
        try:
            self.stepper.save(Path(argument))
        except (OSError, RuntimeError, ValueError) as error:
            raise _Failed(f"save: {error}" if isinstance(error, OSError) else str(error)) from None
        self.say(f"saved {argument}")

    # Shortcuts, completion, errors

    def do_EOF(self, argument: str) -> NoReturn:
        """End of input: the same as quit."""
        raise Quit(0)

    def onecmd(self, line: str) -> bool:
        """Run one line; an expression's error is printed and changes nothing."""
        try:
            return bool(super().onecmd(line))
        except _Failed as error:
            self.say(str(error))
            return False

    def parseline(self, line: str) -> tuple[str | None, str | None, str]:
        """Accept any prefix of a command: n, ne, next."""
        command, argument, line = super().parseline(line)
        if command and command != "EOF":
            fit = [name for name in self.completenames("") if name.startswith(command)]
            command = _AS_IN_PDB.get(command) or (fit[0] if fit else command)
        return command, argument, line

    def completenames(self, text: str, *ignored: object) -> list[str]:
        """Return the commands with this prefix."""
        return [name for name in super().completenames(text, *ignored) if name != "EOF"]

    def get_names(self) -> list[str]:
        """Return the commands that `help` lists."""
        return [name for name in super().get_names() if name != "do_EOF"]

    def do_help(self, arg: str) -> None:
        """help [COMMAND]: describe the commands."""
        if arg:
            name = self.parseline(arg)[0] or arg
            text = inspect.getdoc(getattr(self, f"do_{name}", None))
            self.say(text if text and hasattr(self, f"do_{name}") else f"unknown command {arg!r}")
            return
        self.say(self.doc_header)
        for name in self.completenames(""):
            self.say("  " + (inspect.getdoc(getattr(self, f"do_{name}")) or "").partition("\n")[0])

    def default(self, line: str) -> None:
        """Report an unknown command."""
        self.say(f"unknown command {line!r}; 'help' lists the commands")

    def complete_to(self, text: str, *ignored: object) -> list[str]:
        """Complete an operator, module or line of the backward pass."""
        events = self.stepper.events
        names = {name for event in events for name in (event.operator, event.call)} | {
            event.module or "" for event in events
        }
        names |= {str(event.line) for event in events if event.line is not None}
        return sorted(name for name in names if name and name.startswith(text))

    def complete_until(self, text: str, *ignored: object) -> list[str]:
        """Complete an attribute of the event."""
        event = self.stepper.events[0] if self.stepper.events else None
        return [name for name in dir(event) if name.startswith(text) and not name.startswith("_")]

    def complete_print(self, text: str, *ignored: object) -> list[str]:
        """Complete a name of the program, or an attribute after a dot."""
        base, dot, attribute = text.rpartition(".")
        if dot:
            try:
                names = dir(self._value(base))
            except _Failed:
                return []
            return [f"{base}.{name}" for name in names if name.startswith(attribute) and not name.startswith("_")]
        return sorted(name for name in self._names() if name.startswith(text) and not name.startswith("__"))

    complete_grad = complete_watch = complete_print

    def complete_help(self, text: str, *ignored: object) -> list[str]:
        """The commands."""
        return self.completenames(text)

    # Helpers of the commands

    def _move(self, move: Callable[[], Event | None]) -> Event | None:
        event = move()
        if event is not None:
            self.say(str(event))
        elif self.stepper.at_end:
            filled = ".grad is filled" if self.stepper.fills else "autograd.grad returns its gradients"
            self.say(f"the end of the backward pass: {filled}; 'continue' runs the program on")
        else:
            self.say("the start of the backward pass")
        return event

    def _go(self, fits: Callable[[Event], object], wanted: str) -> None:
        """Move to the next event that satisfies the conditions, if there is one."""
        here = 0 if self.stepper.event is None else self.stepper.event.index + 1
        ahead = [] if self.stepper.at_end else self.stepper.events[here:]
        target = next((event for event in ahead if fits(event)), None)
        if target is None:
            self.say(f"no later operator matches {wanted}")
            return
        self._move(lambda: self.stepper.until(lambda event: event is target))

    def _count(self, argument: str) -> int:
        if argument and not argument.isdigit():
            raise _Failed(f"expected a number of operators, got {argument!r}")
        return min(int(argument or 1), len(self.stepper.events) + 1)

    def _names(self) -> dict[str, object]:
        return {**self.frame.f_globals, **self.frame.f_locals, "event": self.stepper.event, "stepper": self.stepper}

    def _value(self, expression: str, event: Event | None = None) -> Any:
        """Evaluate an expression in the program; an event's attributes take precedence over the program's names."""
        try:
            return eval(expression, self._names(), {} if event is None else _Attributes(event))
        except Exception as error:
            raise _Failed(f"{type(error).__name__}: {error}") from None

    def _tensor(self, command: str, expression: str) -> Tensor | None:
        if not expression:
            self.say(f"{command}: expected a Tensor of the program")
            return None
        value = self._value(expression)
        if isinstance(value, Tensor):
            return value
        self.say(f"{expression} is not a Tensor but {type(value).__name__}")
        return None


class _Attributes(dict[str, Any]):
    """The public attributes of an event by name."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def __missing__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self.event, name):
            raise KeyError(name)
        return getattr(self.event, name)


class _Failed(Exception):
    """A command failed; the text says why."""


def _gradient(g: Tensor | None) -> str:
    return "nothing yet" if g is None else summary(g)

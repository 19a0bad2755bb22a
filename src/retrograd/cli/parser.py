"""The argument parser of the command line: errors in one line with a suggestion, examples, and implied tasks."""

import argparse
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

from .console import UserError

Kind = TypeVar("Kind", bound=argparse.Action)
Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"  # only type checkers see this class as generic


EXAMPLES = "examples:\n"


class HelpFormatter(argparse.HelpFormatter):
    """Wraps descriptions to the terminal's width, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLES) else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UserError`s: one line, with the nearest valid name for a mistyped name.

    >>> from retrograd.cli.parser import Parser
    >>> parser = Parser(prog="retrograd")
    >>> _ = parser.add_argument("color", choices=["red", "green"])
    >>> parser.parse_args(["gren"])
    Traceback (most recent call last):
    retrograd.cli.console.UserError: unknown color 'gren'; did you mean 'green'? (see 'retrograd --help')
    """

    def __init__(self, *args: Any, examples: str = "", **options: Any) -> None:
        if examples:
            options |= {"epilog": f"{EXAMPLES}{examples}", "formatter_class": HelpFormatter}
        super().__init__(*args, **options)
        # By option: the subcommand that is meant if the option comes before any subcommand.
        self.implied: dict[str, str] = {}

    def _add_action(self, action: Kind) -> Kind:
        # Python before 3.12 counts the rest of the line among the missing arguments.
        action.required = action.required and action.nargs != argparse.REMAINDER
        return super()._add_action(action)

    def error(self, message: str) -> NoReturn:
        names = subparsers(self)
        if names and "are required" in message:
            message += f": {', '.join(names)}"
        raise UserError(f"{message} (see '{self.prog} --help')")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.implied and args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            given = [text.partition("=")[0] for text in args if text.startswith("--")]
            found = [self.implied[option] for option in given if option in self.implied]
            if not found:
                near = suggestion(given[0], self.implied) if given else ""
                self.error(f"{args[0]} without a TASK, or one of {', '.join(self.implied)}{near}")
            args = [found[0], *args]
        options, rest = super().parse_known_args(args, namespace)
        unknown = [text for text in rest if text.startswith("--")]
        if unknown and not any(isinstance(action, argparse._SubParsersAction) for action in self._actions):
            known = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown option {unknown[0]}{suggestion(unknown[0].partition('=')[0], known)}")
        return options, rest

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        what = "/".join(action.option_strings) or action.metavar or action.dest
        choices = list(map(str, action.choices))
        near = suggestion(str(value), choices) or f"; choose from {', '.join(choices)}"
        if self.implied and "." in str(value):
            first = {task: option for option, task in reversed(self.implied.items())}
            near = f"; for a file of yours write {' or '.join(f'{option} {value}' for option in first.values())}"
        self.error(f"unknown {what} {value!r}{near}")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean 'NAME'?`` for the nearest of the names, or nothing if none is near.

    >>> from retrograd.cli.parser import suggestion
    >>> suggestion("hosing", ["mnist", "housing"])
    "; did you mean 'housing'?"
    """
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the subcommands of a parser by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def walk(
    parser: argparse.ArgumentParser, path: Sequence[str] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield a parser and all subcommands below it, with their names."""
    yield tuple(path), parser
    for name, one in subparsers(parser).items():
        yield from walk(one, (*path, name))

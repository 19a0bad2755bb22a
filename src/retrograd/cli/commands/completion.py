"""`retrograd completion SHELL`: the script with which a shell completes commands, options and choices."""

import argparse
import shlex

from ..parser import Subparsers, subparsers, walk

EXAMPLES = """\
  retrograd completion bash    then: eval "$(retrograd completion bash)" in ~/.bashrc
  retrograd completion zsh     then: eval "$(retrograd completion zsh)" in ~/.zshrc, after compinit
  retrograd completion fish    then: retrograd completion fish | source, in ~/.config/fish/config.fish
"""

BASH = """\
_retrograd() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" place="retrograd" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$place $word" in
      {places}) place="$place $word" ;;
    esac
  done
  case "$place $prev" in
{choices}  esac
  case "$place" in
{words}  esac
}}
complete -o default -F _retrograd retrograd
"""

ZSH = """\
#compdef retrograd
_retrograd() {{
  local place="retrograd" prev="${{words[CURRENT-1]}}" word
  for word in "${{words[@]:1:CURRENT-2}}"; do
    case "$place $word" in
      {places}) place="$place $word" ;;
    esac
  done
  case "$place $prev" in
{choices}  esac
  case "$place" in
{words}  esac
  _files
}}
compdef _retrograd retrograd
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print the completion script of a shell",
        description="Print a script with which a shell completes commands, tasks, options and their choices.",
        examples=EXAMPLES,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    print(script(options.parser, options.shell), end="")
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script of a parser."""
    parts = [(" ".join(("retrograd", *path)), one) for path, one in walk(parser)]
    if shell == "fish":
        return _fish(parts)
    begin, end = (
        ('COMPREPLY=($(compgen -W "', '" -- "$cur")); return') if shell == "bash" else ("compadd -- ", "; return")
    )
    end_of_words = end.removesuffix("; return") if shell == "zsh" else end
    choices = "".join(
        f"    {'|'.join(shlex.quote(f'{place} {option}') for option in action.option_strings)}) "
        f"{begin}{' '.join(map(str, action.choices))}{end} ;;\n"
        for place, one in parts
        for action in one._actions
        if action.option_strings and action.choices
    )
    words = "".join(
        f"    {shlex.quote(place)}) {begin}{' '.join(_words(one))}{end_of_words} ;;\n" for place, one in parts
    )
    places = "|".join(shlex.quote(place) for place, _ in parts[1:])
    return (BASH if shell == "bash" else ZSH).format(places=places, choices=choices, words=words)


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Return the words that may follow: subcommands, choices of positional arguments, options."""
    found = list(subparsers(parser))
    for action in parser._actions:
        if not found and not action.option_strings and action.choices:
            found += map(str, action.choices)
    return found + [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def _fish(parts: list[tuple[str, argparse.ArgumentParser]]) -> str:
    lines = ["complete -c retrograd -e"]
    for place, parser in parts:
        path = place.split()[1:]
        inner = list(subparsers(parser))
        conditions = [f"__fish_seen_subcommand_from {name}" for name in path]
        if inner:
            conditions.append(f"not __fish_seen_subcommand_from {' '.join(inner)}")
        prefix = "complete -c retrograd" + (f" -n {shlex.quote('; and '.join(conditions))}" if conditions else "")
        for action in parser._actions:
            text = f" -d {shlex.quote((action.help or '').split(';')[0])}" if action.help else ""
            given = f" -xa {shlex.quote(' '.join(map(str, action.choices)))}" if action.choices else ""
            if isinstance(action, argparse._SubParsersAction):
                for one in action._choices_actions:
                    lines.append(f"{prefix} -fa {one.dest} -d {shlex.quote(one.help or '')}")
            elif action.option_strings:
                names = "".join(f" -l {x[2:]}" if x.startswith("--") else f" -s {x[1:]}" for x in action.option_strings)
                lines.append(f"{prefix}{names}{given or ('' if action.nargs == 0 else ' -r')}{text}")
            elif given:
                lines.append(f"{prefix}{given}")
    return "\n".join(lines) + "\n"

"""Search a program's source code: whether it steps an optimizer, where it permutes data, and which names it uses."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Collection, Sequence
from types import CodeType
from typing import NamedTuple

from ....core.source_location import Site
from ....nn.base.module import Module
from ..kinds import HasPlace, Place
from ..run import Optimized, Run
from ..step_recorder import Opened, Step

_NAME = r"[A-Za-z_]\w*"
_ASSIGNED = re.compile(r"\s*((?:[\w.]+\s*,\s*)*[\w.]+)\s*(?::[^=]+)?=(?!=)\s*(.*)")
_HARMLESS = re.compile(r"\.(zero_grad|state_dict|load_state_dict|param_groups|add_param_group|state|defaults)\b")
_ORDER = re.compile(r"\b(randperm|permutation|permuted)\s*\(")
_SHUFFLE = re.compile(rf"\bshuffle\(\s*({_NAME}(?:\.{_NAME})*)")
_SORTS = re.compile(r"\b(sorted|sort|argsort)\s*\(")
_PAIRS = re.compile(
    r"(?i)^(pairs?|data|dataset|samples?|examples?|rows|records|files?|items|lines|batches|keys|names)$"
)
_LABELS = re.compile(r"(?i)(^|_)(y|ys|yb|t|lab\w*|targ\w*|cls|class\w*|answers?|y_?train)(_|$)")

_CONSTANT = re.compile(r"\s*[\w.\[\]]+\.(data|weight)\s*=[^=].*\b(zeros|zeros_like|ones|ones_like|full|full_like)\(")
_NAME_TEST = re.compile(r"""["']([A-Za-z]+)["']\s+in\s+\w+""")
_LINES_ABOVE = 4  # the number of lines above an assignment that are searched for a condition on names


def code_lines(file: str) -> list[str]:
    """Return the lines of a file without comments (whole lines, or after a space)."""
    return [re.sub(r"(^|\s)#.*", "", x.rstrip("\n")) for x in linecache.getlines(file)]


def name_of(run: Run, x: Optimized) -> str:
    """Return the name of the variable or attribute to which the program assigns an optimizer; "" if not known."""
    match = _ASSIGNED.match(linecache.getline(x.created.file, x.created.line)) if x.created is not None else None
    if match is None or x.created is None:
        return ""
    names = [one.strip().rpartition(".")[2] for one in match[1].split(",")]
    site = x.created
    same = [
        y
        for y in run.optimizers
        if y.created is not None and (y.created.file, y.created.line) == (site.file, site.line)
    ]
    return names[same.index(x)] if len(names) == len(same) else ""


def expression_of(step: Step, module: Module) -> str:
    """Return an expression for a module: the variable of its model, followed by its path; "" if not known."""
    for root, variable in step.models:
        path = next((path for path, part in root.named_modules() if part is module), None)
        if variable and path is not None:
            return re.sub(r"\.(\d+)", r"[\1]", f"{variable}.{path}".removesuffix("."))
    return ""


def parameters_of(step: Step, wanted: Collection[int]) -> str:
    """Return an expression for the parameters with these ids, with ``module.parameters()`` for complete modules."""
    parts: list[str] = []

    def add(module: Module, name: str) -> None:
        own = [id(p) for p in module.parameters() if p._requires]
        if own and all(x in wanted for x in own):
            parts.append(f"{name}.parameters()")
        elif any(x in wanted for x in own):
            parts.extend(f"{name}.{x}" for x, p in module._parameters.items() if id(p) in wanted)
            for x, child in module._modules.items():
                if child is not None:
                    add(child, f"{name}[{x}]" if x.isdigit() else f"{name}.{x}")

    for root, variable in step.models:
        if variable:
            add(root, variable)
    whole = [x.endswith("()") for x in parts]
    if len(parts) == 1:
        return parts[0] if whole[0] else f"[{parts[0]}]"
    return f"[{', '.join(f'*{x}' if all_ else x for x, all_ in zip(parts, whole, strict=True))}]" if parts else ""


def assigned_data(near: Site) -> Place | None:
    """Return the line nearest to ``near``, in the same file, that assigns to ``.data``."""
    lines = linecache.getlines(near.file)
    found = [n for n, line in enumerate(lines, start=1) if re.match(r"\s*[\w.\[\]]+\.data\s*=[^=]", line)]
    return Place(near.file, min(found, key=lambda n: abs(n - near.line))) if found else None


def reshaping_line(near: Site) -> Place | None:
    """Return the line nearest to ``near``, in the same file, that calls ``reshape`` or ``view``."""
    found = [n for n, line in enumerate(code_lines(near.file), start=1) if re.search(r"[.\s](reshape|view)\(", line)]
    return Place(near.file, min(found, key=lambda n: abs(n - near.line))) if found else None


def is_never_stepped(run: Run, x: Optimized) -> bool:
    """Return whether the file that creates an optimizer neither steps the optimizer nor passes it to other code."""
    name = name_of(run, x)
    if not name or x.created is None:
        return False
    word = re.compile(rf"\b{name}\b")
    for number, line in enumerate(code_lines(x.created.file), start=1):
        rest = line if number != x.created.line else line.partition("=")[2]
        if any(not _HARMLESS.match(rest[match.end() :]) for match in word.finditer(rest)):
            return False
    return True


class Permuted(NamedTuple):
    """A use of a permutation: the line, the name of the permutation (or a unique number), and the permuted array."""

    line: int
    order: str
    of: str


def permuted_apart(file: str) -> Place | None:
    """Return the line that permutes only the inputs or only the labels; the one of the labels if names show which."""
    uses = _uses(code_lines(file))
    counts = {order: sum(x.order == order for x in uses) for _, order, _ in uses}
    alone = [x for x in uses if counts[x.order] == 1]
    if not alone:
        return None
    labels = [x for x in alone if _LABELS.search(x.of.rpartition(".")[2])]
    chosen = (labels or alone)[-1]
    return Place(file, _calling(file, chosen) or chosen.line)


def _calling(file: str, use: Permuted) -> int | None:
    """Return the line of the last call of the function with this use, if the function permutes one of its arguments.

    Return None unless there are several calls.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    for one in ast.walk(tree):
        if not isinstance(one, ast.FunctionDef) or not one.lineno <= use.line <= (one.end_lineno or 0):
            continue
        if use.of not in [x.arg for x in one.args.args]:
            continue
        calls = [
            x.lineno
            for x in ast.walk(tree)
            if isinstance(x, ast.Call) and getattr(x.func, "id", getattr(x.func, "attr", "")) == one.name
        ]
        return max(calls) if len(calls) > 1 else None
    return None


def _uses(lines: Sequence[str]) -> list[Permuted]:
    """Return the uses of permutations in a program."""
    orders: set[str] = set()
    for line in lines:
        match = _ASSIGNED.match(line)
        if match is None:
            shuffled = _SHUFFLE.search(line)
            if shuffled is not None and any(f"[{shuffled[1]}" in other for other in lines):
                orders.add(shuffled[1])
            continue
        name, value = match[1], match[2]
        several = [one.strip() for one in name.split(",")]
        if len(several) > 1 and len(_ORDER.findall(value)) == len(several) and "[" not in value:
            orders.update(several)
        begins = _ORDER.search(value)
        if begins is not None and "[" not in value[: begins.start()] and "," not in name:
            orders.add(name)
        elif any(re.match(rf"{re.escape(one)}\s*\[", value) for one in orders):
            orders.add(name)  # a part of a permutation
    found: list[Permuted] = []
    for number, line in enumerate(lines, start=1):
        for match in re.finditer(r"([\w.]+)\[\s*([\w.]+)\s*[\]\[:]", line):
            if match[2] in orders and match[1] not in orders:
                found.append(Permuted(number, match[2], match[1]))
        for match in re.finditer(rf"([\w.]+)\[[\w.]*?({_ORDER.pattern})", line):
            found.append(Permuted(number, f"{number}:{match.start()}", match[1]))
        for match in _SHUFFLE.finditer(line):
            if match[1] not in orders and not _PAIRS.match(match[1].rpartition(".")[2]):
                found.append(Permuted(number, f"{number}:{match.start()}", match[1]))
    return found


def inside_word(near: HasPlace, path: str) -> tuple[str, str] | None:
    """Return the text of a condition ``"text" in name`` above a line, and the word of the path that contains the text.

    Return None unless the text occurs only inside of words, and not at the beginning of one.
    """
    for number in range(near.line, max(0, near.line - _LINES_ABOVE), -1):
        match = _NAME_TEST.search(linecache.getline(near.file, number))
        if match is not None:
            words = [x for x in re.split(r"[._]|(?<=[a-z])(?=[A-Z])|\d+", path) if match[1] in x]
            return None if not words or any(x.startswith(match[1]) for x in words) else (match[1], words[0])
    return None


def sorting_line(file: str) -> Place | None:
    """Return the line of a ``collate_fn`` that sorts the examples of a batch."""
    lines = code_lines(file)
    names = set(re.findall(rf"\bcollate_fn\s*=\s*({_NAME})", "\n".join(lines)))
    for name in names:
        start = next((n for n, x in enumerate(lines) if re.match(rf"\s*def {name}\(", x)), None)
        if start is None:
            continue
        inside = lines[start][: len(lines[start]) - len(lines[start].lstrip())] + " "
        for number, line in enumerate(lines[start + 1 :], start=start + 2):
            if line.strip() and not line.startswith(inside):
                break
            if _SORTS.search(line):
                return Place(file, number)
    return None


def of_zipped_loaders(run: Run) -> HasPlace | None:
    """Return the line that creates the last of several shuffling loaders that one ``zip`` reads in parallel."""
    loaders = [x for x in run.loaders if x.shuffled]
    names: list[str] = []
    for x in loaders:
        match = _ASSIGNED.match(linecache.getline(x.created.file, x.created.line))
        names.append("" if match is None else match[1].rpartition(".")[2])
    for line in code_lines(loaders[0].created.file) if len(loaders) > 1 else ():
        inside = line.partition("zip(")[2]
        read = [x for x, name in zip(loaders, names, strict=True) if name and re.search(rf"\b{name}\b", inside)]
        if len(read) > 1:
            return read[-1].created
    return None


def returning_line(code: CodeType) -> Place | None:
    """Return the line of the last return statement of a function."""
    lines = linecache.getlines(code.co_filename)
    numbers = sorted({line for *_, line in code.co_lines() if line is not None and line <= len(lines)})
    found = [number for number in numbers if lines[number - 1].lstrip().startswith("return")]
    return Place(code.co_filename, found[-1]) if found else None


def class_lines(entry: Opened) -> range:
    """Return the lines of the class of a module."""
    lines = linecache.getlines(type(entry.module).forward.__code__.co_filename)
    pattern = re.compile(rf"(\s*)class {type(entry.module).__name__}\b")
    for start, match in enumerate(map(pattern.match, lines), start=1):
        if match is not None:
            inside = f"{match[1]} "
            after = (n for n in range(start, len(lines)) if lines[n].strip() and not lines[n].startswith(inside))
            return range(start, next(after, len(lines)) + 1)
    return range(0)


def text_of_class(entry: Opened) -> str:
    """Return the text of the class of a module."""
    lines = linecache.getlines(type(entry.module).forward.__code__.co_filename)
    return "".join(lines[number - 1] for number in class_lines(entry))


def attribute_line(entry: Opened, name: str) -> HasPlace:
    """Return the line on which a module's attribute is assigned, or else the line that calls the module."""
    path = type(entry.module).forward.__code__.co_filename
    inside = False
    for number, line in enumerate(linecache.getlines(path), start=1):
        inside = inside or re.match(rf"\s*class {type(entry.module).__name__}\b", line) is not None
        if inside and re.match(rf"\s*(?:[\w.]+\s*,\s*)*self\.{name}\s*(?:[:,][^=]*)?=", line):
            return Place(path, number)
    return entry.site


def assigned_line(near: Site, name: str) -> HasPlace:
    """Return the first line of the file of ``near`` that assigns the variable ``name``, or else ``near``."""
    if name.isidentifier():
        for number, line in enumerate(linecache.getlines(near.file), start=1):
            if re.match(rf"\s*{name}\s*(:.*)?=[^=]", line):
                return Place(near.file, number)
    return near


def replaced_data(run: Run, near: Site) -> HasPlace | None:
    """Return the line that assigns constants to weights, in the file of ``near`` or of the last backward pass."""
    files = dict.fromkeys([near.file, *([run.backward_site.file] if run.backward_site is not None else [])])
    lines = ((file, n, x) for file in files for n, x in enumerate(linecache.getlines(file), start=1))
    return next((Place(file, n) for file, n, x in lines if _CONSTANT.match(x)), None)

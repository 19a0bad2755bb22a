"""Convert formulas in docstrings to Sphinx's math; names and programs remain code.

`notation` parses the formulas' plain notation. `tools.pages.site`, `reference` and docs/conf.py call `typeset` and
`table`.
"""

from __future__ import annotations

import re

from .notation import AROUND, FUNCTIONS, LARGE, tex

LITERAL = re.compile(r"(?<![\w`])``([^`]+)``(?!\w)")
NAME = re.compile(r"\.?[A-Za-z_]\w+(?:[./][A-Za-z_]\w*)*(?:\(\))?|[A-Za-z]\w*(?:\.\w+)+(?:\(\))?|<\w+>\w*")
VARIABLE = re.compile(r"[A-Za-z](?:\d|_(?:\d|[a-z]{1,2}))|xhat|[a-z]+_[ijk]{1,2}|inf|pi")
ALONE = re.compile(r"[-+*/%<>=|&~^]+|\*\*\w+")
PROGRAM = re.compile(
    r"""["→#]|^(?:if|with|lambda|import)\s|^,|\b[A-Za-z]\w+=[\w(\[-]   # texts, statements, keywords
    | ^\w*:\w | \w\.py\b | ^(?:retrograd|mpiexec|python|make|pip)\s | __""",
    re.VERBOSE,
)
CALL = re.compile(r"(?:\w+\.)*(\w+)\(.*\)|\w+(?:\.\w+)*\[-?\d\]")
TUPLE = re.compile(r"(?<![\w`])\((?:(?:[*\w]|\.\.\.)[^()`:;=]*,(?:[^()`:;=]|\([^()]*\))*|\.\.\.|\*)\)")
PARAGRAPH = re.compile(r"(\n *\n|\n(?=[A-Z]\w+:))")
LINES = re.compile(r"^( {4,})(``[^`]+``(?:, ``[^`]+``)*)$", re.MULTILINE)  # lines that consist of formulas
CELL = re.compile(r"(?<!\\)\|")


def typeset(docstring: str, says: bool = False) -> str:
    """Return a docstring with its formulas in Sphinx's math role.

    ``says``: the first paragraph is a definition, so a call in it is a formula.

    Raises:
        Unreadable: a formula cannot be parsed.
    """
    parts = PARAGRAPH.split(docstring)
    for place in range(0, len(parts), 2):
        text = parts[place]
        if not text.lstrip().startswith(">>>"):
            text = LINES.sub(r"\g<1>| \g<2>", text)
            said = says and (place == 0 or text.startswith("Derivative:"))
            parts[place] = paragraph(shaped(text) if text.startswith(("Shape:", "Shapes:")) else text, said)
    return "".join(parts)


def paragraph(text: str, said: bool = False) -> str:
    return LITERAL.sub(lambda literal: role(" ".join(literal[1].split()), said) or literal[0], text)


def shaped(text: str) -> str:
    """Return a paragraph with its shapes as literals."""
    parts = LITERAL.split(text)
    parts[::2] = [TUPLE.sub(r"``\g<0>``", part) for part in parts[::2]]
    parts[1::2] = [f"``{part}``" for part in parts[1::2]]
    return "".join(parts)


def table(page: str) -> str:
    """Return the operator table's page with the formulas of the second and third column as math."""
    return "\n".join(row(line) if line.startswith("| `") else line for line in page.split("\n"))


def row(line: str) -> str:
    """Return a row with formulas set as math, and a link to the operator's page."""
    cells = CELL.split(line)
    name = cells[1].strip(" `")
    cells[1] = f" [`{name}`](reference/operators/{name.replace('.', '_')}.rst) "
    for column in (2, 3):
        cells[column] = re.sub("`([^`]+)`", lambda literal: in_cell(literal[1]), cells[column])
    return "|".join(cells)


def in_cell(literal: str) -> str:
    formula = literal.replace("\\|", "|")
    return f"`{literal}`" if code(formula, True) else f"{{math}}`{tex(formula)}`"


def role(literal: str, said: bool) -> str | None:
    return None if code(literal, said) else f":math:`{tex(literal)}`"


def code(literal: str, said: bool) -> bool:
    """Whether a literal is a name or code, not a formula."""
    if VARIABLE.fullmatch(literal):
        return False
    if NAME.fullmatch(literal) or ALONE.fullmatch(literal) or PROGRAM.search(literal):
        return True
    call = None if said else CALL.fullmatch(literal)
    return call is not None and balanced(literal) and not mathematical(call[1] or "")


def mathematical(function: str) -> bool:
    """Whether a call of the function is always a formula, as in ``f(x)`` and ``log(x)``."""
    return len(function) == 1 or function in {*FUNCTIONS, *AROUND, *LARGE}


def balanced(call: str) -> bool:
    """Whether the first opening bracket matches the last closing one."""
    depth = 0
    for place, sign in enumerate(call):
        depth += (sign in "([") - (sign in ")]")
        if depth == 0 and sign in ")]":
            return place == len(call) - 1
    return False

"""Translate formulas of docstrings, ``g / sqrt(1 - x_i^2)``, to Python expressions, and their syntax trees to TeX.

The notation is Python's with ``^`` for powers, products by juxtaposition, ``sum_k``, ``|x|``, ``||x||_p``, ``<x, y>``,
indices ``x_i`` and ``x_(i+1)``, ``k!``, ``f'(x)``, ``A^T``, ``[0, 1)`` and ``...``. `Reader` translates factors and
brackets: names and numbers become ``v0``, ``v1``, and brackets subscripts, ``v0 / v1.call[v2 - (v3.index[v4] ** v5)]``.
Python parses the operators. TeX may break a line at each ``\\allowbreak``.
"""

from __future__ import annotations

import ast
import re
from functools import reduce
from typing import NamedTuple, NoReturn


class Unreadable(Exception):
    """A text is not a formula of this notation."""


class Token(NamedTuple):
    kind: str
    text: str
    apart: bool  # a space precedes it


TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:e-\d+)?) | (?P<sign>not\ in\b)
    | (?P<name>∂?[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*(?:\.[A-Za-z]\w*)* | \.\.\.?)
    | (?P<other>\|\||[<>=!]=|->|<-|[-+]=|\*\*|//|[-+*/@%^!'()\[\]{}|<>=,:~_±×≈]))""",
    re.VERBOSE,
)
WRITTEN = {"Σ": "sum", "√": "sqrt", "σ": "sigma", "μ": "mu", "ε": "eps", "δ": "delta", "θ": "theta", "∞": "inf"}
WRITTEN |= {"←": "<-", "⟨": "<", "⟩": ">", "‖": "||", "⌊": "floor(", "⌋": ")", "x̂": "xhat"}
RAISED = {"²": "2", "ᵀ": "T", "ˣ": "x", "⁻": "-"}

# Operators as Python's with the same precedence, and as TeX.
PYTHON = {sign: sign for sign in ("+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", ",", ":")}
PYTHON |= {word: f" {word} " for word in ("if", "else", "and", "or", "not", "in", "not in")}
PYTHON |= {"=": "==", "@": "*", "×": "@", "xor": "^", "≈": " is ", "~": " is not ", "±": "~"}
PYTHON |= {"->": ">>", "<-": "<<", "+=": "&", "-=": "|"}
PREFIXES = ("-", "+", "±", "not", ":")
TEX: dict[type[ast.AST], str] = {ast.Eq: "=", ast.NotEq: r"\ne", ast.Lt: "<", ast.LtE: r"\le", ast.Gt: ">"}
TEX |= {ast.GtE: r"\ge", ast.In: r"\in", ast.NotIn: r"\notin", ast.Is: r"\approx", ast.IsNot: r"\sim"}
TEX |= {ast.And: r"\land", ast.Or: r"\lor", ast.Not: r"\lnot ", ast.Add: "+", ast.Sub: "-", ast.BitXor: r"\oplus"}
TEX |= {ast.USub: "-", ast.UAdd: "+", ast.Invert: r"\pm ", ast.Mult: "", ast.MatMult: r" \times ", ast.Mod: r" \bmod "}
TEX |= {ast.RShift: r"\mapsto", ast.LShift: r"\leftarrow"}
UPDATES = {ast.BitAnd: "+", ast.BitOr: "-"}  # += and -=
ENDS = {"(": ")]", "[": "])", "{": "}", "|": "|", "||": "||", "<": ">"}
BRACKETS = {
    "round": ("()", "(", ")"),
    "square": ("[]", "[", "]"),
    "left_open": ("(]", "(", "]"),
    "right_open": ("[)", "[", ")"),
    "curly": ("{}", r"\{", r"\}"),
    "bars": ("||", r"\lvert ", r"\rvert "),
    "norm": ("||||", r"\lVert ", r"\rVert "),
    "angle": ("<>", r"\langle ", r"\rangle "),
}
KINDS = {pair: name for name, (pair, _, _) in BRACKETS.items()}

GREEK = re.findall(r"\w+", "alpha beta gamma delta eta theta kappa lambda mu nu xi rho sigma tau phi psi omega pi Phi")
SYMBOLS = {**{name: rf"\{name}" for name in GREEK}, "lambd": r"\lambda", "inf": r"\infty", "eps": r"\varepsilon"}
SYMBOLS |= {f"{letter}hat": rf"\hat{{{letter}}}" for letter in "mvx"}
SYMBOLS |= {"Vh": r"V^{\mathsf{H}}", "nan": r"\mathrm{NaN}", "..": r"\ldots ", "...": r"\ldots ", "*": "*"}
KNOWN = re.findall(r"\w+", "log sin cos tan sinh cosh tanh arcsin arccos arctan exp max min det arg")  # to TeX
NAMED = re.findall(r"\w+", "Re Im sigmoid softmax sign sgn mean diag tr relu")
FUNCTIONS = {name: rf"\{name}" for name in KNOWN} | {name: rf"\operatorname{{{name}}}" for name in NAMED}
FUNCTIONS |= {"gamma": r"\Gamma", "log2": r"\log_{2}", "log10": r"\log_{10}"}
FUNCTIONS |= {"argmax": r"\arg\max", "argmin": r"\arg\min"}
AROUND = {
    "sqrt": r"\sqrt{%s}",
    "abs": r"\left|%s\right|",
    "conj": r"\overline{%s}",
    "floor": r"\left\lfloor %s\right\rfloor",
    "ceil": r"\left\lceil %s\right\rceil",
}
UNBRACKETED = {"log", "exp", "Re", "Im", "sigmoid", "softmax", "tr", "det"}  # may lack brackets
LARGE = {"sum": r"\sum", "prod": r"\prod", "integral": r"\int"}
TRANSPOSED = {"T": r"\top", "H": r"\mathsf{H}"}
WORDS = {"all", "any", "as", "for", "is", "of", "over", "the", "where", "with"}  # words of sentences
NO_INDEX = {"in", "out", "min", "max", "val", "lr", "fft", "dim", "to"}
HIGH = re.compile(r"\\(d?frac|sum|prod|int|begin)")
LONG = 30  # length in letters above which a fraction is written with a slash


def tex(formula: str) -> str:
    """Convert a formula to TeX.

    Raises:
        Unreadable: the formula cannot be parsed.
    """
    reader = Reader(formula)
    source = reader.content()
    if reader.next.kind != "end":
        reader.fails("is not read to its end")
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except SyntaxError as error:
        raise Unreadable(f"{formula!r} is not an expression") from error
    text = re.sub(" +", " ", Writer(formula, reader.operands).listed(tree)).strip()
    return text if width(text) > 18 else closed(text)


def tokens(formula: str) -> list[Token]:
    """Return the signs, names and numbers of a formula in ASCII: ``eˣ`` is ``e^x``, and ``√n`` is ``sqrt(n)``."""
    formula = re.sub(r"√(\w+)", r"sqrt(\1)", formula)
    formula = re.sub(f"[{''.join(RAISED)}]+", lambda above: "^" + "".join(RAISED[sign] for sign in above[0]), formula)
    formula = re.sub("|".join(WRITTEN), lambda sign: WRITTEN[sign[0]], formula).rstrip()
    read, place = [], 0
    while place < len(formula):
        if (found := TOKEN.match(formula, place)) is None:
            raise Unreadable(f"{formula!r}: {formula[place:].lstrip()[0]!r} is no sign of the notation")
        kind = str(found.lastgroup)
        read.append(Token(kind, found[kind], found.start(kind) > place))
        place = found.end()
    return [*read, Token("end", "", False)]


class Reader:
    """Translate a formula to Python."""

    def __init__(self, formula: str) -> None:
        self.formula = formula
        self.tokens = tokens(formula)
        self.place = 0
        self.operands: list[str] = []  # names and numbers: v2 stands for the third

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1].text

    def fails(self, message: str) -> NoReturn:
        raise Unreadable(f"{self.formula!r} at {self.next.text!r}: {message}")

    def content(self, ends: str = ")]}") -> str:
        """Translate up to a closing bracket."""
        source, ended = "", False  # whether an operand ends here
        while self.next.kind != "end" and not (self.next.text in ends and (ended or self.next.text in ")]}")):
            text = self.next.text
            if text in PYTHON and (ended or text in PREFIXES or source.endswith(":")):
                source += PYTHON[self.take()]
                ended = False
            elif text == "*" and not ended and re.match(r"\w", self.tokens[self.place + 1].text):
                source += self.take()
            else:
                source += "*" * ended + self.factor()
                ended = True
        return source

    def factor(self) -> str:
        """Translate an operand with its indices, arguments, powers, primes and factorials."""
        named = self.next.kind == "name"
        source = self.operand()
        while True:
            _, text, apart = self.next
            if text in ("^", "**"):
                self.take()
                source = f"({source} ** {self.exponent()})"
            elif text in ("'", "!"):
                source += {"'": ".prime", "!": ".factorial"}[self.take()]
            elif apart or not (text in ("_", "[") or text == "(" and named):
                return source
            elif text == "_":
                self.take()
                source += f".index[{self.bracket()[1] if self.next.text in ('(', '{') else self.operand()}]"
            else:
                source += f".{'call' if text == '(' else 'at'}[{self.bracket(half_open=False)[1]}]"

    def exponent(self) -> str:
        if self.next.text in ("-", "+"):
            return self.take() + self.exponent()
        return self.factor() if self.next.kind == "name" and self.next.text not in TRANSPOSED else self.operand()

    def operand(self) -> str:
        kind, text, _ = self.next
        if text in ENDS:
            name, content = self.bracket()
            return f"{name}[{content}]"
        if kind in ("other", "end") and text != "*":
            self.fails("wants a number, a name or a bracket")
        if text in WORDS or text in PYTHON and text not in ("in", "*"):
            self.fails("is a word of a sentence")
        behind = self.tokens[self.place + 1]
        if kind == "number" and behind.kind == "name" and not behind.apart and behind.text[0] != ".":
            self.fails("wants a space behind a number")
        self.operands.append(self.take())
        return f"v{len(self.operands) - 1}"

    def bracket(self, half_open: bool = True) -> tuple[str, str]:
        """Translate a bracket; return the name of its kind, and its content."""
        left = self.take()
        ends = ENDS[left] if half_open else ENDS[left][:1]
        content = self.content(ends)
        if left + self.next.text not in KINDS or self.next.text not in ends:
            self.fails(f"wants {ENDS[left][0]}")
        return KINDS[left + self.take()], content or "()"


def closed(text: str) -> str:
    """TeX in which lines must not break."""
    return text.replace(r"\allowbreak ", "")


def width(text: str) -> int:
    """The approximate number of letters that TeX prints."""
    text = re.sub(r"\\(?:mathrm|operatorname|mathsf|left|right|allowbreak|frac|,)", "", text)
    return len(re.sub(r"[{}^_\\ ]", "", re.sub(r"\\[a-zA-Z]+", "x", text)))


def within(left: str, content: str, right: str) -> str:
    """TeX in brackets of its height."""
    if HIGH.search(content):
        return rf"\left{left}{closed(content)}\right{right}"
    return f"{left}{content}{right}"


def beside(left: str, right: str, sign: str = "") -> str:
    """Join two factors: with a space for words, and a dot between numbers."""
    words = re.search(r"\\mathrm\{\w[^}]+\}[^ ]*$", left) or right.startswith(r"\mathrm")
    words = words and not re.search(r"\\(?:sum|prod|int)(?:_\{[^}]*\}\S*)?$", left)
    return left + (sign or (r" \cdot " if re.match(r"\d", right) else r"\, " if words else " ")) + right


def environment(name: str, rows: list[str]) -> str:
    return rf"\begin{{{name}}}" + closed(r" \\ ".join(rows)) + rf"\end{{{name}}}"


class Writer:
    """Write an expression as TeX."""

    def __init__(self, formula: str, operands: list[str]) -> None:
        self.formula, self.operands = formula, operands
        self.raised = 0  # above 0 in exponents and indices, which have no fractions

    def fails(self, message: str) -> NoReturn:
        raise Unreadable(f"{self.formula!r} {message}")

    def name(self, node: ast.AST) -> str:
        """Return the name or number that an identifier stands for."""
        return self.operands[int(node.id[1:])] if isinstance(node, ast.Name) else ""

    def listed(self, node: ast.expr) -> str:
        """Write what is in brackets."""
        if not isinstance(node, ast.Tuple):
            return self.tex(node)
        return r", \allowbreak ".join(map(self.tex, node.elts)) + "{,}" * (len(node.elts) == 1)

    def tex(self, node: ast.expr, called: bool = False) -> str:
        match node:
            case ast.Name():
                return symbol(self.name(node), called)
            case ast.Starred(value):
                return "*" + self.tex(value)
            case ast.Slice(lower, upper, step):
                text = "{:}".join(self.tex(end) if end else "" for end in (lower, upper))
                return text + ("{:}" + self.tex(step) if step else "")
            case ast.Attribute(value, "prime"):
                text = self.tex(value, called)
                return (f"{{{text}}}" if "^" in text else text) + "'"
            case ast.Attribute(value):
                return self.tex(value) + "!"
            case ast.Subscript(ast.Attribute(value, kind), content):
                return self.attached(value, kind, content)
            case ast.Subscript(ast.Name("square"), ast.Tuple([ast.Subscript(ast.Name("square")), *_] as rows)):
                return environment("bmatrix", [self.row(row) for row in rows])
            case ast.Subscript(ast.Name(kind), content):
                if kind.endswith("_open") and not isinstance(content, ast.Tuple):
                    self.fails("wants two ends of an interval")
                _, left, right = BRACKETS[kind]
                return within(left, self.listed(content), right)
            case ast.BinOp(left, ast.Pow(), right):
                return self.power(left, right if called else unbracketed(right))
            case ast.BinOp():
                return self.binary(node)
            case ast.UnaryOp(sign, value):
                return TEX[type(sign)] + self.tex(value)
            case ast.BoolOp(sign, values):
                return rf" {TEX[type(sign)]} \allowbreak ".join(map(self.tex, values))
            case ast.Compare(left, signs, values):
                pairs = zip(signs, values, strict=True)
                rest = (rf" {TEX[type(sign)]} \allowbreak {self.tex(value)}" for sign, value in pairs)
                return self.tex(left) + "".join(rest)
            case ast.IfExp():
                return self.cases(node)
        self.fails("is not a formula")

    def row(self, node: ast.expr) -> str:
        """Write a row of a matrix."""
        match node:
            case ast.Subscript(ast.Name("square"), ast.Tuple(entries)):
                return " & ".join(map(self.tex, entries))
        self.fails("wants rows of a matrix")

    def attached(self, value: ast.expr, kind: str, content: ast.expr) -> str:
        """Write an operand with an index, with arguments, or with the place of an element."""
        if kind == "index":
            index = subscript(self.name(content)) if isinstance(content, ast.Name) else self.small(content)
            return f"{self.tex(value, called=self.name(value) in FUNCTIONS)}_{{{index}}}"
        inner = "" if isinstance(content, ast.Tuple) and not content.elts else self.listed(content)
        if kind == "at":
            return self.tex(value) + within("[", inner, "]")
        if self.name(value) in AROUND:
            return AROUND[self.name(value)] % closed(inner)
        return self.tex(value, called=True) + within("(", inner, ")")

    def small(self, node: ast.expr) -> str:
        """Write an index or an exponent."""
        self.raised += 1
        text = closed(self.listed(node))
        self.raised -= 1
        return text

    def power(self, base: ast.expr, exponent: ast.expr) -> str:
        below = self.tex(base)
        if "^" in below and not below.endswith(")"):
            below = f"{{{below}}}"
        sign = ""
        while isinstance(exponent, ast.UnaryOp):
            sign, exponent = sign + TEX[type(exponent.op)], unbracketed(exponent.operand)
        return f"{below}^{{{sign}{TRANSPOSED.get(self.name(exponent)) or self.small(exponent)}}}"

    def binary(self, node: ast.BinOp) -> str:
        left, sign, right = node.left, type(node.op), node.right
        if sign is ast.Div:
            return self.divided(left, right)
        if sign is ast.FloorDiv:
            return rf"\left\lfloor {closed(self.divided(left, right))}\right\rfloor"
        if sign in (ast.Mult, ast.MatMult, ast.Mod):
            return beside(self.tex(left), self.tex(right), TEX[sign])
        before, behind = self.tex(left), self.tex(right)
        if sign in UPDATES:
            if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Add | ast.Sub) and sign is ast.BitOr:
                behind = within("(", behind, ")")
            return rf"{before} \leftarrow \allowbreak {before} {UPDATES[sign]} \allowbreak {behind}"
        text = rf"{before} {TEX[sign]} \allowbreak {behind}"
        return re.sub(r"\\ldots (?=[+-])", r"\\cdots ", re.sub(r"([+-] \\allowbreak )\\ldots", r"\1\\cdots", text))

    def divided(self, above: ast.expr, below: ast.expr) -> str:
        """Write a fraction; its sign, and sums with what is before them, stand before it."""
        factors = [above]
        while isinstance(factors[0], ast.BinOp) and isinstance(factors[0].op, ast.Mult):
            factors[:1] = [factors[0].left, factors[0].right]
        start = max([place + 1 for place, factor in enumerate(factors) if self.sums(factor)], default=0)
        if self.sums(below) or start == len(factors):
            self.fails("wants brackets around a sum in a fraction")
        before = "".join(self.tex(factor) + " " for factor in factors[:start])
        first = factors[start]
        if isinstance(first, ast.UnaryOp):
            before, factors[start] = before + TEX[type(first.op)], first.operand
        if self.raised:
            return f"{before}{reduce(beside, map(self.tex, factors[start:]))} / {self.tex(below)}"
        ends = factors[start:] if len(factors) > start + 1 else [unbracketed(factors[start])]
        top, bottom = reduce(beside, map(self.tex, ends)), self.tex(unbracketed(below))
        if max(width(top), width(bottom)) < (2 * LONG if HIGH.search(top + bottom) else LONG):
            top, bottom = (closed(side).replace(r"\dfrac", r"\frac") for side in (top, bottom))
            return rf"{before}\dfrac{{{top}}}{{{bottom}}}"
        top = reduce(beside, map(self.tex, factors[start:]))
        return rf"{before}{top} / \allowbreak {self.tex(below)}"

    def sums(self, node: ast.expr) -> bool:
        """Whether a factor is the sign of a sum, product or integral."""
        while isinstance(node, ast.BinOp):
            node = node.left
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "index":
            node = node.value.value
        return self.name(node).partition("_")[0] in LARGE

    def cases(self, node: ast.IfExp) -> str:
        """Write cases; the left side of an equation stands before them."""
        before, value = "", node.body
        match value:
            case ast.Compare(left, [ast.Eq()], [value]):
                before = rf"{self.tex(left)} = \allowbreak "
        rows = [rf"{self.tex(value)} & \text{{if }} {self.tex(node.test)}"]
        match node.orelse:
            case ast.IfExp() as others:
                return before + self.cases(others).replace("{cases}", "{cases}" + closed(rows[0]) + r" \\ ", 1)
        return before + environment("cases", [*rows, rf"{self.tex(node.orelse)} & \text{{else}}"])


def unbracketed(node: ast.expr) -> ast.expr:
    """Return the content of round brackets around one value."""
    match node:
        case ast.Subscript(ast.Name("round"), content) if not isinstance(content, ast.Tuple):
            return content
    return node


def symbol(name: str, called: bool = False) -> str:
    """Return a number, a function, or a variable: a letter, possibly with an index, or a word."""
    bare, _, index = name.partition("_")
    if bare in LARGE and (index or not called):
        return LARGE[bare] + (f"_{{{subscript(index)}}}" if index else "")
    if re.match(r"\d", name):
        return re.sub(r"e-(\d+)", r" \\cdot 10^{-\1}", name).removeprefix(r"1 \cdot ")
    if bare in FUNCTIONS and (called or index or bare in UNBRACKETED) and re.fullmatch("[a-zA-Z]?", index):
        return FUNCTIONS[bare] + (f"_{{{index}}}" if index else "")
    if called and len(bare) > 1 and bare not in GREEK and not re.fullmatch(r"[A-Z]\d|df", bare):
        return rf"\operatorname{{{name}}}" if re.fullmatch(r"\w[^_.]*", name) else roman(name)
    if name.startswith("∂"):
        return rf"\partial {symbol(name[1:])}"
    if name in SYMBOLS:
        return SYMBOLS[name]
    if found := re.fullmatch(r"([a-zA-Z]|eps|" + "|".join(GREEK) + r")(\d+)", bare):  # x1, beta2
        if index and len(index) > 1:
            return roman(name)
        below = f"{found[2]},{index}" if index else found[2]
        return f"{SYMBOLS.get(found[1], found[1])}_{{{below}}}"
    if found := re.fullmatch(r"([gk])([A-Zw])|([ESV])([kv])", bare):  # gU, kH, Ek
        letter = f"{found[1] or found[3]}_{{{found[2] or found[4]}}}"
        return letter if not index else roman(name)
    if found := re.fullmatch(r"d([a-zA-Z]|theta)", bare):  # dx
        return rf"\mathrm{{d}}{symbol(found[1])}" + (f"_{{{subscript(index)}}}" if index else "")
    letter = SYMBOLS.get(bare, bare if len(bare) == 1 else "")
    if not index:
        return letter or roman(name)
    if letter:
        return f"{letter}_{{{subscript(index)}}}"
    if re.fullmatch(r"[a-z]{1,3}|\d", index) and index not in NO_INDEX:
        return f"{roman(bare)}_{{{index}}}"
    return roman(name)


def subscript(index: str) -> str:
    """Return an index: letters, a number, or a word."""
    if re.fullmatch(r"\d+|[a-zA-Z]{1,3}", index) and index not in NO_INDEX:
        return index
    return roman(index)


def roman(name: str) -> str:
    name = name.replace("_", r"\_")
    return rf"\mathrm{{{name}}}"

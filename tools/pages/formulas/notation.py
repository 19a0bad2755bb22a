"""Parse the notation of formulas in docstrings, ``g / sqrt(1 - x_i^2)``, and write it as TeX.

It extends Python's with ``^`` or ``**`` for powers, products by juxtaposition, ``sum_k``,
``|x|``, ``||x||_p``, ``<x, y>``, indices ``x_i`` and ``x_(i+1)``, ``k!``, ``f'(x)``, ``A^T``, ``[0, 1)``, ``...``, and
``a if c else b``. TeX may break a line at each ``\\allowbreak``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Unreadable(Exception):
    """A text is not a formula of this notation."""


class Token(NamedTuple):
    kind: str
    text: str
    apart: bool  # a space precedes it


class Part(NamedTuple):
    tex: str
    inner: str | None = None  # the contents of a part in round brackets


TOKEN = re.compile(
    r"""(?P<number>\d+(?:\.\d+)?(?:e-\d+)?)
    | (?P<name>∂?[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*(?:\.[A-Za-z]\w*)*)
    | (?P<sign>\.\.\.?|\|\||[<>=!]=|->|<-|<<|>>|[-+]=|\*\*|//|[-+*/@%^!'()\[\]{}|<>=,:~_±×≈])""",
    re.VERBOSE,
)
WRITTEN = {"Σ": "sum", "√": "sqrt", "σ": "sigma", "μ": "mu", "ε": "eps", "δ": "delta", "θ": "theta", "∞": "inf"}
WRITTEN |= {"←": "<-", "⟨": "<", "⟩": ">", "‖": "||", "⌊": "floor(", "⌋": ")", "x̂": "xhat"}
RAISED = {"²": "2", "ᵀ": "T", "ˣ": "x", "⁻": "-"}
GREEK = re.findall(r"\w+", "alpha beta gamma delta eta theta kappa lambda mu nu xi rho sigma tau phi psi omega pi Phi")
SYMBOLS = {**{name: rf"\{name}" for name in GREEK}, "lambd": r"\lambda", "inf": r"\infty", "eps": r"\varepsilon"}
SYMBOLS |= {f"{letter}hat": rf"\hat{{{letter}}}" for letter in "mvx"}
SYMBOLS |= {"Vh": r"V^{\mathsf{H}}", "nan": r"\mathrm{NaN}"}
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
RELATIONS = {
    "≈": r"\approx",
    "=": "=",
    "==": "=",
    "!=": r"\ne",
    "<": "<",
    "<=": r"\le",
    ">": ">",
    ">=": r"\ge",
    "~": r"\sim",
}
RELATIONS |= {"->": r"\mapsto", "<-": r"\leftarrow", "in": r"\in"} | {"+=": "", "-=": ""}
SIGNS = {"±": r"\pm "}
LOGIC = {"and": r"\land", "or": r"\lor", "xor": r"\oplus"}
TIMES = {"*": "", "@": "", "×": r" \times ", "%": r" \bmod "}
ENDS = {"(": ")", "^": ")", "{": "}", "<": ">"}
WORDS = {"all", "any", "as", "for", "is", "of", "over", "the", "where", "with"}  # words of sentences
BETWEEN = {"if", "else", "not", *LOGIC}
NO_INDEX = {"in", "out", "min", "max", "val", "lr", "fft", "dim", "of", "to", "id"}
HIGH = re.compile(r"\\(d?frac|sum|prod|int|begin)")
LONG = 30  # length in letters above which a fraction is written with a slash


def tex(formula: str) -> str:
    """Convert a formula to TeX.

    Raises:
        Unreadable: the formula cannot be parsed; the message has the position.
    """
    return Reader(formula).whole()


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


def beside(left: Part, right: Part, sign: str = "") -> Part:
    """Join two factors: with a space for words, and a dot between numbers."""
    words = re.search(r"\\mathrm\{\w[^}]+\}[^ ]*$", left.tex) or right.tex.startswith(r"\mathrm")
    sign = sign or (r" \cdot " if re.match(r"\d", right.tex) else r"\, " if words else " ")
    return Part(left.tex + sign + right.tex)


def environment(name: str, rows: list[str]) -> str:
    return rf"\begin{{{name}}}" + closed(r" \\ ".join(rows)) + rf"\end{{{name}}}"


def spelt(formula: str) -> str:
    """Return the formula in ASCII: ``eˣ`` is ``e^x``, and ``√n`` is ``sqrt(n)``."""
    formula = re.sub(r"√(\w+)", r"sqrt(\1)", formula)
    raised = re.sub(f"[{''.join(RAISED)}]+", lambda above: "^" + "".join(RAISED[sign] for sign in above[0]), formula)
    return re.sub("|".join(WRITTEN), lambda sign: WRITTEN[sign[0]], raised)


class Reader:
    """A recursive descent parser, from the weakest operator to the strongest; each method returns what it parsed."""

    def __init__(self, formula: str) -> None:
        self.formula = formula = spelt(formula)
        self.tokens: list[Token] = []
        place = 0
        while rest := formula[place:]:
            space = len(rest) - len(rest.lstrip())
            place += space
            if place == len(formula):
                break
            if (found := TOKEN.match(formula, place)) is None:
                raise Unreadable(f"{formula!r}: {formula[place]!r} is no sign of the notation")
            self.tokens.append(Token(str(found.lastgroup), found[0], space > 0))
            place = found.end()
        self.place = 0
        self.open: list[str] = []  # the open brackets at this position
        self.ended = ""  # the token that closed the last bracket
        self.terms = 1  # number of terms of the last sum

    # Tokens

    @property
    def next(self) -> Token:
        return self.tokens[self.place] if self.place < len(self.tokens) else Token("end", "", False)

    def take(self, *texts: str) -> str:
        """Consume and return the next token if it is one of these, else return an empty string."""
        if self.next.text in texts and self.next.kind != "end":
            self.place += 1
            return self.tokens[self.place - 1].text
        return ""

    def wants(self, *texts: str) -> str:
        return self.take(*texts) or self.fails(f"wants {' or '.join(texts)}")

    def fails(self, message: str) -> str:
        raise Unreadable(f"{self.formula!r} at {self.next.text!r}: {message}")

    # From the weakest operator to the strongest

    def whole(self) -> str:
        text = self.listed() or self.fails("is empty")
        if self.next.kind != "end":
            self.fails("is not read to its end")
        text = re.sub(" +", " ", text).strip()
        return text if width(text) > 18 else closed(text)

    def listed(self, *ends: str) -> str:
        """Parse items separated by commas; a list of cases if each item has a condition."""
        items, cases = [], []
        while self.next.kind != "end" and self.next.text not in ends:
            value, condition = self.case()
            if condition and self.take("else"):
                items.append(self.cased([(value, condition), *self.others()]))
            elif condition:
                cases.append((value, condition))
            else:
                items.append(value)
            if not self.take(","):
                break
            if self.next.text in ends and len(items) == 1:
                items[0] += "{,}"  # a tuple with one element
        if items and cases:
            self.fails("has cases with and without a condition")
        return self.cased(cases) if cases else r", \allowbreak ".join(items)

    def others(self) -> list[tuple[str, str]]:
        value, condition = self.case()
        if not condition:
            return [(value, "")]
        self.wants("else")
        return [(value, condition), *self.others()]

    def case(self) -> tuple[str, str]:
        value = self.stepped()
        return value, self.logical() if self.take("if") else ""

    @staticmethod
    def cased(rows: list[tuple[str, str]]) -> str:
        when = [rf"\text{{if }} {condition}" if condition else r"\text{else}" for _, condition in rows]
        return environment("cases", [f"{value} & {said}" for (value, _), said in zip(rows, when, strict=True)])

    def stepped(self) -> str:
        """Parse a slice in an index: ``start : end``."""
        text = "" if self.next.text == ":" else self.logical()
        while "[" in self.open[-1:] and self.take(":"):
            text += "{:}" + ("" if self.next.text in (":", ",", "]") else self.logical())
        return text

    def logical(self) -> str:
        text = self.negated()
        while sign := self.take(*LOGIC):
            text += rf" {LOGIC[sign]} \allowbreak {self.negated()}"
        return text

    def negated(self) -> str:
        return rf"\lnot {self.negated()}" if self.take("not") else self.related()

    def related(self) -> str:
        text = self.added()
        while True:
            if "<" in self.open[-1:] and self.next.text == ">":
                return text
            if sign := self.take(*RELATIONS):
                value = self.added()
                if self.next.text == "if" and sign in ("=", "<-"):  # `if` does not separate the two sides
                    self.take("if")
                    value = self.cased([(value, self.logical()), *(self.others() if self.take("else") else [])])
                if sign in ("+=", "-="):  # an update of a variable
                    value = within("(", value, ")") if sign == "-=" and self.terms > 1 else value
                    text += rf" \leftarrow \allowbreak {text} {sign[0]} \allowbreak {value}"
                else:
                    text += rf" {RELATIONS[sign]} \allowbreak {value}"
            elif self.next.text == "not" and self.take("not") and self.wants("in"):
                text += rf" \notin \allowbreak {self.added()}"
            else:
                return text

    def added(self) -> str:
        text, terms = self.multiplied(), 1
        while sign := self.take("+", "-", "±"):
            text += rf" {SIGNS.get(sign, sign)} \allowbreak {self.multiplied()}"
            terms += 1
        self.terms = terms
        text = re.sub(r"([+-]) (\\allowbreak )?\\ldots", r"\1 \2\\cdots", text)
        return re.sub(r"\\ldots ([+-])", r"\\cdots \1", text)

    def multiplied(self) -> str:
        """Parse a product; a slash divides everything before it by the one factor after it."""
        product = self.factor()
        while True:
            if self.take("/"):
                product = self.divided(product, self.factor(below=True))
            elif self.take("//"):
                whole = closed(self.divided(product, self.factor()).tex)
                product = Part(rf"\left\lfloor {whole}\right\rfloor")
            elif sign := self.take(*TIMES):
                product = beside(product, self.factor(), TIMES[sign])
            elif self.follows():
                product = beside(product, self.factor())
            else:
                return product.tex

    def follows(self) -> bool:
        """Parse further factors by juxtaposition."""
        kind, text, apart = self.next
        if kind == "name":
            return text not in BETWEEN and text not in RELATIONS
        bars = text in ("|", "||") and text not in self.open[-1:]
        return kind == "number" or text in ("(", "...") or bars or text == "[" and apart

    def divided(self, above: Part, below: Part) -> Part:
        if above.inner is None and above.tex.startswith("-"):
            return Part("-" + self.divided(Part(above.tex[1:]), below).tex)
        if "^" in self.open[-1:]:
            return Part(f"{above.tex} / {below.tex}")
        top, bottom = above.inner or above.tex, below.inner or below.tex
        if max(width(top), width(bottom)) < (2 * LONG if HIGH.search(top + bottom) else LONG):
            above, below = (Part(closed(side).replace(r"\dfrac", r"\frac")) for side in (top, bottom))
            return Part(rf"\dfrac{{{above.tex}}}{{{below.tex}}}")
        return Part(rf"{above.tex} / \allowbreak {below.tex}")

    def factor(self, below: bool = False) -> Part:
        """Parse a factor with its sign; below a slash, a sum includes the factors beside it."""
        if sign := self.take("-", "+", "±"):
            return Part(f"{SIGNS.get(sign, sign)}{self.factor().tex}")
        if self.next.kind == "name" and re.fullmatch(r"(sum|prod|integral)(_\w+)?", self.next.text):
            return self.large(below)
        number = self.next.kind == "number"
        part = self.raised()
        if number and self.next.kind == "name" and not self.next.apart:  # 2h
            part = Part(rf"{part.tex} {self.raised().tex}")
        return part

    def large(self, below: bool) -> Part:
        """Parse a sum, product or integral over the following terms."""
        name, _, index = self.next.text.partition("_")
        behind = self.tokens[self.place + 1 : self.place + 2]
        if not index and behind and behind[0].text == "(" and not behind[0].apart:
            return self.raised()  # sum(x), a function call
        self.place += 1
        text = LARGE[name]
        if index or self.take("_"):
            text += f"_{{{subscript(index) if index else self.index()}}}"
        if self.take("^"):
            text += f"^{{{closed(self.exponent())}}}"
        if not below:
            return Part(f"{text} {self.multiplied()}")
        part = Part(text)
        while self.follows():
            part = beside(part, self.raised())
        return part

    def index(self) -> str:
        """Parse a subscript: ``_(i+1)``, ``_{k >= 0}``, or a name or number."""
        bracket = self.take("(", "{")
        if bracket:
            return closed(self.inside("^" if bracket == "(" else bracket, self.listed))
        if self.next.kind not in ("name", "number"):
            self.fails("wants an index")
        self.place += 1
        text = self.tokens[self.place - 1].text
        return subscript(text)

    def inside(self, bracket: str, read: Callable[..., str], half_open: bool = False) -> str:
        """Parse the contents of an opened bracket up to its end."""
        ends = ("]", ")") if bracket == "[" else (")", "]") if half_open else (ENDS.get(bracket, bracket),)
        self.open.append(bracket)
        text = read(*ends) if read == self.listed else read()
        self.open.pop()
        self.ended = self.wants(*ends)
        return text

    def raised(self) -> Part:
        """Parse an atom with its indices, powers, arguments, primes and factorials."""
        named = self.next.kind == "name"
        part = self.atom()
        above = False  # whether it has a superscript
        while True:
            text, apart = self.next.text, self.next.apart
            if text == "_" and not apart and self.take("_"):
                part = Part(f"{part.tex}_{{{self.index()}}}")
                continue
            if text in ("^", "**") and self.take(text):
                base = f"{{{part.tex}}}" if above or "^" in part.tex and not part.tex.endswith(")") else part.tex
                part, above = Part(f"{base}^{{{closed(self.exponent())}}}"), True
            elif text == "'" and self.take("'"):
                part = Part(f"{{{part.tex}}}'" if above else f"{part.tex}'")
            elif text == "!" and self.take("!"):
                part = Part(f"{part.tex}!")
            elif text == "(" and not apart and (named or part.tex.endswith("]")) and self.take("("):
                part = Part(part.tex + within("(", self.inside("(", self.listed), ")"))
            elif text == "[" and not apart and self.take("["):
                part = Part(part.tex + within("[", self.inside("[", self.listed), "]"))
            else:
                return part

    def exponent(self) -> str:
        """Parse a superscript; its brackets are dropped, except for the order of a derivative, ``f^(n)(x)``."""
        if sign := self.take("-", "+"):
            return sign + self.exponent()
        if self.take("*"):
            return "*"
        power = self.take("T", "H")
        if power:
            return {"T": r"\top", "H": r"\mathsf{H}"}[power]
        if self.next.text != "(":
            return self.raised().tex
        self.open.append("^")
        part = self.atom()
        self.open.pop()
        return part.tex if part.inner is None or self.next.text == "(" and not self.next.apart else part.inner

    def atom(self) -> Part:
        kind, text, _ = self.next
        self.place += 1
        if kind == "number":
            return Part(re.sub(r"e-(\d+)", r" \\cdot 10^{-\1}", text).removeprefix("1 \\cdot "))
        if kind == "name":
            return self.named(text)
        if text == "(":
            content = self.inside("(" if "^" not in self.open[-1:] else "^", self.listed, half_open=True)
            right = self.ended
            if right == "]" and "," not in content:
                self.fails("wants )")
            group = right == ")" and re.search(r"(?<!\\),", content) is None
            return Part(within("(", content, right), content if group else None)
        if text == "[":
            return Part(self.boxed())
        if text == "{":
            return Part(rf"\{{{closed(self.inside('{', self.listed))}\}}")
        if text in ("|", "||"):
            bar = {"|": "vert ", "||": "Vert "}[text]
            return Part(within(rf"\l{bar}", self.inside(text, self.added), rf"\r{bar}"))
        if text == "<":
            return Part(within(r"\langle ", self.inside("<", self.listed), r"\rangle "))
        if text in ("...", ".."):
            return Part(r"\ldots ")
        if text == "*" and self.open:  # any number of dimensions, or of a name's elements
            return Part("*" + (self.raised().tex if self.next.kind == "name" and not self.next.apart else ""))
        if text == ":" and self.open:
            return Part("{:}")
        self.place -= 1
        self.fails("wants a number, a name or a bracket")
        raise AssertionError

    def boxed(self) -> str:
        """Parse a list, an interval, a condition that counts as 1 or 0, or a matrix (a list of lists)."""
        if self.next.text == "[":
            rows = []
            while self.take("["):
                rows.append(closed(self.inside("[", self.listed)).replace(", ", " & "))
                self.take(",")
            self.wants("]")
            return environment("bmatrix", rows)
        content = self.inside("[", self.listed)
        return within("[", content, self.ended)

    def named(self, name: str) -> Part:
        if name in WORDS or name in BETWEEN:
            self.place -= 1
            self.fails("is a word of a sentence")
        behind = self.tokens[self.place : self.place + 2]
        called = re.match(r"'?\(", "".join(" " * token.apart + token.text for token in behind)) is not None
        if called and name in AROUND:
            self.take("(")
            return Part(AROUND[name] % closed(self.inside("(", self.listed)))
        bare, _, index = name.partition("_")
        if (
            bare in FUNCTIONS
            and (called or index or bare in UNBRACKETED or self.next.text == "_")
            and re.fullmatch("[a-zA-Z]?", index)
        ):
            return Part(FUNCTIONS[bare] + (f"_{{{index}}}" if index else ""))
        if called and len(bare) > 1 and bare not in GREEK and not re.fullmatch(r"[A-Z]\d|df", bare):
            return Part(rf"\operatorname{{{name}}}" if re.fullmatch(r"\w[^_.]*", name) else roman(name))
        return Part(symbol(name))


def symbol(name: str) -> str:
    """Return a variable: a letter, possibly with an index, or a word."""
    if name.startswith("∂"):
        return rf"\partial {symbol(name[1:])}"
    bare, _, index = name.partition("_")
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
    return rf"\mathrm{{{escaped(name)}}}"


def escaped(name: str) -> str:
    return name.replace("_", r"\_")

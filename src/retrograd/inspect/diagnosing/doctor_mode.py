"""``doctor`` and ``diagnose``: watch a training, and say why it does not learn."""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from html import escape
from textwrap import shorten
from types import TracebackType
from typing import TYPE_CHECKING

from ...core.arrays.fp_warnings import silent
from ..tracing import Records
from .findings import Finding, report, to_json
from .kinds import KINDS, Case, Found, Kind, finding
from .observing import Enough, Observation
from .probes.proof import lengthened, prove, sentence, undisturbed
from .probes.replay import Edit
from .rules import ORDER
from .rules.gradients import first_bad
from .rules.growth.depth import divergence
from .rules.growth.interventions import intervene
from .run import Run, StepHistory

if TYPE_CHECKING:
    from ...nn.base.module import Module
    from ...optim.optimizer import Optimizer

_TRIED = frozenset({"unnormalized-input", "weight-decay-too-high", "learning-rate-too-high", "learning-rate-too-low"})
_ENDS = frozenset(  # kinds of findings whose effect is a loss of NaN
    ["nan-birth", "exploding-gradient", "target-mismatch", "loss-sign", "masked-after-loss", "wrong-reduction-scale"]
    + ["accumulation-unscaled", "gradients-not-zeroed"]
)
_PROVED = 3  # the number of first findings whose edits are tried
_GUARDED = re.compile(r"([^:\s]+):(\d+): (.*)")  # the first line of a guard's report


class doctor:
    """Watch the training inside the ``with`` statement; at its end, find why it does not learn, or learns badly.

    The doctor detects training steps by itself (backward passes and steps of optimizers), records some of them in full,
    and checks them for each kind of finding. Edits are tried on copies: parameters, random generators and the program's
    results are the same as without the doctor.

    Args:
        model: optional, for symmetry with ``watch``: names of its parameters are used in the findings.
        optimizer: an optimizer that was created before the ``with`` statement.
        steps: the number of steps to watch; None watches until the end of the block.

    Attributes:
        findings: a ``Finding`` for each cause, the most important first: ``kind``, ``file``, ``line``, ``message``,
            ``fix`` and ``evidence``. Empty if nothing was found.
        history: a ``StepHistory`` for each step of the optimizer with the most steps: the loss, the learning rates, and
            norms by parameter name.
        record: the records of the last step that was recorded in full, as ``trace`` gives them; None if there is none.

    Raises:
        TypeError: the model is not a Module, or an optimizer is not an Optimizer.
        ValueError: ``steps`` is less than 1.

    >>> rg.manual_seed(0)
    <...Generator...>
    >>> x, y = rg.randn(32, 3), rg.randn(32)
    >>> model = nn.Linear(3, 1)
    >>> optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    >>> with rg.inspect.doctor() as d:
    ...     for _ in range(30):
    ...         optimizer.zero_grad()
    ...         ((model(x) - y) ** 2).mean().backward()
    ...         optimizer.step()
    >>> d.findings[0].kind
    'broadcast-loss'
    """

    def __init__(
        self,
        model: Module | None = None,
        optimizer: Optimizer | list[Optimizer] | None = None,
        *,
        steps: int | None = None,
    ) -> None:
        from ...nn.base.module import Module
        from ...optim.optimizer import Optimizer

        if steps is not None and steps < 1:
            raise ValueError(f"doctor: steps must be at least 1, got {steps}")
        if model is not None and not isinstance(model, Module):
            raise TypeError(f"doctor: model must be a Module, got {type(model).__name__}")
        for x in optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]:
            if x is not None and not isinstance(x, Optimizer):
                raise TypeError(f"doctor: optimizer must be an Optimizer or a list of them, got {type(x).__name__}")
        self._run = Run()
        self._steps = steps
        self._script = ""
        self._given = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
        self._model = model
        self._observation: Observation | None = None
        self._findings: list[Finding] | None = None
        self._seconds: Callable[[int, float], bool] | None = None  # ends the watched script (``retrograd doctor``)

    def __enter__(self) -> doctor:
        if self._observation is not None:
            raise RuntimeError("doctor: this doctor is already active; create another one to nest them")
        self._run, self._findings = Run(script=self._script), None
        observation = Observation(self._run, self._limit(), ends=bool(self._script))
        for x in self._given:
            if x is not None:
                self._run.add(x)
        observation.start()
        self._observation = observation
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        observation = self._observation
        if observation is None:
            return False
        if error is not None and not isinstance(error, Enough):
            self._run.error = error
        observation.stop()
        self._observation = None
        if error is None or isinstance(error, (Enough, Exception)):
            self.findings  # noqa: B018  # compute them before the program changes its objects
        return isinstance(error, Enough)

    def watch_script(self, script: str, enough: Callable[[int, float], bool]) -> None:
        """Watch a script until ``enough(steps, seconds)`` is true, which ends the script."""
        self._script, self._seconds = script, enough

    def note_error(self, error: BaseException) -> None:
        """Record the exception that ended the program."""
        self._run.error = error

    @property
    def lost_its_numbers(self) -> bool:
        """Whether the first finding is a number that is not finite, although the data are finite."""
        return [(x.kind, "data" in x.evidence) for x in self.findings[:1]] == [("nan-birth", False)]

    def add_story(self, error: BaseException | None) -> None:
        """Add the report of a guard, from a second run of the program, on where the first bad number came from."""
        lines = [x.strip() for x in str(error).splitlines() if x.strip()]
        found = _GUARDED.match(lines[0]) if lines else None
        if found is None:
            return
        name, line, what = found.groups()
        files = [self._script, *(str(getattr(x, "__file__", "")) for x in list(sys.modules.values()))]
        file = next((x for x in files if os.path.basename(x) == name), name)
        old = self.findings[0]
        helps = [x.removeprefix("what helps: ") for x in lines if x.startswith("what helps: ")]
        reasons = [x for x in lines[2:] if not x.startswith("what helps: ")]
        course = str(old.evidence.get("what", "")) or old.message.partition(": ")[0]
        because = f": {reasons[0]}" if reasons else ""
        message = f"{what}{because}. {course[:1].upper()}{course[1:]}. {old.evidence.get('proof', '')}".strip()
        fix, evidence = helps[0] if helps else old.fix, {**old.evidence, "report": str(error)}
        self.findings[0] = Finding(old.kind, file, int(line), message, fix, evidence)

    def _limit(self) -> Callable[[int, float], bool] | None:
        if self._seconds is not None:
            return self._seconds
        steps = self._steps
        return None if steps is None else lambda count, seconds: count >= steps

    @property
    def findings(self) -> list[Finding]:
        """The findings, the most important first."""
        if self._findings is None:
            if self._observation is not None:
                raise RuntimeError("doctor: findings are made at the end of the `with` statement; read them after it")
            self._findings = examine(self._run)
        return self._findings

    @property
    def history(self) -> list[StepHistory]:
        """The steps of the optimizer with the most steps."""
        main = self._run.main
        return [] if main is None else main.history

    @property
    def record(self) -> Records | None:
        """The records of the last step that was recorded in full."""
        step = self._run.last or (self._run.steps[-1] if self._run.steps else None)
        return None if step is None else Records(step.records, step.departures)

    @property
    def steps(self) -> int:
        """The number of training steps watched."""
        return self._run.count

    def watched(self) -> str:
        """Return a phrase with the number of watched steps and the time."""
        run, error = self._run, self._run.error
        said = f"{run.count} step{'s' * (run.count != 1)} watched"
        if run.main is None:
            said = "no training step was seen"
            if run.backwards:
                said = f"{run.backwards} backward pass{'es' * (run.backwards != 1)} and no step of an optimizer watched"
        if error is not None:
            said += f"; the program ended with {type(error).__name__}: {shorten(str(error), 120, placeholder=' ...')}"
        return said

    def report(self, everything: bool = False) -> str:
        """Return the printed report: the first finding, or all findings."""
        if not self.findings and (self._run.main is None or self._run.error is not None):
            return f"doctor: {self.watched()}"
        return report(self.findings, everything, self.watched(), "--all" if self._script else "report(True)")

    def to_json(self) -> str:
        """Return the findings as JSON: ``{"findings": [{"kind": ..., "file": ..., "line": ..., ...}]}``."""
        return to_json(self.findings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page that explains the training to ``path``.

        Raises:
            RuntimeError: the page's module is not installed.
        """
        try:
            from .page import write_page
        except ModuleNotFoundError as error:
            raise RuntimeError("doctor: the page is not part of this installation; use to_json()") from error
        write_page(self, path)

    def _repr_html_(self) -> str:
        if self._observation is not None:  # findings are made when the block ends
            return f"<p>{escape(repr(self))}</p>"
        from ..pages.template import framed
        from .page import doctor_page

        return framed(doctor_page(self), repr(self), 860)

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        kinds = "not examined" if self._findings is None else ", ".join(x.kind for x in self._findings) or "no finding"
        return f"<doctor: {kinds}; {self.watched()}>"


def diagnose(
    step: Callable[[], object],
    model: Module | None = None,
    optimizer: Optimizer | None = None,
    *,
    steps: int = 50,
    seconds: float = 60.0,
) -> doctor:
    """Call ``step`` repeatedly under a doctor, and return the doctor.

    The calls train the model; the doctor's trials afterwards run on copies.

    Args:
        step: a function without arguments that makes one training step.
        model, optimizer: as for ``doctor``.
        steps: the number of calls.
        seconds: the time in seconds after which no further call starts.

    Raises:
        TypeError: ``step`` is not a function, or ``model`` or ``optimizer`` has a wrong type.
        ValueError: ``steps`` or ``seconds`` is not positive.

    >>> rg.manual_seed(0)
    <...Generator...>
    >>> x, y = rg.randn(32, 3), rg.randint(0, 3, (32,))
    >>> model = nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=1))
    >>> optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    >>> def step():
    ...     optimizer.zero_grad()
    ...     F.cross_entropy(model(x), y).backward()
    ...     optimizer.step()
    >>> rg.inspect.diagnose(step, model, optimizer, steps=30).findings[0].kind
    'double-softmax'
    """
    if not callable(step):
        raise TypeError(f"diagnose: step must be a function without arguments, got {type(step).__name__}")
    if steps < 1 or seconds <= 0:
        raise ValueError(f"diagnose: steps and seconds must be positive, got {steps} and {seconds}")
    watching = doctor(model, optimizer)
    end = time.perf_counter() + seconds
    with watching:
        for _ in range(steps):
            step()
            if time.perf_counter() > end:
                break
    return watching


def examine(run: Run) -> list[Finding]:
    """Return the findings of a run, the most important first, without changing the program's state."""
    case = Case(run)
    with undisturbed(), silent():
        found = _found(case)
        findings = [_with_proof(case, one, x, number < _PROVED) for number, (one, x) in enumerate(found)]
    if case.failures:
        message = "doctor: these questions were not answered, please report the errors:"
        warnings.warn("\n  ".join([message, *case.failures]), RuntimeWarning, stacklevel=3)
    return findings


def _found(case: Case) -> list[tuple[Kind, Found]]:
    found: list[tuple[Kind, Found]] = []
    for name in ORDER:
        if found and name in _TRIED | {"labels-unrelated"}:
            continue  # a cause is known, and trials at other rates would only show its effect
        one = KINDS[name]
        result = case.answer(name)
        if result is not None and not any(_repeats(one, result, other, x) for other, x in found):
            found.append((one, result))
    spent = case.budget.spent
    case.budget.release()
    if not found and case.stuck and spent:
        # Rules that found nothing have used up the trials, so the last rules get the reserved ones.
        again = Case(case.run, case.budget)
        answers = ((KINDS[name], again.answer(name)) for name in ORDER if name in _TRIED)
        found = [(one, result) for one, result in answers if result is not None][:1]
        case.failures += again.failures
    if case.run.bad is not None and not (_ENDS | _TRIED) & {one.name for one, _ in found}:
        cause = case.attempt("divergence", divergence)
        if cause is None and (bad := case.attempt("nan-birth", first_bad)) is not None:
            cause = "nan-birth", bad
        if cause is not None:
            found = sorted([*found, (KINDS[cause[0]], cause[1])], key=lambda x: ORDER.index(x[0].name))
    if not found:
        unexplained = case.attempt("divergence", divergence) or case.attempt("interventions", intervene)
        if unexplained is not None:
            found = [(KINDS[unexplained[0]], unexplained[1])]
    return found


def _repeats(kind: Kind, found: Found, earlier: Kind, other: Found) -> bool:
    """Return whether a finding is an effect of an earlier one on the same line."""
    if (earlier.name, kind.name) != ("softmax-axis", "batch-mixing") or found.where is None or other.where is None:
        return False
    return (found.where.file, found.where.line) == (other.where.file, other.where.line)


def _with_proof(case: Case, one: Kind, found: Found, first: bool) -> Finding:
    curves, said = found.curves, ""
    if curves is not None:
        edit, curves = found.edit or Edit("with the edit"), curves.compared()
        if first:
            curves = lengthened(case.run, case.program, edit, case.budget, curves)
        said = sentence(edit, curves)
    elif found.edit is not None and first and not case.budget.spent:
        edit = found.edit
        proof = case.attempt("proof", lambda case: prove(case.run, case.program, edit, case.budget))
        curves, said = proof or (None, "Not proved: the trial ended with an error.")
    elif found.edit is not None:
        said = "Not proved: the steps for trials were used up." if first else "Not tried: other findings come first."
    else:
        said = f"Not proved: {found.unproved or one.unproved or 'the edit cannot be applied to a recorded step'}."
    return finding(one, found, curves, said)

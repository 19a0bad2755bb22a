"""Check that two networks work against each other: a critic has to distinguish data from generated examples."""

from __future__ import annotations

from ....record import Record
from ...kinds import Case
from ...step_recorder import Opened, Root, Step
from .policies import slope_of


def agreeing_critic(case: Case) -> tuple[Record, str, Root] | None:
    """Return the line of a critic's loss that changes the outputs for data and for generated examples alike.

    It raises both or lowers both, and the generator's loss moves them in the same direction, so that the two networks
    do not work against each other.
    """
    stepping = [number for number, x in enumerate(case.run.optimizers) if x.steps > 1]
    held = {number: {id(p) for p in case.run.optimizers[number].parameters} for number in stepping}
    for critic in stepping if len(stepping) == 2 else ():
        (other,) = [x for x in stepping if x != critic]
        for step in reversed(case.run.steps):
            for root in step.roots:
                if root.optimizers != {critic}:
                    continue
                made, given = _slopes(step, root, held[critic], held[other])
                slopes = {*made, *given}
                if not made or not given or len(slopes) > 1 or 0.0 in slopes:
                    continue
                if not _moves(case, other, held, critic, slopes):
                    continue
                last = step.producer(root.source)
                way = "lowers" if made[0] > 0 else "raises"
                what = (
                    f"the critic's loss {way} its outputs for data and for generated examples alike, as the "
                    "generator's loss does: nothing teaches it to tell them apart"
                )
                if last is not None:
                    return last.record, what, root
    return None


def _slopes(step: Step, root: Root, own: set[int], others: set[int]) -> tuple[list[float], list[float]]:
    """Return the signs of a loss's gradients at a critic's outputs: for generated examples, and for data."""
    made: list[float] = []
    given: list[float] = []
    below = step.below(root.source)
    for entry in step.outermost():
        outputs = [step.calls[x.call] for x in entry.outputs if x.call in below]
        if not outputs or not any(id(p) in own for p in entry.module.parameters()):
            continue
        (made if _reads(step, entry, others) else given).extend(map(slope_of, outputs))
    return made, given


def _reads(step: Step, entry: Opened, parameters: set[int]) -> bool:
    """Return whether a call's inputs depend on parameters, also through cuts."""
    return any(id(p) in parameters for x in entry.inputs for p in step.leaves(x._replace(cut=None), everything=True))


def _moves(case: Case, other: int, held: dict[int, set[int]], critic: int, slopes: set[float]) -> bool:
    """Return whether the generator's loss moves the critic's outputs for generated examples in this direction."""
    found: set[float] = set()
    for step in case.run.steps:
        for root in step.roots:
            if root.optimizers == {other}:
                found.update(_slopes(step, root, held[critic], held[other])[0])
    return found == slopes

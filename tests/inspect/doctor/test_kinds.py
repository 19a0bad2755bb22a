"""Each kind of finding, on a program that is broken in this way and on its healthy twin."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retrograd as rg
from retrograd.inspect.diagnosing import doctor_mode
from retrograd.inspect.diagnosing.kinds import KINDS
from retrograd.inspect.diagnosing.probes import proof
from retrograd.inspect.diagnosing.rules import ORDER
from tests.inspect.doctor.computed_programs import COMPUTED
from tests.inspect.doctor.error_programs import ERRORS
from tests.inspect.doctor.form_programs import FORMS
from tests.inspect.doctor.hand_programs import BY_HAND
from tests.inspect.doctor.more_programs import MORE
from tests.inspect.doctor.programs import PROGRAMS, Program
from tests.inspect.doctor.size_programs import SIZES
from tests.inspect.doctor.still_programs import STILL
from tests.inspect.doctor.style_programs import STYLES
from tests.inspect.doctor.thread_programs import THREADS
from tests.inspect.doctor.trial_programs import TRIALS

ALL = [*PROGRAMS, *MORE, *BY_HAND, *STYLES, *STILL, *SIZES, *COMPUTED, *THREADS, *ERRORS, *FORMS, *TRIALS]
IDS = [f"{number}-{program.kind}" for number, program in enumerate(ALL)]


def examined(text: str, path: Path) -> "rg.inspect.doctor":
    """Return the doctor of a program."""
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d = rg.inspect.doctor()
        try:
            with d:
                exec(compile(text, str(path), "exec"), {"__name__": "__main__"})
        except Exception as error:
            assert d.findings, repr(error)
    return d


@pytest.fixture(autouse=True)
def generators() -> Iterator[None]:
    """Put the random generators back, which the programs seed."""
    state = rg.get_rng_state()
    yield
    rg.set_rng_state(state)


@pytest.fixture
def short_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for a few steps with and without the edit of a finding: its kind and line do not depend on them."""

    def prove(*args: Any) -> Any:
        with monkeypatch.context() as shorter:
            shorter.setattr(proof, "STEPS", 4)
            return proof.prove(*args)

    monkeypatch.setattr(doctor_mode, "prove", prove)


@pytest.mark.every(3)
@pytest.mark.usefixtures("short_proofs")
@pytest.mark.parametrize("program", ALL, ids=IDS)
def test_a_broken_program_has_its_kind_and_line_as_the_first_finding(program: Program, tmp_path: Path) -> None:
    text, line = program.version(broken=True)
    d = examined(text, tmp_path / "train.py")
    found = [(x.kind, x.line) for x in d.findings]
    assert found, "nothing found"
    assert found[0] == (program.kind, line), found
    assert d.findings[0].file == str(tmp_path / "train.py")


@pytest.mark.slow
@pytest.mark.every(6)
@pytest.mark.parametrize("program", ALL, ids=IDS)
def test_the_healthy_twin_has_no_finding(program: Program, tmp_path: Path) -> None:
    text, _ = program.version(broken=False)
    d = examined(text, tmp_path / "train.py")
    assert [(x.kind, x.line, x.message) for x in d.findings] == []


def test_every_kind_has_a_broken_program() -> None:
    assert set(ORDER) == set(KINDS) == {program.kind for program in PROGRAMS}

"""The steps that trials of the doctor may take."""

from types import SimpleNamespace

from retrograd.inspect.diagnosing.probes.replay import PROOF_STEPS, QUESTION_STEPS, Budget


def test_trials_take_no_more_steps_of_the_proof_than_they_are_given():
    budget = Budget(SimpleNamespace(seconds=0.0, count=1))
    assert budget.share(2, 1000) == QUESTION_STEPS // 2
    assert budget.share(2, 40, of_proof=True) == 40
    assert budget.share(1, 1000) == 80
    assert sum(budget.take() for _ in range(1000)) == 80 and budget.spent
    assert budget.share(2, 1000) == 0
    assert budget.share(2, 1000, of_proof=True) == (QUESTION_STEPS + PROOF_STEPS - 80) // 2

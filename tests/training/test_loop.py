"""The training loop: its means, its evaluations, its checkpoint, and how it stops."""

import signal
import threading
import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.data import DataLoader, TensorDataset
from retrograd.training import Checkpoint, CheckpointError, DivergenceError, Interrupted, Loop

pytest.importorskip("safetensors")


class Program:
    """A user's program around a loop, with dropout and shuffled batches."""

    def __init__(self, path=None, steps=25, lr=0.05):
        rg.manual_seed(0)
        x = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
        dataset = TensorDataset(x, x.sum(axis=1, keepdims=True))
        self.loader = DataLoader(dataset, batch_size=4, shuffle=True)  # 8 batches, the last one smaller
        self.model = rg.nn.Sequential(rg.nn.Linear(4, 8), rg.nn.Dropout(0.2), rg.nn.Linear(8, 1))
        self.optimizer = rg.optim.Adam(self.model.parameters(), lr=lr)
        self.interrupt_at = None
        self.seen = []
        self.loop = Loop(
            self.step,
            self.loader,
            steps,
            evaluate=lambda: {"test_score": float(len(self.seen))},
            checkpoint=path,
            metadata={"note": "a program's own"},
            model=self.model,
            optimizer=self.optimizer,
        )

    def step(self, batch):
        x, y = batch
        loss = rg.nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.seen.append((loss.item(), len(x)))
        if len(self.seen) == self.interrupt_at:
            signal.raise_signal(signal.SIGINT)
        return {"loss": loss.item(), "size": len(x)}, len(x)


def test_history_has_a_row_for_each_epoch_and_for_the_end():
    program = Program()
    calls = []
    program.loop.run(lambda loop: calls.append((loop.completed, loop.evaluated)))
    loop = program.loop
    assert calls == [(step, step in (8, 16, 24, 25)) for step in range(1, 26)]
    assert [(row["epoch"], row["step"]) for row in loop.history] == [(1, 8), (2, 16), (3, 24), (3.125, 25)]
    assert loop.losses == [loss for loss, _ in program.seen]
    for row, (begin, end) in zip(loop.history, ((0, 8), (8, 16), (16, 24), (24, 25))):
        sizes = [size for _, size in program.seen[begin:end]]
        wanted = sum(loss * size for loss, size in program.seen[begin:end]) / sum(sizes)
        assert row["train_loss"] == pytest.approx(wanted)
        assert row["train_size"] == pytest.approx(sum(size * size for size in sizes) / sum(sizes))
        assert row["test_score"] == end
        assert row["examples_per_second"] > 0
    assert loop.saved is None


@pytest.mark.parametrize("at", [3, 8, 19])
def test_a_run_that_was_interrupted_resumes_bit_for_bit(tmp_path, at):
    whole = Program(tmp_path / "whole.safetensors")
    whole.loop.run()
    first = Program(tmp_path / "run.safetensors")
    first.interrupt_at = at
    with pytest.raises(Interrupted) as stop:
        first.loop.run()
    assert stop.value.step == at == first.loop.saved
    second = Program(tmp_path / "run.safetensors")
    assert second.loop.resume()
    assert second.loop.saved == second.loop.completed == at
    second.loop.run()
    assert second.loop.losses == whole.loop.losses
    for name, weight in whole.model.state_dict().items():
        np.testing.assert_array_equal(second.model.state_dict()[name].numpy(), weight.numpy())
    for ours, theirs in zip(second.loop.history, whole.loop.history, strict=True):
        assert ours["train_loss"] == theirs["train_loss"]


def test_resume_goes_on_from_another_file_and_says_where_there_is_none(tmp_path):
    program = Program(tmp_path / "a.safetensors", steps=3)
    assert not program.loop.resume()
    program.loop.run()
    other = Program(tmp_path / "b.safetensors", steps=5)
    assert other.loop.resume(tmp_path / "a.safetensors")
    other.loop.run()
    assert other.loop.completed == 5
    saved = rg.load(tmp_path / "b.safetensors")
    assert saved["run"]["metadata"] == {"note": "a program's own"} and saved["run"]["step"] == 5
    with pytest.raises(CheckpointError, match="the checkpoint has .* this run has"):
        Checkpoint(tmp_path / "b.safetensors", model=other.model).resume()


def test_an_interrupt_is_a_keyboard_interrupt_and_the_handler_is_put_back():
    program = Program()
    program.interrupt_at = 2
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        program.loop.run()
    assert program.loop.completed == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_does_not_wait_for_the_step():
    def step(batch):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, Python has none
    try:
        with pytest.raises(KeyboardInterrupt) as stop:
            Loop(step, [0], 1).run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not isinstance(stop.value, Interrupted)


def test_a_loop_runs_in_a_thread_too():
    program = Program(steps=2)
    thread = threading.Thread(target=program.loop.run)
    thread.start()
    thread.join()
    assert program.loop.completed == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path, value):
    program = Program(tmp_path / "run.safetensors", steps=30)
    step = program.loop._step

    def diverging(batch):
        figures, count = step(batch)
        return {**figures, "loss": value if len(program.seen) == 11 else figures["loss"]}, count

    program.loop._step = diverging
    with pytest.raises(DivergenceError, match=rf"the loss is {value} at step 11; try a smaller learning rate") as stop:
        program.loop.run()
    assert (stop.value.name, stop.value.step) == ("loss", 11)
    assert program.loop.completed == 10 == len(program.loop.losses)
    assert rg.load(tmp_path / "run.safetensors")["run"]["step"] == 8


def test_a_test_loss_that_is_not_finite_stops_the_run():
    loop = Loop(lambda batch: ({"loss": 1.0}, 1), [0], 5, evaluate=lambda: {"test_loss": float("nan")})
    with pytest.raises(DivergenceError, match="the test loss is nan at step 1"):
        loop.run()
    assert loop.history == []


def test_overflow_is_told_by_the_loop_and_not_by_warnings():
    program = Program(lr=1e30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DivergenceError):
            program.loop.run()


@pytest.mark.parametrize(("loader", "steps"), [([], 1), ([0], 0)])
def test_a_loop_needs_a_step_and_a_batch(loader, steps):
    with pytest.raises(ValueError, match="at least one step and one batch"):
        Loop(lambda batch: ({"loss": 0.0}, 1), loader, steps)


def test_a_checkpoint_needs_a_loader_that_can_go_on(tmp_path):
    with pytest.raises(TypeError, match="loader"):
        Loop(lambda batch: ({"loss": 0.0}, 1), [0], 1, checkpoint=tmp_path / "run.safetensors")

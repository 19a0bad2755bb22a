"""A training program with every kind of state: ``python train_program.py FOLDER STEPS WIDTH`` resumes, trains, saves.

It prints a line per step: its number and the loss, in full.
"""

import sys
from pathlib import Path

import numpy as np

import retrograd as rg
from retrograd.data import DataLoader, TensorDataset
from retrograd.training import EMA, Checkpoint, EarlyStopping


class Run:
    def __init__(self, folder, width=16):
        rg.manual_seed(0)
        random = np.random.default_rng(0)
        x = random.normal(size=(50, 4)).astype(np.float32)
        self.model = rg.nn.Sequential(
            rg.nn.Linear(4, width),
            rg.nn.BatchNorm1d(width),
            rg.nn.ReLU(),
            rg.nn.Dropout(0.3),
            rg.nn.Linear(width, 1),
        )
        self.optimizer = rg.optim.NAdam(self.model.parameters(), lr=0.01)
        schedulers = rg.optim.lr_scheduler
        self.scheduler = schedulers.SequentialLR(
            self.optimizer,
            [schedulers.LinearLR(self.optimizer, 0.1, total_iters=7), schedulers.MultiStepLR(self.optimizer, [3, 9])],
            milestones=[7],
        )
        self.loader = DataLoader(TensorDataset(x, np.sin(x.sum(axis=1, keepdims=True))), batch_size=8, shuffle=True)
        self.noise = np.random.Generator(np.random.MT19937(5))
        self.more_noise = rg.Generator().manual_seed(6)
        self.ema = EMA(self.model, 0.9)
        self.stopping = EarlyStopping(patience=1000, model=self.model)
        self.checkpoint = Checkpoint(
            Path(folder) / "run.safetensors",
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            loader=self.loader,
            generators={"noise": self.noise, "more": self.more_noise},
            ema=self.ema,
            stopping=self.stopping,
        )

    def train(self, steps, report, save_at=None):
        """Up to step number ``steps``; save after the steps that ``save_at`` is true for."""
        progress = self.checkpoint.resume()
        step = 0 if progress is None else progress.step
        while step < steps:
            for x, y in self.loader:
                noise = self.noise.normal(size=x.shape).astype(np.float32) * 0.1
                output = self.model(x + rg.tensor(noise) + rg.rand(x.shape, generator=self.more_noise) * 0.1)
                loss = rg.nn.functional.mse_loss(output, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.ema.update()
                self.stopping.step(loss)
                step += 1
                if save_at is None or save_at(step):
                    self.checkpoint.save(step, {"loss": loss.item()})
                report(step, loss.item())
                if step == steps:
                    return


if __name__ == "__main__":
    Run(sys.argv[1], width=int(sys.argv[3])).train(
        int(sys.argv[2]), lambda step, loss: print(step, loss.hex(), flush=True)
    )

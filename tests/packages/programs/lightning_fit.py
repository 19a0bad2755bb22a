"""Train and validate with the Trainer of Lightning, with a checkpoint that is loaded again."""

import logging
import tempfile
import warnings

import torch
from common import data, filled, show
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning as L  # noqa: E402
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint  # noqa: E402


class Regression(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = filled(torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)))

    def training_step(self, batch, batch_idx):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


train = DataLoader(TensorDataset(data("x", 32, 6), data("y", 32, 1)), batch_size=8)
valid = DataLoader(TensorDataset(data("vx", 16, 6), data("vy", 16, 1)), batch_size=8)
model = Regression()
with tempfile.TemporaryDirectory() as folder:
    saver = ModelCheckpoint(folder, monitor="val_loss")
    trainer = L.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, callbacks=[saver, EarlyStopping("val_loss")],
        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0, default_root_dir=folder,
    )  # fmt: skip
    trainer.fit(model, train, valid)
    metrics = trainer.callback_metrics
    show(train_loss=float(metrics["train_loss"]), val_loss=float(metrics["val_loss"]))
    again = Regression.load_from_checkpoint(saver.best_model_path, weights_only=False)
    show(loaded=trainer.validate(again, valid, verbose=False)[0]["val_loss"])
show(predictions=model.net(data("vx", 16, 6)))

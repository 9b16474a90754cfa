#!/usr/bin/env python3
"""Lightning's Trainer in an Atoll run: a linear model of 64 inputs on samples that it makes."""

import lightning
import torch

import atoll_worker
from atoll_worker.callbacks import LightningCallback


class Linear(lightning.LightningModule):

    def __init__(self, rate):
        super().__init__()
        self.layer, self.rate = torch.nn.Linear(64, 1), rate

    def training_step(self, batch, _):
        inputs, wanted = batch
        return torch.nn.functional.mse_loss(self.layer(inputs)[:, 0], wanted)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.rate)


torch.manual_seed(7)
x, truth = torch.randn(4096, 64), torch.randn(64)
data = torch.utils.data.TensorDataset(x, x @ truth + 3)

with atoll_worker.connect() as run:
    torch.set_num_threads(run.threads or 1)
    loader = torch.utils.data.DataLoader(data, batch_size=run.spec.inner.batch, shuffle=True)
    lightning.Trainer(max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, callbacks=[LightningCallback(run)]).fit(
                          Linear(run.spec.inner.learning_rate), loader)

"""Lightning. It restores loops, optimizers and schedulers by itself; where the
data stood and the state of the random numbers it restores if it is told how."""

import os
import random

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint

import machine
import task


class Batches:
    """Shuffled batches that know where they stand: Lightning saves the state of
    any loader that has state_dict, and gives it back in the middle of an epoch."""

    def __init__(self):
        self.epoch, self.taken = 0, 0

    def __len__(self):
        return task.SAMPLES // task.BATCH

    def __iter__(self):
        for rows in task.batches(self.epoch)[self.taken:]:
            self.taken += 1
            yield rows
        self.epoch, self.taken = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "taken": self.taken}

    def load_state_dict(self, state):
        self.epoch, self.taken = state["epoch"], state["taken"]


class RandomState(Callback):
    """Has the random numbers go on where they stood; dropout draws from them."""

    def state_dict(self):
        return {"python": random.getstate(), "torch": torch.get_rng_state()}

    def load_state_dict(self, state):
        self.restored = state

    def on_train_start(self, trainer, module):
        if state := getattr(self, "restored", None):
            random.setstate(state["python"])
            torch.set_rng_state(state["torch"])


class SaveOnNotice(ModelCheckpoint):
    """Also saves when the machine is about to be taken."""

    def __init__(self, **options):
        super().__init__(**options)
        self.request = machine.SaveRequest()

    def on_train_batch_end(self, trainer, *rest):
        super().on_train_batch_end(trainer, *rest)
        path = os.path.join(self.dirpath, f"step={trainer.global_step}.ckpt")
        if self.request.take() and not os.path.exists(path):
            trainer.save_checkpoint(path)


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = task.language_model()

    def training_step(self, rows, _):
        loss = task.loss_of(self.net, rows)
        machine.tell(self.global_step + 1, loss.item())
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, task.STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": decay, "interval": "step"}}


task.repeatable()
trainer = pl.Trainer(
    accelerator="cpu",
    devices=1,
    max_steps=task.STEPS,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[
        RandomState(),
        SaveOnNotice(dirpath=machine.CHECKPOINTS, filename="{step}", every_n_train_steps=task.SAVE_EVERY, save_top_k=2, monitor="step", mode="max"),
    ],
)
trainer.fit(Model(), Batches(), ckpt_path=machine.RESUME_FROM)

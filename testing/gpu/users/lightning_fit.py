"""Lightning: a Trainer with loader processes, validation, metrics, callbacks and a checkpoint."""
import logging
import sys
import tempfile
import warnings

import pytorch_lightning as pl
import torch
import torchmetrics
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5


class Rings(Dataset):
    """Images with a ring; its radius is the label."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100000 + i)
        label = int(torch.randint(0, 8, (1,), generator=g))
        axis = torch.arange(32) - 16
        far = (axis[:, None] ** 2 + axis[None] ** 2).sqrt()
        image = ((far - 2 - label * 1.5).abs() < 1).float() + torch.rand(32, 32, generator=g)
        return image[None], label


class Model(pl.LightningModule):
    def __init__(self, width=32):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, 2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 64, 3, 2), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Flatten(), nn.Linear(64 * 49, 8),
        )
        self.right = torchmetrics.Accuracy("multiclass", num_classes=8)

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch, index):
        out = self.net(batch[0])
        self.right(out, batch[1])
        self.log("right", self.right)
        self.log("loss", nn.functional.cross_entropy(out, batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)]


class Say(pl.Callback):
    def on_train_epoch_end(self, trainer, model):
        seen = {k: f"{float(v):.6g}" for k, v in sorted(trainer.callback_metrics.items())}
        print("epoch", trainer.current_epoch, seen)


def main():
    pl.seed_everything(0, workers=True)
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="loss")
        trainer = pl.Trainer(
            accelerator="auto",
            devices=1,
            max_epochs=epochs,
            deterministic="warn",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[best, Say(), EarlyStopping("loss", patience=9)],
            default_root_dir=folder,
        )
        more = {"num_workers": 4, "persistent_workers": True, "pin_memory": True}
        train = DataLoader(Rings(4096, 1), 64, shuffle=True, **more)
        test = DataLoader(Rings(1024, 2), 128, **more)
        trainer.fit(Model(), train, test)
        kept = Model.load_from_checkpoint(best.best_model_path, weights_only=False)
        result = trainer.validate(kept, test, verbose=False)[0]
        print("kept", {k: f"{v:.6g}" for k, v in sorted(result.items())})


if __name__ == "__main__":
    main()
